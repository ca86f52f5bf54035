package fleet

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/sim"
)

// clerks serve one request at a time, a second for each prompt token.
func clerks(t interface{ Fatal(...any) }, replicas, most int, done func(Outcome)) *Fleet {
	f, err := New(Config{MaxInFlight: most, Done: done, Pools: []Pool{{
		Engine:   sim.Config{Limits: engine.Limits{MaxNumSeqs: 1, BlockSize: 16}, KVBlocks: 100},
		Timer:    perToken(),
		Replicas: replicas,
		Router:   LeastLoaded,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// until offers requests at an even pace until one is refused.
func until(t *testing.T, f *Fleet, every engine.Picoseconds, n int) *OverloadError {
	t.Helper()
	for i := range n {
		err := f.Offer(Request{At: engine.Picoseconds(i) * every, ISL: 1, OSL: 1})
		var over *OverloadError
		switch {
		case errors.As(err, &over):
			return over
		case err != nil:
			t.Fatal(err)
		}
	}
	return nil
}

func TestOverload(t *testing.T) {
	const second = engine.Second
	for _, c := range []struct {
		name           string
		replicas, most int
		every          engine.Picoseconds
		refused        bool
		offered        float64 // per second
		served         float64
		says           string
	}{
		{"twice what it can", 3, 1000, second / 6, true, 6, 3, "it holds 1000 requests, of which 997 wait; since 2m45"},
		{"a little more than it can", 1, 50, second * 10 / 11, true, 1.1, 1, "1.1/s were offered and"},
		{"what it can", 3, 4, second * 11 / 30, false, 0, 0, ""},
		{"no bound", 1, 0, second / 10, false, 0, 0, ""},
		{"all at once", 2, 10, 0, true, 0, 0, "at 0s it holds 10 requests, of which 10 wait; they came all at once"},
		{"nobody serves", 0, 10, second, true, 1, 0, "of which 10 wait; since 5s 1/s were offered and 0/s served"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := clerks(t, c.replicas, c.most, nil)
			err := until(t, f, c.every, 5000)
			if (err != nil) != c.refused {
				t.Fatalf("refused: %v, want %v", err, c.refused)
			}
			if err == nil {
				return
			}
			if err.InFlight != c.most || f.flights.n != c.most {
				t.Errorf("%d in flight, the fleet has %d, want %d", err.InFlight, f.flights.n, c.most)
			}
			if math.Abs(err.OfferedPerSecond()-c.offered) > 0.05*c.offered || math.Abs(err.ServedPerSecond()-c.served) > 0.05*c.served {
				t.Errorf("offered %v/s, served %v/s, want %v and %v", err.OfferedPerSecond(), err.ServedPerSecond(), c.offered, c.served)
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q lacks %q", err, c.says)
			}
		})
	}
	if _, err := New(Config{MaxInFlight: -1}); err == nil || !strings.Contains(err.Error(), "at most -1 requests in flight: want 0 (no bound) or more") {
		t.Errorf("a negative bound: %v", err)
	}
}

// Whatever comes, a request is refused exactly where the bound is reached, the
// error counts what came and left since half of it was, and a refused request
// leaves the fleet as it was.
func TestOverloadLaws(t *testing.T) {
	refused := 0
	enginetest.Check(t, func(t *rapid.T) {
		most, left := rapid.IntRange(1, 20).Draw(t, "most"), 0
		f := clerks(t, rapid.IntRange(1, 3).Draw(t, "replicas"), most, func(Outcome) { left++ })
		var at, since engine.Picoseconds
		came, cameThen, leftThen := 0, 0, 0
		for range rapid.IntRange(1, 200).Draw(t, "requests") {
			at += engine.Picoseconds(rapid.IntRange(0, 700).Draw(t, "gap ms")) * engine.Millisecond
			if err := f.Advance(at); err != nil {
				t.Fatal(err)
			}
			n := f.flights.n
			if n == most/2 {
				since, cameThen, leftThen = at, came, left
			}
			err := f.Offer(Request{At: at, ISL: rapid.IntRange(1, 3).Draw(t, "isl"), OSL: 1})
			if n < most {
				if err != nil {
					t.Fatalf("%d of %d in flight: %v", n, most, err)
				}
				came++
				continue
			}
			refused++
			var over *OverloadError
			if !errors.As(err, &over) {
				t.Fatalf("%d of %d in flight: %v", n, most, err)
			}
			if over.InFlight != n || over.Waiting > n || over.Since != since || over.At != at {
				t.Errorf("%+v: want %d in flight since %v at %v", over, n, since, at)
			}
			if over.Offered != int64(came-cameThen) || over.Served != int64(left-leftThen) {
				t.Errorf("%+v: want %d offered and %d served", over, came-cameThen, left-leftThen)
			}
			if f.flights.n != n {
				t.Errorf("%d in flight after a refusal, %d before", f.flights.n, n)
			}
		}
		if err := f.Finish(Forever); err != nil {
			t.Fatal(err)
		}
		if r := f.Report(); r.Offered != int64(came) || r.Finished != int64(came) {
			t.Errorf("%d offered and %d finished of %d that were let in", r.Offered, r.Finished, came)
		}
	})
	if refused == 0 {
		t.Error("nothing was ever refused")
	}
}
