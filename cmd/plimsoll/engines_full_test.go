//go:build full

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/engine/enginetest"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// An engine that ignores TERM: the first Ctrl-C waits for it, the second does
// not, and even then nothing is left.
func TestSecondInterrupt(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	p := start(t, nil, commanded(dir, "badengine {{.TP}} {{.Port}} {{.PrefixCaching}} 1=stubborn", "--gpu-count", "1")...)
	enginetest.Eventually(t, "the first point", func() bool { return len(pointIDs(t, dir)) > 0 })
	p.signal(t, syscall.SIGINT)
	time.Sleep(oneSignal + 100*time.Millisecond) // until then it is the first one again
	if len(p.family(t)) == 0 {
		t.Error("the stubborn engine has ended at once")
	}
	began := time.Now()
	p.signal(t, syscall.SIGINT)
	if code := p.wait(t); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	if waited := time.Since(began); waited > 5*time.Second {
		t.Errorf("the second Ctrl-C took %v", waited)
	}
	p.noOrphans(t)
	if len(pointIDs(t, dir)) == 0 {
		t.Error("finished points are lost")
	}
}

// A size that failed is measured when the run is resumed, once it is mended.
func TestResumeTriesAgain(t *testing.T) {
	t.Parallel()
	dir, mended := filepath.Join(t.TempDir(), "results"), filepath.Join(t.TempDir(), "mended")
	args := commanded(dir, "badengine {{.TP}} {{.Port}} {{.PrefixCaching}} 2=until:"+mended, "--gpu-count", "2")
	executed(t, exitDone, args...)
	if err := os.WriteFile(mended, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	at2 := func() int {
		n := 0
		for _, id := range pointIDs(t, dir) {
			if strings.HasPrefix(id, "sweep/") && strings.Contains(id, "/tp2/") {
				n++
			}
		}
		return n
	}
	if at2() != 0 {
		t.Errorf("%d points at TP:2", at2())
	}
	p := executed(t, exitDone, append(args, "--resume")...)
	p.noOrphans(t)
	run, err := store.ReadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	if at2() < 1 || slices.ContainsFunc(run.Skips, func(s profile.Skip) bool { return s.Phase != profile.Decode }) {
		t.Errorf("%d points at TP:2, skips %+v", at2(), run.Skips)
	}
	if !strings.Contains(p.out.String(), "TP:2") {
		t.Errorf("stdout does not show TP:2:\n%s", &p.out)
	}
}

// A credential that the engine's own command needs too is in no file.
func TestSecretInCommand(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	p := executed(t, exitDone, commanded(dir, "badengine {{.TP}} {{.Port}} {{.PrefixCaching}} key="+secretKey,
		"--gpu-count", "1", "--api-key", secretKey, "--verbose")...)
	noSecrets(t, dir, p)
}

// Of six sizes five misbehave, each in its own way: the sweep ends, picks the
// one that works, says why the others are out, and leaves no process.
func TestMisbehavingEngines(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	command := "badengine {{.TP}} {{.Port}} {{.PrefixCaching}} 1=slow 2=dies 4=hangs 8=garbage 16=half 32=decodes-half"
	ready := "3s"
	if raceDetector { // which the one that works is started under, too
		ready = "8s"
	}
	p := executed(t, exitDone, commanded(dir, command, "--gpu-count", "32", "--ready-timeout", ready, "--search", "grid", "--details")...)
	p.noOrphans(t)
	rec, err := store.ReadRecommendation(dir)
	if err != nil {
		t.Fatal(err)
	}
	// An engine that says of itself that it is simulated is never measured.
	if rec.Prefill.TP != 1 || rec.Decode.TP != 1 || !rec.Feasible || rec.Provenance != profile.Simulated {
		t.Errorf("picked TP %d and %d, feasible %v, %s", rec.Prefill.TP, rec.Decode.TP, rec.Feasible, rec.Provenance)
	}
	run, err := store.ReadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		label string
		phase profile.Phase
		words []string
	}{
		{"TP:2", "", []string{"exited with code 3; its first error: RuntimeError: CUDA error: device-side assert triggered\n", "| loading weights"}},
		{"TP:4", "", []string{"is not ready after " + strings.TrimSuffix(ready, "s"), "/health: ", "connection refused\n  its last log lines:\n  | waiting for rank 1 to join"}},
		{"TP:8", "", []string{"exited with code 4\n  its last log lines:\n", "@@@"}},
		{"TP:16", profile.Prefill, []string{"engine ended at sweep/prefill/tp16/isl200: ", "exited with code 1; its first error: torch.OutOfMemoryError: CUDA out of memory"}},
		{"TP:32", profile.Decode, []string{"engine ended at sweep/decode/tp32/isl200/n", "exited with code 1; its first error: torch.OutOfMemoryError: CUDA out of memory"}},
	} {
		i := slices.IndexFunc(run.Skips, func(s profile.Skip) bool { return s.Label == tt.label && s.Phase == tt.phase })
		if i < 0 {
			t.Errorf("%s: no reason among %+v", tt.label, run.Skips)
			continue
		}
		reason := run.Skips[i].Reason
		for _, want := range tt.words {
			if !strings.Contains(reason, want) {
				t.Errorf("%s: the reason lacks %q:\n%s", tt.label, want, reason)
			}
		}
		if len(reason) > 4000 || strings.ContainsFunc(reason, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }) {
			t.Errorf("%s: a reason of %d bytes, or with control characters: %.200q", tt.label, len(reason), reason)
		}
		if !strings.Contains(p.out.String(), "  left out: ") || !strings.Contains(p.out.String(), tt.label+": ") {
			t.Errorf("stdout does not name %s:\n%s", tt.label, &p.out)
		}
		if !slices.ContainsFunc(rec.Rejected, func(r store.Rejected) bool { return r.Label == tt.label && r.Reason == reason }) {
			t.Errorf("%s is not among what recommendation.json rejects", tt.label)
		}
	}
	if n := len(run.Skips); n != 6 { // TP:16 dies in both phases
		t.Errorf("%d reasons: %+v", n, run.Skips)
	}
	// The size that works in prefill alone was measured there.
	if !slices.Contains(pointIDs(t, dir), "sweep/prefill/tp32/isl200") {
		t.Errorf("points %v", pointIDs(t, dir))
	}
}

// A program that is not there is named.
func TestEngineNotInstalled(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	p := executed(t, exitFailed, commanded(dir, "no-such-engine --port {{.Port}} {{.TP}} {{.PrefixCaching}}", "--gpu-count", "1")...)
	if !strings.Contains(p.errout.String(), "no-such-engine") || !strings.Contains(p.errout.String(), "not found") {
		t.Errorf("stderr:\n%s", &p.errout)
	}
}
