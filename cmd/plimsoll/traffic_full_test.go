//go:build full

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
)

// The first command takes a minute, and does not end with verdicts that were too short
// to be any, as loads of 40 s and less on the clock on the wall were.
func TestEmbeddedEngineIsVerified(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	p := executed(t, exitDone, small(dir, "--verify", "auto", "--tp", "1")...)
	_, rec := results(t, dir)
	if rec.Verified == nil || rec.Verified.Prefill == nil || rec.Verified.Decode == nil {
		t.Fatalf("not verified:\n%s", &p.errout)
	}
	for _, a := range rec.Verified.All() {
		if !strings.HasSuffix(a.Load, ", in virtual time") || a.Interval.High == 0 || a.Provenance != profile.Simulated {
			t.Errorf("%+v", a)
		}
	}
}

// A trace or dataset that is too long is cut.
func TestTrafficIsCut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, n := range []int{mostArrivals, mostArrivals + 1} {
		var csv, jsonl strings.Builder
		csv.WriteString("TIMESTAMP,ContextTokens,GeneratedTokens\n")
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for i := range n {
			fmt.Fprintf(&csv, "%s,10,2\n", start.Add(time.Duration(i)*time.Millisecond).Format("2006-01-02 15:04:05.0000000"))
			jsonl.WriteString("{\"prompt\":\"a\"}\n")
		}
		o := profileOptions{trace: filepath.Join(dir, "t.csv"), dataset: filepath.Join(dir, "d.jsonl")}
		if err := errors.Join(os.WriteFile(o.trace, []byte(csv.String()), 0o600), os.WriteFile(o.dataset, []byte(jsonl.String()), 0o600)); err != nil {
			t.Fatal(err)
		}
		got, err := openTraffic(o)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.arrivals) != mostArrivals || len(got.prompts) != mostArrivals {
			t.Errorf("of %d: %d requests, %d prompts", n, len(got.arrivals), len(got.prompts))
		}
	}
}
