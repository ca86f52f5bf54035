package observe

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
)

// truth is one worker as it is, and what of it was seen.
type truth struct {
	endpoint       Endpoint
	began          float64
	finished, seen float64 // by the process that runs, in all and at the last look
	running        float64
	listed, looked bool
}

// Whatever workers do between looks, the finished requests are those that a look
// saw, each once: of a process that is new all, of one that was there before what
// came since.
func TestFleetCountsEachRequestOnce(t *testing.T) {
	enginetest.Check(t, func(r *rapid.T) {
		var f fleet
		workers := make([]*truth, 4)
		for i := range workers {
			workers[i] = &truth{endpoint: Endpoint{engine.RoleAggregated, fmt.Sprint(i)}, began: 1, listed: true, finished: float64(100 * i)}
		}
		want, clock := 0.0, 1.0
		look := func(first bool) {
			var looks []glance
			for _, w := range workers {
				if !w.listed {
					continue
				}
				if !first || w.looked {
					want += w.finished - w.seen
				}
				w.seen, w.looked = w.finished, true
				looks = append(looks, glance{endpoint: w.endpoint, reading: w.reading()})
			}
			f.looked(looks)
		}
		workers[3].listed = false
		workers[3].finished = 0
		look(true)
		for range rapid.IntRange(1, 30).Draw(r, "events") {
			w := workers[rapid.IntRange(0, 3).Draw(r, "worker")]
			switch rapid.IntRange(0, 4).Draw(r, "event") {
			case 0, 1:
				w.finished += float64(rapid.IntRange(0, 300).Draw(r, "requests"))
				w.running = float64(rapid.IntRange(0, 9).Draw(r, "running"))
			case 2: // another process in its place
				clock++
				w.began, w.finished, w.seen = clock, float64(rapid.IntRange(0, 300).Draw(r, "of a new process")), 0
			case 3:
				w.listed = !w.listed
			case 4:
				look(false)
			}
		}
		look(false)
		listed := false
		for _, w := range workers {
			listed = listed || w.listed
		}
		got := f.interval(replicas{}).finished
		if !listed && !got.given {
			return
		}
		if !got.given || got.v != want {
			r.Fatalf("finished %+v, want %v", got, want)
		}
	})
}

func (w *truth) reading() reading {
	return reading{began: w.began, running: w.running, counters: map[counterKey]float64{
		{what: "finished"}: w.finished, {what: arrived}: w.finished + w.running,
	}}
}

// A look that fails costs the interval that it ends, and no other if the ones
// around it did not.
func TestOneLookThatFails(t *testing.T) {
	var f fleet
	w := &truth{endpoint: Endpoint{engine.RoleAggregated, "a"}, began: 1}
	look := func(err error) {
		w.finished++
		f.looked([]glance{{endpoint: w.endpoint, reading: w.reading(), err: err}})
	}
	interval := func() number {
		n := f.interval(replicas{}).finished
		f.next()
		return n
	}
	down := errors.New("down")
	for range 20 {
		look(nil)
	}
	if n := interval(); !n.given || n.v != 19 {
		t.Errorf("at first %+v", n)
	}
	for range 10 {
		look(nil)
	}
	look(down) // in the middle: what it counted is seen later
	for range 9 {
		look(nil)
	}
	if n := interval(); !n.given || n.v != 20 {
		t.Errorf("with one that failed in the middle %+v", n)
	}
	for range 19 {
		look(nil)
	}
	look(down) // at the end: too low
	if n := interval(); n.given {
		t.Errorf("with one that failed at the end %+v", n)
	}
	for range 20 {
		look(nil)
	}
	if n := interval(); !n.given || n.v != 21 { // one of twenty looks is from before
		t.Errorf("after it %+v", n)
	}
}

// A process that ends while it is not seen takes with it what it counted since the last
// look: that is no load that fell.
func TestRestartWhileAway(t *testing.T) {
	for name, c := range map[string]struct {
		away  int
		known bool
	}{"seen all the time": {0, true}, "away for one look of twenty": {1, true}, "away for eight": {8, false}} {
		var f fleet
		w := &truth{endpoint: Endpoint{engine.RoleAggregated, "a"}, began: 1}
		look := func(err error) {
			w.finished += 10
			f.looked([]glance{{endpoint: w.endpoint, reading: w.reading(), err: err}})
		}
		for range 20 {
			look(nil)
		}
		f.next()
		for range 5 {
			look(nil)
		}
		for range c.away {
			look(errors.New("down"))
		}
		w.began, w.finished = 2, 0
		for range 15 - c.away {
			look(nil)
		}
		if n := f.interval(replicas{}).finished; n.given != c.known {
			t.Errorf("%s: %+v", name, n)
		}
		f.next()
		for range 20 {
			look(nil)
		}
		if n := f.interval(replicas{}).finished; !n.given || n.v != 200 {
			t.Errorf("%s, in the next interval: %+v", name, n)
		}
	}
}
