package main

import (
	"context"
	"net"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/scrape"
	"plimsoll/engine/sim"
	"plimsoll/engine/simserver"
	"plimsoll/profile"
	"plimsoll/sweep"
)

// stepped times a step: 15 ms, 5 ms for each decoding sequence, 10 µs for each
// token of a prompt. A busy machine is late by less than that, most of the time.
type stepped struct{}

func (stepped) StepTime(b engine.Batch) engine.Picoseconds {
	return 15*engine.Millisecond + engine.Picoseconds(b.DecodeSeqs)*5*engine.Millisecond + engine.Picoseconds(b.PrefillTokens)*10*engine.Microsecond
}

func step(n int) time.Duration { return time.Duration(15+5*n) * time.Millisecond }

// steppedEngine is a simulated engine that answers on this machine until stop.
func steppedEngine(t *testing.T, c sim.Config) (url string, stop func()) {
	t.Helper()
	s, err := simserver.New(simserver.Options{Model: "m", Timer: stepped{}, Sim: c, Serving: simserver.Serving{DrainTimeout: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(ctx, ln) // its streams are cut off
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return "http://" + ln.Addr().String(), stop
}

func steppedConfig() sim.Config {
	return sim.Config{KVBlocks: 2000, PrefixCaching: true, Limits: engine.Limits{MaxNumSeqs: 16, MaxNumBatchedTokens: 256, BlockSize: 16}}
}

func levelOf(t *testing.T, s sweep.Stairs, n, tokens int) sweep.Measurement {
	t.Helper()
	m, err := s.Level(t.Context(), n, tokens)
	if err != nil {
		t.Fatalf("%d streams: %v", n, err)
	}
	return m
}

// The engine's gaps and the client's are of the same instants: neither those before all
// streams had a chunk, nor those after the last reading.
func TestGapsBetweenReadings(t *testing.T) {
	const ms = time.Millisecond
	var rs []profile.Request
	for i := range 2 {
		var cs []profile.Chunk
		for k := range 20 {
			cs = append(cs, profile.Chunk{At: time.Duration(15*i+20*k) * ms})
		}
		rs = append(rs, profile.Request{Chunks: cs[i:]})
	}
	m := sweep.Measurement{Requests: rs}
	var totals []scrape.Total
	for k := range 4 { // the first before all have a chunk
		m.Running = append(m.Running, sweep.Running{At: time.Duration(100*k+10) * ms})
		totals = append(totals, scrape.Total{Count: uint64(10 * k), Sum: 0.21 * float64(k)})
	}
	want := profile.Server{ITL: profile.Compared{N: 20, Server: 21 * ms, Client: 20 * ms}}
	if got := gapsBetween(m, totals); got == nil || *got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	totals[3].Count++
	if got := gapsBetween(m, totals); got != nil {
		t.Errorf("%+v of a gap that is not ours", got)
	}
	m.Running, totals = m.Running[:2], totals[:2]
	if got := gapsBetween(m, totals); got != nil {
		t.Errorf("%+v of one reading", got)
	}
}
