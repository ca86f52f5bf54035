//go:build full

package load

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
)

// Where the server tells tokens with each chunk, these count, not the chunks.
func TestStairsFault02ChunkIsNotToken(t *testing.T) {
	s := climb(t, pairs(true), 4000, 2)
	bring(t, s, 2)
	rs, _ := window(t, s, 20)
	for _, r := range rs {
		if r.OutputTokens-r.Before != 2*len(r.Chunks) || r.Before%2 != 0 || len(r.Chunks) < 9 || len(r.Chunks) > 40 {
			t.Errorf("%d tokens in %d chunks after %d", r.OutputTokens, len(r.Chunks), r.Before)
		}
		if !r.UsageSeen || r.PromptTokens != 32 {
			t.Errorf("%+v", r)
		}
	}
}

// What a server does wrong is an error that says so, soon, and the next Bring
// begins anew.
func TestStairsFaults(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(w http.ResponseWriter, r *http.Request, n int)
		is   error
		want string
	}{
		"refuses": {func(w http.ResponseWriter, _ *http.Request, _ int) {
			fail(w, http.StatusServiceUnavailable, "too much to do")
		}, ErrBroken, "too much to do"},
		"breaks off": {func(w http.ResponseWriter, _ *http.Request, n int) {
			begin(w)
			send(w, `{"choices":[{"text":"x"}]}`)
			if n%2 == 1 {
				time.Sleep(10 * time.Millisecond)
				return
			}
			time.Sleep(time.Second)
		}, ErrBroken, "malformed"},
		"falls silent": {func(w http.ResponseWriter, r *http.Request, _ int) {
			begin(w)
			send(w, `{"choices":[{"text":"x"}]}`)
			<-r.Context().Done()
		}, ErrBroken, "gave nothing for"},
		"answers one": {func(w http.ResponseWriter, r *http.Request, n int) {
			if n%2 == 0 {
				begin(w)
				send(w, `{"choices":[{"text":"x"}]}`)
			}
			<-r.Context().Done()
		}, ErrNotAll, "1 of 2"},
		"ends early": {func(w http.ResponseWriter, _ *http.Request, _ int) {
			begin(w)
			send(w, `{"choices":[{"text":"x","finish_reason":"stop"}]}`)
			end(w)
		}, profile.ErrGrown, "gave all"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, bad := 0, make(chan struct{})
			f := &fake{pace: time.Millisecond}
			f.handle = func(w http.ResponseWriter, r *http.Request, q query) bool {
				select {
				case <-bad:
				default:
					return false
				}
				if q.MaxTok != 400 {
					return false
				}
				f.mu.Lock()
				n++
				k := n
				f.mu.Unlock()
				tt.do(w, r, k-1)
				return true
			}
			s := climb(t, f, 400, 2)
			s.patience = 100 * time.Millisecond
			close(bad)
			err := s.Bring(t.Context(), 2, 20)
			if err == nil {
				_, _, err = s.Window(t.Context(), 20)
			}
			if !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %v with %q", err, tt.is, tt.want)
			}
		})
	}
}
