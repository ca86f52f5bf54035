// Package engine holds the words for an inference engine: what it is (Config),
// how it is started (Spec), and what one forward step of it carries (Batch).
// It takes nothing and imports nothing of this module; every type is a value.
package engine

import (
	"iter"
	"strconv"
	"time"
)

// Kind names a family of engines that the program can drive.
type Kind string

// The kinds of engine.
const (
	// KindSim is the embedded simulated engine.
	KindSim Kind = "sim"
	// KindEstimate is the same engine in virtual time: nothing is launched and
	// nothing is waited for.
	KindEstimate Kind = "estimate"
	// The engines that are started by their own command lines.
	KindVLLM     Kind = "vllm"
	KindSGLang   Kind = "sglang"
	KindTRTLLM   Kind = "trtllm"
	KindLlamaCpp Kind = "llamacpp"
	// KindCommand is any engine started from an argv template.
	KindCommand Kind = "command"
	// KindEndpoint is a server that already runs; nothing is launched.
	KindEndpoint Kind = "endpoint"
)

// Role says which part of serving an engine does.
type Role string

// The roles of an engine.
const (
	RoleAggregated Role = "aggregated"
	RolePrefill    Role = "prefill"
	RoleDecode     Role = "decode"
)

// Roles are all of them.
func Roles() []Role { return []Role{RolePrefill, RoleDecode, RoleAggregated} }

// DType is a storage type of weights or KV cache.
type DType string

// The storage types; the empty DType means BF16.
const (
	BF16  DType = "bf16"
	FP8   DType = "fp8"
	FP4   DType = "fp4"   // 4 bits as a model is published, else NVFP4
	NVFP4 DType = "nvfp4" // a scale of 8 bits for each 16 numbers
	MXFP4 DType = "mxfp4" // a scale of 8 bits for each 32 (OCP Microscaling Formats v1.0, 2023-09)
	INT4  DType = "int4"  // a scale of 16 bits for each group
)

// WeightTypes are the words for how weights are stored.
func WeightTypes() []string {
	return []string{string(BF16), string(FP8), string(FP4), string(NVFP4), string(MXFP4), string(INT4)}
}

// Width is d without the format of its scales: FP4 for whatever has 4 bits.
func (d DType) Width() DType {
	if d == NVFP4 || d == MXFP4 || d == INT4 {
		return FP4
	}
	return d
}

// Bytes is the size of one element, in bytes, without weights' scales but with those of
// an NVFP4 KV cache; BF16 for the empty DType.
func (d DType) Bytes() float64 {
	switch {
	case d == FP8:
		return 1
	case d == NVFP4:
		return 0.5 + 1.0/16
	case d.Width() == FP4:
		return 0.5
	}
	return 2
}

// Limits bounds what an engine schedules, in each of its data-parallel ranks. A
// zero field means that the engine decides by itself.
type Limits struct {
	MaxNumSeqs          int `json:"max_num_seqs,omitempty"`           // sequences in one step
	MaxNumBatchedTokens int `json:"max_num_batched_tokens,omitempty"` // tokens in one step
	MaxModelLen         int `json:"max_model_len,omitempty"`          // ISL + OSL, tokens
	BlockSize           int `json:"block_size,omitempty"`             // tokens in one KV block
}

// Config is one engine as it is asked for. It is comparable and never shared:
// changing a copy for prefill leaves the one that decode starts from alone
// (upstream's convert_config copied shallowly and leaked such edits).
type Config struct {
	Kind          Kind        `json:"kind"`
	Model         string      `json:"model"`
	GPU           string      `json:"gpu,omitempty"` // catalog name; empty where unknown
	Role          Role        `json:"role,omitempty"`
	Parallelism   Parallelism `json:"parallelism"`
	Nodes         Nodes       `json:"nodes,omitzero"`
	Limits        Limits      `json:"limits"`
	Weights       DType       `json:"weights,omitempty"`
	KV            DType       `json:"kv,omitempty"`
	PrefixCaching bool        `json:"prefix_caching"`
	// MemoryFraction is the share of each GPU's memory that the engine may take,
	// 0 < f <= 1; 0 leaves it to the engine.
	MemoryFraction float64 `json:"memory_fraction,omitempty"`
	// Release is the engine whose defaults hold where Kind stands for another, or its
	// version is known.
	Release Release `json:"release,omitzero"`
	// Chunked makes Limits.MaxNumBatchedTokens part of the name: it tells this
	// engine from others of its layout.
	Chunked bool `json:"chunked,omitempty"`
}

