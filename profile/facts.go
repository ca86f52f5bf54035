package profile

// EngineFacts is what a running engine says of itself.
type EngineFacts struct {
	Version     string     `json:"version,omitempty"`
	Model       string     `json:"model,omitempty"`         // as the engine names it
	KVTokens    int        `json:"kv_tokens"`               // KV capacity over all ranks; 0 = unknown
	KVSource    string     `json:"kv_source,omitempty"`     // flag, log, metrics
	BlockSize   int        `json:"block_size,omitempty"`    // 0 = unknown
	MaxNumSeqs  int        `json:"max_num_seqs,omitempty"`  // 0 = unknown or no limit
	MaxModelLen int        `json:"max_model_len,omitempty"` // 0 = unknown
	Provenance  Provenance `json:"provenance"`
	Command     []string   `json:"command,omitempty"`   // argv, without credentials
	TTFTError   ModelError `json:"ttft_error,omitzero"` // of the latency model behind it
	ITLError    ModelError `json:"itl_error,omitzero"`
	Warnings    []Warning  `json:"warnings,omitempty"`
}

// MaxInFlight is how many requests of isl + osl tokens the engine holds at
// once: min(max_num_seqs, blocks // ceil((isl+osl)/block_size)); limit caps it
// where above 0. It is 0 where not even one fits.
func (f EngineFacts) MaxInFlight(isl, osl, limit int) int {
	block := max(f.BlockSize, 1)
	per := (isl + osl + block - 1) / block
	n := f.KVTokens / block / max(per, 1)
	if f.MaxNumSeqs > 0 {
		n = min(n, f.MaxNumSeqs)
	}
	if limit > 0 {
		n = min(n, limit)
	}
	return n
}

// Skip is a configuration that was left out, or dropped half-way, and why.
// Phase is empty where it concerns both.
type Skip struct {
	Phase  Phase  `json:"phase,omitempty"`
	Label  string `json:"label"` // "TP:4"
	Reason string `json:"reason"`
}
