package local

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/engine/command"
	"plimsoll/engine/process"
	"plimsoll/engine/scrape"
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
	standing := sight{known: true, requests: 3, metrics: scrape.Reading{Engine: "vllm", Work: scrape.Value{Known: true}}}
	counted := sight{known: true, metrics: standing.metrics}
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
		{name: "idle, but it has just counted", draining: time.Minute, silent: time.Second, now: counted, want: nothing},
		{name: "idle, and counts no more", draining: time.Minute, silent: 2 * time.Second, now: counted, want: term},
		{name: "metrics stand", draining: 6 * time.Minute, silent: 6 * time.Minute, now: standing, want: term},
		{name: "metrics stand, after TERM", draining: 6 * time.Minute, silent: 6 * time.Minute, after: 11 * time.Second, now: standing, want: term},
		{name: "metrics stand for a while", draining: 6 * time.Minute, silent: 4 * time.Minute, now: standing, want: nothing},
		{name: "metrics stood before", draining: 4 * time.Minute, silent: time.Hour, now: standing, want: nothing},
		{name: "never ready, idle, just after TERM", neverReady: true, draining: time.Minute, after: 11 * time.Second, now: sight{unready: timeout, known: true}, want: nothing},
		{name: "never ready", neverReady: true, draining: time.Second, now: closed, want: term},
		{name: "never ready, after TERM", neverReady: true, draining: time.Minute, after: 31 * time.Second, now: closed, want: kill},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := time.Now()
			o := Options{Namespace: "ns", HungAfter: 30 * time.Second, IdleAfter: 5 * time.Minute, Pools: []Pool{{Component: "D", DrainsOnTERM: c.drains, Template: command.Template{Grace: 10 * time.Minute}}}}.withDefaults()
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

// Whatever a worker that drains says, or does not, it gets TERM when the grace is over at
// the latest, and KILL after TermGrace more.
func TestEveryDrainHasABound(t *testing.T) {
	self, err := process.HandleOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const grace, tick = 10 * time.Minute, 20 * time.Second
	begin := time.Unix(1e9, 0)
	timeout := &url.Error{Err: os.ErrDeadlineExceeded}
	busy, idle := sight{known: true, requests: 3}, sight{known: true}
	always := func(s sight) func(int) *sight { return func(int) *sight { return &s } }
	neverReady := func(r *record) { r.ReadyAt = time.Time{} }
	for name, c := range map[string]struct {
		looks  func(tick int) *sight // nil: it was not looked at
		record func(*record)
		drains bool
		stray  bool          // of no pool
		lease  bool          // that is never revoked
		limit  time.Duration // 0: the grace, and TERM not before its end
	}{
		"busy":                            {looks: always(busy)},
		"idle, ignores TERM":              {looks: always(idle), limit: grace},
		"busy, drains by itself":          {looks: always(busy), drains: true, limit: grace},
		"metrics say nothing":             {looks: always(sight{why: errors.New("404")})},
		"its port is another's":           {looks: always(sight{unready: errors.New("foreign"), why: errors.New("foreign")})},
		"answers nothing":                 {looks: always(sight{unready: timeout, silent: timeout, why: timeout}), limit: 2 * time.Minute},
		"hangs, with metrics of an idle":  {looks: always(sight{known: true, unready: timeout, silent: timeout}), limit: 2 * time.Minute},
		"never looked at":                 {looks: func(int) *sight { return nil }},
		"now and then idle":               {looks: func(s int) *sight { return []*sight{&busy, &idle, nil}[s/3%3] }, limit: grace},
		"lease cannot be revoked":         {looks: always(sight{known: true, unrevoke: errors.New("etcd is away")})},
		"lease is recorded":               {looks: always(idle), lease: true},
		"of no pool":                      {looks: always(busy), stray: true},
		"never ready":                     {looks: always(sight{unready: timeout, silent: timeout, why: timeout}), record: neverReady, limit: time.Minute},
		"never ready, metrics of an idle": {looks: always(sight{unready: errors.New("503"), known: true}), record: neverReady, limit: time.Minute},
		"never ready, metrics of a busy":  {looks: always(sight{unready: errors.New("503"), known: true, requests: 1}), record: neverReady},
		"never ready, answers now":        {looks: always(busy), record: neverReady},
		"its leader died":                 {looks: always(busy), record: func(r *record) { r.Crashed = true }, limit: tick},
		"begin unknown":                   {looks: always(busy), record: func(r *record) { r.DrainAt = time.Time{} }},
		"clock set back":                  {looks: always(busy), record: func(r *record) { r.DrainAt = begin.AddDate(1, 0, 0) }},
		"clock set back after TERM":       {looks: always(busy), record: func(r *record) { r.DrainAt, r.TermAt = begin.AddDate(1, 0, 0), begin.AddDate(1, 0, 0) }},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Namespace: "ns", Leases: noLeases{}, Pools: []Pool{{Component: "D", DrainsOnTERM: c.drains, Template: command.Template{Grace: grace}}}}.withDefaults()
			worker, due := "ns_D", cmp.Or(c.limit, grace)
			if c.stray {
				worker, due = "ns_X", defaultGrace
			}
			limit := due + o.TermGrace + 3*tick
			e := &entry{rest: object{}, own: record{State: Draining, PID: self.PID, Start: self.Start, Boot: self.Boot, ReadyAt: begin.Add(-time.Hour), DrainAt: begin}}
			if c.record != nil {
				c.record(&e.own)
			}
			if c.lease {
				e.rest[keyLease] = []byte("7")
			}
			target := &Target{opts: o, past: map[string]*past{}, stuck: map[string]string{}}
			for at := time.Duration(0); at <= limit; at += tick {
				r := turn{Target: target, doc: &document{entries: map[string]*entry{worker: e}}, seen: map[string]sight{}, now: begin.Add(at), failed: map[string]bool{}}
				if s := c.looks(int(at / tick)); s != nil {
					s.of = e.own.handle()
					r.seen[worker] = *s
				}
				r.watch()
				r.drain()
				if len(r.orders) == 0 {
					continue
				}
				if c.limit == 0 && at < due {
					t.Fatalf("%v after %v, want none in %v", r.orders[0].sig, at, due)
				}
				if r.orders[0].sig == syscall.SIGKILL {
					return
				}
			}
			t.Errorf("no KILL after %v: %s", limit, target.stuck[worker])
		})
	}
}

