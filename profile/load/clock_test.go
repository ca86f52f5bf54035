package load

import (
	"net/http"
	"runtime"
	"testing"
	"time"

	"plimsoll/engine/enginetest"

	"pgregory.net/rapid"
)

func stampAt(t time.Duration) stamp { return stamp{at: t, read: t} }

func TestArrival(t *testing.T) {
	const now, low = 100 * time.Millisecond, 90 * time.Millisecond
	for name, c := range map[string]struct{ age, want time.Duration }{
		"as the kernel says":              {3 * time.Millisecond, 97 * time.Millisecond},
		"at once":                         {0, now},
		"a little after now":              {-50 * time.Microsecond, now},
		"a little before its bound":       {10*time.Millisecond + 50*time.Microsecond, low},
		"after a step back by an hour":    {-time.Hour, now},
		"after a step forward by an hour": {time.Hour, now},
		"after a step forward of 20 ms":   {23 * time.Millisecond, now},
	} {
		if got := arrival(now, low, c.age); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Fault 7: the wall clock. Whatever steps it makes, instants stay between what
// went before and the read, never fall, and one that no step was near is exact.
func TestFault07WallClock(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		var now, last time.Duration
		var wall int64 = 1e18 // at the instant 0
		for range rapid.IntRange(1, 50).Draw(t, "reads") {
			came := now + time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "gap"))
			stamped := wall + int64(came)
			step := rapid.SampledFrom([]int64{0, 0, 0, 1e3, -1e6, 1e8, -1e9, 3.6e12, -3.6e12}).Draw(t, "step")
			wall += step
			now = came + time.Duration(rapid.Int64Range(0, 1e8).Draw(t, "lag"))
			at := arrival(now, last, time.Duration(wall+int64(now)-stamped))
			if at < last || at > now {
				t.Fatalf("%v is not within %v and %v", at, last, now)
			}
			if step == 0 && at != came {
				t.Fatalf("%v, want %v", at, came)
			}
			last = at
		}
	})
}

// The same over a socket: the wall clock is stepped by an hour in the middle of
// streams, and the gaps stay those that the server made.
func TestFault07WallClockSteppedInAStream(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		f := &fake{pace: 5 * time.Millisecond}
		c := client(t, Options{BaseURL: f.start(t).URL})
		stepped := time.Now().Add(60 * time.Millisecond)
		c.clock.wall = func(t time.Time) int64 {
			if t.After(stepped) {
				t = t.Add(step)
			}
			return t.UnixNano()
		}
		began := time.Now()
		w := closed(2, 2)
		w.OSL = 30
		rs := measure(t, c, w)
		for _, r := range rs {
			if ordered(t, r); !r.OK() || r.E2E() > time.Since(began) || r.E2E() < 29*4*time.Millisecond {
				t.Errorf("a step by %v: %s, E2E %v", step, r.Error, r.E2E())
			}
		}
	}
}

// Both instants are kept where the kernel tells the first. A busy machine may put all of an
// answer beyond what is plausible, but not one answer after the other.
func TestChunksHaveBothInstants(t *testing.T) {
	stamped := 0
	for try := 0; try < 5 && stamped == 0; try++ {
		stamped = stampedChunks(t)
	}
	if runtime.GOOS == "linux" && stamped == 0 {
		t.Error("the kernel's stamp is on no chunk")
	}
}

// stampedChunks is how many of an answer's chunks have the kernel's instant too.
func stampedChunks(t *testing.T) (stamped int) {
	t.Helper()
	r := one(t, answer(func(w http.ResponseWriter, _ *http.Request, _ query) {
		begin(w)
		for range 8 {
			send(w, token)
			time.Sleep(time.Millisecond)
		}
		end(w)
	}), Options{})
	last := time.Duration(0)
	for _, c := range r.Chunks {
		if c.At < last || c.Read != 0 && c.Read < c.At {
			t.Errorf("%+v after %v", c, last)
		}
		if last = c.At; c.Read != 0 {
			stamped++
		}
	}
	if got := r.Chunks[0]; r.First != got.At {
		t.Errorf("first content at %v, first chunk %+v", r.First, got)
	}
	return stamped
}
