package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/command"
	"plimsoll/planner"
)

// Leases is where workers are registered for routers, such as etcd.
type Leases interface {
	// Revoke ends a lease, and with it the registration. That the lease is gone
	// already is no error. It may be called for several workers at once.
	Revoke(ctx context.Context, lease int64) error
}

// Pool is how the workers of one role are run.
type Pool struct {
	Component string           // upstream's name for them, such as VllmDecodeWorker
	Config    engine.Config    // model, role and parallelism; Config.GPUs is what each takes
	Template  command.Template // {{.Name}} is the worker's key in the state file; Grace bounds a drain, 0: half an hour, at most 24 h; ReadyTimeout 0: half an hour

	// DrainsOnTERM says that the engine takes no new work after TERM, finishes
	// what it has, and exits. Any other gets TERM only once its metrics say that
	// it is idle, or the grace is over.
	DrainsOnTERM bool
}

// Options is a Target to make. GPUs or Slots must be given.
type Options struct {
	Path      string   // of the state file; empty: Path(Namespace)
	Namespace string   // upstream's: the beginning of every worker's name
	Pools     []Pool   // one for each role
	GPUs      []string // indices or UUIDs that workers may have; see ParseGPUs
	Slots     int      // where workers use no GPU: how many GPUs' worth of them fit
	LogDir    string   // a log for each worker; empty: the folder logs beside the state file

	Settle     time.Duration // between draining recorded and TERM, for routers to notice; 0: 2 s
	Backoff    time.Duration // before the first restart of what died; doubles up to MaxBackoff; 0: 1 s
	MaxBackoff time.Duration // 0: 5 min; what was ready for longer begins with Backoff again
	Every      time.Duration // Run's interval; 0: 1 s
	HungAfter  time.Duration // without an answer for so long a worker is replaced; 0: a minute
	IdleAfter  time.Duration // metrics that stand still for so long are of an idle worker: longer than the longest prompt takes; 0: 10 min
	TermGrace  time.Duration // between TERM and KILL of a worker that is not waited for; 0: 30 s

	// Secrets are credentials that workers take from the environment: what is written
	// down and logged does not hold them, nor those in a template.
	Secrets []string

	Leases Leases                           // nil: leases that are recorded are not revoked
	Log    func(format string, args ...any) // what was done and why; it calls no method of the Target; nil: none
}

const (
	defaultSettle     = 2 * time.Second
	defaultBackoff    = time.Second
	defaultMaxBackoff = 5 * time.Minute
	defaultEvery      = time.Second
	defaultHungAfter  = time.Minute
	defaultIdleAfter  = 10 * time.Minute
	defaultTermGrace  = 30 * time.Second
	defaultGrace      = 30 * time.Minute
	// maxGrace is upstream's graceful_timeout, 86400 s.
	maxGrace     = 24 * time.Hour
	defaultReady = 30 * time.Minute // as profile-sla has it

	defaultReadyPath = "/health"

	maxSlots    = 4096
	maxReplicas = 10_000
)

func (o Options) withDefaults() Options {
	o.Pools = slices.Clone(o.Pools)
	for i := range o.Pools {
		t := &o.Pools[i].Template
		t.Grace, t.ReadyTimeout = cmp.Or(t.Grace, defaultGrace), cmp.Or(t.ReadyTimeout, defaultReady)
		t.ReadyPath = cmp.Or(t.ReadyPath, defaultReadyPath)
	}
	o.Settle, o.Backoff = cmp.Or(o.Settle, defaultSettle), cmp.Or(o.Backoff, defaultBackoff)
	o.MaxBackoff, o.Every = cmp.Or(o.MaxBackoff, defaultMaxBackoff), cmp.Or(o.Every, defaultEvery)
	o.HungAfter, o.TermGrace = cmp.Or(o.HungAfter, defaultHungAfter), cmp.Or(o.TermGrace, defaultTermGrace)
	o.IdleAfter = cmp.Or(o.IdleAfter, defaultIdleAfter)
	return o
}

// check says all that is wrong, and fills in the paths that are left out.
func (o *Options) check() error {
	errs := []error{checkName("namespace", o.Namespace), o.checkRoom()}
	if len(o.Pools) == 0 {
		errs = append(errs, errors.New("no pools are given"))
	}
	seen := map[string]bool{}
	for _, p := range o.Pools {
		errs = append(errs, p.check())
		if seen[p.Component] || seen[string(p.Config.Role)] {
			errs = append(errs, fmt.Errorf("component %s, role %s: two pools cannot share either", p.Component, p.Config.Role))
		}
		seen[p.Component], seen[string(p.Config.Role)] = true, true
	}
	for name, d := range map[string]time.Duration{"settle": o.Settle, "backoff": o.Backoff, "largest backoff": o.MaxBackoff, "interval": o.Every, "time without an answer": o.HungAfter, "time without a change": o.IdleAfter, "time after TERM": o.TermGrace} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s is %v: want none below 0", name, d))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return o.paths()
}

