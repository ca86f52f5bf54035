package planner

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/testdata/integration/free"
	"plimsoll/testdata/integration/program"
)

// TestMain lets tests wait beside each other: they are busy for little of their
// time.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// pair is replicas of prefill and decode.
type pair struct{ Prefill, Decode int }

// event is a line of the event log.
type event struct {
	At          time.Time
	Deployment  string
	Kind, Text  string
	Observation struct {
		Problems []string
		Arrivals *float64
		Length   time.Duration `json:"length_ns"`
	}
	Decision struct {
		From, Want pair
		Act        bool
		Missing    []string
		Warnings   []struct{ Code, Message string }
		Steps      []struct{ Rule, Why string }
	}
}

func (e event) warns(code string) bool {
	return slices.ContainsFunc(e.Decision.Warnings, func(w struct{ Code, Message string }) bool { return w.Code == code })
}

// served is a planner that can be started again: with its state file, its events
// and its address.
type served struct {
	*program.Background
	t                  *testing.T
	args               []string
	env                []string
	site, events, file string
}

// serve starts a planner by a published profile, which decides every two seconds.
func serve(t *testing.T, namespace string, args ...string) *served {
	t.Helper()
	s := plan(t, namespace, args...)
	s.start()
	return s
}

// plan is a planner that is not started yet.
func plan(t *testing.T, namespace string, args ...string) *served {
	t.Helper()
	dir, site := t.TempDir(), free.Address(t)
	s := &served{t: t, site: "http://" + site, events: filepath.Join(dir, "events.jsonl"), file: filepath.Join(dir, "state.json")}
	s.args = append([]string{
		"planner", "serve", "--namespace", namespace, "--profile", published(t), "--accept-provenance", "published", "--ttft", "300", "--itl", "20",
		"--adjustment-interval", "2", "--startup-time", "1s", "--scale-down-after", "5s", "--max-scale-down", "8", "--load-predictor", "constant", "--headroom", "0",
		"--backend", "dynamo", "--metrics-namespace", namespace, "--listen", site, "--event-log", s.events, "--state-file", s.file,
	}, args...)
	return s
}

func (s *served) start() {
	s.t.Helper()
	s.Background = program.Start(s.t, s.env, s.args...)
}

// published is a folder with a profile of Dynamo's, as its profiler leaves it.
func published(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, phase := range []string{"prefill", "decode"} {
		b, err := os.ReadFile(filepath.Join("..", "..", "npz", "h200-8b-fp8-tp1-"+phase+".npz"))
		if err != nil {
			t.Fatal(err)
		}
		in := filepath.Join(dir, "selected_"+phase+"_interpolation")
		if err := os.Mkdir(in, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(in, "raw_data.npz"), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// all are the events so far; each line of the log has to be whole.
func (s *served) all() []event {
	s.t.Helper()
	b, err := os.ReadFile(s.events)
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	var list []event
	whole := b[:bytes.LastIndexByte(b, '\n')+1]
	for line := range bytes.Lines(whole) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			s.t.Fatalf("%v in the event log: %s", err, line)
		}
		list = append(list, e)
	}
	return list
}

// after waits for an event since an instant.
func (s *served) after(begin time.Time, within time.Duration, what string, is func(event) bool) event {
	s.t.Helper()
	var found event
	program.Until(s.t, within, what, func() bool {
		all := s.all()
		i := slices.IndexFunc(all, func(e event) bool { return e.At.After(begin) && is(e) })
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	return found
}

// decisions waits until so many more decisions are made, and gives them.
func (s *served) decisions(n int) []event {
	s.t.Helper()
	begin := time.Now()
	var list []event
	program.Until(s.t, 60*time.Second, "more decisions", func() bool {
		list = slices.DeleteFunc(s.all(), func(e event) bool { return e.Kind != "decision" || !e.At.After(begin) })
		return len(list) >= n
	})
	return list
}

// count is how many events there are of a kind.
func (s *served) count(kind string) int {
	n := 0
	for _, e := range s.all() {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// wants waits until the last decision wants replicas as ok has it.
func (s *served) wants(within time.Duration, what string, ok func(pair) bool) pair {
	s.t.Helper()
	e := s.after(time.Now(), within, what, func(e event) bool { return e.Kind == "decision" && ok(e.Decision.Want) })
	return e.Decision.Want
}

// is compares replicas.
func is(want pair) func(pair) bool { return func(p pair) bool { return p == want } }

// ofKind are events of a kind with a text.
func ofKind(kind, text string) func(event) bool {
	return func(e event) bool { return e.Kind == kind && strings.Contains(e.Text, text) }
}
