package main

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// inApart names the test that a process runs alone.
const inApart = "PLIMSOLL_TEST_APART"

// apart runs a test in a process of its own, beside those of this one: they share no
// Go scheduler, and the kernel puts the one of the lower nice value first. It reports
// whether it did so, and the caller has nothing left to do. Under the race detector,
// which needs all of the machine, the test runs where it is.
func apart(t *testing.T, nice int, flags ...string) bool {
	t.Helper()
	if raceDetector || os.Getenv(inApart) == t.Name() {
		return false
	}
	stamped(t, "testdata")
	run := "^" + t.Name() + "$"
	if _, subtests, ok := strings.Cut(flag.Lookup("test.run").Value.String(), "/"); ok {
		run += "/" + subtests
	}
	flags = append(flags, "-test.v", "-test.run", run, fmt.Sprintf("-test.short=%t", testing.Short()))
	if deadline, ok := t.Deadline(); ok {
		flags = append(flags, "-test.timeout", time.Until(deadline).String())
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], flags...)
	cmd.Env = append(os.Environ(), inApart+"="+t.Name(), fmt.Sprintf("%s=%d", priority, nice))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Parallel() // the tests that do not wait begin meanwhile
	err := cmd.Wait()
	if err != nil || testing.Verbose() {
		t.Logf("%s", out.Bytes())
	}
	if err != nil {
		t.Error(err)
	}
	return true
}

// stamped has go test look at the files of a folder again before it takes an earlier
// result for this one: it does not notice what another process opens.
func stamped(t *testing.T, folder string) {
	t.Helper()
	if err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			_, err = os.Stat(path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
