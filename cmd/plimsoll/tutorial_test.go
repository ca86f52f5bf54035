//go:build readme

package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestTutorial runs the tutorial's sh blocks as written and in order, in one shell,
// as somebody who reads it does: what a block leaves running serves the next.
func TestTutorial(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "docs", "tutorial.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir, text := copyTracked(t, root), string(page)
	blocks := shBlocks(text)
	lived := false
	for i, out := range inOneShell(t, dir, blocks) {
		b := blocks[i]
		if b.begin == "" {
			continue
		}
		text = b.withOutput(text, out)
		if *updateReadme {
			continue
		}
		if b.begin == outputBegin {
			compareSample(t, b.output, out)
			continue
		}
		compareLive(t, b.output, out)
		lived = lived || upAndDown(out)
	}
	if *updateReadme {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !lived {
		t.Error("no output shows a fleet that grew and shrank again")
	}
	if _, err := os.Stat(filepath.Join(dir, "tutorial")); !os.IsNotExist(err) {
		t.Errorf("the tutorial leaves its folder behind: %v", err)
	}
}

// inOneShell is what each block prints.
func inOneShell(t *testing.T, dir string, blocks []block) []string {
	t.Helper()
	var script strings.Builder
	script.WriteString("trap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT\n")
	for _, b := range blocks {
		script.WriteString(b.commands + "printf '\\0'\n")
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-eu", "-c", script.String())
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CUDA_VISIBLE_DEVICES=", "GOFLAGS=-buildvcs=false")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var outs []string
	r := bufio.NewReader(stdout)
	for _, b := range blocks {
		started := time.Now()
		out, err := r.ReadString(0)
		if err != nil {
			rest, _ := io.ReadAll(r) // until what runs in the background is gone, too
			t.Fatalf("%v, %v\n%s\n%s%s%s", err, cmd.Wait(), b.commands, out, rest, stderr.Bytes())
		}
		t.Logf("%.0f s: %s", time.Since(started).Seconds(), strings.ReplaceAll(strings.TrimSpace(b.commands), "\n", "; "))
		outs = append(outs, strings.TrimSuffix(out, "\x00"))
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	return outs
}

// compareLive: of what processes did in real time, the same kinds of lines, and no
// request is lost.
func compareLive(t *testing.T, want, got string) {
	t.Helper()
	kinds := func(s string) (out []string) {
		for l := range strings.Lines(s) {
			kind, _, _ := strings.Cut(shape(l), ": ")
			out = append(out, kind)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	if !slices.Equal(kinds(want), kinds(got)) {
		t.Errorf("the sample output has other kinds of lines than the real one (go test -tags readme -run Tutorial ./cmd/plimsoll -update-readme):\n%s\nreal:\n%s", want, got)
	}
	if m := regexp.MustCompile(`([0-9]+) of ([0-9]+) requests were answered`).FindStringSubmatch(got); m != nil && m[1] != m[2] {
		t.Errorf("requests were lost: %s", got)
	}
}

// upAndDown reports whether decisions added a prefill engine to one that was there,
// and in the end took some away.
func upAndDown(decisions string) bool {
	most, last := 0, 0
	for _, m := range regexp.MustCompile(`becomes prefill=([0-9]+)`).FindAllStringSubmatch(decisions, -1) {
		last, _ = strconv.Atoi(m[1])
		most = max(most, last)
	}
	return most > 1 && last < most
}
