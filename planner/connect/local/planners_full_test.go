//go:build full

package local_test

import (
	"bufio"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Whenever the planner is killed, the next one ends up with what is wanted:
// nothing is started twice, and nothing is forgotten.
func TestPlannerKilled(t *testing.T) {
	dir := folder(t)
	path := options(dir, "serve").Path
	for i, want := range []int{1, 3, 5, 2, 4, 6, 3, 0, 5} {
		before := inode(path)
		c := exec.CommandContext(t.Context(), self(), "planner", dir, strconv.Itoa(want))
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if i%3 == 2 {
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "scaled\n" {
				t.Fatalf("the planner says %q, %v", line, err)
			}
		}
		for range i%3 + 1 { // after its first record, where starts are announced; its second; and later
			for end := time.Now().Add(2 * time.Second); inode(path) == before && time.Now().Before(end); {
				time.Sleep(50 * time.Microsecond)
			}
			before = inode(path)
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait()
		if n := len(workers(dir)); n > 8 {
			t.Fatalf("%d workers on 8 GPUs", n)
		}
	}
	f := newFixture(t, dir, options(dir, "serve"))
	f.scale(4)
	f.settled(4)
	var pids []int
	for name, e := range f.entries() {
		if e["state"] != nil { // the first entry stays without a worker
			pids = append(pids, pidOf(f, name))
		}
	}
	got := workers(dir)
	slices.Sort(pids)
	slices.Sort(got)
	if !slices.Equal(pids, got) {
		t.Errorf("the file has processes %d, and there are %d\n%s", pids, got, f.log())
	}
}

// inode changes whenever the file is replaced.
func inode(path string) uint64 {
	var st syscall.Stat_t
	_ = syscall.Stat(path, &st) // 0 before there is one
	return st.Ino
}
