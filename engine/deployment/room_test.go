package deployment

import (
	"strconv"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/field"
	"plimsoll/engine/latency"
)

// Every hint of a refusal, followed, is an engine that runs; the context hinted
// at is the longest one.
func TestNoRoomHintsAreTrue(t *testing.T) {
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for i, m := range cat.Models() {
		for j, g := range cat.GPUs() {
			if (i+j)%4 != 0 {
				continue // each model on some GPUs, and each GPU with some models
			}
			for _, tp := range []int{1, 2, 8} {
				c := engine.Config{Parallelism: engine.TP(tp), Weights: engine.BF16, Limits: engine.Limits{MaxModelLen: m.MaxContext}}
				err := latency.Check(m, g, c)
				if err == nil {
					continue
				}
				refused++
				for _, h := range NoRoom(m, g, c, err).Hints {
					checkHint(t, m, g, c, h)
				}
			}
		}
	}
	if refused < 20 {
		t.Errorf("%d refusals: this shows nothing", refused)
	}
}

func checkHint(t *testing.T, m catalog.Model, g catalog.GPU, c engine.Config, hint string) {
	t.Helper()
	longest := false
	for flags := strings.Fields(strings.NewReplacer(" would do", "", " with", "").Replace(hint)); len(flags) > 1; flags = flags[2:] {
		n, _ := strconv.Atoi(flags[1]) // 0 for a word
		switch flags[0] {
		case "--max-model-len":
			c.Limits.MaxModelLen, longest = n, true
		case "--tp":
			c.Parallelism = engine.TP(n)
		case "--weights":
			c.Weights = engine.DType(flags[1])
		default:
			t.Fatalf("%q names %s", hint, flags[0])
		}
	}
	if err := latency.Check(m, g, c); err != nil {
		t.Errorf("%s on %s, %+v: %q does not do: %v", m.Name, g.Name, c, hint, err)
	}
	if c.Limits.MaxModelLen++; longest && latency.Check(m, g, c) == nil {
		t.Errorf("%s on %s: %q, and one more would do too", m.Name, g.Name, hint)
	}
}

// What all memory cannot hold is refused, what the model finds no room for is
// doubted; a layer with a sliding window need not keep anything.
func TestKVBeyond(t *testing.T) {
	m := catalog.Model{Name: "m", Layers: 10, FullAttentionLayers: 10, KVHeads: 5, QHeads: 5, HeadDim: 100} // 20,000 bytes a token
	g := catalog.GPU{Name: "g", MemoryBytes: 2_000_000_000}
	windowed := m
	windowed.FullAttentionLayers, windowed.SlidingWindow = 5, 128
	for _, tt := range []struct {
		m      catalog.Model
		tp     int
		most   int
		refuse string
	}{
		{m, 1, 100_000, "a KV cache of 100001 tokens needs at least 2 GB; 1 × g have 2 GB in all"},
		{m, 2, 200_000, "2 × g have 4 GB in all"},
		{windowed, 1, 200_000, "tokens needs at least 2 GB"},
	} {
		c := engine.Config{Parallelism: engine.TP(tt.tp)}
		if err := KVBeyond(tt.m, g, c, tt.most); err != nil {
			t.Error(err)
		}
		if err := KVBeyond(tt.m, g, c, tt.most+1); err == nil || !strings.Contains(err.Error(), tt.refuse) {
			t.Errorf("%v, want %q", err, tt.refuse)
		}
	}
}

func TestKVWarnings(t *testing.T) {
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	m, errM := cat.Model("llama-3.1-8b")
	g, errG := cat.GPU("h100-sxm")
	l, errL := latency.New(m, g, engine.Config{Parallelism: engine.TP(1)})
	if errM != nil || errG != nil || errL != nil {
		t.Fatal(errM, errG, errL)
	}
	if ws := KVWarnings("--kv-blocks", l, "TP:1", l.KVTokens()); len(ws) > 0 {
		t.Errorf("%v of what there is room for", ws)
	}
	ws := KVWarnings("--kv-blocks", l, "TP:1", l.KVTokens()+1)
	if len(ws) != 1 || ws[0].Code != "kv_beyond_room" || !strings.HasPrefix(ws[0].Message, "--kv-blocks: ") {
		t.Errorf("%v", ws)
	}
}

