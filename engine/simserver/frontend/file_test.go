package frontend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/renameio/v2"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/planner/connect/local"
)

// stateText is a state file of planner/connect/local.
func stateText(t testing.TB, workers ...Worker) []byte {
	t.Helper()
	components := map[string]any{}
	for i, w := range workers {
		components[w.Name] = map[string]any{
			"watcher_name": w.Name, "cmd": "x", "resources": map[string]any{},
			"role": w.Role, "state": w.State, "pid": 1000 + i, "start_ticks": 1, "boot_id": "b", "host": "127.0.0.1", "port": 9000 + i, "url": w.URL,
			"log": "/l", "started_at": time.Unix(1, 0).UTC(),
		}
	}
	b, err := json.Marshal(map[string]any{"components": components})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// readState is what the command gives File to read with.
func readState(path string) ([]Worker, error) {
	list, err := local.Workers(path)
	var out []Worker
	for _, w := range list {
		out = append(out, Worker{w.Name, w.Role, w.URL, State(w.State)})
	}
	return out, err
}

func worker1(name string, state State) Worker {
	return Worker{Name: name, Role: engine.RoleAggregated, URL: "http://127.0.0.1:9000", State: state}
}

// The file as the planner's connector writes it is followed from nothing to
// nothing; one that is torn leaves the workers as they were.
func TestFollowStateFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dynamo.json")
	f, err := New(Options{Namespace: "dynamo"})
	if err != nil {
		t.Fatal(err)
	}
	var log lines
	f.log.SetOutput(&log)
	ctx, cancel := context.WithCancel(t.Context())
	var follows sync.WaitGroup
	follows.Go(func() { File{Path: path, Read: readState, Every: time.Millisecond}.Follow(ctx, f) })
	defer follows.Wait()
	defer cancel()

	write := func(b []byte) {
		t.Helper()
		if err := renameio.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	is := func(want string) func() bool {
		return func() bool {
			var got []string
			for _, m := range f.pool.load().members {
				got = append(got, fmt.Sprintf("%s:%s", m.Name, m.State))
			}
			return fmt.Sprint(got) == want
		}
	}
	enginetest.Eventually(t, "no file is no worker", func() bool { return slices.Contains(log.all(), "frontend: no workers: requests wait") })
	write(stateText(t, worker1("w", Starting)))
	enginetest.Eventually(t, "one starts", is("[w:starting]"))
	write(stateText(t, worker1("w", Ready)))
	enginetest.Eventually(t, "it is ready", is("[w:ready]"))
	whole := stateText(t, worker1("w", Draining))
	write(whole[:len(whole)/2])
	enginetest.Eventually(t, "it is said that the file is torn", func() bool { return len(log.with("stay as they were")) > 0 })
	if !is("[w:ready]")() {
		t.Errorf("%+v", f.pool.load().members)
	}
	time.Sleep(20 * time.Millisecond)
	if n := len(log.with("stay as they were")); n != 1 {
		t.Errorf("it was said %d times", n)
	}
	write(whole)
	enginetest.Eventually(t, "it drains", is("[w:draining]"))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	enginetest.Eventually(t, "it is gone", is("[]"))
}

// A file that changes faster than its times: the last state is seen, whether it is
// replaced or written in place, with the same size and the same time.
func TestStateFileRaces(t *testing.T) {
	for name, write := range map[string]func(string, []byte) error{
		"replaced": func(path string, b []byte) error { return renameio.WriteFile(path, b, 0o644) },
		"in place": func(path string, b []byte) error {
			if err := os.WriteFile(path, b, 0o644); err != nil {
				return err
			}
			now := time.Now().Truncate(time.Second) // a file system with coarse times
			return os.Chtimes(path, now, now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.json")
			var got []Worker
			calls := 0
			s := seenFile{
				File: File{Path: path, Read: readState}, logf: t.Logf,
				set: func(list []Worker) { got, calls = list, calls+1 },
			}
			for i := range 200 {
				want := worker1("w", Ready)
				want.URL = fmt.Sprintf("http://127.0.0.1:%d", 9000+i) // of the same length
				if err := write(path, stateText(t, want)); err != nil {
					t.Fatal(err)
				}
				s.look(time.Now())
				if !slices.Equal(got, []Worker{want}) {
					t.Fatalf("number %d: %+v, want %+v", i, got, want)
				}
			}
			before := calls
			s.look(time.Now())
			if calls != before {
				t.Error("a file that did not change was taken again")
			}
		})
	}
}

// A writer that never stops, and a reader: no list is ever half of one.
func TestReadersNeverSeeHalfAList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.json")
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	writers.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			var list []Worker
			for k := range 1 + i%20 {
				w := worker1(fmt.Sprintf("w_%d", k+1), Ready)
				w.URL = fmt.Sprintf("http://127.0.0.1:%d", 10_000+i%20)
				list = append(list, w)
			}
			if err := renameio.WriteFile(path, stateText(t, list...), 0o644); err != nil {
				t.Error(err)
			}
		}
	})
	lists := 0
	s := seenFile{File: File{Path: path, Read: readState}, logf: t.Errorf, set: func(list []Worker) {
		lists++
		for _, w := range list {
			if w.URL != fmt.Sprintf("http://127.0.0.1:%d", 10_000+len(list)-1) {
				t.Errorf("%d workers, one of them %+v", len(list), w)
			}
		}
	}}
	enginetest.Eventually(t, "many lists were read", func() bool { s.look(time.Now()); return lists > 100 })
	cancel()
	writers.Wait()
}

// What is unreadable for long is said once, and again when it says something else.
func TestUnreadableFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	said, fails := 0, errors.New("broken")
	s := seenFile{
		File: File{Path: path, Read: func(string) ([]Worker, error) { return nil, fails }},
		logf: func(string, ...any) { said++ }, set: func([]Worker) { t.Error("it has no list") },
	}
	s.look(time.Now())
	s.look(time.Now())
	fails = errors.New("broken otherwise")
	s.look(time.Now())
	if said != 2 {
		t.Errorf("said %d times", said)
	}
}

// Workers that are not valid get no requests, and the others do.
func TestInvalidWorkersAreLeftOut(t *testing.T) {
	f, err := New(Options{Namespace: "n"})
	if err != nil {
		t.Fatal(err)
	}
	f.SetWorkers([]Worker{worker1("a", Ready), worker1("a", Ready), {Name: "b", Role: "chef", URL: "http://b", State: Ready}, {Name: "c", Role: engine.RoleDecode, URL: "b", State: Ready}, {Name: "d", Role: engine.RoleDecode, URL: "http://b", State: "asleep"}})
	if m := f.pool.load().members; len(m) != 1 || m[0].Name != "a" {
		t.Errorf("%+v", m)
	}
}

// lines are what a log says, without its times.
type lines struct {
	mu   sync.Mutex
	said []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, string(p[min(len("2006/01/02 15:04:05 "), len(p)):max(0, len(p)-1)]))
	return len(p), nil
}

func (l *lines) all() []string { return l.with("") }

func (l *lines) with(text string) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.said {
		if text == "" || strings.Contains(s, text) {
			out = append(out, s)
		}
	}
	return out
}