// Label names the configuration among others of a model: its layout, "TP:2", with its
// nodes, "TP:16 (2 nodes of 8)", and "TP:2, chunk 512" where Chunked.
func (c Config) Label() string {
	s := c.Parallelism.Label()
	if c.Nodes.Count > 0 {
		s += " (" + c.Nodes.short() + ")"
	}
	if c.Chunked {
		s += ", chunk " + strconv.Itoa(c.Limits.MaxNumBatchedTokens)
	}
	return s
}

// Slug is Label in lower case without punctuation, for file names: "tp2chunk512".
func (c Config) Slug() string {
	if !c.Chunked {
		return c.Parallelism.Slug()
	}
	return c.Parallelism.Slug() + "chunk" + strconv.Itoa(c.Limits.MaxNumBatchedTokens)
}

// StepTokens is how many prompt tokens a step of the engine takes on a GPU of so much
// memory, 0 = not known: as it was asked for, else the default of its version, as far as
// the engine said it, which is then assumed.
func (c Config) StepTokens(memory int64, version string) (tokens int, assumed bool) {
	if n := c.Limits.MaxNumBatchedTokens; n > 0 {
		return n, false
	}
	if c.Release.Version == "" {
		c.Release.Version = version
	}
	if memory <= 0 {
		memory = 80 << 30
	}
	_, tokens = c.Steps(c.GPU, memory)
	return tokens, true
}

// GPUs is the number of GPUs that the engine occupies, over all its ranks.
func (c Config) GPUs() int { return c.Parallelism.GPUs() }

// Launch is what is particular to one start of an engine, whatever its Config.
type Launch struct {
	Port    int      // of 127.0.0.1, to listen on
	GPUs    []string // device ids; nil: the engine sees what the program sees
	LogPath string
	Name    string // of the one worker, where there are several; else empty
}

// Spec is a process to start: what an engine's Config becomes for one launch.
type Spec struct {
	Name         string        // short, for messages and the log's name: "decode tp2"
	Argv         []string      // program and arguments
	Env          []string      // KEY=value, added to the program's own environment
	Port         int           // 127.0.0.1 port that the engine will listen on
	GPUs         []string      // device indices or UUIDs, given as CUDA_VISIBLE_DEVICES; nil leaves it alone
	Files        []File        // written before it starts, in place of what is there
	ReadyPath    string        // URL path that answers 2xx when the engine is ready
	ReadyTimeout time.Duration // how long to wait for it
	Grace        time.Duration // between TERM and KILL
	LogPath      string        // file that takes stdout and stderr
	Detached     bool          // outlives the program
}

// File is a file that an engine reads as it starts.
type File struct {
	Path string // its folder is made where it is not there
	Text string
}

// Batch is what one forward step carries, as sums over its sequences, so that
// a step costs O(1) to time however many sequences it holds.
type Batch struct {
	PrefillSeqs   int   // prompts with a chunk in this step
	PrefillTokens int   // prompt tokens computed in this step
	PrefillPast   int64 // Σ tokens already in KV before each chunk
	PrefillPairs  int64 // Σ query-key pairs: chunk·past + chunk·(chunk+1)/2
	DecodeSeqs    int   // sequences that produce one token each
	DecodeContext int64 // Σ tokens in KV that they attend to
}

// AddChunk puts one prompt chunk of n tokens, with past tokens before it, in the batch.
func (b *Batch) AddChunk(n, past int) {
	b.PrefillSeqs++
	b.PrefillTokens += n
	b.PrefillPast += int64(past)
	b.PrefillPairs += int64(n)*int64(past) + int64(n)*int64(n+1)/2
}

// Chunks are the batches of a prompt of isl tokens that has the engine to itself,
// cached of them in KV already: chunks of at most so many tokens, which has to be
// positive. Nothing is left of a prompt that is cached whole.
func Chunks(isl, cached, most int) iter.Seq[Batch] {
	return func(yield func(Batch) bool) {
		for done := cached; done < isl; done += most {
			var b Batch
			b.AddChunk(min(most, isl-done), done)
			if !yield(b) {
				return
			}
		}
	}
}

// AddDecode puts one decoding sequence with context tokens in the batch.
func (b *Batch) AddDecode(context int) {
	b.DecodeSeqs++
	b.DecodeContext += int64(context)
}

// Empty reports whether the step has nothing to do.
func (b Batch) Empty() bool { return b.PrefillSeqs == 0 && b.DecodeSeqs == 0 }
