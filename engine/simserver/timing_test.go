package simserver

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"plimsoll/engine"
)

// tokenTimes sends n streams of osl tokens at once and returns when each one's
// content arrived, reading straight from the connection.
func tokenTimes(s *site, n, osl int) [][]time.Time {
	times := make([][]time.Time, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			resp := s.send(s.t.Context(), http.MethodPost, "/v1/completions",
				fmt.Sprintf(`{"prompt":[1,2,%d],"max_tokens":%d,"ignore_eos":true,"stream":true}`, i, osl))
			buf := make([]byte, 64<<10)
			for {
				n, err := resp.Body.Read(buf)
				if n > 0 {
					times[i] = append(times[i], time.Now())
				}
				if err == io.EOF {
					return
				}
				if err != nil {
					s.t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return times
}

func TestInterTokenTimeIsTheStepTime(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second of real time")
	}
	const step, osl = 5 * time.Millisecond, 100
	o := testOptions()
	o.Timer = stepTimer{step: step}
	s := serve(t, o)
	var means []time.Duration
	for i, at := range tokenTimes(s, 64, osl) {
		if len(at) < 2 {
			t.Fatalf("stream %d: %d reads", i, len(at))
		}
		means = append(means, at[len(at)-1].Sub(at[0])/(osl-1))
	}
	slices.Sort(means)
	median := means[len(means)/2]
	m := s.server.driver.metrics
	m.mu.Lock()
	late := m.late
	m.mu.Unlock()
	t.Logf("64 streams: median of mean ITL %v; steps late by at most 50 µs, 100 µs, … : %v", median, late.counts)
	// The first and the last token's delays are all that can differ.
	if off := (median - step).Abs(); off > step/100 {
		t.Errorf("mean ITL %v: want %v to within 1 %%", median, step)
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkStreams reports the processor time of a token, client included, and
// how late steps end, at full streaming over real connections.
func BenchmarkStreams(b *testing.B) {
	for _, c := range []struct {
		streams int
		step    time.Duration
	}{{64, 5 * time.Millisecond}, {256, 10 * time.Millisecond}, {512, 20 * time.Millisecond}} {
		b.Run(fmt.Sprintf("%d@%v", c.streams, c.step), func(b *testing.B) {
			o := testOptions()
			o.Timer = stepTimer{step: c.step}
			o.Sim.Limits = engine.Limits{MaxNumSeqs: c.streams}
			s := serve(b, o)
			runtime.GC()
			b.ResetTimer()
			cpu := cpuTime()
			osl := int(2 * time.Second / c.step)
			for range b.N {
				tokenTimes(s, c.streams, osl)
			}
			cpu = cpuTime() - cpu
			b.ReportMetric(float64(cpu.Microseconds())/float64(b.N*osl*c.streams), "cpu-µs/token")
			m := s.server.driver.metrics
			m.mu.Lock()
			defer m.mu.Unlock()
			b.ReportMetric(float64(m.lateSteps), "late-steps")
			b.Log(s.server.driver.metrics.late.bounds, m.late.counts)
		})
	}
}
