package frontend

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// pieces gives a text a few bytes at a time.
type pieces struct {
	text []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.text[:min(p.size, len(p.text))])
	p.text = p.text[n:]
	return n, nil
}

// relayText passes a worker's stream on, which comes in pieces of a size.
func relayText(t testing.TB, text string, size int, wantsUsage bool) (string, *meter, error) {
	t.Helper()
	f, err := New(Options{Namespace: "n"})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	c := &call{f: f, w: w, r: httptest.NewRequest(http.MethodPost, "/", nil), t: f.metrics.begin("m", "completions", true, time.Now())}
	c.q.StreamOptions.IncludeUsage = wantsUsage
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(&pieces{[]byte(text), size})}
	err = c.pass(answer{resp: resp, place: &place{member: &member{Worker: Worker{Name: "w"}}}})
	return w.Body.String(), c.t, err
}

const (
	oneToken  = `data: {"choices":[{"text":" a","finish_reason":null}]}` + "\n\n"
	roleChunk = `data: {"choices":[{"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	lastToken = `data: {"choices":[{"delta":{"content":" b"},"finish_reason":"stop"}]}` + "\n\n"
	usage     = `data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}` + "\n\n"
	finished  = "data: [DONE]\n\n"
)

func TestRelay(t *testing.T) {
	for _, c := range []struct {
		name, in, out string
		wantsUsage    bool
		tokens, osl   int
		fails         string
	}{
		{"usage asked for", roleChunk + oneToken + lastToken + usage + finished, roleChunk + oneToken + lastToken + usage + finished, true, 2, 2, ""},
		{"usage not asked for", oneToken + lastToken + usage + finished, oneToken + lastToken + finished, false, 2, 2, ""},
		{"usage with the last token stays", `data: {"choices":[{"text":"x","finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":9}}` + "\n\n", `data: {"choices":[{"text":"x","finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":9}}` + "\n\n", false, 1, 9, ""},
		{"no [DONE], but a finish reason", oneToken + lastToken, oneToken + lastToken, false, 2, 0, ""},
		{"neither", oneToken, oneToken, false, 1, 0, "neither a last event nor a finish reason"},
		{"nothing", "", "", false, 0, 0, "neither"},
		{"half an event at the end", oneToken + `data: {"choices`, oneToken + `data: {"choices`, false, 1, 0, "neither"},
		{"[DONE] without its empty line", oneToken + "data: [DONE]", oneToken + "data: [DONE]", false, 1, 0, ""},
		{"comments and other lines", ": ping\n\n" + oneToken + "event: x\ndata: 1\n\n" + finished, ": ping\n\n" + oneToken + "event: x\ndata: 1\n\n" + finished, false, 1, 0, ""},
		{"carriage returns", strings.ReplaceAll(oneToken+lastToken+usage+finished, "\n", "\r\n"), strings.ReplaceAll(oneToken+lastToken+finished, "\n", "\r\n"), false, 2, 2, ""},
		{"no JSON", "data: {]\n\n" + finished, "data: {]\n\n" + finished, false, 0, 0, ""},
		{"error event", oneToken + `data: {"error":{"message":"out of memory"}}` + "\n\n" + finished, oneToken + `data: {"error":{"message":"out of memory"}}` + "\n\n" + finished, false, 1, 0, "with an error"},
		{"reasoning and tools are tokens", `data: {"choices":[{"delta":{"reasoning_content":"x"}}]}` + "\n\n" + `data: {"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}` + "\n\n" + finished, `data: {"choices":[{"delta":{"reasoning_content":"x"}}]}` + "\n\n" + `data: {"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}` + "\n\n" + finished, false, 2, 0, ""},
	} {
		for _, size := range []int{1, 7, 1 << 20} {
			out, m, err := relayText(t, c.in, size, c.wantsUsage)
			if out != c.out || m.tokens != c.tokens || m.osl != c.osl {
				t.Errorf("%s, %d bytes at a time: %d tokens, usage %d, %q", c.name, size, m.tokens, m.osl, out)
			}
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v, want %q", c.name, err, c.fails)
			}
		}
	}
}

// An event longer than any buffer.
func TestRelayLongEvents(t *testing.T) {
	long := `data: {"choices":[{"text":"` + strings.Repeat("x", 300_000) + `"}]}` + "\n\n"
	if out, m, err := relayText(t, long+long+finished, 1000, false); err != nil || out != long+long+finished || m.tokens != 2 {
		t.Errorf("%d bytes, %d tokens, %v", len(out), m.tokens, err)
	}
}

// However a stream is cut, the client gets all of it but usage that it did not ask for.
func FuzzRelay(f *testing.F) {
	for _, s := range []string{oneToken + lastToken + usage + finished, "data: {]\n\n", "\n\n\n", "\r\n\r\n\n", usage, "data:" + usage, roleChunk + "x", `data: {"choices":[{"text":1}]}` + "\n\n"} {
		f.Add(s, uint8(3), true)
		f.Add(s, uint8(200), false)
	}
	f.Fuzz(func(t *testing.T, text string, size uint8, wantsUsage bool) {
		out, m, _ := relayText(t, text, int(size)+1, wantsUsage)
		whole, again, _ := relayText(t, text, len(text)+1, wantsUsage)
		if out != whole || m.tokens != again.tokens || m.osl != again.osl {
			t.Errorf("in pieces %q (%d tokens), whole %q (%d)", out, m.tokens, whole, again.tokens)
		}
		// Usage may be spelt with escapes and in capitals.
		mayDrop := !wantsUsage && (strings.Contains(strings.ToLower(text), "usage") || strings.ContainsAny(text, "\\ſ"))
		if !mayDrop && out != text {
			t.Errorf("%q became %q", text, out)
		}
	})
}

func TestPassedOnHeaders(t *testing.T) {
	h := http.Header{"Connection": {"X-Hop, close"}, "X-Hop": {"1"}, "Keep-Alive": {"5"}, "Authorization": {"Bearer k"}, "Content-Length": {"9"}, "X-Tenant": {"t"}, "Accept-Encoding": {"gzip"}}
	if got := passedOn(h); len(got) != 2 || got.Get("Authorization") != "Bearer k" || got.Get("X-Tenant") != "t" {
		t.Errorf("%v", got)
	}
}
