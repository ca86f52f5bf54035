package planner

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"plimsoll/testdata/integration/etcd"
)

// gate is a way to Prometheus on which something may happen.
type gate struct {
	url  string
	fate atomic.Int32
}

const (
	open int32 = iota
	refuses
	sleeps
	empties
)

func newGate(t *testing.T, to string) *gate {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g, way := &gate{url: "http://" + l.Addr().String()}, httputil.NewSingleHostReverseProxy(target)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch g.fate.Load() {
		case refuses:
			panic(http.ErrAbortHandler) // the connection breaks
		case sleeps:
			<-r.Context().Done()
		case empties:
			_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[]}}`))
		default:
			way.ServeHTTP(w, r)
		}
	})}
	go func() { _ = s.Serve(l) }() // until the test ends
	t.Cleanup(func() { _ = s.Close() })
	return g
}

// acknowledged carries every decision out at once.
func acknowledged(t *testing.T, on *etcd.Cluster) {
	t.Helper()
	client, written := on.Client(), on.Client().Watch(t.Context(), "v1/", clientv3.WithPrefix())
	go func() {
		for answer := range written {
			for _, e := range answer.Events {
				key := string(e.Kv.Key)
				if before, ok := strings.CutSuffix(key, "/decision_id"); ok && e.Type == clientv3.EventTypePut {
					_, _ = client.Put(t.Context(), before+"/scaled_decision_id", string(e.Kv.Value)) // its time is over with the test
				}
			}
		}
	}()
}

// promptly is a planner whose decisions are carried out at once.
func promptly(t *testing.T, on *etcd.Cluster, prometheus, namespace string, args ...string) *served {
	t.Helper()
	return serve(t, namespace, append([]string{"--environment", "virtual", "--etcd-endpoints", on.Endpoints[0], "--prometheus-endpoint", prometheus}, args...)...)
}

// brisk is a rate, 1/s, that takes two prefill engines by a good margin: at 30 a
// third is due, and what is counted in two seconds decides.
const brisk = 26

// busy is what steady(brisk) needs.
func busy(p pair) bool { return p.Prefill >= 2 && p.Prefill+p.Decode <= 8 }

// A planner that decides more often than Prometheus scrapes sees the load all the
// same: Prometheus' own default is a minute, the planner's a quarter of one.
func TestScrapedRarely(t *testing.T) {
	t.Parallel()
	on := etcd.Start(t, 1)
	acknowledged(t, on)
	f := newTraffic(t, "rarely")
	s := promptly(t, on, prometheusEvery(t, 3*time.Second, f.address), "rarely")
	f.set(steady(brisk), figures)
	begin := time.Now()
	s.after(begin, 40*time.Second, "it says that it looks further back", func(e event) bool {
		return slices.ContainsFunc(e.Observation.Problems, func(p string) bool { return strings.Contains(p, "scraped too rarely for ") })
	})
	s.wants(30*time.Second, "what the load takes", busy)
	time.Sleep(10 * time.Second) // nothing is looked for anew
	blind := 0
	for _, e := range s.decisions(5) {
		if e.Observation.Arrivals == nil {
			blind++
		}
	}
	if blind > 0 {
		t.Errorf("arrivals are missing in %d of 5 decisions", blind)
	}
}

// Whatever happens to the metrics, nothing moves because of it, or to where the
// user said.
func TestMetricsFaults(t *testing.T) {
	t.Parallel()
	on := etcd.Start(t, 1)
	acknowledged(t, on)
	names := []string{"refused", "slow", "empty", "nan", "gone", "reset", "higher"}
	sites, scraper := frontends(t, names...)
	for _, c := range []struct {
		name        string
		args        []string
		breaks      func(*traffic, *gate)
		said        string
		from        float64 // requests/s before
		want        func(was, now pair) bool
		keepsFigure bool // nothing is missing
	}{
		{name: "refused", breaks: func(_ *traffic, g *gate) { g.fate.Store(refuses) }, said: "EOF"},
		{name: "slow", breaks: func(_ *traffic, g *gate) { g.fate.Store(sleeps) }, said: "no answer within"},
		{name: "empty", breaks: func(_ *traffic, g *gate) { g.fate.Store(empties) }, said: "has no series of"},
		{name: "nan", breaks: func(f *traffic, _ *gate) { f.set(steady(brisk), notNumbers) }, said: "NaN"},
		{name: "gone", breaks: func(f *traffic, _ *gate) { f.set(steady(brisk), nothing) }, said: "no samples of dynamo_frontend_requests_started_total|has no series of"},
		{name: "reset", breaks: func(f *traffic, _ *gate) { f.stop(); f.start(t) }, keepsFigure: true},
		{
			name: "higher", args: []string{"--on-metrics-loss", "hold-if-higher", "--static-prefill", "1", "--static-decode", "4"},
			breaks: func(_ *traffic, g *gate) { g.fate.Store(refuses) }, said: "EOF", want: func(was, now pair) bool { return now == pair{was.Prefill, 4} },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			site, way := sites[c.name], newGate(t, scraper)
			site.set(steady(brisk), figures)
			s := promptly(t, on, way.url, c.name, c.args...)
			was := s.wants(30*time.Second, "enough for the load", busy)
			s.decisions(1)
			begin := time.Now()
			c.breaks(site, way)
			if c.keepsFigure {
				for _, e := range s.decisions(5) {
					if e.Decision.Want != was || len(e.Decision.Missing) > 0 {
						t.Errorf("counters began anew, and it was decided %+v: %v", e.Decision, e.Observation.Problems)
					}
				}
				return
			}
			lost := s.after(begin, 40*time.Second, "it is without metrics", func(e event) bool { return len(e.Decision.Missing) > 0 })
			text := s.problems(begin)
			if !regexp.MustCompile(c.said).MatchString(text) {
				t.Errorf("what it says lacks %s: %s", c.said, text)
			}
			if c.want == nil {
				c.want = func(was, now pair) bool { return now == was }
			}
			for _, e := range append(s.decisions(1), lost) {
				if !c.want(was, e.Decision.Want) {
					t.Errorf("without metrics %v became %v: %+v", was, e.Decision.Want, e.Decision.Steps)
				}
			}
			way.fate.Store(open)
			site.set(steady(brisk), figures)
			back := time.Now()
			s.after(back, 40*time.Second, "the metrics are back", func(e event) bool { return e.Kind == "decision" && len(e.Decision.Missing) == 0 })
			site.set(steady(2), figures)
			s.wants(40*time.Second, "it falls again", is(pair{1, 1}))
		})
	}
}

// problems is what was said to be wrong since an instant.
func (s *served) problems(since time.Time) string {
	var text strings.Builder
	for _, e := range s.all() {
		if e.At.After(since) {
			text.WriteString(e.Text + "\n" + strings.Join(e.Observation.Problems, "\n"))
		}
	}
	return text.String()
}

// A planner that is killed in the middle of a decision goes on where it was, and
// asks for nothing twice; its event log stays whole.
func TestKilledAt(t *testing.T) {
	t.Parallel()
	on := etcd.Start(t, 1)
	acknowledged(t, on)
	kinds := []string{"decision", "scaled"}
	sites, scraper := frontends(t, kinds...)
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, o := promptly(t, on, scraper, kind), other{t, kind, on}
			s.decisions(1)
			sites[kind].set(steady(brisk), figures)
			last := int64(len(s.log()))
			for moment := time.Now(); !bytes.Contains(s.log()[last:], []byte(`"kind":"`+kind+`"`)) || !bytes.Contains(s.log()[last:], []byte(`"act":true`)); {
				if time.Since(moment) > 20*time.Second {
					t.Fatal("it does not scale")
				}
			}
			s.Kill()
			killed := time.Now()
			s.start()
			s.after(killed, 30*time.Second, "it is back", ofKind("started", ""))
			want := s.wants(30*time.Second, "enough for the load", busy)
			for _, e := range s.decisions(2) {
				if e.Decision.Act || e.Decision.Want != want || e.warns("edited") {
					t.Errorf("after its restart it decided %+v", e.Decision)
				}
			}
			if got, _ := o.keys(); got["decision_id"] != "1" {
				t.Errorf("after one rise of the load etcd holds %v", got)
			}
			s.all() // each line is whole
		})
	}
}

func (s *served) log() []byte {
	b, err := os.ReadFile(s.events)
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// A state file that is damaged is set aside for whoever wants to look, and the planner
// goes on.
func TestDamagedStateFile(t *testing.T) {
	t.Parallel()
	on := etcd.Start(t, 1)
	acknowledged(t, on)
	_, scraper := frontends(t, "torn")
	s := promptly(t, on, scraper, "torn")
	s.decisions(1)
	if code := s.Stop(); code != 0 {
		t.Errorf("TERM ends it with %d", code)
	}
	whole, err := os.ReadFile(s.file)
	if err != nil || !json.Valid(whole) {
		t.Fatalf("%v: %s", err, whole)
	}
	torn := whole[:len(whole)/2]
	if err := os.WriteFile(s.file, torn, 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.decisions(1)
	if now, err := os.ReadFile(s.file + ".damaged"); err != nil || !bytes.Equal(now, torn) {
		t.Errorf("the damaged state file was set aside as %q: %v", now, err)
	}
	if !bytes.Contains(s.log(), []byte(s.file+" is damaged")) {
		t.Errorf("it does not say that the state file is damaged:\n%s", s.log())
	}
}
