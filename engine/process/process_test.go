package process_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/process"
)

func TestReadyAndStop(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, mode := range []string{"ready", "slow", "garbage", "chatty", "family"} {
		t.Run(mode, func(t *testing.T) {
			s := spec(t, mode)
			p, err := process.Start(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Ready(t.Context()); err != nil {
				t.Error(err)
			}
			if err := p.Err(); err != nil {
				t.Errorf("running: Err() = %v", err)
			}
			if !alive(p.PID()) {
				t.Errorf("process %d is not alive", p.PID())
			}
			s.Grace = 0
			for range 2 { // Stop is idempotent
				if err := p.Stop(canceled()); err != nil {
					t.Error(err)
				}
			}
			<-p.Done()
			if err := p.Err(); err != nil {
				t.Errorf("stopped: Err() = %v", err)
			}
			if alive(p.PID()) {
				t.Errorf("process %d is still alive", p.PID())
			}
		})
	}
}

func TestDetached(t *testing.T) {
	defer goleak.VerifyNone(t)
	s := spec(t, "polite")
	s.Detached = true
	p := start(t, s)
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sid, err := sessionOf(p.PID()); err != nil || sid != p.PID() {
		t.Errorf("session %d, %v: want its own, %d", sid, err, p.PID())
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if alive(p.PID()) || p.Err() != nil {
		t.Errorf("alive %v, Err() = %v", alive(p.PID()), p.Err())
	}
}

func TestDetachedEndsByItself(t *testing.T) {
	s := spec(t, "exit3")
	s.Detached = true
	var exited *process.ExitError
	if err := start(t, s).Ready(t.Context()); !errors.As(err, &exited) || exited.Code != 3 {
		t.Errorf("got %v", err)
	}
}

func TestStopGivesGrace(t *testing.T) {
	p := start(t, spec(t, "polite"))
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if tail := p.Tail(1); !slices.Equal(tail, []string{"finished requests"}) {
		t.Errorf("tail %q: it was not let finish", tail)
	}
}

func TestStopKillsTheStubborn(t *testing.T) {
	s := spec(t, "stubborn")
	s.Grace = 100 * time.Millisecond
	p := start(t, s)
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if alive(p.PID()) || time.Since(began) < s.Grace {
		t.Errorf("alive %v after %v", alive(p.PID()), time.Since(began))
	}
}

func TestStopEndsGrandchildren(t *testing.T) {
	s := spec(t, "family")
	s.Grace = 100 * time.Millisecond
	p := start(t, s)
	family := pids(t, s, 3)
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, pid := range family {
		if alive(pid) {
			t.Errorf("process %d of %v is still alive when Stop returns", pid, family)
		}
	}
}

func TestEarlyDeathEndsGrandchildren(t *testing.T) {
	s := spec(t, "deadbeat")
	p := start(t, s)
	var exited *process.ExitError
	if err := p.Ready(t.Context()); !errors.As(err, &exited) || exited.Code != 7 {
		t.Fatalf("got %v, want exit code 7", err)
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(s.LogPath)), "pids"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(f); err == nil && alive(pid) {
			t.Errorf("process %d is still alive when Done is closed", pid)
		}
	}
}

func TestStopConcurrently(t *testing.T) {
	s := spec(t, "stubborn")
	s.Grace = 200 * time.Millisecond
	p := start(t, s)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			ctx := t.Context()
			if i == 7 {
				ctx = canceled()
			}
			if err := p.Stop(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if alive(p.PID()) {
		t.Error("still alive")
	}
}

func TestStopDuringReady(t *testing.T) {
	p := start(t, spec(t, "never"))
	got := make(chan error)
	go func() { got <- p.Ready(context.Background()) }()
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err == nil || !strings.Contains(err.Error(), "stopped before it was ready") {
		t.Errorf("Ready: %v", err)
	}
}

func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*engine.Spec)
		want string
	}{
		{"no command", func(s *engine.Spec) { s.Argv = nil }, "command is empty"},
		{"not on PATH", func(s *engine.Spec) { s.Argv = []string{"no-such-engine-anywhere"} }, "not on PATH: install it"},
		{"no such file", func(s *engine.Spec) { s.Argv = []string{"/no/such/engine"} }, "does not exist"},
		{"not executable", func(s *engine.Spec) { s.Argv = []string{"main_test.go"} }, "main_test.go"},
		{"a text", func(s *engine.Spec) { s.Argv = []string{textFile(t)} }, "exec format error"},
		{"no port", func(s *engine.Spec) { s.Port = 0 }, "want 1 to 65535"},
		{"no log", func(s *engine.Spec) { s.LogPath = "" }, "no log file"},
		{"log is a folder", func(s *engine.Spec) { s.LogPath = t.TempDir() }, "opening the log"},
		{"zero byte", func(s *engine.Spec) { s.Argv = append(s.Argv, "a\x00b") }, "zero byte"},
		{"path", func(s *engine.Spec) { s.ReadyPath = "health" }, "begins with /"},
		{"grace", func(s *engine.Spec) { s.Grace = -1 }, "negative"},
	} {
		for _, detached := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				s := spec(t, "ready")
				s.Detached = detached
				c.edit(&s)
				p, err := process.Start(t.Context(), s)
				if err == nil {
					_ = p.Stop(t.Context())
					t.Fatal("started")
				}
				if !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "starting ready: ") {
					t.Errorf("got %q, want it to say %q", err, c.want)
				}
			})
		}
	}
}

