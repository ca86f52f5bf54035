package main

import (
	"strconv"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/latency"
	"plimsoll/profile/trace"
)

// Every hint of a refusal, followed, is an engine that runs; the context hinted
// at is the longest one.
func TestNoRoomHintsAreTrue(t *testing.T) {
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, m := range cat.Models() {
		for _, g := range cat.GPUs() {
			for _, tp := range []int{1, 2, 8} {
				c := engine.Config{Parallelism: engine.TP(tp), Weights: engine.BF16, Limits: engine.Limits{MaxModelLen: m.MaxContext}}
				err := latency.Check(m, g, c)
				if err == nil {
					continue
				}
				refused++
				for _, h := range noRoom(m, g, c, err).hints {
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
		{m, 1, 100_000, "a KV cache of 100001 tokens takes 2 GB at least: 1 × g have 2 GB in all"},
		{m, 2, 200_000, "2 × g have 4 GB in all"},
		{windowed, 1, 200_000, "tokens takes 2 GB at least"},
	} {
		c := engine.Config{Parallelism: engine.TP(tt.tp)}
		if err := kvBeyond(tt.m, g, c, tt.most); err != nil {
			t.Error(err)
		}
		if err := kvBeyond(tt.m, g, c, tt.most+1); err == nil || !strings.Contains(err.Error(), tt.refuse) {
			t.Errorf("%v, want %q", err, tt.refuse)
		}
	}
}

func TestKVWarnings(t *testing.T) {
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	m, errM := cat.Model(simModel)
	g, errG := cat.GPU(simGPU)
	l, errL := latency.New(m, g, engine.Config{Parallelism: engine.TP(1)})
	if errM != nil || errG != nil || errL != nil {
		t.Fatal(errM, errG, errL)
	}
	if ws := kvWarnings("--kv-blocks", l, "TP:1", l.KVTokens()); len(ws) > 0 {
		t.Errorf("%v of what there is room for", ws)
	}
	ws := kvWarnings("--kv-blocks", l, "TP:1", l.KVTokens()+1)
	if len(ws) != 1 || ws[0].Code != "kv_beyond_room" || !strings.HasPrefix(ws[0].Message, "--kv-blocks: ") {
		t.Errorf("%v", ws)
	}
}

// The weights are as asked, else as the model says, else BF16; what the model
// says is said, and what it says in vain is doubted.
func TestStorageOf(t *testing.T) {
	for _, tt := range []struct {
		asked engine.DType
		m     catalog.Model
		want  engine.DType
		words string // of the note or the warning; empty = neither
	}{
		{"", catalog.Model{}, engine.BF16, ""},
		{engine.FP8, catalog.Model{}, engine.FP8, ""},
		{"", catalog.Model{Name: "m", Weights: engine.FP8, Quantization: "fp8"}, engine.FP8, "weights in fp8, as the config.json of m has it (fp8)"},
		{"", catalog.Model{Weights: engine.FP4, Quantization: "awq, 4-bit integers"}, engine.FP4, "integers count as fp4"},
		{engine.BF16, catalog.Model{Weights: engine.FP8, Quantization: "fp8"}, engine.BF16, ""},
		{"", catalog.Model{Quantization: "aqlm"}, engine.BF16, `"aqlm", which is not known here: bf16 is assumed`},
		{engine.FP4, catalog.Model{Quantization: "aqlm"}, engine.FP4, ""},
		{"", catalog.Model{Name: "m", Weights: engine.FP8}, engine.FP8, "weights in fp8, as m is published"},
		{"", catalog.Model{Name: "m", Weights: engine.BF16}, engine.BF16, ""},
		{engine.BF16, catalog.Model{Name: "m", Weights: engine.FP8}, engine.BF16, ""},
	} {
		s := storageOf(tt.asked, tt.m)
		said := s.note
		for _, w := range s.warnings {
			said += w.Message
		}
		if s.weights != tt.want || !strings.Contains(said, tt.words) || tt.words == "" && said != "" {
			t.Errorf("%+v: %s, %q", tt, s.weights, said)
		}
	}
}

// A GPU without arithmetic for the stored type computes in BF16, and that is said.
func TestStorageOn(t *testing.T) {
	older, newer := catalog.GPU{Name: "A", BF16FLOPS: 1}, catalog.GPU{Name: "B", BF16FLOPS: 1, FP8FLOPS: 2, FP4FLOPS: 4}
	m := catalog.Model{Name: "m", Weights: engine.FP8}
	if got := storageOf("", m).on(newer).note; got != "weights in fp8, as m is published" {
		t.Error(got)
	}
	if got := storageOf("", m).on(older).note; got != "weights in fp8, as m is published; A has no fp8 arithmetic: only storage is in fp8, and steps are computed in bf16" {
		t.Error(got)
	}
	if got := storageOf(engine.FP4, m).on(older).note; !strings.HasPrefix(got, "A has no fp4 arithmetic: ") {
		t.Error(got)
	}
	if got := storageOf(engine.BF16, m).on(older).note; got != "" {
		t.Error(got)
	}
}

// The requests of a trace are not left out of a load for a context that the program
// chose: each layout has what the longest one takes, as far as model and memory go.
func TestContextForTheTrace(t *testing.T) {
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	m, err := cat.Model("llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		gpu                string
		longest, asked, kv int
		want               [2]int // of TP:1 and TP:2; 0 = what the KV cache holds
	}{
		{"h100-sxm", 0, 0, 0, [2]int{quickReach, quickReach}},
		{"h100-sxm", 50_000, 0, 0, [2]int{50_000, 50_000}},
		{"h100-sxm", 500_000, 0, 0, [2]int{m.MaxContext, m.MaxContext}},
		{"h100-sxm", 50_000, 8000, 0, [2]int{8000, 8000}},
		{"h100-sxm", 50_000, 0, 20_000, [2]int{20_000, 20_000}},
		{"l4", 50_000, 0, 0, [2]int{0, 50_000}},
	} {
		g, err := cat.GPU(c.gpu)
		if err != nil {
			t.Fatal(err)
		}
		d := deployment{kind: engine.KindEstimate, model: &m, gpu: &g, gpuCount: 2, weights: storageOf("", m)}
		o := profileOptions{isl: 500, osl: 100, maxContext: c.asked, kvTokens: c.kv, layouts: powersOfTwo(2), traffic: traffic{isl: 500, osl: 100, arrivals: []trace.Arrival{{ISL: 10, OSL: 10}, {ISL: c.longest - 100, OSL: 100}}}}
		cs, skips, err := d.candidates(o)
		if err != nil || len(cs) != 2 {
			t.Fatalf("%s: %d candidates, %v, %v", c.gpu, len(cs), skips, err)
		}
		for i, got := range cs {
			want := c.want[i]
			if want == 0 {
				want = contextRoom(m, g, got)
			}
			if got.Limits.MaxModelLen != want || latency.Check(m, g, got) != nil {
				t.Errorf("%s, longest %d, --max-context-length %d, --kv-tokens %d: %s has a context of %d, want %d", c.gpu, c.longest, c.asked, c.kv, got.Parallelism.Label(), got.Limits.MaxModelLen, want)
			}
		}
		if reach := simContext(o, m); reach > quickReach {
			t.Errorf("surfaces reach %d tokens for the sake of a trace", reach)
		}
	}
}