func (o *Options) checkRoom() error {
	switch {
	case len(o.GPUs) > 0 && o.Slots != 0:
		return errors.New("GPUs and slots are given: want one of them")
	case len(o.GPUs) == 0 && (o.Slots < 1 || o.Slots > maxSlots):
		return fmt.Errorf("no GPUs are given, and %d slots: want a GPU or more, or 1 to %d slots", o.Slots, maxSlots)
	}
	for i, id := range o.GPUs {
		if id == "" || slices.Contains(o.GPUs[:i], id) {
			return fmt.Errorf("GPU %q is empty or there twice", id)
		}
	}
	return nil
}

// word is what the parts of a worker's name may be: they become file names.
var word = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// numbered is a name that could be another's with its suffix.
var numbered = regexp.MustCompile(`_[0-9]+$`)

func checkName(what, s string) error {
	if !word.MatchString(s) || numbered.MatchString(s) {
		return fmt.Errorf("%s %q: want letters, digits, dots, dashes and underscores, 1 to 100 of them, no _ and number at the end", what, s)
	}
	return nil
}

func (p Pool) check() error {
	errs := []error{checkName("component", p.Component), p.Template.Validate()}
	if !slices.Contains(engine.Roles(), p.Config.Role) {
		errs = append(errs, fmt.Errorf("component %s: role %q: want prefill, decode or aggregated", p.Component, p.Config.Role))
	}
	if n := p.Config.GPUs(); n < 1 || n > maxSlots {
		errs = append(errs, fmt.Errorf("component %s: a worker has %d GPUs: want 1 to %d", p.Component, n, maxSlots))
	}
	if g := p.Template.Grace; g > maxGrace {
		errs = append(errs, fmt.Errorf("component %s: grace %v: want at most %v", p.Component, g, maxGrace))
	}
	return errors.Join(errs...)
}

// checkWant refuses what no pool can have.
func (o Options) checkWant(want planner.Replicas) error {
	for _, role := range engine.Roles() {
		n := want.Of(role)
		if n < 0 || n > maxReplicas {
			return fmt.Errorf("%d %s workers: want 0 to %d", n, role, maxReplicas)
		}
		if n > 0 && !slices.ContainsFunc(o.Pools, func(p Pool) bool { return p.Config.Role == role }) {
			return fmt.Errorf("%d %s workers: there is no such pool", n, role)
		}
	}
	return nil
}

// base is the name of a pool's first worker.
func (o Options) base(p Pool) string { return o.Namespace + "_" + p.Component }

// Devices are the GPUs or slots that workers may have. Those of all state files in one
// folder are of one machine: none is given to two workers.
func (o Options) Devices() []string {
	if o.Slots == 0 {
		return o.GPUs
	}
	ids := make([]string, o.Slots)
	for i := range ids {
		ids[i] = "slot" + strconv.Itoa(i)
	}
	return ids
}

// ParseGPUs reads a list of device indices, ranges of them and UUIDs: 0-3,6 or
// GPU-5b6b7f2d. It refuses what is listed twice and an index above 4095.
func ParseGPUs(s string) ([]string, error) {
	var ids []string
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		lo, hi, err := indices(part)
		if err != nil {
			return nil, err
		}
		for i := lo; i <= hi; i++ {
			id := part
			if lo >= 0 {
				id = strconv.Itoa(i)
			}
			if slices.Contains(ids, id) {
				return nil, fmt.Errorf("GPUs %q: %s is listed twice", s, id)
			}
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// indices is a part's range of indices; -1 to -1 for a UUID.
func indices(part string) (lo, hi int, err error) {
	if strings.HasPrefix(part, "GPU-") || strings.HasPrefix(part, "MIG-") {
		return -1, -1, nil
	}
	first, last, ranged := strings.Cut(part, "-")
	lo, err = strconv.Atoi(first)
	hi = lo
	if err == nil && ranged {
		hi, err = strconv.Atoi(last)
	}
	if err != nil || lo < 0 || hi < lo || hi >= maxSlots {
		return 0, 0, fmt.Errorf("GPU %q: want an index, a range as 0-7 with indices below %d, or a UUID as GPU-…", part, maxSlots)
	}
	return lo, hi, nil
}
