package frontend

import (
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/engine/simserver"
)

// Of prefill and decode apart the client gets all tokens from decode, the first of
// them after prefill, transfer and one decode step: when the fleet simulator says.
func TestFirstTokenComesWhenTheFleetSimulatorSays(t *testing.T) {
	const isl = 300 // two chunks
	timer := stepTimer{step: 20 * time.Millisecond, promptToken: 100 * time.Microsecond}
	records := make(chan simserver.Record, 2)
	p, d := engineOf(engine.RolePrefill, timer), engineOf(engine.RoleDecode, timer)
	p.Overhead, d.Transfer = 3*engine.Millisecond, func(tokens int) engine.Picoseconds { return engine.Picoseconds(tokens) * 50 * engine.Microsecond }
	p.Record, d.Record = func(r simserver.Record) { records <- r }, func(r simserver.Record) { records <- r }
	s := serve(t, Options{}, start(t, "p", p), start(t, "d", d))
	for _, osl := range []int{1, 2, 5} {
		want := fleetTTFT(t, p, d, isl, osl)
		a := s.post(t.Context(), "/v1/completions", ask(strings.Repeat("a ", isl), osl, true))
		if got := read(t, a.body); a.err != nil || len(strings.Fields(got.text)) != osl || got.isl != isl || got.osl != osl || got.finish != "length" {
			t.Errorf("%v: %+v, want %d tokens of a prompt of %d", a.err, got, osl, isl)
		}
		prompt, answer := <-records, <-records
		if prompt.Request.OutputTokens != 1 || answer.Request.OutputTokens != osl || answer.Request.PromptTokens != isl {
			t.Errorf("prefill computed %+v, decode %+v", prompt.Request, answer.Request)
		}
		// By the engines' own timelines, which no busy machine changes, but one that stands still.
		got := prompt.First - prompt.Arrived + answer.First - answer.Arrived
		if stood := prompt.Resyncs + answer.Resyncs; got < want || stood == 0 && got != want {
			t.Errorf("OSL %d: TTFT %v in the engines, %v in the fleet simulator", osl, got.Duration(), want.Duration())
		}
		if a.ttft < want.Duration() {
			t.Errorf("OSL %d: the client has its first token after %v, before %v", osl, a.ttft, want.Duration())
		}
	}
}

// fleetTTFT is the TTFT of one request to the same two engines in the fleet simulator.
func fleetTTFT(t *testing.T, p, d simserver.Options, isl, osl int) (ttft engine.Picoseconds) {
	t.Helper()
	pool := func(o simserver.Options) fleet.Pool {
		return fleet.Pool{Engine: o.Sim, Timer: o.Timer, Overhead: o.Overhead, Replicas: 1}
	}
	f, err := fleet.New(fleet.Config{
		Pools:    []fleet.Pool{pool(p), pool(d)},
		Transfer: fleet.Transfer{KV: engine.KVBytes{PerToken: 1}, BytesPerSecond: 1 / d.Transfer(1).Seconds()},
		Done:     func(o fleet.Outcome) { ttft = o.TTFT() },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Offer(fleet.Request{ISL: isl, OSL: osl}); err != nil {
		t.Fatal(err)
	}
	if err := f.Finish(fleet.Forever); err != nil {
		t.Fatal(err)
	}
	return ttft
}
