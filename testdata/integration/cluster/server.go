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

// run starts a server, and stops it when the test ends. It must not end before:
// the test fails then, with the end of its log.
func (c *Cluster) run(name string, args ...string) {
	c.t.Helper()
	log, err := os.Create(filepath.Join(c.dir, name+".log"))
	if err != nil {
		c.t.Fatal(err)
	}
	// The test's context ends before its cleanups begin.
	server := exec.CommandContext(context.WithoutCancel(c.t.Context()), filepath.Join(c.servers, name), args...)
	server.Stdout, server.Stderr = log, log
	// A test that is killed or panics runs no cleanup.
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		c.t.Fatalf("starting %s: %v", name, err)
	}
	ended := make(chan struct{})
	go func() {
		_ = server.Wait()
		_ = log.Close()
		close(ended)
	}()
	c.t.Cleanup(func() {
		select {
		case <-ended:
			c.t.Errorf("%s ended before the test did: %v; its log ends with\n%s", name, server.ProcessState, c.tail(name))
			return
		default:
		}
		_ = server.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(stopWithin):
			_ = server.Process.Kill()
			<-ended
			c.t.Errorf("%s did not stop within %v", name, stopWithin)
		}
		if c.t.Failed() {
			c.t.Logf("%s's log ends with\n%s", name, c.tail(name))
		}
	})
}

func (c *Cluster) tail(name string) string {
	data, err := os.ReadFile(filepath.Join(c.dir, name+".log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
