package load

import (
	"net/http"
	"strings"
	"testing"
)

// Fault 6: tokenizing in the hot path. What prompts cost in tokens is found out,
// and every body written, before the first request is sent; what comes back is
// counted by the server, whatever the text would be in tokens.
func TestFault06NoTokenizingWhileMeasuring(t *testing.T) {
	long := strings.Repeat("many words in one chunk ", 4000)
	f := &fake{noIDs: true} // a server of text prompts: their tokens must be asked for
	f.handle = func(w http.ResponseWriter, _ *http.Request, q query) bool {
		if !q.Stream {
			return false
		}
		begin(w)
		for range 8 {
			send(w, `{"choices":[{"text":%q}]}`, long)
		}
		end(w)
		return true
	}
	c := client(t, Options{BaseURL: f.start(t).URL})
	w := closed(40, 4)
	m, err := c.prepare(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	m.link.close()
	for i, body := range m.bodies {
		if len(body) == 0 {
			t.Fatalf("body %d is not there before the first request is sent", i)
		}
	}
	if n := len(f.streams()); n != 0 {
		t.Errorf("%d requests were sent by preparing", n)
	}
	for _, r := range measure(t, c, w) {
		if !r.OK() || r.OutputTokens != 8 || !r.UsageSeen {
			t.Errorf("record %+v", r.Error)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	streaming, asked := false, 0
	for _, q := range f.queries {
		if streaming = streaming || q.Stream; streaming && !q.Stream {
			asked++
		}
	}
	if asked > 0 {
		t.Errorf("%d prompts were counted while others streamed", asked)
	}
}
