package load

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"plimsoll/profile"
)

const (
	// lead is between a measurement's base and its first due instant, so that
	// no instant is 0.
	lead = time.Millisecond
	// maxPrepared bounds the request bodies of one call, in bytes.
	maxPrepared = 4 << 30
)

// Measure sends w and gives one record per request, ordered by Index, and what
// the client says of its own part, from the first request to the end of the last.
// A request is due at the start or when its predecessor in the same place ended.
// The whole process is watched: where anything else runs in it, that counts
// as the client's.
//
// An error means that nothing was sent: w asks for something impossible, or
// ctx had ended. Everything else is in the records. When ctx ends, Measure
// returns at once; requests under way and those not yet sent are marked
// canceled.
func (c *Client) Measure(ctx context.Context, w profile.Workload) ([]profile.Request, profile.Client, error) {
	if err := Validate(w); err != nil {
		return nil, profile.Client{}, fmt.Errorf("workload: %w", err)
	}
	w.Timeout = cmp.Or(w.Timeout, c.opt.Timeout)
	m, err := c.prepare(ctx, w)
	if err != nil {
		return nil, profile.Client{}, err
	}
	rs, self := m.conduct(ctx, m.closedLoop, c.opt.OnDone)
	return rs, self, nil
}

// measurement is one Measure under way. Each record is written by one
// goroutine only.
type measurement struct {
	w       profile.Workload
	link    *link
	address string // host:port
	secure  bool
	base    time.Duration // on the client's clock
	slack   int           // tokens by which a prompt may miss its length
	bodies  [][]byte
	records []profile.Request
	onStart func(base time.Time)
	most    int      // requests in flight in an open loop; 0 = any number
	watch   Watch    // begun with the first request
	ended   chan int // indices of finished requests, never blocks
}

// newMeasurement is one of n requests, whose bodies and records are to be filled in.
func (c *Client) newMeasurement(w profile.Workload, n int) *measurement {
	return &measurement{
		w: w, bodies: make([][]byte, n), records: make([]profile.Request, n),
		onStart: c.opt.OnStart, ended: make(chan int, n),
	}
}

// prepare does all that needs no instant: what the server takes is found out,
// prompts and bodies are written.
func (c *Client) prepare(ctx context.Context, w profile.Workload) (*measurement, error) {
	srv, n, err := c.fit(ctx, w)
	if err != nil {
		return nil, err
	}
	if total := float64(w.Requests) * float64(w.ISL) * bytesPerToken; total > maxPrepared {
		return nil, fmt.Errorf("workload: %d requests of %d tokens need %.1f GiB of prompts, at most %d are held: split it",
			w.Requests, w.ISL, total/(1<<30), maxPrepared>>30)
	}
	m := c.newMeasurement(w, w.Requests)
	m.slack = srv.alphabet.slack(w.ISL)
	a := ask{endpoint: c.opt.Endpoint, model: srv.model, alphabet: srv.alphabet, osl: w.OSL, stream: true, live: c.live.Load()}
	serial := c.serials(w)
	longest := 0
	for i := range m.bodies {
		m.bodies[i] = a.body(sequence(srv.alphabet.size(), n, serial(i)))
		longest = max(longest, len(m.bodies[i]))
		m.records[i] = profile.Request{Index: i, ISL: w.ISL, OSL: w.OSL, CachedTokens: -1}
		if i%64 == 0 && ctx.Err() != nil {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("preparing %d requests: %w", w.Requests, err)
	}
	if err := allowFiles(min(w.InFlight, w.Requests)); err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	m.link = c.open(longest, w.Warmup)
	m.address, m.secure = c.address()
	return m, nil
}

// bytesPerToken is the usual length of a token id or a word with its separator.
const bytesPerToken = 6

// conduct has the load sent, calls onDone for each request as it ends, and gives
// the records with the client's own part in them.
func (m *measurement) conduct(ctx context.Context, send func(context.Context), onDone func(profile.Request)) ([]profile.Request, profile.Client) {
	defer m.link.close()
	reported := m.report(onDone)
	send(ctx)
	spent := m.watch.effort()
	close(m.ended)
	<-reported
	return m.records, spent.client(m.records)
}

// report calls onDone for each finished request, beside the measurement, and
// gives a channel that is closed when all have been reported.
func (m *measurement) report(onDone func(profile.Request)) <-chan struct{} {
	all := make(chan struct{})
	go func() {
		defer close(all)
		for i := range m.ended {
			if onDone != nil {
				onDone(m.records[i])
			}
		}
	}()
	return all
}

// run sends request i, which was due at the given instant after the base, and
// completes its record.
func (m *measurement) run(ctx context.Context, i int, due time.Duration) {
	r := &m.records[i]
	r.Due = due
	r.Chunks = make([]profile.Chunk, 0, min(m.w.OSL+1, 4096))
	m.link.exchange(ctx, m.bodies[i], m.w.Timeout, m.base, r)
	judge(r, m.slack)
	m.ended <- i
}

// unsent marks a request that the measurement's end came before.
func (m *measurement) unsent(i int) {
	m.records[i].Failure = profile.FailCanceled
	m.records[i].Error = "the measurement was stopped before it was sent"
}

// closedLoop keeps InFlight requests under way until all are issued. The first
// ones start together.
func (m *measurement) closedLoop(ctx context.Context) {
	n := min(m.w.InFlight, m.w.Requests)
	m.link.dialer.prepare(ctx, m.address, m.secure, n)
	var next atomic.Int64
	next.Store(int64(n))
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	ready.Add(n)
	for place := range n {
		done.Go(func() {
			ready.Done()
			<-start
			due := lead
			for i := place; i < m.w.Requests; i = int(next.Add(1)) - 1 {
				if ctx.Err() != nil {
					m.unsent(i)
					continue
				}
				m.run(ctx, i, due)
				due = m.records[i].End
			}
		})
	}
	ready.Wait()
	m.base = m.link.clock.now() - lead
	m.started()
	close(start)
	done.Wait()
}

// started tells what the records' instants count from.
func (m *measurement) started() {
	m.watch = StartWatch()
	if m.onStart != nil {
		m.onStart(time.Now().Add(m.base - m.link.clock.now()))
	}
}

// openLoop sends each request at its instant, whatever the answers do, or when
// another has ended where no more may be in flight.
func (m *measurement) openLoop(ctx context.Context) {
	places := make(chan struct{}, m.most)
	m.base = m.link.clock.now()
	m.started()
	var done sync.WaitGroup
	for i := range m.records {
		due := m.records[i].Due
		err := m.link.clock.waitUntil(ctx, m.base+due)
		if err == nil && m.most > 0 {
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		if err != nil {
			m.unsent(i)
			continue
		}
		done.Go(func() {
			m.run(ctx, i, due)
			if m.most > 0 {
				<-places
			}
		})
		yield()
	}
	done.Wait()
}
