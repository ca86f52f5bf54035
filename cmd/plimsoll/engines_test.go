package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"plimsoll/engine/process"
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
		"profile-sla", "--command", command, "--model", simModel, "--isl", "200", "--osl", "120", "--ttft", "1000", "--itl", "100",
		"--prefill-interpolation-granularity", "2", "--decode-interpolation-granularity", "2", "--max-context-length", "500",
		"--max-num-seqs", "8", "--verify", "never", "--output-dir", dir,
	}, more...)
}

// No size works at all: exit 1, every reason, and where to look.
func TestNoEngineStarts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	p := executed(t, exitFailed, commanded(dir, "badengine {{.TP}} {{.Port}} {{.PrefixCaching}} 1=dies 2=probed", "--gpu-count", "2")...)
	p.noOrphans(t)
	for _, want := range []string{
		"plimsoll: warning: TP:1: tp1 exited with code 3; its first error: RuntimeError: CUDA error: device-side assert triggered\n      its last log lines:\n      | loading weights\n", "plimsoll: warning: TP:2: trying the server: ",
		"tp2 exited with code 1; its first error: torch.OutOfMemoryError: CUDA out of memory\n",
		"plimsoll: error: prefill: no configuration could be measured\n", "plimsoll: hint: engine logs are in " + dir + "/engines; fix the cause, then continue with --resume\n",
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