// textFile may be executed, but no system knows how.
func textFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte("just words\n"), 0o700); err != nil { //nolint:gosec // executable on purpose
		t.Fatal(err)
	}
	return path
}

func TestWhatTheEngineIsGiven(t *testing.T) {
	s := spec(t, "describe")
	s.Argv = append(s.Argv, "two words", "$HOME", "")
	s.Env = append(s.Env, "GREETING=first", "GREETING=a=b c")
	s.GPUs = []string{"2", "GPU-5"}
	p := start(t, s)
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	text := logOf(t, p)
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"dir " + dir, "args two words|$HOME|\n", "GREETING=a=b c true", "CUDA_VISIBLE_DEVICES=2,GPU-5 true",
		"CUDA_DEVICE_ORDER=PCI_BUS_ID true", "fd 0 /dev/null", "fd 1 " + s.LogPath, "fd 2 " + s.LogPath, "leader true",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q in:\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); f[0] == "fd" && f[1] > "2" && !strings.Contains(line, "/proc/") && !strings.Contains(line, "/cgroup") {
			t.Errorf("a descriptor leaked: %s", line)
		}
	}
	if strings.Contains(text, "GREETING=first") {
		t.Error("a variable is given twice")
	}
}

func TestGPUs(t *testing.T) {
	for _, c := range []struct {
		gpus []string
		want string
	}{{nil, "CUDA_VISIBLE_DEVICES=7 true"}, {[]string{}, "CUDA_VISIBLE_DEVICES= true"}, {[]string{"1"}, "CUDA_VISIBLE_DEVICES=1 true"}} {
		t.Setenv("CUDA_VISIBLE_DEVICES", "7")
		t.Setenv("HIP_VISIBLE_DEVICES", "7")
		s := spec(t, "describe")
		s.GPUs = c.gpus
		p := start(t, s)
		if err := p.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if text := logOf(t, p); !strings.Contains(text, c.want+"\n") || !strings.Contains(text, strings.Replace(c.want, "CUDA", "HIP", 1)+"\n") {
			t.Errorf("%v: want %q, and HIP's alike, in:\n%s", c.gpus, c.want, text)
		}
	}
}

func TestLogIsKept(t *testing.T) {
	s := spec(t, "exit3")
	for i := range 2 {
		p := start(t, s)
		<-p.Done()
		if text := logOf(t, p); strings.Count(text, "loading weights") != 1 {
			t.Errorf("run %d: its log is %q", i, text)
		}
		if tail := p.Tail(100); len(tail) != 2 {
			t.Errorf("run %d: its tail is %q", i, tail)
		}
	}
	text, err := os.ReadFile(s.LogPath)
	if err != nil || strings.Count(string(text), "loading weights") != 2 {
		t.Errorf("the file holds %q, %v: want both runs", text, err)
	}
}

func TestTail(t *testing.T) {
	p := start(t, spec(t, "chatty"))
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := p.Tail(2), []string{"line 199998", "line 199999"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := len(p.Tail(1 << 30)); n == 0 || n > 64<<10 {
		t.Errorf("%d lines: want a bounded number", n)
	}
	g := start(t, spec(t, "garbage"))
	if err := g.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	tail := g.Tail(5)
	if len(tail) != 1 || !strings.HasPrefix(tail[0], "garbage garbage") && !strings.Contains(tail[0], "garbage garbage") || len(tail[0]) > 500 {
		t.Errorf("got %q", tail)
	}
}

func logOf(t *testing.T, p *process.Process) string {
	t.Helper()
	r, err := p.Log()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	text, err := io.ReadAll(bufio.NewReader(r))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// program starts a program that starts an engine, and gives the engine's spec.
func startProgram(t *testing.T, detached bool) (*exec.Cmd, engine.Spec) {
	t.Helper()
	s := spec(t, "program")
	c := enginetest.Command(t, testBinary(t))
	c.Env = append(os.Environ(), s.Env...)
	if detached {
		c.Env = append(c.Env, "PROCESS_TEST_DETACHED=1")
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "started ") {
		_ = c.Process.Kill()
		t.Fatalf("the program says %q, %v", line, err)
	}
	return c, s
}

func withPort(t *testing.T, s engine.Spec) engine.Spec {
	t.Helper()
	port, err := process.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	s.Port = port
	s.Env = append(slices.Clone(s.Env), portVar+"="+strconv.Itoa(port))
	return s
}

func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	http.DefaultClient.CloseIdleConnections()
	defer func() { _ = resp.Body.Close() }()
	return resp.Status
}
