package program

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Background is a program that runs beside the test.
type Background struct {
	t       testing.TB
	name    string
	command *exec.Cmd
	done    chan struct{}

	mu    sync.Mutex
	lines []string
}

// Start starts plimsoll; it is stopped with the test.
func Start(t testing.TB, env []string, args ...string) *Background {
	t.Helper()
	path := os.Getenv(Path)
	if path == "" {
		t.Fatalf("%s is not set: it names the program under test", Path)
	}
	return StartOther(t, env, path, args...)
}

// StartOther starts another program the same way.
func StartOther(t testing.TB, env []string, path string, args ...string) *Background {
	t.Helper()
	b := &Background{t: t, name: path + " " + strings.Join(args, " "), command: exec.Command(path, args...), done: make(chan struct{})}
	b.command.Env = append(os.Environ(), env...)
	r, w := io.Pipe()
	b.command.Stdout, b.command.Stderr = w, w
	if err := b.command.Start(); err != nil {
		t.Fatal(err)
	}
	go b.read(r)
	go func() {
		_ = b.command.Wait() // how it ended is in ProcessState
		_ = w.Close()
		close(b.done)
	}()
	t.Cleanup(func() {
		b.Stop()
		if t.Failed() {
			t.Logf("%s printed\n%s", b.name, b.Output())
		}
	})
	return b
}

func (b *Background) read(r io.Reader) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		b.mu.Lock()
		b.lines = append(b.lines, scanner.Text())
		b.mu.Unlock()
	}
}

// Output is what it printed so far.
func (b *Background) Output() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out bytes.Buffer
	for _, l := range b.lines {
		out.WriteString(l + "\n")
	}
	return out.String()
}

// Signal sends a signal.
func (b *Background) Signal(s syscall.Signal) {
	b.t.Helper()
	if err := b.command.Process.Signal(s); err != nil {
		b.t.Errorf("%s: %v", b.name, err)
	}
}

// Stop sends TERM, and KILL to what does not end within ten seconds; it gives the
// exit code, -1 after a signal.
func (b *Background) Stop() int {
	_ = b.command.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-b.done:
	case <-time.After(10 * time.Second):
		_ = b.command.Process.Kill()
		<-b.done
	}
	return b.command.ProcessState.ExitCode()
}

// Kill sends KILL and waits for the end.
func (b *Background) Kill() {
	_ = b.command.Process.Kill() // it may have ended
	<-b.done
}

// Ended is closed when it has ended.
func (b *Background) Ended() <-chan struct{} { return b.done }

// Until polls what until it holds; what is said names it where it does not in time.
func Until(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// Pid is the process's number.
func (b *Background) Pid() int { return b.command.Process.Pid }
