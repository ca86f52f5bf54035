//go:build full && linux

package process_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"plimsoll/engine/enginetest"
	"plimsoll/engine/process"
)

// used is the processor time of a process that the machine counts.
func used(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		t.Fatalf("%v, %v: %s", err1, err2, text)
	}
	return time.Duration(user+system) * (time.Second / 100)
}

// What a busy child of the engine takes is the engine's, and what a process that is
// nobody's child takes is others'. Whatever else runs on the machine only adds to that.
func TestOthersAreNotTheEngine(t *testing.T) {
	const work = 2 * time.Second
	s := spec(t, "busy")
	p := start(t, s)
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	nobody, err := process.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	if process.NewMeter(t.Context(), "192.0.2.1", s.Port) != nil || process.NewMeter(t.Context(), "127.0.0.1", nobody) != nil {
		t.Error("a meter of another machine's engine, or of none")
	}
	m := process.NewMeter(t.Context(), "localhost", s.Port)
	if m == nil {
		t.Fatal("the engine of this very program is not seen")
	}
	child := pids(t, s, 1)[0]
	measure := func(pid int) (took time.Duration, s process.Share) {
		end, before := m.Begin(), used(t, pid)
		enginetest.Eventually(t, "two seconds of work", func() bool { return used(t, pid) >= before+work })
		took = used(t, pid) - before
		s, ok := end()
		if !ok {
			t.Fatal("nothing is known")
		}
		return took, s
	}
	took, share := measure(child)
	worked := time.Duration((share.Busy - share.Others) * float64(share.Time))
	if worked < took*8/10 {
		t.Errorf("the engine's child took %v; of %+v, %v is the engine's", took, share, worked)
	}
	// An orphan: its parent ends at once.
	note := filepath.Join(t.TempDir(), "pid")
	if err := exec.CommandContext(t.Context(), "sh", "-c", `sh -c 'while :; do :; done' & echo $! > "$0"`, note).Run(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(note)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if p, err := os.FindProcess(stranger); err == nil {
			_ = p.Kill()
		}
	}()
	took, share = measure(stranger)
	if others := time.Duration(share.Others * float64(share.Time)); others < took*8/10 {
		t.Errorf("a stranger took %v; of %+v, %v is others'", took, share, others)
	}
}