type noLeases struct{ Leases }

// Gauges that stand, or none, make no worker idle while its counters move, nor sooner after
// than Options.IdleAfter, nor where it has no counters.
func TestStandingMetrics(t *testing.T) {
	self, err := process.HandleOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const lastMove = 20 // minutes
	says := func(text string) func(int) string {
		return func(n int) string { return strings.ReplaceAll(text, "N", strconv.Itoa(n)) }
	}
	for name, c := range map[string]struct {
		pages map[string]func(minute int) string // by path
		want  int                                // minutes to TERM; 61: the grace
	}{
		"vLLM 0.10.1":      {map[string]func(int) string{"/metrics": says("vllm:num_requests_running 2\nvllm:num_requests_waiting 1\nvllm:generation_tokens_total N\n")}, 30},
		"vLLM in prefill":  {map[string]func(int) string{"/metrics": says("vllm:num_requests_running 2\nvllm:num_requests_waiting 1\nvllm:generation_tokens_total 7\nvllm:kv_cache_usage_perc 0.N\n")}, 30},
		"vLLM's ends":      {map[string]func(int) string{"/metrics": says("vllm:num_requests_running 2\nvllm:num_requests_waiting 1\nvllm:request_success_total{finished_reason=\"stop\"} N\nvllm:request_success_total{finished_reason=\"length\"} 99\n")}, 30},
		"SGLang":           {map[string]func(int) string{"/metrics": says("sglang:num_running_reqs 2\nsglang:num_queue_reqs 0\nsglang:generation_tokens_total 7\n# TYPE sglang:inter_token_latency_seconds histogram\nsglang:inter_token_latency_seconds_bucket{le=\"+Inf\"} N\nsglang:inter_token_latency_seconds_sum 1\nsglang:inter_token_latency_seconds_count N\n")}, 30},
		"llama.cpp":        {map[string]func(int) string{"/metrics": says("llamacpp:requests_processing 1\nllamacpp:requests_deferred 0\nllamacpp:prompt_tokens_total 5\nllamacpp:n_decode_total N\n")}, 30},
		"trtllm-serve 1.1": {map[string]func(int) string{"/metrics": says("[]"), "/prometheus/metrics": says("request_success_total{finished_reason=\"length\"} N\n# TYPE e2e_request_latency_seconds histogram\ne2e_request_latency_seconds_count N\n# TYPE request_queue_time_seconds histogram\nrequest_queue_time_seconds_count N\n")}, 30},
		"trtllm-serve 1.3": {map[string]func(int) string{"/metrics": says("[]"), "/prometheus/metrics": says("trtllm_num_requests_running 1\ntrtllm_num_requests_waiting 0\ntrtllm_generation_tokens_total N\n")}, 30},
		"trtllm-serve's steps": {map[string]func(int) string{"/metrics": func(n int) string {
			if n == lastMove {
				return "[]"
			}
			return says(`[{"iter":N,"numActiveRequests":1}]`)(n)
		}}, 30},
		"trtllm-serve without either": {map[string]func(int) string{"/metrics": says("[]")}, 61},
		"Dynamo in prefill":           {map[string]func(int) string{"/metrics": says("dynamo_component_inflight_requests{dynamo_endpoint=\"generate\"} 1\ndynamo_component_requests_total N\n")}, 30},
		"no counters":                 {map[string]func(int) string{"/metrics": says("vllm:num_requests_running 2\nvllm:num_requests_waiting 1\n")}, 61},
		"idle":                        {map[string]func(int) string{"/metrics": says("dynamo_component_inflight_requests 0\n")}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			minute := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if page := c.pages[r.URL.Path]; page != nil {
					_, _ = io.WriteString(w, page(min(minute, lastMove)))
				} else {
					http.NotFound(w, r)
				}
			}))
			defer server.Close()
			begin := time.Unix(1e9, 0)
			o := Options{Namespace: "ns", Pools: []Pool{{Component: "D", Template: command.Template{Grace: time.Hour}}}, Settle: time.Second, IdleAfter: 10 * time.Minute}.withDefaults()
			e := &entry{rest: object{}, own: record{State: Draining, PID: self.PID, Start: self.Start, Boot: self.Boot, ReadyAt: begin.Add(-time.Hour), DrainAt: begin}}
			target := &Target{opts: o, past: map[string]*past{}, stuck: map[string]string{}}
			for ; minute <= 61; minute++ {
				s := sight{of: e.own.handle()}
				s.read(t.Context(), server.Client(), server.URL+metricsPath)
				r := turn{Target: target, doc: &document{entries: map[string]*entry{"ns_D": e}}, seen: map[string]sight{"ns_D": s}, now: begin.Add(time.Duration(minute) * time.Minute)}
				r.watch()
				if r.drain(); len(r.orders) > 0 {
					break
				}
			}
			if minute != c.want {
				t.Errorf("TERM after %d minutes, want %d: %s", minute, c.want, target.stuck["ns_D"])
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
