package enginetest

import (
	"context"
	"os/exec"
	"testing"
	"time"
)

// Patience bounds every wait of a test: only what hangs meets it.
const Patience = 60 * time.Second

// Eventually waits until ok, which another goroutine or process makes true, and ends
// the test where it never does. What is what it waits for.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("did not happen in %v: %s", Patience, what)
		}
	}
}

// Command is a child process of a test, yet to be started. It does not outlive the
// test, and what it leaves behind cannot hold up Wait.
func Command(t testing.TB, path string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = Patience
	t.Cleanup(func() {
		cancel()
		if cmd.Process != nil && cmd.ProcessState == nil {
			_ = cmd.Process.Kill() // it may have ended meanwhile
			_ = cmd.Wait()         // it was killed
		}
	})
	return cmd
}
