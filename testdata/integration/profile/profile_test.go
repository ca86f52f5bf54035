// Package profile tests profile-sla --launcher kubernetes as a user runs it: the
// real program with the rights of the Role that it prints, a real control plane,
// and engines that are processes.
package profile

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"plimsoll/testdata/integration/cluster"
	"plimsoll/testdata/integration/program"
)

// TestMain lets tests wait beside each other: they are busy for little of their
// time.
func TestMain(m *testing.M) {
	flag.Parse()
	klog.SetLogger(logr.Discard()) // connections break here on purpose
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// TestProfile has one cluster for all tests: eight nodes of four GPUs. They run
// beside each other, in namespaces of their own, but for those that measure the way
// to the engines or break it.
func TestProfile(t *testing.T) {
	on := cluster.Start(t, cluster.Options{Workloads: true, Images: images(t)})
	for i := range 8 {
		on.AddNode(fmt.Sprintf("node-%d", i), 4)
	}
	t.Run("beside each other", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *cluster.Cluster){
			"picks": picks, "quota": overQuota, "image": imageMissing, "memory": outOfMemory, "names": namesTaken, "pods": podsGo,
			"restricted": restricted, "taint": tainted, "clock": clockIsAnother, "lease": leaseDeleted,
			"interrupted": interrupted, "killed": killed, "rights": rightsAreNamed, "inside": runsInside,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, on)
			})
		}
	})
	t.Run("forwarded", func(t *testing.T) { forwarded(t, on) })
	t.Run("restart", func(t *testing.T) { apiServerRestarts(t, on) })
}

// images are plimsoll's own, one that lacks what TP 4 needs, and one that wants
// all memory.
func images(t *testing.T) map[string][]string {
	t.Helper()
	path := os.Getenv(program.Path)
	if path == "" {
		t.Fatalf("%s is not set: it names the program under test", program.Path)
	}
	plimsoll := filepath.Join(t.TempDir(), "plimsoll") // its name in the image, whatever it is here
	if err := os.Symlink(path, plimsoll); err != nil {
		t.Fatal(err)
	}
	return map[string][]string{
		"plimsoll": {plimsoll},
		"no-tp4":   {script(t, `case " $* " in *" --tp 4 "*) echo "NCCL error: no such transport" >&2; exit 1; esac`+"\nexec "+plimsoll+` "$@"`)},
		"slow":     {script(t, "sleep 40\nexec "+plimsoll+` "$@"`)},
		"hungry":   {script(t, "exec tail /dev/zero")},
	}
}

