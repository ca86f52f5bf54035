package process_test

import (
	"bufio"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"plimsoll/engine/enginetest"

	"golang.org/x/sys/unix"
)

func sessionOf(pid int) (int, error) { return unix.Getsid(pid) }

// Nothing survives the program, whatever ends it.
func TestProgramKilled(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGSEGV} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			c, s := startProgram(t, false)
			family := append(pids(t, s, 3), parentOf(t, pids(t, s, 3)[0]))
			if err := c.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			_ = c.Wait()
			for _, pid := range family {
				enginetest.Eventually(t, "the end of process "+strconv.Itoa(pid), func() bool { return !alive(pid) })
			}
		})
	}
}

// When KillAll returns, nothing is left of an engine whose processes ignore TERM, and no
// other one is started.
func TestKillAll(t *testing.T) {
	s := spec(t, "ending")
	c := enginetest.Command(t, testBinary(t))
	c.Env = append(os.Environ(), s.Env...)
	out, err1 := c.StdoutPipe()
	in, err2 := c.StdinPipe()
	if err := errors.Join(err1, err2, c.Start()); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	if !said.Scan() || !strings.HasPrefix(said.Text(), "started ") {
		t.Fatalf("it says %q", said.Text())
	}
	family := pids(t, s, 3)
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if !said.Scan() || said.Text() != "true" {
		t.Fatalf("it says %q", said.Text())
	}
	for _, pid := range family {
		if alive(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
}

func TestDetachedOutlivesTheProgram(t *testing.T) {
	c, s := startProgram(t, true)
	family := pids(t, s, 3)
	t.Cleanup(func() {
		for _, pid := range family {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	if got := get(t, "http://127.0.0.1:"+strconv.Itoa(s.Port)+"/health"); got != "200 OK" {
		t.Errorf("a detached engine answers %q after the end of its program", got)
	}
	for _, pid := range family {
		if !alive(pid) {
			t.Errorf("process %d of a detached engine is gone", pid)
		}
	}
}

// The engine does not survive its supervisor either.
func TestSupervisorKilled(t *testing.T) {
	s := spec(t, "ready")
	p := start(t, s)
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	supervisor := parentOf(t, p.PID())
	if supervisor == os.Getpid() {
		t.Fatal("there is no supervisor")
	}
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	enginetest.Eventually(t, "the end of the engine", func() bool { return !alive(p.PID()) })
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "supervisor was killed") {
		t.Errorf("Err() = %v", err)
	}
}

// A signal to the supervisor is a wish to end all of it.
func TestSupervisorSignalled(t *testing.T) {
	s := spec(t, "family")
	p := start(t, s)
	family := pids(t, s, 3)
	if err := syscall.Kill(parentOf(t, p.PID()), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	for _, pid := range family {
		if alive(pid) {
			t.Errorf("process %d is still alive", pid)
		}
	}
}

// Descriptors that the program inherited or opened carelessly stay out of the engine.
func TestNoDescriptorLeaks(t *testing.T) {
	f, err := os.Open("main_test.go")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	careless, err := unix.Dup(int(f.Fd())) // without close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(careless) }()
	p := start(t, spec(t, "describe"))
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text := logOf(t, p); strings.Contains(text, "main_test.go") {
		t.Errorf("the engine holds the program's file:\n%s", text)
	}
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	parent, err := strconv.Atoi(strings.Fields(rest)[1])
	if err != nil {
		t.Fatal(err)
	}
	return parent
}
