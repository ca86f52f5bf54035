package load

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
)

// What is made of each engine's streams: which events hold content (c), the
// token counts (u), or neither (.). Those that bring tokens (x), from which TTFT and ITL
// count, are those with content; where the server counts with each event, those in which
// its count rises.
func TestStreamsOfEngines(t *testing.T) {
	want := map[string]struct {
		events                 string
		prompt, output, cached int
		live                   string // of a server that counts with each event
	}{
		"llamacpp-completion":                  {"ccccu", 4, 4, 0, ""}, // its last event has both a finish reason and the counts
		"llamacpp-chat":                        {".cccc.u", 54, 4, 0, ""},
		"llamacpp-reasoning":                   {".ccc.u", 17, 3, 7, ""},
		"vllm-completion":                      {"c.ccu", 64, 4, 48, ""},
		"vllm-completion-counted":              {"ucccccu", 6, 6, -1, "xxxxxx."}, // the first token is a part of a character
		"vllm-one-token-counted":               {"uu", 6, 1, -1, "x."},
		"vllm-one-token":                       {".u", 6, 1, -1, ""}, // its end is the token
		"vllm-tool-call":                       {"uccuu", 9, 5, -1, ".xxx."},
		"vllm-reasoning":                       {".ccc.u", 9, 3, -1, ""},
		"vllm-chat-continuous-usage":           {"ucccu", 15, 3, -1, ".xxx."},
		"sglang-completion-two-tokens-a-chunk": {"cc.u", 8, 4, -1, ""},
		"sglang-reasoning":                     {".cccc.u", 80, 4, 16, ""},
		"trtllm-completion":                    {"cccu", 6, 3, 0, ""},
		"trtllm-chat":                          {".cccu", 12, 3, -1, ""},
	}
	files, err := filepath.Glob("testdata/streams/*.sse")
	if err != nil || len(files) != len(want) {
		t.Fatalf("%d streams, %v", len(files), err)
	}
	c, err := New(Options{BaseURL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".sse")
		w := want[name]
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// The n-th event comes by itself, at n seconds.
		src := &pieces{left: strings.SplitAfter(string(text), "\n\n")}
		var ev events
		ev.reset(src, func() stamp { return stampAt(time.Duration(src.n) * time.Second) })
		r := profile.Request{OSL: w.output, ISL: w.prompt}
		x := exchange{link: c.open(0, false), r: &r, live: w.live != ""}
		if done := x.stream(&ev); !done {
			t.Errorf("%s: did not end with [DONE]: %s", name, r.Error)
		}
		judge(&r, 0)
		if !r.OK() || r.Finish != "length" || r.PromptTokens != w.prompt || r.OutputTokens != w.output || r.CachedTokens != w.cached || !r.UsageSeen {
			t.Errorf("%s: %q %s, finish %q, prompt %d, output %d, cached %d", name, r.Failure, r.Error, r.Finish, r.PromptTokens, r.OutputTokens, r.CachedTokens)
		}
		brings := cmp.Or(w.live, strings.ReplaceAll(w.events, "c", "x"))
		if !strings.Contains(brings, "x") {
			brings = brings[:len(brings)-1] + "x"
		}
		first, last := strings.Index(brings, "x")+1, strings.LastIndex(brings, "x")+1
		if r.First != time.Duration(first)*time.Second || r.Last != time.Duration(last)*time.Second || len(r.Chunks) != strings.Count(brings, "x") {
			t.Errorf("%s: %d chunks from %v to %v, want %q", name, len(r.Chunks), r.First, r.Last, brings)
		}
		if got := eventsOf(t, string(text)); got != w.events {
			t.Errorf("%s: %q, want %q", name, got, w.events)
		}
	}
}

// eventsOf says what each event of a stream holds.
func eventsOf(t *testing.T, text string) string {
	t.Helper()
	data, _, err := all(text)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, d := range data {
		if d == "[DONE]" {
			break
		}
		c, err := parseChunk([]byte(d))
		if err != nil {
			t.Fatalf("%s: %v", d, err)
		}
		switch {
		case c.content:
			b.WriteByte('c')
		case c.usage.seen:
			b.WriteByte('u')
		default:
			b.WriteByte('.')
		}
	}
	return b.String()
}

// The body that is posted has only fields which every one of the engines takes:
// TensorRT-LLM refuses others (openai_protocol.py, extra="forbid").
func TestBodyHasKnownFields(t *testing.T) {
	for _, endpoint := range []Endpoint{Completions, Chat} {
		body := string(ask{endpoint: endpoint, model: "m", alphabet: alphabet{lo: 5, ids: 10, cost: 1}, osl: 3, stream: true}.body([]int{1, 2}))
		if endpoint == Chat {
			body = string(ask{endpoint: endpoint, model: "m", alphabet: alphabet{words: letters, cost: 1}, osl: 3, stream: true}.body([]int{1, 2}))
		}
		for name := range fieldsOf(t, body) {
			switch name {
			case "model", "prompt", "messages", "max_tokens", "min_tokens", "ignore_eos", "temperature", "stream", "stream_options":
			default:
				t.Errorf("%s: field %q", endpoint, name)
			}
		}
	}
}

func fieldsOf(t *testing.T, body string) map[string]json.RawMessage {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}
