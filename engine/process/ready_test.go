package process_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/engine/enginetest"
	"plimsoll/engine/process"
)

func TestEarlyDeath(t *testing.T) {
	for _, c := range []struct {
		mode   string
		code   int
		signal syscall.Signal
		words  []string
	}{
		{"exit3", 3, 0, []string{"exit3 exited with code 3", "; its first error: fatal: no such tensor\n", "| loading weights"}},
		{"exit0", 0, 0, []string{"exited with code 0", "printed nothing"}},
		{"suicide", -1, syscall.SIGKILL, []string{"SIGKILL", "out of memory", "about to run out"}},
	} {
		t.Run(c.mode, func(t *testing.T) {
			p := start(t, spec(t, c.mode))
			err := p.Ready(t.Context())
			var exited *process.ExitError
			if !errors.As(err, &exited) {
				t.Fatalf("got %v, want an ExitError", err)
			}
			if exited.Code != c.code || exited.Signal != c.signal {
				t.Errorf("code %d signal %d, want %d %d", exited.Code, exited.Signal, c.code, c.signal)
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("message lacks %q: %v", w, err)
				}
			}
			if !errors.As(p.Err(), &exited) {
				t.Errorf("Err() = %v", p.Err())
			}
		})
	}
}

func TestNotReady(t *testing.T) {
	for mode, answer := range map[string]string{"never": "connection refused", "unready": "503 Service Unavailable model is loading"} {
		t.Run(mode, func(t *testing.T) {
			s := spec(t, mode)
			p := start(t, s)
			if mode == "unready" { // wait until there is something to answer
				enginetest.Eventually(t, "an answer", func() bool { return get(t, p.URL()) != "" })
			}
			// The time-out is short only now, so that a slow machine has an answer.
			s.ReadyTimeout = 500 * time.Millisecond
			short := start(t, withPort(t, s))
			err := short.Ready(t.Context())
			var late *process.NotReadyError
			if !errors.As(err, &late) {
				t.Fatalf("got %v, want a NotReadyError", err)
			}
			if mode == "never" && !strings.Contains(err.Error(), answer) {
				t.Errorf("message lacks %q: %v", answer, err)
			}
			if late.Waited < s.ReadyTimeout || late.URL != short.URL()+"/health" {
				t.Errorf("waited %v at %s", late.Waited, late.URL)
			}
			select {
			case <-short.Done():
				t.Error("Ready stopped it")
			default:
			}
		})
	}
}

func TestReadyCanceled(t *testing.T) {
	p := start(t, spec(t, "never"))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestStartCanceled(t *testing.T) {
	if p, err := process.Start(canceled(), spec(t, "ready")); err == nil {
		_ = p.Stop(t.Context())
		t.Error("started although its context was canceled")
	}
}

func TestPortInUse(t *testing.T) {
	s := spec(t, "ready")
	listenOn(t, s.Port)
	_, err := process.Start(t.Context(), s)
	if !errors.Is(err, process.ErrPortInUse) {
		t.Errorf("got %v, want ErrPortInUse", err)
	}
}
