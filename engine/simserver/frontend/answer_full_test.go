//go:build full

package frontend

import (
	"net/http"
	"strings"
	"testing"

	"plimsoll/engine"
)

func chatAsk(stream string) string {
	return `{"model":"test/model","messages":[{"role":"user","content":"one two three"}],"max_tokens":12,"ignore_eos":true` + stream + `}`
}

// What a client gets is the same, whether one worker answers or two do: text,
// usage, finish reason, one id.
func TestSameAnswerFromOneWorkerOrTwo(t *testing.T) {
	one := serve(t, Options{}, engineAt(t, "a", engine.RoleAggregated, quick))
	two := serve(t, Options{}, engineAt(t, "p", engine.RolePrefill, quick), engineAt(t, "d", engine.RoleDecode, quick))
	const withUsage = `,"stream":true,"stream_options":{"include_usage":true}`
	for _, c := range []struct{ name, path, body string }{
		{"whole", "/v1/completions", ask("one two three", 12, false)},
		{"stream", "/v1/completions", ask("one two three", 12, true)},
		{"chat", "/v1/chat/completions", chatAsk("")},
		{"chat stream", "/v1/chat/completions", chatAsk(withUsage)},
		{"stream without usage", "/v1/chat/completions", chatAsk(`,"stream":true`)},
		{"one token", "/v1/completions", ask("one two three", 1, false)},
		{"one token, streamed", "/v1/completions", ask("one two three", 1, true)},
		{"max_completion_tokens", "/v1/chat/completions", `{"messages":[{"role":"user","content":"b"}],"max_completion_tokens":5,"ignore_eos":true}`},
		{"until it ends", "/v1/completions", `{"prompt":"x y","max_tokens":3000}`},
		{"min_tokens", "/v1/completions", `{"prompt":"x y","max_tokens":40,"min_tokens":30}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := one.post(t.Context(), c.path, c.body), two.post(t.Context(), c.path, c.body)
			if a.status != http.StatusOK || b.status != http.StatusOK || a.err != nil || b.err != nil {
				t.Fatalf("status %d and %d: %v, %v\n%s\n%s", a.status, b.status, a.err, b.err, a.body, b.body)
			}
			x, y := read(t, a.body), read(t, b.body)
			if len(x.ids) != 1 || len(y.ids) != 1 {
				t.Errorf("ids %v and %v, want one each", x.ids, y.ids)
			}
			x.ids, y.ids = nil, nil
			if x.text != y.text || x.usages != y.usages || x.isl != y.isl || x.osl != y.osl || x.finish != y.finish || x.done != y.done {
				t.Errorf("from one worker\n%+v\nfrom two\n%+v", x, y)
			}
			if x.text == "" || strings.Contains(c.body, "include_usage\":true") != (x.usages == 1 && strings.HasPrefix(a.body, "data:")) {
				t.Errorf("%+v", x)
			}
			for _, h := range []http.Header{a.header, b.header} {
				if got := h.Get("X-Plimsoll-Provenance"); got != "simulated" {
					t.Errorf("provenance %q", got)
				}
			}
			if at, bt := a.header.Get("Content-Type"), b.header.Get("Content-Type"); at != bt {
				t.Errorf("content types %q and %q", at, bt)
			}
			if strings.Contains(b.body, "kv_transfer_params") {
				t.Errorf("the client sees how workers hand over: %s", b.body)
			}
		})
	}
}
