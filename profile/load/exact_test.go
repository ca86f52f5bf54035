package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"plimsoll/profile"
)

// streamPaced measures all streams of a paced server at once. Instants of the
// records are on k.
func streamPaced(ctx context.Context, k clock, url string, p pacing) ([]profile.Request, error) {
	c, err := New(Options{BaseURL: url, Model: "m", TokenIDs: true})
	if err != nil {
		return nil, err
	}
	c.clock = k
	if err := allowFiles(2 * p.Streams); err != nil {
		return nil, err
	}
	l := c.open(1<<10, false)
	defer l.close()
	address, secure := c.address()
	l.dialer.prepare(ctx, address, secure, p.Streams)
	rs := make([]profile.Request, p.Streams)
	timeout := time.Duration(p.Chunks)*p.Gap + prepareTimeout + 5*time.Second
	var all sync.WaitGroup
	for i := range rs {
		rs[i] = profile.Request{Index: i, OSL: p.Chunks, Chunks: make([]profile.Chunk, 0, p.Chunks)}
		body := ask{model: fmt.Sprint(i), alphabet: c.guess().alphabet, osl: p.Chunks, stream: true}.body([]int{1, 2, 3})
		all.Go(func() { l.exchange(ctx, body, timeout, 0, &rs[i]) })
	}
	all.Wait()
	for _, r := range rs {
		if r.Failure == "" && len(r.Chunks) != p.Chunks {
			return nil, fmt.Errorf("a stream of %d chunks came as %d", p.Chunks, len(r.Chunks))
		}
		if r.Failure != "" {
			return nil, errors.New(r.Error)
		}
	}
	return rs, nil
}

// quantiles is of an error that is 0 for a perfect client.
type quantiles struct{ P50, P99, P999 time.Duration }

// added is what the client itself put into latencies that are known otherwise. It
// holds the server's interference and the way through the kernel.
type added struct{ TTFT, ITL quantiles } // ITL: |measured gap − true gap|

// exactness is how far off the records of a load are.
type exactness struct {
	Kernel added // by the kernel's stamps; zero where there are none
	Read   added // by instants after the read
}

// compare is how far off the records are from what was written. Both are of the
// same streams with the same number of chunks, on one clock.
func compare(rs []profile.Request, notes []written) exactness {
	var kernel, read offs
	for i, r := range rs {
		n := notes[i]
		first := n.Chunks[0] - n.Asked
		for j, c := range r.Chunks {
			seen := c.Read
			if seen == 0 {
				seen = c.At
			}
			if j == 0 {
				kernel.ttft = append(kernel.ttft, c.At-r.Sent-first)
				read.ttft = append(read.ttft, seen-r.Sent-first)
				continue
			}
			before := r.Chunks[j-1]
			truth := n.Chunks[j] - n.Chunks[j-1]
			kernel.itl = append(kernel.itl, (c.At - before.At - truth).Abs())
			read.itl = append(read.itl, (seen - max(before.Read, before.At) - truth).Abs())
		}
	}
	e := exactness{Read: read.added()}
	if known, _ := lagsOf(rs); known {
		e.Kernel = kernel.added()
	}
	return e
}

// offs are differences from the truth.
type offs struct{ ttft, itl []time.Duration }

func (o offs) added() added { return added{TTFT: quantilesOf(o.ttft), ITL: quantilesOf(o.itl)} }

// quantilesOf are order statistics: the least value that so large a part is not above.
func quantilesOf(xs []time.Duration) quantiles {
	if len(xs) == 0 {
		return quantiles{}
	}
	slices.Sort(xs)
	at := func(perMille int) time.Duration { return xs[(len(xs)*perMille+999)/1000-1] }
	return quantiles{P50: at(500), P99: at(990), P999: at(999)}
}

// The errors are those that the server's notes and the records say.
func TestCompare(t *testing.T) {
	const ms = time.Millisecond
	notes := []written{{Asked: 10 * ms, Chunks: []time.Duration{20 * ms, 30 * ms, 40 * ms}}}
	rs := []profile.Request{{Sent: 9 * ms, Chunks: []profile.Chunk{
		{At: 21 * ms, Read: 24 * ms}, {At: 31 * ms, Read: 33 * ms}, {At: 43 * ms, Read: 44 * ms},
	}}}
	got := compare(rs, notes)
	want := exactness{
		Kernel: added{TTFT: same(2 * ms), ITL: quantiles{P50: 0, P99: 2 * ms, P999: 2 * ms}},
		Read:   added{TTFT: same(5 * ms), ITL: same(ms)},
	}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for i := range rs[0].Chunks {
		rs[0].Chunks[i].Read = 0
	}
	if got := compare(rs, notes); got.Kernel != (added{}) || got.Read != want.Kernel {
		t.Errorf("without stamps: %+v", got)
	}
}

func same(d time.Duration) quantiles { return quantiles{P50: d, P99: d, P999: d} }

func TestQuantilesOfErrors(t *testing.T) {
	xs := make([]time.Duration, 1000)
	for i := range xs {
		xs[i] = time.Duration(1000 - i)
	}
	if got := quantilesOf(xs); got != (quantiles{P50: 500, P99: 990, P999: 999}) {
		t.Errorf("%+v", got)
	}
	if got := quantilesOf(nil); got != (quantiles{}) {
		t.Errorf("of nothing: %+v", got)
	}
}
