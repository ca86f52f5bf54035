package cluster

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stopWithin is how long a server may take to stop before it is killed.
const stopWithin = 10 * time.Second

// server is a process that runs until the test ends, or is killed before.
type server struct {
	name    string
	process *exec.Cmd
	ended   chan struct{}
	killed  bool
}

// run starts a server, and stops it when the test ends. It must not end before:
// the test fails then, with the end of its log.
func (c *Cluster) run(name string, args ...string) {
	c.t.Helper()
	s := c.start(name, args...)
	c.t.Cleanup(func() { c.stop(s) })
}

// start starts a server that the caller stops.
func (c *Cluster) start(name string, args ...string) *server {
	c.t.Helper()
	log, err := os.Create(filepath.Join(c.dir, name+".log"))
	if err != nil {
		c.t.Fatal(err)
	}
	// The test's context ends before its cleanups begin.
	process := exec.CommandContext(context.WithoutCancel(c.t.Context()), filepath.Join(c.servers, name), args...)
	process.Stdout, process.Stderr = log, log
	// A test that is killed or panics runs no cleanup.
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := process.Start(); err != nil {
		c.t.Fatalf("starting %s: %v", name, err)
	}
	s := &server{name: name, process: process, ended: make(chan struct{})}
	go func() {
		_ = process.Wait()
		_ = log.Close()
		close(s.ended)
	}()
	return s
}

// stop ends a server with the test.
func (c *Cluster) stop(s *server) {
	if s.killed {
		return
	}
	select {
	case <-s.ended:
		c.t.Errorf("%s ended before the test did: %v; its log ends with\n%s", s.name, s.process.ProcessState, c.tail(s.name))
		return
	default:
	}
	_ = s.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(stopWithin):
		_ = s.process.Process.Kill()
		<-s.ended
		c.t.Errorf("%s did not stop within %v", s.name, stopWithin)
	}
	if c.t.Failed() {
		c.t.Logf("%s's log ends with\n%s", s.name, c.tail(s.name))
	}
}

// kill ends a server at once, as a machine that loses its power does.
func (s *server) kill() {
	s.killed = true
	_ = s.process.Process.Kill()
	<-s.ended
}

func (c *Cluster) tail(name string) string {
	data, err := os.ReadFile(filepath.Join(c.dir, name+".log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