// The weights are as asked, else as the model says, else BF16; what the model
// says is said, and what it says in vain is doubted.
func TestStorageOf(t *testing.T) {
	for _, tt := range []struct {
		asked, kv, want, wantKV engine.DType
		m                       catalog.Model
		words                   string // of the note or the warning; empty = neither
	}{
		{"", "", engine.BF16, "", catalog.Model{}, ""},
		{engine.FP8, "", engine.FP8, "", catalog.Model{}, ""},
		{"", "", engine.FP8, "", catalog.Model{Name: "m", Weights: engine.FP8, Quantization: "fp8"}, "weights in fp8, as the checkpoint of m has it (fp8)"},
		{"", "", engine.FP8, "", catalog.Model{Weights: engine.FP8, Quantization: "gptq, 8-bit integers"}, "8-bit integers count as fp8"},
		{engine.BF16, "", engine.BF16, "", catalog.Model{Weights: engine.FP8, Quantization: "fp8"}, ""},
		{"", "", engine.BF16, "", catalog.Model{Quantization: "aqlm"}, `unknown quantization "aqlm", so bf16 is assumed. Set ` + field.Weights + " and " + field.KVDType},
		{engine.FP4, "", engine.FP4, "", catalog.Model{Quantization: "aqlm"}, ""},
		{"", "", engine.FP8, "", catalog.Model{Name: "m", Weights: engine.FP8}, "weights in fp8, as m is published"},
		{"", "", engine.BF16, "", catalog.Model{Name: "m", Weights: engine.BF16}, ""},
		{engine.BF16, "", engine.BF16, "", catalog.Model{Name: "m", Weights: engine.FP8}, ""},
		{"", "", engine.NVFP4, engine.FP8, catalog.Model{Name: "m", Weights: engine.NVFP4, KV: engine.FP8, Quantization: "modelopt, NVFP4"}, "(modelopt, NVFP4); KV cache in fp8, as the checkpoint has it"},
		{engine.BF16, engine.BF16, engine.BF16, engine.BF16, catalog.Model{KV: engine.FP8}, ""},
		{"", "", engine.BF16, "", catalog.Model{Name: "m", KVQuantization: "INT8"}, `KV cache in "INT8", which is not understood, so bf16 is assumed. Set ` + field.KVDType},
		{"", engine.FP8, engine.BF16, engine.FP8, catalog.Model{Name: "m", KVQuantization: "INT8"}, ""},
	} {
		s := StorageOf(tt.asked, tt.kv, tt.m)
		said := s.Note
		for _, w := range s.Warnings {
			said += w.Message
		}
		if s.Weights != tt.want || s.KV != tt.wantKV || !strings.Contains(said, tt.words) || tt.words == "" && said != "" {
			t.Errorf("%+v: %s, %q, %q", tt, s.Weights, s.KV, said)
		}
	}
}

// A GPU without arithmetic for the stored type computes in BF16, and that is said.
func TestStorageOn(t *testing.T) {
	older, newer := catalog.GPU{Name: "A", BF16FLOPS: 1}, catalog.GPU{Name: "B", BF16FLOPS: 1, FP8FLOPS: 2, FP4FLOPS: 4}
	m := catalog.Model{Name: "m", Weights: engine.FP8}
	if got := StorageOf("", "", m).On(newer).Note; got != "weights in fp8, as m is published" {
		t.Error(got)
	}
	if got := StorageOf("", "", m).On(older).Note; got != "weights in fp8, as m is published; A has no fp8 arithmetic. Storage is in fp8, but steps compute in bf16" {
		t.Error(got)
	}
	if got := StorageOf(engine.FP4, "", m).On(older).Note; !strings.HasPrefix(got, "A has no fp4 arithmetic. ") {
		t.Error(got)
	}
	if got := StorageOf(engine.BF16, "", m).On(older).Note; got != "" {
		t.Error(got)
	}
}
