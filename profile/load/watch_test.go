package load

import (
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/profile"
)

// steady makes n streams of chunks every gap, read lag(i) after they came; lag
// nil: the kernel does not tell.
func steady(n, chunks int, gap time.Duration, lag func(i int) time.Duration) []profile.Request {
	rs := make([]profile.Request, n)
	for s := range rs {
		r := profile.Request{Index: s, OSL: chunks, OutputTokens: chunks, Due: 1, Sent: time.Millisecond}
		for i := range chunks {
			c := profile.Chunk{At: 10*time.Millisecond + time.Duration(i)*gap}
			if lag != nil {
				c.Read = c.At + lag(i)
			}
			r.Chunks = append(r.Chunks, c)
		}
		r.First, r.Last = r.Chunks[0].At, r.Chunks[chunks-1].At
		r.End = r.Last
		rs[s] = r
	}
	return rs
}

// together has every so many-th chunk come with the one before.
func together(rs []profile.Request, every int) []profile.Request {
	for _, r := range rs {
		for i := every; i < len(r.Chunks); i += every {
			r.Chunks[i-1] = r.Chunks[i]
		}
	}
	return rs
}

func TestBottleneck(t *testing.T) {
	const ms = time.Millisecond
	idle := effort{elapsed: 10 * time.Second, cpu: 2 * time.Second, cores: 2}
	always := func(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }
	rising := func(i int) time.Duration { return time.Duration(i) * ms / 2 }
	for name, c := range map[string]struct {
		rs     []profile.Request
		change func(e *effort)
		want   string // empty: client ok
	}{
		"idle":                           {steady(10, 100, 20*ms, always(ms/10)), nil, ""},
		"lag below the gap":              {steady(10, 100, 20*ms, always(19*ms)), nil, ""},
		"lag above the gap":              {steady(10, 100, 20*ms, always(21*ms)), nil, "chunks at least 21ms late"},
		"one read for two, late":         {together(steady(10, 100, 20*ms, always(11*ms)), 9), nil, "read 11 % of chunks together with the one before, at least 10ms late"},
		"one read for two, at once":      {together(steady(10, 100, 20*ms, always(ms)), 2), nil, ""},
		"one read for two, seldom":       {together(steady(10, 100, 20*ms, always(11*ms)), 25), nil, ""},
		"lag of a fast engine":           {steady(10, 100, ms/10, always(ms/2)), nil, ""},
		"lag grows":                      {steady(10, 100, 20*ms, rising), nil, "its lag grew from"},
		"waits without stamps":           {steady(10, 100, 20*ms, nil), func(e *effort) { e.waited = 2 * ms }, "which latencies include"},
		"waits without stamps, slow":     {steady(10, 100, 100*ms, nil), func(e *effort) { e.waited = 2 * ms }, ""},
		"waits with stamps":              {steady(10, 100, 20*ms, always(ms/10)), func(e *effort) { e.waited = 2 * ms }, ""},
		"processor":                      {steady(10, 100, 20*ms, always(ms/10)), func(e *effort) { e.cpu = 17 * time.Second }, "85 % of its 2 cores"},
		"processor at the start":         {steady(10, 100, ms, always(ms/10)), func(e *effort) { e.elapsed, e.cpu = 100*ms, 190*ms }, ""},
		"one long pause":                 {steady(10, 100, 20*ms, nil), func(e *effort) { e.longest, e.stopped = 50*ms, 50*ms }, ""},
		"long pauses":                    {steady(10, 100, 20*ms, nil), func(e *effort) { e.longest, e.stopped = 50*ms, 500*ms }, "garbage collector stopped it for up to 50ms"},
		"nothing came":                   {make([]profile.Request, 3), nil, ""},
		"a single chunk each, all right": {steady(200, 1, ms, always(ms/10)), nil, ""},
		"a single chunk each, too late":  {steady(200, 1, ms, always(30*ms)), nil, "chunks at least 30ms late"},
	} {
		e := idle
		if c.change != nil {
			c.change(&e)
		}
		got := e.client(c.rs)
		if (got.Why == "") != (c.want == "") || !strings.Contains(got.Why, c.want) || got.OK() != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got.Why, c.want)
		}
	}
}

// starve keeps every core of this process busy until the test's end, by so many
// goroutines that each waits for the others.
func starve(t *testing.T) (stop func()) {
	t.Helper()
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 3 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for !done.Load() {
			}
		})
	}
	return func() { done.Store(true); wg.Wait() }
}

func TestWatchSeesWorkAndPauses(t *testing.T) {
	w := StartWatch()
	for began := time.Now(); time.Since(began) < 100*time.Millisecond; {
	}
	runtime.GC()
	e := w.effort()
	if e.cpu <= 0 && runtime.GOOS != "windows" || e.longest <= 0 || e.stopped < e.longest {
		t.Errorf("effort %+v", e)
	}
	if s := e.share(); s < 0 || s > 1.1 {
		t.Errorf("share %v", s)
	}
	off := debug.SetGCPercent(-1)
	defer debug.SetGCPercent(off)
	if e := StartWatch().effort(); e.longest != 0 || e.stopped != 0 {
		t.Errorf("pauses of before are counted: %+v", e)
	}
}

func TestHistogramQuantile(t *testing.T) {
	h := histogram{counts: []uint64{0, 98, 1, 1}, bounds: []float64{0, 1, 2, 3, 4}}
	for q, want := range map[float64]time.Duration{0.5: 2 * time.Second, 0.98: 2 * time.Second, 0.99: 3 * time.Second, 1: 4 * time.Second} {
		if got := h.quantile(q); got != want {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	if got := (histogram{}).quantile(0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	if got := h.total(); got != 203*time.Second {
		t.Errorf("total %v", got)
	}
}

// Fault 15: the start is not simultaneous. The skew is reported, also where
// nothing but the client makes it.
func TestFault15StartSkew(t *testing.T) {
	late := steady(32, 20, 5*time.Millisecond, nil)
	late[31].Sent += 40 * time.Millisecond
	if self := StartWatch().Client(late); self.StartSkew != 40*time.Millisecond {
		t.Errorf("start skew %v, want 40ms", self.StartSkew)
	}
	f := &fake{pace: time.Millisecond}
	c := client(t, Options{BaseURL: f.start(t).URL})
	stop := starve(t)
	rs, self, err := c.Measure(t.Context(), closed(32, 32))
	stop()
	if err != nil {
		t.Fatal(err)
	}
	first, last := rs[0].Sent, rs[0].Sent
	for _, r := range rs {
		first, last = min(first, r.Sent), max(last, r.Sent)
	}
	if self.StartSkew != last-first || self.StartSkew <= 0 {
		t.Errorf("start skew %v, the records say %v", self.StartSkew, last-first)
	}
}
