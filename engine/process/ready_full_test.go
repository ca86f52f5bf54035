//go:build full

package process_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"plimsoll/engine/process"
)

func TestNotReadyShowsLastAnswer(t *testing.T) {
	s := spec(t, "unready")
	s.ReadyTimeout = 3 * time.Second
	err := start(t, s).Ready(t.Context())
	var late *process.NotReadyError
	if !errors.As(err, &late) || late.Answer != "503 Service Unavailable model is loading" {
		t.Errorf("got %v", err)
	}
}

// A server that took the port after the check must not pass for the engine.
func TestAnotherServerAnswers(t *testing.T) {
	for _, mode := range []string{"bindlate", "never"} {
		t.Run(mode, func(t *testing.T) {
			s := spec(t, mode)
			p := start(t, s)
			l := listenOn(t, s.Port)
			go func() {
				_ = http.Serve(l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) //nolint:gosec // ends with the listener
			}()
			err := p.Ready(t.Context())
			var exited *process.ExitError
			died := mode == "bindlate" && errors.As(err, &exited) && exited.Code == 98
			if !died && !errors.Is(err, process.ErrPortInUse) {
				t.Errorf("Ready: %v", err)
			}
		})
	}
}
