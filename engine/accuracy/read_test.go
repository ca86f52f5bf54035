package accuracy

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
)

const header = "gpu,model,loop,isl,osl,concurrency,rate_rps,tp,ep,engine,weights,kv_dtype,tpot_ms,itl_ms,ttft_ms,note\n"

func read(t *testing.T, text string) (Table, error) {
	t.Helper()
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	return Read(strings.NewReader(text), cat)
}

func TestRead(t *testing.T) {
	table, err := read(t, header+
		"h100_sxm,meta-llama/Llama-3.1-70B-FP8,closed,921,921.6,8,,4,,TensorRT-LLM,fp8,,20.5,,300,x\n"+
		"b200-sxm,deepseek-r1,closed,921.6,922,32,,8,8,sglang,fp4,bf16,,15,,\n"+
		"h200-sxm,qwen3-8b,single,500,,,,,,,,,,,12,\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(table.Unused) != 1 || table.Unused[0] != "note" {
		t.Errorf("unused: %q", table.Unused)
	}
	a, b, c := table.Rows[0], table.Rows[1], table.Rows[2]
	if a.Left != "" || a.Model.Name != "meta-llama/Meta-Llama-3.1-70B" || a.OSL != 922 || a.Config.Parallelism.TP != 4 || a.Config.Kind != "trtllm" || a.Config.KV != "fp8" || a.TPOT != 0.0205 || a.TTFT != 0.3 || a.Poll != 0 {
		t.Errorf("%+v", a)
	}
	if b.Left != "" || b.Config.KV != "bf16" || b.Config.Parallelism.EP != 8 || b.TPOT != 0.015 || b.Poll != 30 || b.Config.Limits.MaxNumBatchedTokens != 16384 {
		t.Errorf("%+v", b)
	}
	if c.Left != "" || c.Config.Kind != "vllm" || c.Config.Weights != "bf16" || c.Config.Parallelism.TP != 1 || c.TTFT != 0.012 {
		t.Errorf("%+v", c)
	}
}

// Rows with the lengths of InferenceX get the flags of its scripts where the table has
// none; others run as the engine does by default. Tables' names of GPUs are understood.
func TestServed(t *testing.T) {
	for line, want := range map[string]engine.Config{
		"b200-sxm,minimax-m2.5,closed,922,922,8,,4,,vllm,fp8,,,9,,":      {KV: "fp8", MemoryFraction: 0.9, Limits: engine.Limits{MaxNumBatchedTokens: 2048}},
		"b300-sxm,minimax-m2.5,closed,8192,1024,8,,4,,vllm,fp8,,,9,,":    {KV: "fp8", MemoryFraction: 0.9, Limits: engine.Limits{MaxNumBatchedTokens: 16384}},
		"h200-sxm,minimax-m2.5,closed,922,922,8,,4,,vllm,fp8,,,9,,":      {KV: "bf16", MemoryFraction: 0.95},
		"h100,llama-3.1-70b,closed,922,922,8,,4,,vllm,fp8,,,9,,":         {KV: "bf16", Limits: engine.Limits{MaxNumBatchedTokens: 8192}},
		"h100,llama-3.1-70b,closed,1000,922,8,,4,,vllm,fp8,,,9,,":        {KV: "bf16"},
		"b200-sxm,deepseek-r1,closed,7373,922,8,,4,,sglang,fp8,,,9,,":    {KV: "fp8", MemoryFraction: 0.95, Limits: engine.Limits{MaxNumBatchedTokens: 8192}},
		"h200-sxm,qwen3.5-397b-a17b,closed,922,922,8,,8,,sgl,fp8,,,9,,":  {KV: "fp8", MemoryFraction: 0.8, Limits: engine.Limits{MaxNumBatchedTokens: 16384}},
		"h200-sxm,deepseek-r1,closed,7373,922,900,,8,,trtllm,fp8,,,9,,":  {KV: "fp8", Limits: engine.Limits{MaxNumBatchedTokens: 9216}},
		"b200-sxm,gpt-oss-120b,closed,922,7373,8,,1,,trtllm,fp4,,,9,,":   {KV: "fp8", Limits: engine.Limits{MaxNumBatchedTokens: 20000, MaxNumSeqs: 512}},
		"a100_sxm,llama-3.1-8b,closed,128,128,8,,1,,sglang,bf16,,,9,,":   {KV: "bf16"},
		"rtxpro6000,llama-3.1-8b,closed,128,128,8,,1,,trtllm,bf16,,,9,,": {KV: "bf16"},
	} {
		table, err := read(t, header+line+"\n")
		if err != nil || table.Rows[0].Left != "" {
			t.Errorf("%s: %v, %+v", line, err, table.Rows)
			continue
		}
		c := table.Rows[0].Config
		if got := (engine.Config{KV: c.KV, MemoryFraction: c.MemoryFraction, Limits: c.Limits}); got != want {
			t.Errorf("%s: %+v, want %+v", line, got, want)
		}
	}
}

