package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"plimsoll/profile"
)

// How Calibrate loads itself: 20 tokens/s for each stream, as a busy engine gives.
const (
	calibrationGap  = 50 * time.Millisecond
	calibrationRest = time.Millisecond / 2 // leaves the cores to the client
)

// Calibrate measures so many streams at once from a server in this process that
// notes when it writes: spread over time for so long, and as long all at once. The processor time is that of the process while chunks
// are written, without the thread that writes, where the system tells it of one thread (Linux); elsewhere the
// server's is in it. The errors hold the server's interference.
func Calibrate(ctx context.Context, streams int, long time.Duration) (profile.Calibration, error) {
	out := profile.Calibration{Streams: streams, Gap: calibrationGap}
	if streams < 1 || streams > MaxRequests {
		return out, fmt.Errorf("calibrating with %d streams: want 1 to %d", streams, MaxRequests)
	}
	p := pacing{Streams: streams, Chunks: max(2, int(long/calibrationGap)), Gap: calibrationGap, Rest: calibrationRest}
	var err error
	if out.Staggered, err = beat(ctx, p); err != nil {
		return out, fmt.Errorf("calibrating the client with %d streams: %w", streams, err)
	}
	p.Stepped = true
	if out.Stepped, err = beat(ctx, p); err != nil {
		return out, fmt.Errorf("calibrating the client with %d streams: %w", streams, err)
	}
	out.Kernel = out.Stepped.Kernel != profile.Added{}
	return out, nil
}

// beat calibrates with one pattern.
func beat(ctx context.Context, p pacing) (profile.Beat, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k := clock{epoch: time.Now()}
	s, err := servePaced(ctx, k, p)
	if err != nil {
		return profile.Beat{}, err
	}
	watch := StartWatch()
	rs, err := streamPaced(ctx, k, s.url(), p)
	e := watch.effort()
	if err != nil {
		cancel()
		s.close()
		return profile.Beat{}, err
	}
	<-s.done
	s.close()
	b := compare(rs, s.notes)
	b.Wait, b.CPUPerToken = e.waited, (s.whole-s.thread)/time.Duration(p.Streams*p.Chunks)
	return b, nil
}

// streamPaced measures all streams of a paced server at once. Instants of the
// records are on k.
func streamPaced(ctx context.Context, k clock, url string, p pacing) ([]profile.Request, error) {
	c, err := New(Options{BaseURL: url, Model: "m", Prompts: PromptTokens})
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

// compare is how far off the records are from what was written. Both are of the
// same streams with the same number of chunks, on one clock.
func compare(rs []profile.Request, notes []written) profile.Beat {
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
	b := profile.Beat{Read: read.added()}
	if known, _ := lagsOf(rs); known {
		b.Kernel = kernel.added()
	}
	return b
}

// offs are differences from the truth.
type offs struct{ ttft, itl []time.Duration }

func (o offs) added() profile.Added {
	return profile.Added{TTFT: quantiles(o.ttft), ITL: quantiles(o.itl)}
}

// quantiles are order statistics: the least value that so large a part is not
// above.
func quantiles(xs []time.Duration) profile.Quantiles {
	if len(xs) == 0 {
		return profile.Quantiles{}
	}
	slices.Sort(xs)
	at := func(perMille int) time.Duration { return xs[(len(xs)*perMille+999)/1000-1] }
	return profile.Quantiles{P50: at(500), P99: at(990), P999: at(999)}
}
