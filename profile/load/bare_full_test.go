//go:build full

package load

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"plimsoll/profile"
)

// Fault 1: what the client itself adds. Each chunk is written at a known
// instant; its record must follow within a generous bound, and is reported.
func TestInstantsFollowAPacedServer(t *testing.T) {
	for _, streams := range []int{1, 8, 64} {
		k := clock{epoch: time.Now()}
		p := &bareServer{clock: k, chunks: 100, gap: 10 * time.Millisecond}
		url := p.start(t)
		c := client(t, Options{BaseURL: url, Model: "m", TokenIDs: true})
		l := c.open(1000, false)
		records := make([]profile.Request, streams)
		var wg sync.WaitGroup
		for i := range records {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * p.gap / time.Duration(streams)) // spread the chunks over the gap
				body := ask{model: fmt.Sprint(i), alphabet: c.guess().alphabet, osl: p.chunks, stream: true}.body([]int{1, 2, 3})
				l.exchange(t.Context(), body, time.Minute, 0, &records[i])
			})
		}
		wg.Wait()
		l.close()
		shift := c.clock.epoch.Sub(k.epoch)
		d := profile.Describe(p.delays(t, records, shift))
		t.Logf("%d streams: %d chunks, delay p50 %v, p99 %v, max %v", streams, d.N, d.P50, d.P99, d.Max)
		if d.Min < 0 {
			t.Errorf("%d streams: a chunk was read %v before it was written", streams, -d.Min)
		}
		// 6,400 chunks a second are too many for a busy machine that looks for races:
		// there nothing is said of how late they are, only that none is early.
		if streams <= 8 && d.P50 > 20*time.Millisecond {
			t.Errorf("%d streams: median delay %v", streams, d.P50)
		}
	}
}
