// Package local is a planner.Target on this machine: it starts and stops worker
// processes from a command template for each role, and writes what it does to a
// state file that another run of the program, or a frontend, reads.
//
// It takes Options: the pools with their templates, and the GPUs (or slots) that
// workers may have; it gives replicas, GPU assignment, and Workers for a
// frontend. It refuses a file that another planner acts on, and more GPUs than there
// are: a worker without room waits (PoolState.Pending).
//
// A worker outlives the program. A later run adopts it by its process number
// and the instant of its start, which no other process shares, so that nothing
// is signalled that was not started here, and nothing is started twice, wherever
// the program was killed: what is about to be done is on disk before it is done.
//
// A state file that is gone is written again as it was; a damaged one is set aside
// first. A run that never wrote it finds the workers by a mark in their environment and
// adopts them. Neither starts a second worker on the same GPUs.
//
// Stopping drops no request within the grace. The newest worker is marked as draining
// first, its lease is revoked, then, after Options.Settle, it gets TERM: at once where
// it finishes its requests by itself (Pool.DrainsOnTERM), else when its own
// /metrics says that it is idle, or has counters and has not changed for Options.IdleAfter;
// metrics that cannot be read do not mean that. When the grace is over it is not waited
// for: TERM, then KILL after Options.TermGrace, and the requests that are lost are counted.
//
// A ready worker that for Options.HungAfter gives no 2xx at its ready path, or no answer at
// /metrics, is replaced, with the back-off of one that died. Not to have /metrics is an
// answer. One that answers nothing at its ready path cannot finish: it gets TERM at once and
// then KILL, as does one that never was ready. All waits are by the monotonic clock of
// a run; silence begins to count anew with each.
//
// The state file holds command lines without credentials (engine/redact): workers
// are known by their process, and a later run starts further ones by its own
// templates. Nobody but the user may read it, nor the workers' logs, which are
// written by the workers themselves.
//
// It works on Linux. Other systems do not tell when a process started; there New
// refuses (process.ErrNoHandles). A worker's descendants are seen as long as they
// stay in its session or keep its mark: a worker ends with the last of them. Namespaces
// whose state files are in one folder share the machine's GPUs, or slots: a worker gets none
// that a worker of another has, whichever process plans for it. Those with files in other
// folders need GPUs of their own, and all name a GPU alike, by index or by UUID.
package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/process"
	"plimsoll/engine/redact"
	"plimsoll/planner"
	"plimsoll/planner/statefile"

	"golang.org/x/sys/unix"
)

var _ planner.Target = (*Target)(nil)

// Target runs the workers of one namespace on this machine. Its methods may be
// called from any goroutine.
type Target struct {
	opts   Options
	self   process.Handle
	host   string
	client *http.Client
	// now is the wall clock as New found it and the time since, so that one that is set
	// meanwhile changes no wait. It is written down, and so without a monotonic reading.
	now func() time.Time
	// secrets are those that the templates hold and those of Options.
	secrets redact.Values

	mu      sync.Mutex // one turn at a time; guards all below
	adopted bool       // what earlier runs left was looked at
	written []byte     // the state file, as this run wrote it last; nil: it did not yet
	owner   *os.File   // lock that says that this Target acts on the file; nil: it only looks
	started map[string]*process.Process
	stuck   map[string]string // by worker: why its stop is not finished
	past    map[string]*past  // by worker
}

// New checks the options. It reads, writes and starts nothing.
func New(o Options) (*Target, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("local workers: %w", err)
	}
	self, err := process.HandleOf(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("local workers: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("local workers: %w", err)
	}
	began := time.Now()
	known := slices.Clone(o.Secrets)
	for _, p := range o.Pools {
		known = append(known, p.Template.Secrets()...)
	}
	return &Target{
		secrets: redact.Of(known...),
		opts:    o, self: self, host: host, client: probeClient(o),
		now:     func() time.Time { return began.Add(time.Since(began)).UTC().Round(0) },
		started: map[string]*process.Process{}, stuck: map[string]string{}, past: map[string]*past{},
	}, nil
}

