//go:build full

package main

import (
	"bytes"
	"flag"
	"fmt"
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

var updateReadme = flag.Bool("update-readme", false, "write the real output into README.md and docs/guide.md, and the README's picture into docs")

// What is between these is a block's sample output; of a live run, in which engines
// and users are processes, the figures and the number of lines are chance.
const (
	outputBegin = "<!-- output -->\n```\n"
	liveBegin   = "<!-- output of a live run -->\n```\n"
	outputEnd   = "```\n<!-- /output -->"
)

// TestReadme runs the README's sh blocks as written, in a copy of the tracked
// files, and holds the sample output behind a block against the real one.
func TestReadme(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := copyTracked(t, root)
	text := string(readme)
	var faults []string // said last, where an excerpt of the log still has them
	samples := 0
	for _, b := range shBlocks(text) {
		started := time.Now()
		out := sh(t, dir, b.commands)
		t.Logf("%.0f s: %s", time.Since(started).Seconds(), strings.ReplaceAll(strings.TrimSpace(b.commands), "\n", "; "))
		if b.begin == "" {
			continue
		}
		samples++
		if !*updateReadme && samples == 1 && len(sampleFaults(b.output, out)) > 0 { // a machine that was busy for a moment
			t.Logf("once more: %q", sampleFaults(b.output, out))
			if err := os.RemoveAll(filepath.Join(dir, "profiling_results")); err != nil {
				t.Fatal(err)
			}
			out = sh(t, dir, b.commands)
		}
		if samples == 1 {
			t.Parallel() // what measures in real time had the machine to itself
		}
		text = b.withOutput(text, out)
		if !*updateReadme {
			faults = append(faults, sampleFaults(b.output, out)...)
		}
	}
	for _, fault := range faults {
		t.Error(fault)
	}
	if samples == 0 {
		t.Fatal("README.md has no sh block with output")
	}
	if *updateReadme {
		rewrite(t, root, dir, text)
	}
}

// block is one sh block and the sample output that follows it; begin is empty where
// none does.
type block struct{ commands, begin, output string }

// withOutput is the page with what the block really printed.
func (b block) withOutput(page, out string) string {
	before, after, _ := strings.Cut(page, b.commands)
	return before + b.commands + strings.Replace(after, b.begin+b.output+outputEnd, b.begin+out+outputEnd, 1)
}

func shBlocks(text string) []block {
	commands := regexp.MustCompile("(?s)```sh\n(.*?)```")
	var blocks []block
	at := commands.FindAllStringSubmatchIndex(text, -1)
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		b := block{commands: text[m[2]:m[3]]}
		for _, begin := range []string{outputBegin, liveBegin} {
			if _, after, ok := strings.Cut(text[m[1]:end], begin); ok {
				b.begin = begin
				b.output, _, _ = strings.Cut(after, outputEnd)
			}
		}
		blocks = append(blocks, b)
	}
	return blocks
}

func copyTracked(t *testing.T, root string) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", `git ls-files -z | tar --null -T - -cf - | tar -xf - -C "$0"`, dir)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("copying the tracked files: %v\n%s", err, out)
	}
	return dir
}

// aloneOnPorts is what a block of one page that starts a fleet begins with: that of the
// other page has the same ports.
func aloneOnPorts(block string) string {
	if !strings.Contains(block, "--port 8800") {
		return ""
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		panic(err)
	}
	return "exec 9< '" + filepath.Join(root, "go.mod") + "'; flock 9\n"
}

func sh(t *testing.T, dir, block string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-eu", "-c", aloneOnPorts(block)+block)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CUDA_VISIBLE_DEVICES=", "GOFLAGS=-trimpath -buildvcs=false")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s%s", err, block, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.String()
}

// rewrite writes the README with the real output, and the picture beside it.
func rewrite(t *testing.T, root, dir, readme string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, "README.md"), []byte(readme), 0o644); err != nil {
		t.Fatal(err)
	}
	const name = "decode_performance.png"
	b, err := os.ReadFile(filepath.Join(dir, "profiling_results", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "docs", name), b, 0o644); err != nil {
		t.Fatal(err)
	}
}

var number = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

var label = regexp.MustCompile(`TP:[0-9]+`)

// shape is a line without its figures, except those that name a configuration,
// and without what the figures of a run decide.
func shape(line string) string {
	labels := label.FindAllString(line, -1)
	line = strings.TrimSuffix(strings.TrimSpace(line), ", undecided")
	line = regexp.MustCompile(` ± [0-9.]+`).ReplaceAllString(label.ReplaceAllString(line, "CONFIG"), "")
	return strings.Join(append(strings.Fields(number.ReplaceAllString(line, "#")), labels...), " ")
}

// sampleFaults is how real output differs from the sample. What ran in virtual time
// is the same to the byte. What ran in real time has the same kinds of lines, and in
// the Suggested lines the same configurations with figures within 10 %.
func sampleFaults(want, got string) []string {
	if !strings.HasPrefix(want, "SIMULATED") {
		if want != got {
			return []string{fmt.Sprintf("the sample output is\n%s\nreal:\n%s", want, got)}
		}
		return nil
	}
	shapes := func(s string) (out []string, suggested []string) {
		for l := range strings.Lines(s) {
			if strings.HasPrefix(l, "  prefill ") || strings.HasPrefix(l, "  decode ") || strings.HasPrefix(l, "        ") || strings.Contains(strings.ToLower(l), "warning") {
				continue // which layouts are measured and what is warned of is chance, too
			}
			out = append(out, shape(l))
			if strings.HasPrefix(l, "Suggested") {
				suggested = append(suggested, strings.TrimSpace(l))
			}
		}
		slices.Sort(out)
		return slices.Compact(out), suggested
	}
	var faults []string
	w, ws := shapes(want)
	g, gs := shapes(got)
	if !slices.Equal(w, g) {
		without := func(lines, others []string) string {
			return strings.Join(slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return slices.Contains(others, l) }), "\n")
		}
		faults = append(faults, fmt.Sprintf("the sample output has other lines than the real one (go test -tags full -run Readme ./cmd/plimsoll -update-readme):\n%s\nreal:\n%s", without(w, g), without(g, w)))
	}
	if len(ws) != 4 || len(gs) != 4 {
		return append(faults, fmt.Sprintf("%d and %d Suggested lines, want 4", len(ws), len(gs)))
	}
	for i := range ws {
		a, b := number.FindAllString(ws[i], -1), number.FindAllString(gs[i], -1)
		for k := range min(len(a), len(b)) {
			x, _ := strconv.ParseFloat(a[k], 64)
			y, _ := strconv.ParseFloat(b[k], 64)
			if x < 0.9*y || x > 1.1*y {
				faults = append(faults, fmt.Sprintf("sample %q, real %q", ws[i], gs[i]))
				break
			}
		}
	}
	return faults
}
