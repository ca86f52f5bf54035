//go:build full && linux

package load

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/engine/enginetest"
	"plimsoll/profile"
)

// A busy host gives the client no processor time, whoever takes it: the client says
// that it was the bottleneck, though it used little itself.
func TestBusyHost(t *testing.T) {
	p := pacing{Streams: 4, Chunks: 300, Gap: 5 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := servePaced(ctx, machineClock(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	spec, err := json.Marshal(clientSpec{s.url(), p})
	if err != nil {
		t.Fatal(err)
	}
	cmd := enginetest.Command(t, os.Args[0])
	cmd.Env = append(os.Environ(), clientEnv+"="+string(spec))
	out := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-s.full
	for over := false; !over; { // it has the processor for a quarter of the time
		_ = cmd.Process.Signal(syscall.SIGSTOP)
		time.Sleep(30 * time.Millisecond)
		_ = cmd.Process.Signal(syscall.SIGCONT)
		time.Sleep(10 * time.Millisecond)
		select {
		case <-s.done:
			over = true
		default:
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	var self profile.Client
	if err := json.Unmarshal([]byte(out.String()), &self); err != nil {
		t.Fatalf("%v: %q", err, out)
	}
	if self.OK() || self.CPU > cpuAllowed {
		t.Errorf("the host was busy, and the client says %+v", self)
	}
}