// script makes a program of the shell.
func script(t *testing.T, text string) string {
	t.Helper()
	path := write(t, "run", "#!/bin/sh\n"+text+"\n")
	if err := os.Chmod(path, 0o755); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Four sizes beside each other: one has no node that is large enough, one
// crashes. The picks are those of engines on this machine, and their latencies,
// but for the way through the API server.
func picks(t *testing.T, on *cluster.Cluster) {
	s := newSite(t, on, "picks")
	const most = 8 // GPUs
	local, dir := filepath.Join(t.TempDir(), "local"), filepath.Join(t.TempDir(), "cluster")
	if r := program.Run(t.Context(), t, nil, short(local, "--tp", "1,2")...); r.Code != 0 {
		t.Fatalf("exit code %d: %s", r.Code, r.Stderr)
	}
	r := s.profile(dir, "--tp", "1,2,4,8", "--parallel", "3", "--max-gpus", fmt.Sprint(most), "--image", "no-tp4", "--schedule-timeout", "3s")
	t.Logf("%s\n%s", r.Stdout, r.Stderr)
	if r.Code != 0 {
		t.Fatalf("exit code %d", r.Code)
	}
	s.nothingLeft()
	held, asked := s.gpus.most()
	t.Logf("at most %d GPUs held at once, and %d asked for; %s", held, asked, cost(r.Stdout))
	if asked > most || held < 4 {
		t.Errorf("%d GPUs were held at once and %d asked for, want %d at most", held, asked, most)
	}
	got, want := recommendation(t, dir), recommendation(t, local)
	if !warns(got, "port_forward") || warns(want, "port_forward") {
		t.Errorf("warnings %+v, and %+v on this machine", got.Warnings, want.Warnings)
	}
	for _, phase := range []string{"prefill", "decode"} {
		for label, words := range map[string][]string{
			"TP:4": {"exit code 1", "NCCL error: no such transport"},
			"TP:8": {"Unschedulable", "Insufficient nvidia.com/gpu"},
		} {
			reason := ""
			for _, rejected := range got.Rejected {
				if string(rejected.Phase) == phase && rejected.Label == label {
					reason = rejected.Reason
				}
			}
			for _, w := range words {
				if !strings.Contains(reason, w) || !strings.Contains(r.Stdout+r.Stderr, w) {
					t.Errorf("%s %s was rejected for %q, want %q there and on the terminal", phase, label, reason, w)
				}
			}
		}
	}
	if got.Prefill.Label != want.Prefill.Label || got.Decode.Label != want.Decode.Label || math.Abs(got.Decode.InFlight-want.Decode.InFlight) > want.Decode.InFlight/5 { // both are means over time
		t.Errorf("the picks are %+v and %+v, want %+v and %+v", got.Prefill, got.Decode, want.Prefill, want.Decode)
	}
}

// A program of the user's own, which only the client measures: what the way
// through the API server adds to its latencies, on this machine.
func forwarded(t *testing.T, on *cluster.Cluster) {
	s := newSite(t, on, "forwarded")
	local, dir := filepath.Join(t.TempDir(), "local"), filepath.Join(t.TempDir(), "cluster")
	command := func(program, host string) []string {
		return []string{
			"--engine", "command", "--model", "meta-llama/Meta-Llama-3.1-8B",
			"--command", program + " engine serve --model llama-3.1-8b --gpu l40s --tp {{.TP}} --port {{.Port}} --kv-blocks 256 --host " + host + " {{if .PrefixCaching}}--enable-prefix-caching{{end}}",
		}
	}
	if r := program.Run(t.Context(), t, nil, short(local, command(os.Getenv(program.Path), "127.0.0.1")...)...); r.Code != 0 {
		t.Fatalf("exit code %d: %s", r.Code, r.Stderr)
	}
	if r := s.profile(dir, command("plimsoll", "0.0.0.0")...); r.Code != 0 {
		t.Fatalf("exit code %d: %s", r.Code, r.Stderr)
	}
	s.nothingLeft()
	got, want := recommendation(t, dir), recommendation(t, local)
	if !warns(got, "port_forward") || warns(want, "port_forward") {
		t.Errorf("warnings %+v, and %+v on this machine", got.Warnings, want.Warnings)
	}
	t.Logf("              on the cluster  on this machine")
	compare := func(what string, got, want, beyond float64) {
		t.Logf("%-12s %15.2f %16.2f", what, got, want)
		if math.Abs(got-want) > beyond {
			t.Errorf("%s is %.2f on the cluster and %.2f on this machine", what, got, want)
		}
	}
	compare("TTFT, ms", got.Prefill.TTFTMillis, want.Prefill.TTFTMillis, 20)
	compare("ITL, ms", got.Decode.ITLMillis, want.Decode.ITLMillis, 15)
	compare("in flight", got.Decode.InFlight, want.Decode.InFlight, 0.5) // both are means over time
	compare("tokens/s/GPU", got.Decode.ThroughputPerGPU, want.Decode.ThroughputPerGPU, want.Decode.ThroughputPerGPU/3)
}

// cost is the line that says what the run took.
func cost(stdout string) string {
	for line := range strings.Lines(stdout) {
		if strings.HasPrefix(line, "Cost") {
			return strings.TrimSpace(line)
		}
	}
	return fmt.Sprintf("no cost in %q", stdout)
}
