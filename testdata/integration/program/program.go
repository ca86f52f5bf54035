// Package program runs the built plimsoll as a user does.
package program

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Path is the environment variable that names the program under test.
const Path = "PLIMSOLL"

// Result is what one run left.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Run runs the program to its end with further environment, NAME=value. The end
// of ctx interrupts it, as Ctrl-C does.
func Run(ctx context.Context, t testing.TB, env []string, args ...string) Result {
	t.Helper()
	path := os.Getenv(Path)
	if path == "" {
		t.Fatalf("%s is not set: it names the program under test; run make integration, or make build and set it to bin/plimsoll", Path)
	}
	var out, err bytes.Buffer
	command := exec.CommandContext(ctx, path, args...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.Env = append(os.Environ(), env...)
	command.Stdout, command.Stderr = &out, &err
	var exit *exec.ExitError
	if failed := command.Run(); failed != nil && !errors.As(failed, &exit) && ctx.Err() == nil {
		t.Fatal(failed)
	}
	return Result{command.ProcessState.ExitCode(), out.String(), err.String()}
}

// Wants runs the program, which must end with a code and print stdout and
// stderr in full.
func Wants(t testing.TB, code int, stdout, stderr string, env []string, args ...string) {
	t.Helper()
	r := Run(t.Context(), t, env, args...)
	if r != (Result{code, stdout, stderr}) {
		t.Errorf("plimsoll %s\nended with %d, stdout\n%s\nstderr\n%s\nwant %d,\n%s\nand\n%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr, code, stdout, stderr)
	}
}
