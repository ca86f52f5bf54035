package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"plimsoll/engine/process"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// badEngine is the program `badengine TP PORT CACHING TP=how …`: an engine that
// misbehaves at some sizes and is the embedded one at the others.
func badEngine() {
	tp, port, caching := os.Args[1], os.Args[2], os.Args[3] == "true"
	how := ""
	for _, arg := range os.Args[4:] {
		if v, ok := strings.CutPrefix(arg, tp+"="); ok {
			how = v
		}
	}
	if file, ok := strings.CutPrefix(how, "until:"); ok {
		if _, err := os.Stat(file); err != nil {
			how = "dies"
		}
	}
	switch how {
	case "dies":
		fmt.Fprintln(os.Stderr, "loading weights\nRuntimeError: CUDA error: device-side assert triggered")
		os.Exit(3)
	case "hangs":
		fmt.Println("waiting for rank 1 to join")
		select {}
	case "garbage":
		fmt.Print(strings.Repeat("\x1b[31m\x00\xff\x07@@@", 100_000))
		os.Exit(4)
	case "slow":
		time.Sleep(800 * time.Millisecond)
	case "stubborn": // answers, and will not end
		signal.Ignore(syscall.SIGTERM)
	case "probed":
		dieAfter(2, port, caching)
		return
	case "half":
		dieAfter(8, port, caching)
		return
	case "decodes-half":
		if caching {
			dieAfter(12, port, caching)
			return
		}
	}
	os.Exit(embedded(context.Background(), tp, port, caching))
}

// embedded serves the embedded engine in this process.
func embedded(ctx context.Context, tp, port string, caching bool) int {
	args := []string{"plimsoll", "engine", "serve", "--gpu", "h100-sxm", "--tp", tp, "--port", port}
	if caching {
		args = append(args, "--enable-prefix-caching")
	}
	return run(ctx, args, streams{os.Stdin, os.Stdout, os.Stderr})
}

// dieAfter serves one GPU's embedded engine, and dies when it has got so many
// requests, with answers under way.
func dieAfter(requests int32, port string, caching bool) {
	free, err := process.FreePort()
	if err != nil {
		panic(err)
	}
	go embedded(context.Background(), "1", itoa(free), caching)
	proxy := forward(fmt.Sprintf("http://127.0.0.1:%d", free))
	var seen atomic.Int32
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/completions") && seen.Add(1) == requests {
			fmt.Fprintln(os.Stderr, "torch.OutOfMemoryError: CUDA out of memory")
			os.Exit(1)
		}
		proxy.ServeHTTP(w, r)
	})
	s := &http.Server{Addr: "127.0.0.1:" + port, Handler: h, ReadHeaderTimeout: patience}
	panic(s.ListenAndServe())
}

// commanded asks for a small profile of an engine given by a command.
func commanded(dir, command string, more ...string) []string {
	return append([]string{
		"profile-sla", "--command", command, "--model", simModel, "--isl", "200", "--osl", "20", "--ttft", "1000", "--itl", "100",
		"--prefill-interpolation-granularity", "2", "--decode-interpolation-granularity", "2", "--max-context-length", "500",
		"--max-num-seqs", "8", "--verify", "never", "--output-dir", dir,
	}, more...)
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
	p := ran(t, exitDone, commanded(dir, command, "--gpu-count", "32", "--ready-timeout", ready, "--search", "grid")...)
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
		{"TP:2", "", []string{"exited with code 3; its last log lines:\n", "| loading weights\n", "| RuntimeError: CUDA error: device-side assert triggered"}},
		{"TP:4", "", []string{"is not ready after " + strings.TrimSuffix(ready, "s"), "/health: ", "connection refused; its last log lines:\n  | waiting for rank 1 to join"}},
		{"TP:8", "", []string{"exited with code 4; its last log lines:\n", "@@@"}},
		{"TP:16", profile.Prefill, []string{"engine ended at sweep/prefill/tp16/isl200: ", "exited with code 1; its last log lines:\n", "| torch.OutOfMemoryError: CUDA out of memory"}},
		{"TP:32", profile.Decode, []string{"engine ended at sweep/decode/tp32/isl200/n", "exited with code 1; its last log lines:\n", "| torch.OutOfMemoryError: CUDA out of memory"}},
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
		if !strings.Contains(p.errout.String(), "plimsoll: warning: ") || !strings.Contains(p.errout.String(), " "+tt.label+": ") {
			t.Errorf("stderr does not name %s:\n%s", tt.label, &p.errout)
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

// No size works at all: exit 1, every reason, and where to look.
func TestNoEngineStarts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	p := ran(t, exitFailed, commanded(dir, "badengine {{.TP}} {{.Port}} {{.PrefixCaching}} 1=dies 2=probed", "--gpu-count", "2")...)
	p.noOrphans(t)
	for _, want := range []string{
		"plimsoll: warning: TP:1: tp1 exited with code 3; its last log lines:\n", "plimsoll: warning: TP:2: trying the server: ",
		"tp2 exited with code 1; its last log lines:\n", "| torch.OutOfMemoryError: CUDA out of memory\n",
		"plimsoll: error: prefill: no configuration could be measured\n", "plimsoll: hint: engine logs are in " + dir + "/engines; once mended, --resume --retry goes on\n",
	} {
		if !strings.Contains(p.errout.String(), want) {
			t.Errorf("stderr lacks %q:\n%s", want, &p.errout)
		}
	}
	if log := readFile(t, filepath.Join(dir, "engines", "tp1.log")); !strings.Contains(log, "RuntimeError: CUDA error") {
		t.Errorf("the log holds %q", log)
	}
	run, err := store.ReadRun(dir)
	if err != nil || run.Complete || len(run.Skips) != 2 {
		t.Errorf("run.json: complete %v, skips %+v, %v", run.Complete, run.Skips, err)
	}
}

// A size that failed stays left out when the run is resumed, and is measured
// with --retry once it is mended.
func TestRetry(t *testing.T) {
	long(t)
	t.Parallel()
	dir, mended := filepath.Join(t.TempDir(), "results"), filepath.Join(t.TempDir(), "mended")
	args := commanded(dir, "badengine {{.TP}} {{.Port}} {{.PrefixCaching}} 2=until:"+mended, "--gpu-count", "2", "--rank", "sustained")
	ran(t, exitDone, args...)
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
	p := ran(t, exitDone, append(args, "--resume")...)
	if want := "plimsoll: note: TP:2 stays left out (--retry tries it again): "; at2() != 0 || !strings.Contains(p.errout.String(), want) {
		t.Errorf("%d points at TP:2, stderr:\n%s", at2(), &p.errout)
	}
	p = ran(t, exitDone, append(args, "--resume", "--retry")...)
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
	long(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	p := ran(t, exitDone, commanded(dir, "badengine {{.TP}} {{.Port}} {{.PrefixCaching}} key="+secretKey,
		"--gpu-count", "1", "--api-key", secretKey, "--verbose")...)
	noSecrets(t, dir, p)
}

// A program that is not there is named.
func TestEngineNotInstalled(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	p := ran(t, exitFailed, commanded(dir, "no-such-engine --port {{.Port}} {{.TP}} {{.PrefixCaching}}", "--gpu-count", "1")...)
	if !strings.Contains(p.errout.String(), "no-such-engine") || !strings.Contains(p.errout.String(), "not found") {
		t.Errorf("stderr:\n%s", &p.errout)
	}
}
