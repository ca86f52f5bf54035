package local

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/engine/command"
	"plimsoll/engine/process"
)

// When a worker that drains gets TERM and KILL, and when its requests are given up.
func TestDrainSteps(t *testing.T) {
	self, err := process.HandleOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const term, kill, nothing = syscall.SIGTERM, syscall.SIGKILL, syscall.Signal(0)
	timeout, refused := &url.Error{Err: os.ErrDeadlineExceeded}, &url.Error{Err: syscall.ECONNREFUSED}
	idle, busy := sight{known: true}, sight{known: true, requests: 3}
	mute := sight{why: errors.New("the engine answers 404 Not Found")}
	silent, closed := sight{unready: timeout, silent: timeout, why: timeout}, sight{unready: refused, silent: refused, why: refused}
	for _, c := range []struct {
		name                    string
		drains, neverReady      bool
		draining, silent, after time.Duration // since the mark, the first look like the last one, and TERM; 0: none
		now                     sight
		want                    syscall.Signal
		lost                    string
	}{
		{name: "idle", draining: time.Minute, now: idle, want: term},
		{name: "routers do not know yet", draining: time.Second, now: idle, want: nothing},
		{name: "busy", draining: 9 * time.Minute, now: busy, want: nothing},
		{name: "busy at the bound", draining: 11 * time.Minute, now: busy, want: term, lost: "; 3 requests lost"},
		{name: "just after TERM at the bound", draining: 11 * time.Minute, after: 20 * time.Second, now: busy, want: nothing, lost: "; 3 requests lost"},
		{name: "long after TERM at the bound", draining: 11 * time.Minute, after: 31 * time.Second, now: busy, want: kill, lost: "; 3 requests lost"},
		{name: "finished after TERM at the bound", draining: 11 * time.Minute, after: 20 * time.Second, now: idle, want: kill},
		{name: "metrics say nothing", draining: 9 * time.Minute, now: mute, want: nothing},
		{name: "metrics say nothing at the bound", draining: 11 * time.Minute, now: mute, want: term, lost: "; how many requests were lost is unknown by its metrics: the engine answers 404 Not Found"},
		{name: "drains by itself", drains: true, draining: time.Minute, now: busy, want: term},
		{name: "drains and listens no more", drains: true, draining: 9 * time.Minute, after: 8 * time.Minute, silent: 8 * time.Minute, now: closed, want: nothing},
		{name: "drains until the bound", drains: true, draining: 11 * time.Minute, after: 10 * time.Minute, now: busy, want: kill, lost: "; 3 requests lost"},
		{name: "stopped", draining: time.Minute, silent: 29 * time.Second, now: silent, want: nothing},
		{name: "stopped for long", draining: time.Minute, silent: 30 * time.Second, now: silent, want: term, lost: "; 3 requests lost by its last metrics, and any that came since"},
		{name: "stopped, after TERM", drains: true, draining: time.Minute, silent: 40 * time.Second, after: 31 * time.Second, now: silent, want: kill, lost: "; 3 requests lost by its last metrics, and any that came since"},
		{name: "listens no more without TERM", draining: time.Minute, silent: 30 * time.Second, now: closed, want: term, lost: "; 3 requests lost by its last metrics, and any that came since"},
		{name: "never ready", neverReady: true, draining: time.Second, now: closed, want: term},
		{name: "never ready, after TERM", neverReady: true, draining: time.Minute, after: 31 * time.Second, now: closed, want: kill},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := time.Now()
			o := Options{Namespace: "ns", HungAfter: 30 * time.Second, Pools: []Pool{{Component: "D", DrainsOnTERM: c.drains, Template: command.Template{Grace: 10 * time.Minute}}}}.withDefaults()
			r := turn{Target: &Target{opts: o, past: map[string]*past{}}, now: now}
			e := &entry{own: record{State: Draining, PID: self.PID, Start: self.Start, Boot: self.Boot, DrainAt: now.Add(-c.draining)}}
			if !c.neverReady {
				e.own.ReadyAt = now.Add(-time.Hour)
			}
			if c.after > 0 {
				e.own.TermAt = now.Add(-c.after)
			}
			p := r.pastOf("ns_D", e)
			p.add(now.Add(-time.Hour), e.own, busy)
			if c.silent > 0 {
				p.add(now.Add(-c.silent), e.own, c.now)
			}
			p.add(now, e.own, c.now)
			got := r.step("ns_D", e, c.now, true, []process.Handle{self})
			if got.sig != c.want || p.lost() != c.lost {
				t.Errorf("got %v: %s, lost %q; want %v, lost %q", got.sig, got.why, p.lost(), c.want, c.lost)
			}
		})
	}
}