// Scale asks for replicas. It makes this Target the one that acts on the state
// file, and fails with ErrOwned where another does. It returns when the wish is
// recorded and the first workers are started; State and Run bring it about.
func (t *Target) Scale(ctx context.Context, want planner.Replicas, reason string) error {
	if err := t.opts.checkWant(want); err != nil {
		return fmt.Errorf("scaling local workers: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := ctx.Err(); err != nil { // while it waited its caller may have been told to end
		return fmt.Errorf("scaling local workers: %w", err)
	}
	if err := t.own(); err != nil {
		return fmt.Errorf("scaling local workers: %w", err)
	}
	_, err := t.turn(ctx, nil, func(d *document) {
		for _, p := range t.opts.Pools {
			n := want.Of(p.Config.Role)
			if b := d.base(t.opts.base(p), p.Template.String()); b.own.Want == nil || *b.own.Want != n {
				b.own.Want = &n
				t.note("%s: %d wanted: %s", p.Component, n, reason)
			}
		}
	})
	if err != nil {
		return fmt.Errorf("scaling local workers: %w", err)
	}
	return nil
}

// State says what runs. Where this Target acts on the state file (since Scale or
// Run) it first brings about what is due: workers that died are replaced,
// draining ones ended, and those that answer become ready.
func (t *Target) State(ctx context.Context) (planner.State, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d, err := t.look(ctx)
	if err != nil {
		return planner.State{}, fmt.Errorf("reading local workers: %w", err)
	}
	return t.view(d), nil
}

// look is one turn, or for a Target that does not act the file as it is.
func (t *Target) look(ctx context.Context) (*document, error) {
	d, err := readDocument(t.opts.Path)
	switch {
	case err == nil && d.text == nil, t.owner != nil && errors.Is(err, errDamaged):
		d = t.withoutFile()
	case err != nil:
		return nil, err
	}
	if t.owner == nil {
		return d, nil
	}
	return t.turn(ctx, t.see(ctx, d), nil)
}

// load reads the state file for a turn, which has its lock. One that is damaged is set
// aside: a planner that refused it would leave its workers alone for ever.
func (t *Target) load() (*document, error) {
	d, err := readDocument(t.opts.Path)
	switch {
	case errors.Is(err, errDamaged):
		to, moved := statefile.SetAside(t.opts.Path)
		if moved != nil {
			return nil, errors.Join(err, moved)
		}
		t.note("%v, and is now %s; what other programs wrote there is unknown, the GPUs of their workers included", err, to)
	case err != nil:
		return nil, err
	case d.text != nil:
		return d, nil
	case t.written != nil:
		t.note("the state file %s is gone: it is written again", t.opts.Path)
	}
	d = t.withoutFile()
	if n := len(d.entries); t.written == nil && n > 0 {
		t.note("without a state file, %s found by the mark in their environment", engine.Count(n, "worker"))
	}
	return d, nil
}

// Run brings about what is due every Options.Every until ctx ends, as State does
// whenever it is called; the workers run on. It fails at once with ErrOwned
// where another Target acts on the state file.
func (t *Target) Run(ctx context.Context) error {
	t.mu.Lock()
	err := t.own()
	t.mu.Unlock()
	if err != nil {
		return fmt.Errorf("running local workers: %w", err)
	}
	tick := time.NewTicker(t.opts.Every)
	defer tick.Stop()
	for last := ""; ; {
		_, err := t.State(ctx)
		if err != nil && ctx.Err() == nil && err.Error() != last {
			t.note("%v", err)
		}
		if last = ""; err != nil {
			last = err.Error()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Close lets another Target act on the state file. The workers run on.
func (t *Target) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.owner == nil {
		return nil
	}
	// A process that is being forked has the file open until it runs its program.
	err := errors.Join(unix.Flock(int(t.owner.Fd()), unix.LOCK_UN), t.owner.Close()) //nolint:gosec // a descriptor
	t.owner, t.adopted, t.written = nil, false, nil
	return err
}

// own makes t the one that acts on the file. A lock whose file is gone keeps nobody out.
func (t *Target) own() (err error) {
	if t.owner != nil && !same(t.owner, t.opts.Path+".owner") {
		_, t.owner = t.owner.Close(), nil
	}
	if t.owner == nil {
		t.owner, err = lockOwner(t.opts.Path)
	}
	return err
}

// adopt looks at what an earlier run recorded: a port that another process has
// by now is not the worker's, whatever the record says.
func (t *Target) adopt(d *document) {
	for _, name := range d.names() {
		e := d.entries[name]
		if e.ours() {
			t.clean(e)
			e.own.until(t.now(), t.opts.MaxBackoff)
		}
		if e.own.State == "" || !e.own.handle().Leads() {
			continue
		}
		if who, foreign := t.foreign(e.own); foreign && e.own.State == Ready {
			t.note("%s: its port %d belongs to %s", name, e.own.Port, who)
			e.own.State, e.own.StartedAt = Starting, t.now()
		}
		t.note("%s: goes on as process %d, %s", name, e.own.PID, e.own.State)
		if !slices.ContainsFunc(t.opts.Pools, func(p Pool) bool { return belongs(name, t.opts.base(p)) }) {
			t.note("%s belongs to no pool. It is left alone, and its GPUs stay taken", name)
		}
	}
}

// clean takes out what earlier versions wrote down.
func (t *Target) clean(e *entry) {
	var cmd string
	if json.Unmarshal(e.rest[keyCmd], &cmd) == nil {
		e.rest[keyCmd] = encode(t.secrets.Clean(cmd))
	}
	e.own.Failure = t.secrets.Text(e.own.Failure)
}

func (t *Target) note(format string, args ...any) {
	if t.opts.Log != nil {
		t.opts.Log("%s", t.secrets.Text(fmt.Sprintf(format, args...)))
	}
}
