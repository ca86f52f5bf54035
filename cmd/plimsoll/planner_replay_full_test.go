//go:build full

package main

import (
	"syscall"
	"testing"
)

// A long replay ends with Ctrl-C, at once.
func TestReplayIsInterrupted(t *testing.T) {
	t.Parallel()
	needProc(t)
	p := start(t, nil, "planner", "replay", "--rate", "2000", "--isl", "3000", "--osl", "500", "--duration", "240h", "--policy", "all", "--ttft", "500", "--itl", "50")
	poll(t, "replaying", func() bool { return p.ticks(t) > 200 })
	p.signal(t, syscall.SIGINT)
	if code := p.wait(t); code != exitInterrupted {
		t.Errorf("%d: %s", code, p.errout.String())
	}
}
