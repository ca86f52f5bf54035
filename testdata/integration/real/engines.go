//go:build real

// Package real runs the product against engines as people serve them: vLLM, computing on
// this machine's CPU, and Dynamo's frontend with its mocker. Their versions are get-vllm.sh's
// and get-dynamo.sh's.
package real

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/testdata/integration/free"
	"plimsoll/testdata/integration/planner"
	"plimsoll/testdata/integration/program"
)

// The environment variables that name the folders of what get-vllm.sh and get-dynamo.sh made.
const (
	vllmDir   = "PLIMSOLL_VLLM"
	dynamoDir = "PLIMSOLL_DYNAMO"
)

// ready is how long an engine may take until it answers: it compiles, unless it is eager.
const ready = 6 * time.Minute

// dir is what an environment variable names.
func dir(t testing.TB, variable string) string {
	t.Helper()
	d := os.Getenv(variable)
	if d == "" {
		t.Fatalf("%s is not set: run make real", variable)
	}
	return d
}

// model is the folder of a checkpoint, "words" or "bytes".
func model(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(dir(t, vllmDir), "models", name)
}

// vllmEnv is the environment of vLLM, and of a plimsoll that starts it.
func vllmEnv(t testing.TB) []string {
	t.Helper()
	return []string{
		"PATH=" + filepath.Join(dir(t, vllmDir), "bin") + ":" + os.Getenv("PATH"),
		"HF_HUB_OFFLINE=1", "VLLM_CPU_KVCACHE_SPACE=1", "VLLM_NO_USAGE_STATS=1",
	}
}

// server is one that answers at a URL.
type server struct {
	*program.Background
	url string
}

// serve starts vLLM without compilation, with further arguments, and waits for it.
func serve(t testing.TB, name string, args ...string) server {
	t.Helper()
	address := free.Address(t)
	_, port, _ := strings.Cut(address, ":")
	all := append([]string{"serve", model(t, name), "--served-model-name", name, "--port", port, "--max-model-len", "4096", "--enforce-eager"}, args...)
	s := server{program.StartOther(t, vllmEnv(t), filepath.Join(dir(t, vllmDir), "bin", "vllm"), all...), "http://" + address}
	s.wait(t, "/health")
	return s
}

// wait waits until a path answers 200.
func (s server) wait(t testing.TB, path string) {
	t.Helper()
	program.Until(t, ready, s.url+path+" answers", func() bool {
		select {
		case <-s.Ended():
			t.Fatalf("the server at %s ended", s.url)
		default:
		}
		_, err := planner.Get(s.url + path)
		return err == nil
	})
}

// children are the processes below one, and their names.
func children(pid int) map[int]string {
	parents, names := map[int]int{}, map[int]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // of the pattern's form alone
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it ended
		}
		// The name is in brackets and may hold anything.
		open, closed := strings.IndexByte(string(b), '('), strings.LastIndexByte(string(b), ')')
		var id, parent int
		var state string
		if _, err := fmt.Sscan(string(b[:open]), &id); err != nil {
			continue
		}
		if _, err := fmt.Sscan(string(b[closed+1:]), &state, &parent); err != nil {
			continue
		}
		parents[id], names[id] = parent, string(b[open+1:closed])
	}
	below := map[int]string{}
	for id := range parents {
		for p := parents[id]; p > 1; p = parents[p] {
			if p == pid {
				below[id] = names[id]
				break
			}
		}
	}
	return below
}

// core is the process in which vLLM computes.
func core(t testing.TB, pid int) int {
	t.Helper()
	below := children(pid)
	for id, name := range below {
		if strings.Contains(name, "EngineCor") {
			return id
		}
	}
	t.Fatalf("no engine core among %v", below)
	return 0
}

func signal(t testing.TB, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatalf("signal %v to %d: %v", s, pid, err)
	}
}
