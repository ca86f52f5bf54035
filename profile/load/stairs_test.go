package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/profile"
)

// climb begins stairs on a fake.
func climb(t *testing.T, f *fake, osl, most int) *Stairs {
	t.Helper()
	c := client(t, Options{BaseURL: f.start(t).URL, Model: "m", TokenIDs: true})
	if _, err := c.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := c.Climb(t.Context(), profile.Workload{ISL: 32, OSL: osl, InFlight: most, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func bring(t *testing.T, s *Stairs, n int) {
	t.Helper()
	if err := s.Bring(t.Context(), n, 1); err != nil {
		t.Fatalf("%d streams: %v", n, err)
	}
}

func window(t *testing.T, s *Stairs, tokens int) ([]profile.Request, profile.Window) {
	t.Helper()
	rs, w, err := s.Window(t.Context(), tokens)
	if err != nil {
		t.Fatal(err)
	}
	return rs, w
}

// Records are cut to their window, follow each other without a token lost or
// counted twice, and every prompt is new.
func TestStairsWindows(t *testing.T) {
	f := &fake{pace: time.Millisecond}
	s := climb(t, f, 4000, 5)
	probes := len(f.streams())
	bring(t, s, 3)
	first, w1 := window(t, s, 10)
	second, w2 := window(t, s, 10)
	if w2.From < w1.To || len(s.streams) != 3 || s.Streaming() != 3 {
		t.Errorf("windows %v and %v, %d streams of which %d stream", w1, w2, len(s.streams), s.Streaming())
	}
	for i, a := range first {
		b := second[i]
		if len(a.Chunks) < 10 || a.OutputTokens != a.Before+len(a.Chunks) || a.Chunks[0].At < w1.From || a.Last > w1.To || a.End != 0 || a.Failure != "" {
			t.Errorf("%+v in %v", a, w1)
		}
		if a.Before < 1 || b.Before < a.Before+len(a.Chunks) || a.First != b.First || a.Index != i {
			t.Errorf("%d tokens before the first window, %d in it, %d before the next", a.Before, len(a.Chunks), b.Before)
		}
	}
	bring(t, s, 1)
	bring(t, s, 5)
	rs, _ := window(t, s, 5)
	if got := []int{rs[0].Index, rs[1].Index, rs[4].Index}; len(rs) != 5 || got[0] != 0 || got[1] != 3 || got[2] != 6 {
		t.Errorf("%d streams, numbers %v", len(rs), got)
	}
	prompts := map[string]bool{}
	for _, q := range f.streams()[probes:] {
		if prompts[string(q.Prompt)] || len(q.ids) != 32 || q.MaxTok != 4000 || !q.Ignore || q.MinTok != 4000 {
			t.Errorf("a prompt of %d tokens, max_tokens %d, sent before: %v", len(q.ids), q.MaxTok, prompts[string(q.Prompt)])
		}
		prompts[string(q.Prompt)] = true
	}
	if len(prompts) != 7 {
		t.Errorf("%d prompts, want 7", len(prompts))
	}
}

// pairs streams two tokens in each chunk; where asked to, with a count.
func pairs(counts bool) *fake {
	return &fake{handle: func(w http.ResponseWriter, r *http.Request, q query) bool {
		begin(w)
		for n := 2; n <= q.MaxTok && r.Context().Err() == nil; n += 2 {
			time.Sleep(time.Millisecond)
			live := ""
			if counts && q.Options.Continuous {
				live = fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":%d}`, len(q.ids), n)
			}
			send(w, `{"choices":[{"text":"x y"}]%s}`, live)
		}
		end(w)
		return true
	}}
}

// Probe tells whether a stream that never ends can be counted.
func TestProbeLiveUsage(t *testing.T) {
	for name, tt := range map[string]struct {
		f    *fake
		want bool
	}{
		"none":    {&fake{}, false},
		"counts":  {pairs(true), true},
		"ignored": {pairs(false), false},
		"refused": {&fake{handle: func(w http.ResponseWriter, _ *http.Request, q query) bool {
			if q.Options.Continuous {
				fail(w, http.StatusBadRequest, "extra fields not permitted")
			}
			return q.Options.Continuous
		}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := client(t, Options{BaseURL: tt.f.start(t).URL, Model: "m", TokenIDs: true}).Probe(t.Context())
			if err != nil || p.LiveUsage != tt.want {
				t.Errorf("%v, %v; want %v", p.LiveUsage, err, tt.want)
			}
		})
	}
}

// A prompt of another length than was asked for is found at the first token.
func TestStairsFault05PromptLength(t *testing.T) {
	f := pairs(true)
	inner := f.handle
	f.handle = func(w http.ResponseWriter, r *http.Request, q query) bool {
		q.ids = append(q.ids, 1)
		return inner(w, r, q)
	}
	s := climb(t, f, 400, 2)
	if err := s.Bring(t.Context(), 2, 20); err == nil {
		_, _, err = s.Window(t.Context(), 20)
		if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "the server counts 33") {
			t.Error(err)
		}
	}
}

// Streams that have too few tokens left are refused before the window.
func TestStairsGrown(t *testing.T) {
	s := climb(t, &fake{pace: time.Millisecond}, 200, 2)
	bring(t, s, 2)
	window(t, s, 100)
	for _, n := range []int{1, 2} {
		if err := s.Bring(t.Context(), n, 100); !errors.Is(err, profile.ErrGrown) {
			t.Errorf("%d streams: %v", n, err)
		}
	}
	if _, _, err := s.Window(t.Context(), 100); !errors.Is(err, profile.ErrGrown) {
		t.Error(err)
	}
	for _, bad := range [][2]int{{0, 1}, {3, 1}, {1, 0}, {1, 200}} {
		if err := s.Bring(t.Context(), bad[0], bad[1]); err == nil || errors.Is(err, profile.ErrGrown) {
			t.Errorf("%d streams of %d tokens: %v", bad[0], bad[1], err)
		}
	}
}

// A window ends with its context, and says why that ended.
func TestStairsCanceled(t *testing.T) {
	s := climb(t, &fake{pace: time.Millisecond}, 100_000, 2)
	bring(t, s, 2)
	why := errors.New("somebody came")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
	if rs, w, err := s.Window(ctx, 50_000); !errors.Is(err, why) || len(rs) != 2 || w.Length() <= 0 {
		t.Errorf("%v, %d records in %v", err, len(rs), w)
	}
	if err := s.Bring(ctx, 1, 10); err != nil {
		t.Error(err) // nothing to wait for
	}
	window(t, s, 5)
}

func TestClimbRefuses(t *testing.T) {
	c := client(t, Options{BaseURL: "http://127.0.0.1:1", Model: "m", TokenIDs: true})
	for _, w := range []profile.Workload{{OSL: 1, InFlight: 1}, {ISL: 1, InFlight: 1}, {ISL: 1, OSL: 1}} {
		if _, err := c.Climb(t.Context(), w); err == nil {
			t.Errorf("%+v is taken", w)
		}
	}
	s, err := c.Climb(t.Context(), profile.Workload{ISL: 10, OSL: 100, InFlight: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Bring(t.Context(), 1, 10); !errors.Is(err, ErrUnreachable) {
		t.Errorf("nobody is there: %v", err)
	}
}

// A stream that the server refused is given with its status, and sent again.
func TestStairsRefused(t *testing.T) {
	var sent atomic.Int64
	f := &fake{pace: time.Millisecond}
	f.handle = func(w http.ResponseWriter, _ *http.Request, q query) bool {
		if !q.Stream || q.MaxTok < 4000 || sent.Add(1) != 3 {
			return false
		}
		fail(w, 503, "too much to do")
		return true
	}
	s := climb(t, f, 4000, 3)
	err := s.Bring(t.Context(), 3, 1)
	if got, ok := errors.AsType[*StreamError](err); !ok || !errors.Is(err, ErrBroken) || got.Request.Status != 503 {
		t.Errorf("got %v", err)
	}
	bring(t, s, 3)
}
