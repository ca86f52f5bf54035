package process_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/process"
)

// detached starts a child that nobody stops but the test.
func detached(t *testing.T, mode string) (*process.Process, engine.Spec) {
	t.Helper()
	s := spec(t, mode)
	s.Detached = true
	return start(t, s), s
}

func handleOf(t *testing.T, pid int) process.Handle {
	t.Helper()
	h, err := process.HandleOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHandleFindsAndEnds(t *testing.T) {
	p, s := detached(t, "polite")
	h := handleOf(t, p.PID())
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if who, foreign := process.Foreign(h.Members(s.LogPath), s.Port); foreign {
		t.Errorf("its own port is said to be %s", who)
	}
	own := listenOn(t, mustPort(t))
	_, port, _ := strings.Cut(own.Addr().String(), ":")
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	if who, foreign := process.Foreign(h.Members(s.LogPath), n); !foreign || !strings.Contains(who, strconv.Itoa(os.Getpid())) {
		t.Errorf("the port of this test is said to be %q, foreign %v", who, foreign)
	}
	if err := h.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if h.Leads() || len(h.Members(s.LogPath)) != 0 {
		t.Error("it lives on in its handle")
	}
	if err := h.Signal(syscall.SIGKILL); err != nil {
		t.Errorf("a signal to one that is gone: %v", err)
	}
	if got := process.Tail(s.LogPath, 1); len(got) != 1 || got[0] != "finished requests" {
		t.Errorf("its last line is %q", got)
	}
	if _, err := process.HandleOf(p.PID()); err == nil {
		t.Error("a handle of nobody")
	}
}

func mustPort(t *testing.T) int {
	t.Helper()
	port, err := process.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// A process number that was given out again, or a machine that was started
// again, is another process: it is never signalled.
func TestHandleOfRecycledPID(t *testing.T) {
	p, s := detached(t, "ready")
	h := handleOf(t, p.PID())
	for name, other := range map[string]process.Handle{
		"start": {PID: h.PID, Start: h.Start - 1, Boot: h.Boot},
		"boot":  {PID: h.PID, Start: h.Start, Boot: "another"},
		"none":  {},
		"init":  {PID: 1, Start: 0, Boot: h.Boot},
	} {
		if other.Leads() || len(other.Members(s.LogPath)) != 0 {
			t.Errorf("%s: it is taken for the other", name)
		}
		if name == "none" {
			continue
		}
		if err := other.Signal(syscall.SIGKILL); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !h.Leads() || !alive(p.PID()) {
		t.Error("it was signalled by another's handle")
	}
}

// What a leader leaves behind is found by its log as long as it stays in the session.
func TestMembersOutliveTheirLeader(t *testing.T) {
	p, s := detached(t, "family")
	family := pids(t, s, 3)
	t.Cleanup(func() {
		for _, pid := range family {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	h := handleOf(t, p.PID())
	enginetest.Eventually(t, "two members", func() bool { return len(h.Members(s.LogPath)) == 2 }) // the third has its own session
	if err := h.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	left := h.Members(s.LogPath)
	if len(left) != 1 || left[0].PID == h.PID {
		t.Fatalf("left are %+v", left)
	}
	if got := h.Members(os.DevNull); len(got) != 0 {
		t.Errorf("%+v do not write there", got)
	}
	if err := left[0].Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	enginetest.Eventually(t, "none left", func() bool { return len(h.Members(s.LogPath)) == 0 })
}

// A zombie does not live.
func TestHandleOfZombie(t *testing.T) {
	c := enginetest.Command(t, testBinary(t))
	c.Env = append(os.Environ(), modeVar+"=never")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	h := handleOf(t, c.Process.Pid)
	if err := h.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	enginetest.Eventually(t, "its end", func() bool { return !h.Leads() })
	if err := c.Wait(); err == nil {
		t.Error("it ended well")
	}
}

// A detached engine is found by a variable of its environment, and so is all that it
// started, in its session and in others.
func TestMarked(t *testing.T) {
	const name = "PROCESS_TEST_MARK"
	s := spec(t, "family")
	s.Detached, s.Env = true, append(s.Env, name+"=this one")
	p := start(t, s)
	t.Cleanup(func() {
		for _, pid := range pids(t, s, 3) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	family := pids(t, s, 3)
	var got []process.Handle
	for _, m := range process.Marked(name) {
		if m.Value == "this one" && slices.Contains(family, m.PID) {
			got = append(got, m.Handle)
		}
	}
	if len(got) != 3 || got[0] != handleOf(t, p.PID()) { // its children come after it
		t.Errorf("found %+v, want %d first, of %v", got, p.PID(), family)
	}
}
