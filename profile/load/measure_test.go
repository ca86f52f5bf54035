package load

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"plimsoll/profile"
)

func client(t testing.TB, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func closed(n, inFlight int) profile.Workload {
	return profile.Workload{
		ISL: 32, OSL: 8, Requests: n, InFlight: inFlight,
		Seed: 1, Timeout: 20 * time.Second,
	}
}

// spaced is an open loop of n requests.
func spaced(n int, gap time.Duration) profile.Script {
	s := profile.Script{Seed: 7, Timeout: 20 * time.Second}
	for i := range n {
		s.Asks = append(s.Asks, profile.Ask{Due: time.Duration(i) * gap, ISL: 32, OSL: 4})
	}
	return s
}

func measure(t testing.TB, c *Client, w profile.Workload) []profile.Request {
	t.Helper()
	rs, _, err := c.Measure(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	if len(rs) != w.Requests {
		t.Fatalf("%d records of %d requests", len(rs), w.Requests)
	}
	return rs
}

// ordered checks what holds of every record, failed or not.
func ordered(t testing.TB, r profile.Request) {
	t.Helper()
	last := time.Duration(0)
	for _, at := range []time.Duration{r.Due, r.Sent, r.Header, r.First, r.Last, r.End} {
		if at != 0 && at < last {
			t.Errorf("request %d: instants out of order: %+v", r.Index, r)
			return
		}
		last = max(last, at)
	}
	for i, c := range r.Chunks {
		if c.At < r.First || c.At > r.Last || i > 0 && c.At < r.Chunks[i-1].At {
			t.Errorf("request %d: chunk %d at %v is out of order", r.Index, i, c.At)
		}
	}
	if (r.Failure == "") != (r.Error == "") {
		t.Errorf("request %d: failure %q with error %q", r.Index, r.Failure, r.Error)
	}
}

func TestMeasureClosedLoop(t *testing.T) {
	var now, most, want atomic.Int64
	f := &fake{pace: time.Millisecond}
	f.handle = func(w http.ResponseWriter, r *http.Request, q query) bool {
		if !q.Stream {
			return false
		}
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		for late := time.Now().Add(5 * time.Second); most.Load() < want.Load() && time.Now().Before(late); {
			time.Sleep(time.Millisecond) // none ends before all have come, however slow the machine
		}
		f.stream(w, r, q)
		return true
	}
	for _, c := range []struct{ n, inFlight int }{{1, 1}, {12, 1}, {30, 5}, {3, 8}} {
		most.Store(0)
		want.Store(int64(min(c.n, c.inFlight)))
		rs := measure(t, client(t, Options{BaseURL: f.start(t).URL}), closed(c.n, c.inFlight))
		for i, r := range rs {
			ordered(t, r)
			if !r.OK() || r.Index != i || len(r.Chunks) != 8 || r.OutputTokens != 8 || r.PromptTokens != 32 ||
				r.CachedTokens != 3 || !r.UsageSeen || r.Finish != "length" || r.Status != 200 || r.First == 0 || r.Due == 0 {
				t.Errorf("record %+v", r)
			}
		}
		if most.Load() != want.Load() {
			t.Errorf("%d requests were in flight at most, want %d", most.Load(), want.Load())
		}
	}
}

// In a closed loop every request is due when one before it ended, so that
// Sent − Due is the client's own delay.
func TestClosedLoopRequestsAreDueWhenAnotherEnded(t *testing.T) {
	f := &fake{pace: time.Millisecond}
	rs := measure(t, client(t, Options{BaseURL: f.start(t).URL}), closed(12, 3))
	var ends []time.Duration
	for _, r := range rs {
		ends = append(ends, r.End)
	}
	for _, r := range rs {
		if r.Index < 3 && r.Due != rs[0].Due || r.Index >= 3 && !slices.Contains(ends, r.Due) {
			t.Errorf("request %d was due at %v; ends are %v", r.Index, r.Due, ends)
		}
	}
}

// Fault 4: coordinated omission. A server that stops answering must not stop
// the schedule, and the wait counts from when a request was due.
func TestFault04CoordinatedOmission(t *testing.T) {
	release := make(chan struct{})
	var seen atomic.Int64
	f := &fake{}
	f.handle = func(_ http.ResponseWriter, r *http.Request, q query) bool {
		if q.Stream && seen.Add(1) == 20 {
			close(release)
		}
		if q.Stream {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		return false
	}
	s := spaced(20, 2*time.Millisecond)
	last := s.Asks[19].Due
	for i, r := range play(t, client(t, Options{BaseURL: f.start(t).URL}), s, nil) {
		if !r.OK() {
			t.Errorf("request %d: %s", i, r.Error)
		}
		if want := s.Asks[i].Due + lead; r.Due != want {
			t.Errorf("request %d was due at %v, want %v", i, r.Due, want)
		}
		if r.First < last || r.TTFTFromDue() < last-s.Asks[i].Due {
			t.Errorf("request %d has TTFT %v from due %v, yet nothing was answered before %v", i, r.TTFTFromDue(), r.Due, last)
		}
	}
}

// Fault 8: limits of connection pools. Fault 15: starts that are not at once.
func TestThreeHundredStreamsAtOnce(t *testing.T) {
	const n = 300
	var arrived atomic.Int64
	everyone := make(chan struct{})
	f := &fake{}
	f.handle = func(_ http.ResponseWriter, r *http.Request, q query) bool {
		if !q.Stream {
			return false
		}
		if arrived.Add(1) == n {
			close(everyone)
		}
		select {
		case <-everyone: // nobody is answered before all have come
		case <-r.Context().Done():
		}
		return false
	}
	w := closed(n, n)
	w.Timeout = time.Minute
	rs := measure(t, client(t, Options{BaseURL: f.start(t).URL}), w)
	for _, r := range rs {
		ordered(t, r)
		if !r.OK() || r.Due != rs[0].Due {
			t.Fatalf("record %+v", r)
		}
	}
	var sent []time.Duration
	for _, r := range rs {
		sent = append(sent, r.Sent)
	}
	q := Assess(rs)
	if want := slices.Max(sent) - slices.Min(sent); q.StartSkew != want {
		t.Errorf("start skew %v, want %v", q.StartSkew, want)
	}
	t.Logf("start skew of %d streams: %v, lateness p99 %v", n, q.StartSkew, q.LateP99)
}

// Fault 7: wall clocks. Instants are small, positive, and rise from the base.
func TestInstantsAreMonotonicSinceABase(t *testing.T) {
	f := &fake{}
	c := client(t, Options{BaseURL: f.start(t).URL})
	for range 2 { // also in a second call on the same client
		began := time.Now()
		rs := measure(t, c, closed(4, 2))
		took := time.Since(began) + lead
		for _, r := range rs {
			ordered(t, r)
			if r.Due != lead && r.Index < 2 || r.End > took {
				t.Errorf("request %d: due %v, end %v, in a call of %v", r.Index, r.Due, r.End, took)
			}
		}
	}
}

func TestCancelReturnsAtOnceWithWhatIsKnown(t *testing.T) {
	type sent func(c *Client, ctx context.Context) ([]profile.Request, profile.Client, error)
	for _, send := range []sent{
		func(c *Client, ctx context.Context) ([]profile.Request, profile.Client, error) {
			return c.Measure(ctx, closed(6, 2))
		},
		func(c *Client, ctx context.Context) ([]profile.Request, profile.Client, error) {
			return c.Play(ctx, spaced(6, time.Second/2), nil)
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		f := &fake{handle: func(_ http.ResponseWriter, r *http.Request, q query) bool {
			if q.n < 4 { // three to learn, one to succeed
				return false
			}
			if q.n == 5 { // the one before hangs
				cancel()
			}
			<-r.Context().Done()
			return true
		}}
		s := f.start(t)
		began := time.Now()
		rs, _, err := send(client(t, Options{BaseURL: s.URL}), ctx)
		if took := time.Since(began); err != nil || len(rs) != 6 || took > 10*time.Second {
			t.Fatalf("%d records, %v after %v", len(rs), err, took)
		}
		counts := map[bool]int{}
		for _, r := range rs {
			ordered(t, r)
			counts[r.OK()]++
			if !r.OK() && r.Failure != profile.FailCanceled {
				t.Errorf("request %d: %s: %s", r.Index, r.Failure, r.Error)
			}
		}
		if counts[true] != 1 || counts[false] != 5 {
			t.Errorf("%d done and %d not, want 1 and 5", counts[true], counts[false])
		}
		s.Close()
		goleak.VerifyNone(t, goleak.IgnoreCurrent())
	}
}

func TestMeasureUnderAnEndedContextIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := &fake{}
	if rs, _, err := client(t, Options{BaseURL: f.start(t).URL}).Measure(ctx, closed(1, 1)); err == nil || rs != nil {
		t.Errorf("got %v, %v; want an error", rs, err)
	}
}

func TestOnDoneIsCalledOnceForEachRequestThatEnded(t *testing.T) {
	var got []int
	f := &fake{}
	c := client(t, Options{BaseURL: f.start(t).URL, OnDone: func(r profile.Request) {
		if r.End == 0 || !r.OK() {
			t.Errorf("unfinished record %+v", r)
		}
		got = append(got, r.Index)
	}})
	measure(t, c, closed(20, 4))
	slices.Sort(got)
	if len(got) != 20 || len(slices.Compact(got)) != 20 {
		t.Errorf("called for %v", got)
	}
}

// A caller stops a measurement that fails too often through OnDone.
func TestOnDoneMayStopTheMeasurement(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	failed := 0
	f := &fake{handle: func(w http.ResponseWriter, _ *http.Request, q query) bool {
		if q.Stream {
			fail(w, 500, "no")
		}
		return q.Stream
	}}
	c := client(t, Options{BaseURL: f.start(t).URL, OnDone: func(r profile.Request) {
		if failed++; failed == 3 {
			cancel()
		}
	}})
	rs, _, err := c.Play(ctx, spaced(500, 20*time.Millisecond), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(f.streams()); n >= 500 || len(rs) != 500 {
		t.Errorf("%d of %d requests were sent", n, len(rs))
	}
}

// A request that waits because as many as are allowed are in flight is not late: the
// next one that is free to go, and goes 3 ms later, is.
func TestWaitingForAPlaceIsNotLate(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	rs := []profile.Request{
		{Due: ms(1), Sent: ms(1), End: ms(100)},
		{Due: ms(2), Sent: ms(100), End: ms(200)},
		{Due: ms(3), Sent: ms(200), End: ms(300)},
		{Due: ms(400), Sent: ms(403), End: ms(500)},
	}
	var late []time.Duration
	for _, r := range Freed(rs, 1) {
		late = append(late, r.Sent-r.Due)
	}
	if want := []time.Duration{0, 0, 0, ms(3)}; !slices.Equal(late, want) {
		t.Errorf("late by %v, want %v", late, want)
	}
	// All were due at once, and are sent one at a time: before the fix the first that waited
	// counted as late by all that it waited.
	once := []profile.Request{{Due: ms(1), Sent: ms(1), End: ms(100)}, {Due: ms(1), Sent: ms(101), End: ms(200)}, {Due: ms(1), Sent: ms(200), End: ms(300)}}
	for i, r := range Freed(once, 1) {
		if late := r.Sent - r.Due; late > ms(1) {
			t.Errorf("request %d of those due at once is %v late", i, late)
		}
	}
	if got := Freed(rs, 0); got[1].Due != ms(2) {
		t.Errorf("without a limit a request due at 2 ms counts as due at %v", got[1].Due)
	}
}

func TestAssess(t *testing.T) {
	at := func(ms ...int) (cs []profile.Chunk) {
		for _, m := range ms {
			cs = append(cs, profile.Chunk{At: time.Duration(m) * time.Millisecond})
		}
		return cs
	}
	q := Assess([]profile.Request{
		{Due: 1e6, Sent: 2e6, Chunks: at(5, 5, 6), OutputTokens: 6},
		{Due: 1e6, Sent: 4e6, Chunks: at(5), OutputTokens: 2},
		{Due: 9e6, Sent: 10e6, Failure: profile.FailShort, Chunks: at(11, 11), OutputTokens: 99},
		{Failure: profile.FailCanceled},
	})
	want := Quality{StartSkew: 2e6, LateP99: 2960000, Coalesced: 0.5}
	if q != want {
		t.Errorf("got %+v, want %+v", q, want)
	}
	for _, code := range []string{"coalesced"} {
		if !hasWarning(q.Warnings(), code) {
			t.Errorf("no warning %s among %v", code, q.Warnings())
		}
	}
	if q := Assess(nil); q != (Quality{}) || q.Warnings() != nil {
		t.Errorf("nothing gives %+v", q)
	}
}

// What is timed beside the requests shares their base: a server's own instants
// fall between the record's sent and first ones.
func TestOnStartGivesTheBase(t *testing.T) {
	var arrived time.Time
	f := &fake{}
	srv := f.start(t)
	var bases []time.Time
	c := client(t, Options{BaseURL: srv.URL, Model: f.name(), TokenIDs: true, OnStart: func(b time.Time) { bases = append(bases, b) }, OnDone: func(profile.Request) { arrived = time.Now() }})
	for name, send := range map[string]func() profile.Request{
		"closed": func() profile.Request { return measure(t, c, closed(1, 1))[0] },
		"open":   func() profile.Request { return play(t, c, spaced(1, 0), nil)[0] },
	} {
		bases = nil
		before := time.Now()
		r := send()
		if len(bases) != 1 {
			t.Fatalf("%s: OnStart was called %d times", name, len(bases))
		}
		if bases[0].Add(r.Sent).Before(before) || bases[0].Add(r.End).After(arrived) {
			t.Errorf("%s: base %v does not fit: asked %v, sent +%v, ended +%v, reported %v", name, bases[0], before, r.Sent, r.End, arrived)
		}
	}
}