// What cannot be represented is left out with its reason; the rest of the table counts.
func TestReadLeavesOut(t *testing.T) {
	for line, want := range map[string]string{
		"h100-sxm,nobody/nothing,closed,1,1,1,,,,,,,,,,":   "unknown model",
		"toaster,qwen3-8b,closed,1,1,1,,,,,,,,,,":          "unknown GPU",
		"l,qwen3-8b,closed,1,1,1,,,,,,,,,,":                "unknown GPU",
		"h100-sxm,qwen3-8b,closed,1,1,,,,,,,,,,,":          "no concurrency in a closed loop",
		"h100-sxm,qwen3-8b,open,1,1,,,,,,,,,,,":            "no rate_rps in an open loop",
		"h100-sxm,qwen3-8b,closed,1,,4,,,,,,,,,,":          "no osl",
		"h100-sxm,qwen3-8b,closed,,1,4,,,,,,,,,,":          "no isl",
		"h100-sxm,qwen3-8b,step,1,,,,,,,,,,,,":             "no concurrency in a step",
		"h100-sxm,qwen3-8b,twice,1,1,1,,,,,,,,,,":          `loop "twice": want closed`,
		"h100-sxm,qwen3-8b,closed,1,1,1,,,,tgi,,,,,,":      `engine "tgi": want vllm`,
		"h100-sxm,qwen3-8b,closed,1,1,1,,,,vllm,int3,,,,,": `weights "int3": want bf16`,
		"h100-sxm,qwen3-8b,closed,1,1,1,,,,vllm,,int3,,,,": `kv_dtype "int3": want bf16`,
	} {
		table, err := read(t, header+line+"\n"+"h100-sxm,qwen3-8b,single,500,,,,,,,,,,,12,\n")
		if err != nil || len(table.Rows) != 2 || !strings.Contains(table.Rows[0].Left, want) || table.Rows[1].Left != "" {
			t.Errorf("%s: %v, %+v", line, err, table.Rows)
		}
	}
	for line, want := range map[string]string{
		"h100-sxm,qwen3-8b,closed,40000,1000,8,,,,,,,,,,": "41000 tokens of a request: the model's context is 40960",
		"h100-sxm,qwen3-8b,single,50000,,,,,,,,,,,,":      "50000 tokens of a request",
		"h100-sxm,qwen3-8b,step,1000,,2000,,,,,,,,,,":     "2000 sequences of 1000 tokens: the KV cache holds",
		"h100-sxm,qwen3-8b,closed,10,10,1e9,,,,,,,,,,":    "1000000000 requests in flight: want at most 16384",
		"h100-sxm,qwen3-8b,closed,40900,60,2,,,,,,,,,,":   "", // lengths are drawn around these, none beyond the context
		"h100-sxm,qwen3-8b,closed,100,60,2,,,,,,auto,,,,": "",
	} {
		table, err := read(t, header+line+"\n")
		if err != nil {
			t.Fatal(err)
		}
		if got := Evaluate(table.Rows[0]).Left; !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	if r := Evaluate(Row{Left: "why"}); r.Left != "why" {
		t.Errorf("%+v", r)
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "line 1: want a header with the columns model, gpu, loop, isl",
		"model,gpu,loop\n":       `no column "isl"`,
		"model,gpu,loop,isl,ISL": `column "isl" is listed twice`,
		header + "h100-sxm,qwen3-8b,closed,many,1,1,,,,,,,,,,\n":    `line 2: isl "many": want a number from 0 to 1e+09`,
		header + "h100-sxm,qwen3-8b,closed,1,1,-1,,,,,,,,,,\n":      `concurrency "-1"`,
		header + "h100-sxm,qwen3-8b,closed,1,1,1,,1.5,,,,,,,,\n":    `tp "1.5": want a whole number`,
		header + "h100-sxm,qwen3-8b,closed,1,1,1,,,,,,,,,1e-320,\n": `ttft_ms "1e-320": want 0, or at least 1e-09`,
		header + "h100-sxm,qwen3-8b\n":                              "wrong number of fields",
	} {
		if _, err := read(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestReadGzip(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte("\ufeffmodel,gpu,loop,isl,ttft_ms\nqwen3-8b,h100-sxm,single,500,NaN\n")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	table, err := read(t, b.String())
	if err != nil || len(table.Rows) != 1 || table.Rows[0].ISL != 500 || table.Rows[0].TTFT != 0 {
		t.Fatalf("%v, %+v", err, table.Rows)
	}
	if r := Evaluate(table.Rows[0]); r.Left != "" || r.TTFT <= 0 || r.TPOT <= 0 || r.TPOTFactor < 1 || r.TTFTFactor < 1 {
		t.Errorf("%+v", r)
	}
}
