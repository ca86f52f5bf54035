//go:build full

package main

import (
	"strings"
	"syscall"
	"testing"
)

// Ctrl-C shows what was found until then.
func TestTuneIsInterrupted(t *testing.T) {
	long(t)
	t.Parallel()
	needProc(t)
	p := start(t, nil, "planner", "tune", "--ttft", "500", "--itl", "50", "--policy", "hpa:sla", "--rate", "10", "--isl", "3000", "--osl", "100", "--duration", "20m", "--seeds", "1000", "--budget", "100000")
	poll(t, "searching", func() bool { return p.ticks(t) > 200 })
	p.signal(t, syscall.SIGINT)
	if code := p.wait(t); code != exitInterrupted || !strings.Contains(p.out.String(), "\nINTERRUPTED: ") {
		t.Errorf("%d: %s\n%s", code, p.errout.String(), p.out.String())
	}
}
