//go:build full

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

// TestGuide runs the guide's sh blocks as written and in order, in one shell,
// as somebody who reads it does: what a block leaves running serves the next.
func TestGuide(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "docs", "guide.md")
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
			for _, fault := range sampleFaults(b.output, out) {
				t.Error(fault)
			}
			continue
		}
		if fault := liveFault(b.output, out); fault != "" {
			t.Errorf("%s:\n%s\nreal:\n%s", fault, b.output, out)
		}
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
	if _, err := os.Stat(filepath.Join(dir, "guide")); !os.IsNotExist(err) {
		t.Errorf("the guide leaves its folder behind: %v", err)
	}
}

// inOneShell is what each block prints.
func inOneShell(t *testing.T, dir string, blocks []block) []string {
	t.Helper()
	var script strings.Builder
	script.WriteString("trap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT\n")
	for _, b := range blocks {
		script.WriteString(aloneOnPorts(b.commands) + b.commands + "printf '\\0'\n")
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-eu", "-c", script.String())
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CUDA_VISIBLE_DEVICES=", "GOFLAGS=-trimpath -buildvcs=false")
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

// liveFault is what is wrong with what processes did in real time, empty if nothing:
// lines of other kinds than in the sample, or a request that was lost.
func liveFault(want, got string) string {
	kinds := func(s string) (out []string) {
		for l := range strings.Lines(s) {
			kind, _, _ := strings.Cut(shape(l), ": ")
			out = append(out, kind)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	if !slices.Equal(kinds(want), kinds(got)) {
		return "the sample output has other kinds of lines than the real one (go test -tags full -run Guide ./cmd/plimsoll -update-readme)"
	}
	if m := regexp.MustCompile(`([0-9]+) of ([0-9]+) requests were answered`).FindStringSubmatch(got); m != nil && m[1] != m[2] {
		return "requests were lost"
	}
	return ""
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

// What the guide's test rests on can tell right from wrong.
func TestGuideRules(t *testing.T) {
	const up, down = "1:00 d decision: prefill=1 becomes prefill=3, 8 GPUs\n", "1:30 d decision: prefill=3 becomes prefill=2, 6 GPUs\n"
	for decisions, want := range map[string]bool{up + down: true, up: false, down: false, down + up: false, "": false} {
		if upAndDown(decisions) != want {
			t.Errorf("up and down is %v of %q", !want, decisions)
		}
	}
	for got, sound := range map[string]bool{
		"2:00 d decision: other 7 words\n":         true,
		"2:00 d decision: a\n2:01 d decision: b\n": true,
		"2:00 d decided: 7 words\n":                false,
		"2:00 d decision: a\nobserved: 1\n":        false,
		"":                                         false,
	} {
		if (liveFault(up, got) == "") != sound {
			t.Errorf("%q for %q: %q", got, up, liveFault(up, got))
		}
	}
	const answered = "9 of 9 requests were answered\n"
	if liveFault(answered, answered) != "" || liveFault(answered, "8 of 9 requests were answered\n") == "" {
		t.Error("a lost request is not told from none")
	}
	page := "```sh\nrun a\n```\n\nText:\n\n" + outputBegin + "x\n" + outputEnd + "\n```sh\nrun b\n```\n\n" + liveBegin + "x\n" + outputEnd + "\n"
	blocks := shBlocks(page)
	if len(blocks) != 2 || blocks[1].begin != liveBegin || blocks[1].withOutput(page, "x\n") != page ||
		blocks[1].withOutput(page, "y\n") != strings.Replace(page, liveBegin+"x", liveBegin+"y", 1) ||
		blocks[0].withOutput(page, "y\n") != strings.Replace(page, outputBegin+"x", outputBegin+"y", 1) {
		t.Errorf("blocks %q", blocks)
	}
}
