package load

import (
	"encoding/json"
	"strings"
	"testing"

	"plimsoll/engine/enginetest/cputime"
)

func TestParseChunk(t *testing.T) {
	no := usage{}
	for _, c := range []struct {
		name, in string
		want     chunk
	}{
		{"text", `{"choices":[{"text":"a","finish_reason":null}]}`, chunk{content: true}},
		{"empty text is no content", `{"choices":[{"text":""}]}`, chunk{}},
		{"space is content", `{"choices":[{"text":" "}]}`, chunk{content: true}},
		{"escape is content", `{"choices":[{"text":"\n"}]}`, chunk{content: true}},
		{"null text", `{"choices":[{"text":null}]}`, chunk{}},
		{"role only", `{"choices":[{"delta":{"role":"assistant"}}]}`, chunk{}},
		{"role and empty content", `{"choices":[{"delta":{"role":"assistant","content":""}}]}`, chunk{}},
		{"chat", `{"choices":[{"delta":{"content":"a"}}]}`, chunk{content: true}},
		{"reasoning_content", `{"choices":[{"delta":{"content":null,"reasoning_content":"a"}}]}`, chunk{content: true}},
		{"reasoning", `{"choices":[{"delta":{"reasoning":"a"}}]}`, chunk{content: true}},
		{"a call of a tool", `{"choices":[{"delta":{"content":null,"tool_calls":[{"function":{"arguments":"{"}}]}}]}`, chunk{content: true}},
		{"no call of a tool", `{"choices":[{"delta":{"content":"","tool_calls":[]}}]}`, chunk{}},
		{"finish", `{"choices":[{"text":"","finish_reason":"stop"}]}`, chunk{finish: "stop"}},
		{"any finish", `{"choices":[{"finish_reason":"a\u0062"}]}`, chunk{finish: "ab"}},
		{"escaped name", `{"choices":[{"te\u0078t":"a"}]}`, chunk{content: true}},
		{
			"usage", `{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}`,
			chunk{usage: usage{seen: true, prompt: 7, completion: 2, cached: -1}},
		},
		{
			"cached", `{"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}`,
			chunk{usage: usage{seen: true, prompt: 7, completion: 2, cached: 4}},
		},
		{
			"null details", `{"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":null}}`,
			chunk{usage: usage{seen: true, prompt: 7, completion: 2, cached: -1}},
		},
		{"null cached", `{"usage":{"prompt_tokens_details":{"cached_tokens":null}}}`, chunk{usage: usage{seen: true, cached: -1}}},
		{"null usage", `{"choices":[],"usage":null}`, chunk{}},
		{"error", `{"error":{"message":"out of memory","code":500}}`, chunk{failure: "out of memory"}},
		{"error text", `{"error":"no"}`, chunk{failure: "no"}},
		{"error of another shape", `{"error":[1]}`, chunk{failure: "[1]"}},
		{"null error", `{"error":null,"choices":[{"text":"a"}]}`, chunk{content: true}},
		{"older error", `{"object":"error","message":"no"}`, chunk{failure: `{"object":"error","message":"no"}`}},
		{"other shapes", `{"choices":{"text":"a"},"usage":3}`, chunk{usage: no}},
		{"other choices", `{"choices":[1,{"text":["a"],"delta":"b"}]}`, chunk{}},
		{"last wins", `{"choices":[{"text":"a"}],"choices":[{"text":""}]}`, chunk{}},
		{"white space", " {\t\"choices\" : [ { \"text\" : \"a\" } ] }\r\n", chunk{content: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseChunk([]byte(c.in))
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestParseChunkRefuses(t *testing.T) {
	for _, in := range []string{
		``, `null`, `[]`, `{`, `{}x`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":01}`, `{"a":1.}`, `{"a":+1}`, `{"a":.5}`, `{"a":1e}`,
		`{"a":"`, `{"a":"\x"}`, `{"a":"\u12"}`, "{\"a\":\"\n\"}", `{"a":tru}`, `{"a":[1,]}`, `{"a":[1 2]}`, `{"choices":[{"text":"a"]}`, `{'a':1}`,
		`{"usage":{"prompt_tokens":-1}}`, `{"usage":{"prompt_tokens":1.5}}`, `{"usage":{"completion_tokens":"7"}}`,
		`{"usage":{"completion_tokens":99999999999999999999}}`,
		`{"a":` + strings.Repeat("[", maxDepth+1),
	} {
		if c, err := parseChunk([]byte(in)); err == nil {
			t.Errorf("%.60q: got %+v, want an error", in, c)
		}
	}
}

// dumbChunk reads a chunk through encoding/json's maps; ok is false where the
// text is no JSON object.
func dumbChunk(in []byte) (c chunk, ok bool) {
	var o map[string]any
	if json.Unmarshal(in, &o) != nil || o == nil {
		return c, false
	}
	text := func(v any) bool { s, _ := v.(string); return s != "" }
	choices, _ := o["choices"].([]any)
	for _, x := range choices {
		choice, _ := x.(map[string]any)
		delta, _ := choice["delta"].(map[string]any)
		tools, _ := delta["tool_calls"].([]any)
		if len(tools) > 0 || text(choice["text"]) || text(delta["content"]) || text(delta["reasoning"]) || text(delta["reasoning_content"]) {
			c.content = true
		}
		if s, _ := choice["finish_reason"].(string); s != "" {
			c.finish = s
		}
	}
	if u, isObject := o["usage"].(map[string]any); isObject {
		n, _ := u["prompt_tokens"].(float64)
		m, _ := u["completion_tokens"].(float64)
		c.usage = usage{seen: true, prompt: int(n), completion: int(m), cached: -1}
		d, _ := u["prompt_tokens_details"].(map[string]any)
		if k, isNumber := d["cached_tokens"].(float64); isNumber {
			c.usage.cached = int(k)
		}
	}
	c.failure = ""
	if e, has := o["error"]; has && e != nil {
		c.failure = "error"
	}
	if o["object"] == "error" {
		c.failure = "error"
	}
	return c, true
}

func FuzzParseChunk(f *testing.F) {
	for _, s := range []string{
		`{"choices":[{"text":"a","finish_reason":null}],"usage":null}`,
		`{"choices":[{"delta":{"role":"x","content":"\u00e9\\"}}]}`,
		`{"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}`,
		`{"error":{"message":"m"},"object":"error"}`,
		`{"a":[1,-2.5e+3,true,false,null,{"b":{}}],"te\u0078t":""}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := parseChunk(in)
		want, ok := dumbChunk(in)
		if strings.Contains(string(in), "usage") && err != nil && ok {
			return // counts are stricter than JSON
		}
		if (err == nil) != ok {
			t.Fatalf("%q: error %v, encoding/json says %v", in, err, ok)
		}
		if got.failure != "" {
			got.failure = "error"
		}
		if ok && got != want {
			t.Fatalf("%q: got %+v, want %+v", in, got, want)
		}
	})
}

func FuzzScan(f *testing.F) {
	f.Add([]byte(`[{"a":1e5},"\ud800",-0,null]`))
	f.Fuzz(func(t *testing.T, in []byte) {
		s := scan{b: in}
		s.skip()
		s.end()
		if (s.err == nil) != json.Valid(in) {
			t.Fatalf("%q: error %v, json.Valid says %v", in, s.err, json.Valid(in))
		}
	})
}

func BenchmarkParseChunk(b *testing.B) {
	in := []byte(vllmChunk)
	b.ReportAllocs()
	defer cputime.Report(b)()
	for b.Loop() {
		if c, err := parseChunk(in); err != nil || !c.content {
			b.Fatal(c, err)
		}
	}
}

func BenchmarkParseChunkEncodingJSON(b *testing.B) {
	in := []byte(vllmChunk)
	b.ReportAllocs()
	defer cputime.Report(b)()
	for b.Loop() {
		var c struct {
			Choices []struct {
				Text   string
				Finish *string `json:"finish_reason"`
			}
			Usage *struct{ PromptTokens int }
		}
		if err := json.Unmarshal(in, &c); err != nil {
			b.Fatal(err)
		}
	}
}

const vllmChunk = `{"id":"cmpl-8f14e45fceea167a5a36dedd4bea2543","object":"text_completion","created":1767225600,"model":"meta-llama/Llama-3.1-8B","choices":[{"index":0,"text":" time","logprobs":null,"finish_reason":null,"stop_reason":null}],"usage":null}`
