package simserver

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"plimsoll/engine"
)

// tokenTimes sends n streams of osl tokens at once and returns when each
// token's event arrived, reading straight from the connection.
func tokenTimes(s *site, n, osl int) [][]time.Time {
	times := make([][]time.Time, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			resp, err := s.client.Do(s.request(s.t.Context(), http.MethodPost, "/v1/completions",
				fmt.Sprintf(`{"prompt":[1,2,%d],"max_tokens":%d,"ignore_eos":true,"stream":true}`, i, osl)))
			if err != nil {
				s.t.Error(err)
				return
			}
			defer func() { _ = resp.Body.Close() }()
			buf := make([]byte, 64<<10)
			for {
				n, err := resp.Body.Read(buf)
				now := time.Now()
				for range bytes.Count(buf[:n], []byte("\n\n")) {
					times[i] = append(times[i], now)
				}
				if err == io.EOF {
					times[i] = times[i][:max(0, len(times[i])-1)] // the end is no token
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

// lateness is how late steps ended, in words.
func (m *metrics) lateness() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var total, n uint64
	for _, c := range m.late.counts {
		total += c
	}
	s := fmt.Sprintf("%d steps,", total)
	for i, b := range m.late.bounds {
		n += m.late.counts[i]
		if b == 50e-6 || b == 200e-6 || b == 1e-3 || b == 5e-3 {
			s += fmt.Sprintf(" %.2f %% late by at most %v,", 100*float64(n)/float64(total), time.Duration(b*1e9))
		}
	}
	return strings.TrimSuffix(s, ",")
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
			b.Log(s.server.driver.metrics.lateness())
		})
	}
}
