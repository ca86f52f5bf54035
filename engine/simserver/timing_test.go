package simserver

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"runtime"
	"strconv"
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
func (s *site) lateness() string {
	s.t.Helper()
	at := map[string]float64{} // steps by the bound of their bucket
	for _, m := range regexp.MustCompile(`plimsoll_sim_lateness_seconds_bucket\{.*le="([^"]+)"\} (\S+)`).FindAllStringSubmatch(s.get("/metrics"), -1) {
		at[m[1]], _ = strconv.ParseFloat(m[2], 64)
	}
	all := at["+Inf"]
	words := fmt.Sprintf("%.0f steps,", all)
	for _, b := range []float64{50e-6, 200e-6, 1e-3, 5e-3} {
		words += fmt.Sprintf(" %.2f %% late by at most %v,", 100*at[strconv.FormatFloat(b, 'g', -1, 64)]/all, time.Duration(b*1e9))
	}
	return strings.TrimSuffix(words, ",")
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
			b.Log(s.lateness())
		})
	}
}
