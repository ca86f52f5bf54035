package catalog

import (
	"encoding/csv"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"plimsoll/engine"
)

func defaults(t testing.TB) Catalog {
	t.Helper()
	c, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTablesAreWhole(t *testing.T) {
	c := defaults(t)
	if m, g := len(c.Models()), len(c.GPUs()); m != 80 || g != 23 {
		t.Errorf("%d models and %d GPUs, want 80 and 23", m, g)
	}
	for _, g := range c.GPUs() {
		if source := strings.ToLower(g.Source); source == "" || strings.Contains(source, "unverified") || strings.Contains(source, "recalled") {
			t.Errorf("%s comes from %q", g.Name, g.Source)
		}
	}
	for _, m := range c.Models() {
		if m.Source == "" || m.MaxContext < 16384 || m.ActiveParams > m.Params {
			t.Errorf("row is odd: %+v", m)
		}
		if m.MoE() == (m.ActiveParams == m.Params) {
			t.Errorf("%s: experts and active parameters disagree", m.Name)
		}
	}
}

// Parameters and KV of each model are those that are published, testdata/figures.csv
// says where. A total is off by no more than its last digit, or 2 % where a publisher
// rounds to the name of the model, 0.1 % where it counts. Publishers count embeddings
// among the active parameters or not, or one of the two; an indexer's keys are no KV to
// them.
func TestPublicFigures(t *testing.T) {
	f, err := os.Open("testdata/figures.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	c := defaults(t)
	if len(rows) != 1+len(c.Models()) {
		t.Fatalf("figures of %d models, want %d", len(rows)-1, len(c.Models()))
	}
	// figure is a number, half its last digit, and how many digits it has.
	figure := func(s string) (x, half float64, digits int) {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		_, decimals, _ := strings.Cut(s, ".")
		return x, 0.5 * math.Pow10(-len(decimals)), len(strings.TrimLeft(strings.ReplaceAll(s, ".", ""), "0"))
	}
	for _, row := range rows[1:] {
		m, err := c.Model(row[0])
		if err != nil || m.Name != row[0] || row[4] == "" {
			t.Errorf("%v: %q, %v", row, m.Name, err)
			continue
		}
		total, half, digits := figure(row[1])
		if digits >= 5 {
			half = max(half, 0.001*total)
		} else {
			half = max(half, 0.02*total)
		}
		if got := float64(m.Params) / 1e9; math.Abs(got-total) > half {
			t.Errorf("%s has %.3f·10⁹ parameters, published are %s", m.Name, got, row[1])
		}
		if m.MoE() {
			active, half, _ := figure(row[2])
			most := float64(m.ActiveParams) / 1e9
			if least := most - float64(m.parts().embeddings)/1e9; active < least-half || active > most+half {
				t.Errorf("%s: %.3f to %.3f·10⁹ parameters are active, published are %s", m.Name, least, most, row[2])
			}
		}
		number, unit, _ := strings.Cut(row[3], " ")
		kv, half, _ := figure(number)
		scale := map[string]float64{"B": 1, "kB": 1000, "KiB": 1024}[unit]
		index := float64(m.IndexLayers * (m.IndexHeadDim + 4))
		if m.IndexLayers == 0 {
			index = 0
		}
		if got := m.KVBytesPerToken(engine.BF16) - index; scale == 0 || math.Abs(got/scale-kv) > half {
			t.Errorf("%s keeps %.0f bytes a token, published are %s", m.Name, got, row[3])
		}
	}
}

// vLLM makes a page of attention as large as the state of a layer of linear attention:
// "Setting attention block size to 1056 tokens", "Padding mamba page size by 0.76%" of
// Qwen3.5-35B-A3B and of Qwen3.5-4B (logs of March and June 2026), 672 tokens of
// Nemotron-Nano-9B-v2 with a state in BF16 (vllm-project/vllm#24280, 2025-09), 32 more
// than that at most.
func TestStateBytes(t *testing.T) {
	c := defaults(t)
	layer := func(name string) (state, token float64) {
		m, err := c.Model(name)
		if err != nil {
			t.Fatal(err)
		}
		return m.StateBytes() / float64(m.LinearLayers), float64(m.KVElementsPerLayer()) * engine.BF16.Bytes()
	}
	state, token := layer("qwen3.5-35b-a3b")
	if padding := 1056*token/state - 1; math.Abs(padding-0.0076) > 0.00005 {
		t.Errorf("a page of 1056 tokens is %.4f %% larger than the state of %.0f bytes", 100*padding, state)
	}
	state, token = layer("nemotron-nano-9b-v2")
	if tokens := (state - 128*80*128*2) / token; tokens > 672 || tokens < 640 { // half of what is not the convolution's
		t.Errorf("the state in BF16 is %.0f tokens", tokens)
	}
	for _, m := range c.Models() {
		if (m.StateBytes() > 0) != (m.LinearLayers > 0) {
			t.Errorf("%s: a state of %.0f bytes in %d layers", m.Name, m.StateBytes(), m.LinearLayers)
		}
	}
}

func TestModelNames(t *testing.T) {
	c := defaults(t)
	for asked, want := range map[string]string{
		"meta-llama/Meta-Llama-3.1-8B":     "meta-llama/Meta-Llama-3.1-8B",
		"llama-3.1-8b":                     "meta-llama/Meta-Llama-3.1-8B",
		"LLAMA_3.1_8B":                     "meta-llama/Meta-Llama-3.1-8B",
		" meta-llama-3.1-8b ":              "meta-llama/Meta-Llama-3.1-8B",
		"meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
		"llama-3.1-70b":                    "meta-llama/Meta-Llama-3.1-70B",
		"llama-3.3-70b":                    "meta-llama/Llama-3.3-70B-Instruct",
		"qwen3-32b":                        "Qwen/Qwen3-32B",
		"qwen3-235b":                       "Qwen/Qwen3-235B-A22B",
		"qwen3-coder-480b-a35b":            "Qwen/Qwen3-Coder-480B-A35B-Instruct",
		"mixtral-8x7b":                     "mistralai/Mixtral-8x7B-v0.1",
		"mistralai/Mixtral-8x7B":           "mistralai/Mixtral-8x7B-v0.1",
		"google/gemma-3-27b-it":            "google/gemma-3-27b",
		"gpt-oss-120b":                     "openai/gpt-oss-120b",
		"deepseek-r1":                      "deepseek-ai/DeepSeek-R1",
		"deepseek-v3":                      "deepseek-ai/DeepSeek-V3",
		"kimi-k2":                          "moonshotai/Kimi-K2-Instruct",
		"llama-4-scout":                    "meta-llama/Llama-4-Scout-17B-16E-Instruct",
		"nemotron-3-nano-30b":              "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
		"phi-4":                            "microsoft/phi-4",
	} {
		if m, err := c.Model(asked); err != nil || m.Name != want {
			t.Errorf("Model(%q) = %q, %v, want %q", asked, m.Name, err, want)
		}
	}
}

func TestGPUNames(t *testing.T) {
	c := defaults(t)
	for asked, want := range map[string]string{
		"h100-sxm": "H100-SXM", "H100_SXM": "H100-SXM", "H100 SXM": "H100-SXM",
		"h200": "H200-SXM", "b200": "B200-SXM", "a100-40": "A100-40-SXM", "a100_80_pcie": "A100-80-PCIe",
		"l4": "L4", "l40s": "L40S", "rtx-pro-6000": "RTX-PRO-6000", "mi300x": "MI300X",
		"mi355x": "MI355X", "h20": "H20", "h800": "H800-SXM", "gh200": "GH200", "arc_pro_b60": "Arc-Pro-B60",
	} {
		if g, err := c.GPU(asked); err != nil || g.Name != want {
			t.Errorf("GPU(%q) = %q, %v, want %q", asked, g.Name, err, want)
		}
	}
}

func TestNamesThatAreNot(t *testing.T) {
	c := defaults(t)
	model := func(n string) error { _, err := c.Model(n); return err }
	gpu := func(n string) error { _, err := c.GPU(n); return err }
	for _, tc := range []struct {
		err  error
		want string
	}{
		{model("lama-3.1-8b"), `unknown model "lama-3.1-8b": did you mean meta-llama/Meta-Llama-3.1-8B, `},
		{model("unsloth/llama-3.1-8b"), `unknown model "unsloth/llama-3.1-8b": did you mean meta-llama/Meta-Llama-3.1-8B`},
		{model("xyzzy"), `unknown model "xyzzy"`},
		{model(""), `unknown model ""`},
		{model("/"), `unknown model "/"`},
		{model("llama-3.1"), `model "llama-3.1" is ambiguous: say which of meta-llama/Meta-Llama-3.1-8B, `},
		{gpu("h100"), `GPU "h100" is ambiguous: say which of H100-SXM, H100-PCIe or H100-NVL`},
		{gpu("a100-sxm"), `unknown GPU "a100-sxm": did you mean `},
		{gpu("h10-sxm"), `unknown GPU "h10-sxm": did you mean H100-SXM`},
	} {
		if tc.err == nil || !strings.HasPrefix(tc.err.Error(), tc.want) {
			t.Errorf("got %v\nwant %s…", tc.err, tc.want)
		}
	}
	var unknown *UnknownError
	if !errors.As(model("lama-3.1-8b"), &unknown) || unknown.Nearest[0] != "meta-llama/Meta-Llama-3.1-8B" {
		t.Errorf("unknown model: %+v", unknown)
	}
	var ambiguous *AmbiguousError
	if !errors.As(gpu("h100"), &ambiguous) || len(ambiguous.Choices) != 3 {
		t.Errorf("ambiguous GPU: %+v", ambiguous)
	}
}

func TestGPUByDeviceName(t *testing.T) {
	c := defaults(t)
	for device, want := range map[string]string{
		"NVIDIA H100 80GB HBM3": "H100-SXM", "NVIDIA H100 PCIe": "H100-PCIe", "NVIDIA H100 NVL": "H100-NVL",
		"NVIDIA H200": "H200-SXM", "NVIDIA A100-SXM4-80GB": "A100-80-SXM", "NVIDIA A100-SXM4-40GB": "A100-40-SXM",
		"NVIDIA A100 80GB PCIe": "A100-80-PCIe", "NVIDIA L4": "L4", "NVIDIA L40S": "L40S", "NVIDIA A10G": "A10G",
		"NVIDIA B200": "B200-SXM", "NVIDIA GB200": "GB200", "nvidia gb300 ": "GB300",
		"NVIDIA RTX PRO 6000 Blackwell Server Edition": "RTX-PRO-6000",
		"NVIDIA H20": "H20", "NVIDIA H800": "H800-SXM", "NVIDIA GH200 480GB": "GH200", "NVIDIA GH200 120GB": "GH200",
		"AMD Instinct MI300X": "MI300X", "AMD Instinct MI300X OAM": "MI300X", "AMD Instinct MI300X VF": "MI300X", "MI300X-O": "MI300X",
		"AMD Instinct MI325X OAM": "MI325X", "AMD Instinct Mi325X VF": "MI325X", "AMD Instinct MI355X": "MI355X", "AMD Instinct MI300A": "MI300A",
		"NVIDIA-A100-SXM4-80GB": "A100-80-SXM", "NVIDIA A100 SXM4 40GB": "A100-40-SXM", "NVIDIA-H100-80GB-HBM3": "H100-SXM",
	} {
		if g, ok := c.GPUByDeviceName(device); !ok || g.Name != want {
			t.Errorf("%q is %q, %v, want %s", device, g.Name, ok, want)
		}
	}
	for _, device := range []string{
		"", ";", "NVIDIA", "NVIDIA H200 NVL", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "-", "NVIDIA-L4-SHARED", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
		"NVIDIA A100-PCIE-40GB", "NVIDIA L40", "NVIDIA GeForce RTX 4090", "AMD Instinct MI210", "AMD Instinct MI350X", "NVIDIA H20-3e", "NVIDIA H800 PCIe", "NVIDIA GH200 144G HBM3e",
	} {
		if g, ok := c.GPUByDeviceName(device); ok {
			t.Errorf("%q was taken for %s", device, g.Name)
		}
	}
}

func TestFLOPS(t *testing.T) {
	c := defaults(t)
	for _, tc := range []struct {
		gpu   string
		d     engine.DType
		flops float64
		ok    bool
	}{
		{"h100-sxm", "", 989e12, true},
		{"h100-sxm", engine.BF16, 989e12, true},
		{"h100-sxm", engine.FP8, 1978e12, true},
		{"h100-sxm", engine.FP4, 989e12, false},
		{"a100-80-sxm", engine.FP8, 312e12, false},
		{"a100-80-sxm", engine.FP4, 312e12, false},
		{"b200", engine.FP4, 9000e12, true},
		{"b200", engine.NVFP4, 9000e12, true},
		{"b200", engine.INT4, 2250e12, false},
		{"mi355x", engine.FP4, 10066.3e12, true},
		{"mi325x", engine.FP4, 1307.4e12, false},
	} {
		g, err := c.GPU(tc.gpu)
		if err != nil {
			t.Fatal(err)
		}
		if f, ok := g.FLOPS(tc.d); f != tc.flops || ok != tc.ok {
			t.Errorf("%s %q: %g, %v, want %g, %v", tc.gpu, tc.d, f, ok, tc.flops, tc.ok)
		}
	}
}

// What checkpoints weigh as published, GB on disk: Llama-3.1-8B 16.06, 70B in
// FP8 some 72.7, gpt-oss-120b 65.2 and gpt-oss-20b 13.8 in MXFP4
// (openai), DeepSeek-V3 in FP8 some 689 with its 14 of multi-token prediction.
func TestWeightBytes(t *testing.T) {
	c := defaults(t)
	for _, tc := range []struct {
		model string
		d     engine.DType
		gb    float64
	}{
		{"llama-3.1-8b", engine.BF16, 16.06},
		{"llama-3.1-70b", engine.FP8, 72.65},
		{"gpt-oss-120b", engine.FP4, 65.2},
		{"gpt-oss-20b", engine.FP4, 13.8},
		{"deepseek-v3", engine.FP8, 673},
		{"llama-3.1-70b", engine.NVFP4, 42.7}, // 68.5 G weights in 4.5 bits
		{"llama-3.1-70b", engine.FP4, 42.7},
		{"llama-3.1-70b", engine.MXFP4, 40.6},
		{"llama-3.1-70b", engine.INT4, 39.5}, // groups of 128
		{"kimi-k2.5", engine.INT4, 594.2},    // groups of 32, the experts alone
		{"kimi-k2.5", engine.FP4, 594.2},
	} {
		m, err := c.Model(tc.model)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.WeightBytes(tc.d) / 1e9; got < 0.99*tc.gb || got > 1.01*tc.gb {
			t.Errorf("%s %s weighs %.2f GB, want %.2f", tc.model, tc.d, got, tc.gb)
		}
	}
}

// A model published in 8 or 4 bits is never taken for one in 16: its row says so,
// and each row says something.
func TestPublishedWeights(t *testing.T) {
	small := map[string]engine.DType{
		"deepseek-ai/": engine.FP8, "MiniMaxAI/": engine.FP8, "moonshotai/Kimi-K2-Instruct": engine.FP8, "moonshotai/": engine.INT4, "openai/": engine.MXFP4,
		"mistralai/Mistral-Small-4": engine.FP8, "mistralai/Ministral-3": engine.FP8, "mistralai/Mistral-Large-3": engine.FP8, "mistralai/Devstral-2": engine.FP8,
	}
	for _, m := range defaults(t).Models() {
		want, length := engine.BF16, 0
		for name, d := range small {
			if strings.HasPrefix(m.Name, name) && len(name) > length {
				want, length = d, len(name)
			}
		}
		if m.Weights != want {
			t.Errorf("%s is published in %q, want %s", m.Name, m.Weights, want)
		}
		if !strings.Contains(m.Source, "weights: ") {
			t.Errorf("%s does not say where its weights' type is from: %s", m.Name, m.Source)
		}
	}
}

func TestWeightsOfAUsersRow(t *testing.T) {
	const header = "model,layers,hidden,q_heads,kv_heads,head_dim,ffn,vocab,max_context,weights,source\n"
	for word, want := range map[string]engine.DType{"": "", "bf16": engine.BF16, "fp8": engine.FP8, "fp4": engine.FP4, "int4": engine.INT4} {
		c, err := Catalog{}.With("mine.csv", strings.NewReader(header+"m,1,64,1,1,64,64,100,100,"+word+",me\n"))
		if err != nil || c.Models()[0].Weights != want {
			t.Errorf("%q: %+v, %v", word, c.Models(), err)
		}
	}
	_, err := Catalog{}.With("mine.csv", strings.NewReader(header+"m,1,64,1,1,64,64,100,100,int5,me\n"))
	if err == nil || err.Error() != `mine.csv:2: m: weights is "int5": want one of bf16, fp8, fp4, nvfp4, mxfp4, int4, 8-bit integers as fp8` {
		t.Error(err)
	}
}

func TestCatalogIsImmutable(t *testing.T) {
	c := defaults(t)
	before := c.Models()[0]
	c.Models()[0].Layers = 1
	c.GPUs()[0].MemoryBytes = 1
	if _, err := c.With("mine.csv", strings.NewReader("gpu,memory_bytes,hbm_gb_per_s,bf16_tflops,link_gb_per_s,source\nH100-SXM,80000000000,1,1,1,x\nH100-SXM,80000000000,1000,100,1,x\n")); err == nil {
		t.Error("a bad row was taken")
	}
	if c.Models()[0] != before || c.GPUs()[0].HBMBytesPerSec != 3350e9 || c.GPUs()[0].MemoryBytes == 1 {
		t.Error("a copy, or rows that were refused, changed the catalog")
	}
}

func TestWithFile(t *testing.T) {
	c := defaults(t)
	path := filepath.Join(t.TempDir(), "mine.csv")
	text := "\ufeffgpu,memory_bytes,hbm_gb_per_s,bf16_tflops,link_gb_per_s,device_names,source\n" +
		"# a comment\nh100-sxm,80000000000,3000,900,400,,data sheet\n" +
		"H20-3e,141000000000,4800,148,450,NVIDIA H20-3e; NVIDIA H20 141GB,data sheet\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	mine, err := c.WithFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if g, err := mine.GPU("H100-SXM"); err != nil || g.BF16FLOPS != 900e12 || g.FP8FLOPS != 0 {
		t.Errorf("the row on top: %+v, %v", g, err)
	}
	if g, ok := mine.GPUByDeviceName("NVIDIA H20-3e"); !ok || g.Name != "H20-3e" {
		t.Errorf("new row: %+v, %v", g, ok)
	}
	if len(mine.GPUs()) != len(c.GPUs())+1 || len(mine.Models()) != len(c.Models()) {
		t.Error("rows were added or lost")
	}
	if _, err := c.WithFile(filepath.Join(t.TempDir(), "none.csv")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func TestBadRows(t *testing.T) {
	const gpu = "gpu,memory_bytes,hbm_gb_per_s,bf16_tflops,link_gb_per_s,source\n"
	const model = "model,layers,hidden,q_heads,kv_heads,head_dim,ffn,vocab,max_context,source\n"
	for name, tc := range map[string]struct{ text, want string }{
		"empty":     {"", "f.csv: the file is empty"},
		"kind":      {"a,b\n", `f.csv:1: the first column is "a": want "model" or "gpu"`},
		"unknown":   {"gpu,watts\n", `f.csv:1: unknown column "watts"`},
		"twice":     {"gpu,gpu\n", `f.csv:1: column "gpu" is listed twice`},
		"missing":   {"gpu,source\n", `f.csv:1: column "memory_bytes" is missing`},
		"words":     {gpu + "\nA10G,24000000000,600,\"70 (A10G, dense)\",32,x\n", `f.csv:3: A10G: bf16_tflops is "70 (A10G, dense)": want a number`},
		"nan":       {gpu + "G,24000000000,NaN,70,32,x\n", `f.csv:2: G: hbm_gb_per_s is "NaN": want a number`},
		"gigabytes": {gpu + "G,24,600,70,32,x\n", "f.csv:2: G: memory_bytes is 24: want 1e+09 to 1e+13"},
		"no source": {gpu + "G,24000000000,600,70,32,\n", "f.csv:2: G: source is empty"},
		"fields":    {gpu + "G,24\nH,24000000000,600,70,x,x\n", "f.csv:2: wrong number of fields\nf.csv:3: H: link_gb_per_s is \"x\": want a number"},
		"quote":     {gpu + "G,\"24\n", "f.csv:2: "},
		"all":       {model + "m,0,4096,32,7,128,-1,9,1e5,x\n", "f.csv:2: m: max_context is \"1e5\": want a whole number"},
		"absurd":    {model + "m,0,4096,32,7,128,-1,9,100,x\n", "f.csv:2: m: layers is 0: want 1 to 2000\nffn is -1: want 1 to 2000000\nq_heads 32 is not a multiple of kv_heads 7"},
	} {
		_, err := Catalog{}.With("f.csv", strings.NewReader(tc.text))
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: got %v\nwant %s", name, err, tc.want)
		}
	}
}

func FuzzWith(f *testing.F) {
	f.Add(modelsCSV)
	f.Add(gpusCSV)
	f.Add("gpu,memory_bytes,hbm_gb_per_s,bf16_tflops,link_gb_per_s,source\nG,24000000000,600,70,32,x\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Catalog{}.With("f.csv", strings.NewReader(text))
		if err != nil {
			return
		}
		for _, m := range c.Models() {
			if m.Params <= 0 || m.ActiveParams <= 0 || m.ActiveParams > m.Params || !(m.WeightBytes(engine.FP4) > 0) || m.KVBytesPerToken("") <= 0 {
				t.Errorf("absurd model was taken: %+v", m)
			}
			if got, err := c.Model(m.Name); err != nil {
				var ambiguous *AmbiguousError
				if !errors.As(err, &ambiguous) && modelKey(m.Name).words != "" {
					t.Errorf("cannot find %q: %v", m.Name, err)
				}
			} else if got.Name == "" {
				t.Errorf("%q has lost its name", m.Name)
			}
		}
		for _, g := range c.GPUs() {
			if !(g.HBMBytesPerSec > 0) || !(g.BF16FLOPS > 0) || g.MemoryBytes <= 0 || !(g.LinkBytesPerSec > 0) {
				t.Errorf("absurd GPU was taken: %+v", g)
			}
		}
	})
}

// The KV of a sequence is what its layers keep, counted one by one: never more than if all
// kept every token, and as much within the window.
func TestKVBytesLayerByLayer(t *testing.T) {
	windowed := 0
	for _, m := range defaults(t).Models() {
		b := m.KVBytes(engine.BF16)
		if b.Window > 0 {
			windowed++
		}
		for _, tokens := range []int{0, 1, 128, 1024, 4097, 30_000} {
			want := m.StateBytes() + float64(tokens*m.IndexLayers*(m.IndexHeadDim+4))
			for layer := range m.KVLayers() {
				kept := tokens
				if m.SlidingWindow > 0 && layer >= m.FullAttentionLayers {
					kept = min(kept, m.SlidingWindow)
				}
				want += float64(kept*m.KVElementsPerLayer()) * engine.BF16.Bytes()
			}
			linear := m.StateBytes() + float64(tokens)*m.KVBytesPerToken(engine.BF16)
			if got := b.Of(tokens); math.Abs(got-want) > 1e-9*want || got > linear || (b.Window == 0 || tokens <= b.Window) && got != linear {
				t.Errorf("%s: %.0f bytes of %d tokens, want %.0f; %.0f if every layer kept all", m.Name, got, tokens, want, linear)
			}
		}
	}
	if windowed == 0 {
		t.Error("no model has a window")
	}
}