// SetClock replaces what New took.
func (t *Target) SetClock(now func() time.Time) { t.now = now }

// Which looks at a ready worker make that it is replaced.
func TestReadyWorkerThatDoesNotAnswer(t *testing.T) {
	const begin, before, end = 0 * time.Second, 29 * time.Second, 30 * time.Second
	timeout := &url.Error{Op: "Get", URL: "u", Err: os.ErrDeadlineExceeded}
	well, unwell := sight{known: true}, sight{unready: errors.New("u answers 503"), known: true}
	silent, refused := sight{unready: timeout, silent: timeout, why: timeout}, sight{unready: syscall.ECONNREFUSED, silent: syscall.ECONNREFUSED}
	noMetrics, slowMetrics := sight{why: errors.New(http.StatusText(http.StatusNotFound))}, sight{why: fmt.Errorf("reading: %w", timeout)}
	type looks map[time.Duration]sight
	for name, c := range map[string]struct {
		looks
		want string // in the failure; empty: it stays
	}{
		"silent for long":     {looks{begin: silent, end: silent}, "ns_D: has not answered at /ok for 30s: replaced (Get"},
		"silent":              {looks{begin: silent, before: silent}, ""},
		"silent, well, so on": {looks{begin: silent, before: well, end: silent}, ""},
		"nobody listens":      {looks{begin: refused, before: silent, end: refused}, "ns_D: has not answered at /ok for 30s"},
		"unwell":              {looks{begin: unwell, end: unwell}, "/ok for 30s: replaced (u answers 503)"},
		"metrics hang":        {looks{begin: slowMetrics, end: slowMetrics}, "ns_D: has not answered at /metrics for 30s"},
		"no metrics":          {looks{begin: noMetrics, end: noMetrics}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Namespace: "ns", HungAfter: end, Pools: []Pool{{Component: "D", Template: command.Template{ReadyPath: "/ok"}}}}.withDefaults()
			e := &entry{rest: object{}, own: record{State: Ready, PID: 2}}
			target := &Target{opts: o, past: map[string]*past{}}
			for _, at := range slices.Sorted(maps.Keys(c.looks)) {
				s := c.looks[at]
				s.of = e.own.handle()
				r := turn{Target: target, doc: &document{entries: map[string]*entry{"ns_D": e}}, seen: map[string]sight{"ns_D": s}, now: time.Unix(0, 0).Add(at), failed: map[string]bool{}}
				r.watch()
			}
			if replaced := e.own.State == Draining; replaced != (c.want != "") || !strings.Contains(e.own.Failure, c.want) || replaced != (e.own.Failures == 1) {
				t.Errorf("it is %s after %d failures: %q; want %q", e.own.State, e.own.Failures, e.own.Failure, c.want)
			}
		})
	}
}

// Where all workers stop answering at once only one is replaced, until another is ready.
func TestHungWorkersAreReplacedOneByOne(t *testing.T) {
	o := Options{Namespace: "ns", Pools: []Pool{{Component: "D"}}}.withDefaults()
	two := 2
	d := &document{entries: map[string]*entry{"ns_D": {own: record{State: Ready, PID: 2, Want: &two}}, "ns_D_1": {own: record{State: Ready, PID: 3}}}}
	target := &Target{opts: o, past: map[string]*past{}}
	for at := time.Unix(0, 0); at.Before(time.Unix(0, 0).Add(3 * o.HungAfter)); at = at.Add(o.HungAfter) {
		r := turn{Target: target, doc: d, seen: map[string]sight{}, now: at, failed: map[string]bool{}}
		for name, e := range d.entries {
			r.seen[name] = sight{of: e.own.handle(), unready: syscall.ECONNREFUSED}
		}
		r.watch()
	}
	if ready := d.of("ns_D", Ready); !slices.Equal(ready, []string{"ns_D_1"}) {
		t.Errorf("%v are ready, want ns_D_1", ready)
	}
	d.entries["ns_D"].own.State = Ready // the replacement
	target.past = map[string]*past{"ns_D_1": target.past["ns_D_1"]}
	r := turn{Target: target, doc: d, seen: map[string]sight{"ns_D_1": {of: d.entries["ns_D_1"].own.handle(), unready: syscall.ECONNREFUSED}}, now: time.Unix(0, 0).Add(4 * o.HungAfter), failed: map[string]bool{}}
	if r.watch(); len(d.of("ns_D", Draining)) != 1 {
		t.Errorf("%v drain, want ns_D_1", d.of("ns_D", Draining))
	}
}
