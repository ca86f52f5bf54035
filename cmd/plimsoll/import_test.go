package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/profile/store"
)

// dynamoFolder is a profile as Dynamo leaves it.
func dynamoFolder(t *testing.T) string {
	t.Helper()
	src := t.TempDir()
	for _, phase := range []string{"prefill", "decode"} {
		b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "npz", "h200-8b-fp8-tp1-"+phase+".npz"))
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join(src, "selected_"+phase+"_interpolation")
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "raw_data.npz"), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return src
}

// importing is the command line that imports src into dir, with more flags before src.
func importing(dir, src string, flags ...string) []string {
	args := append([]string{"profile-sla", "import", "--tp", "1", "--osl", "300", "--output-dir", dir}, flags...)
	return append(args, src)
}

// An import is no run that knew nothing, though no point is in its journal: only
// --force replaces it, and what was there stays readable.
func TestImportIsNotOverwritten(t *testing.T) {
	t.Parallel()
	src, dir := dynamoFolder(t), filepath.Join(t.TempDir(), "prof")
	ran(t, exitDone, importing(dir, src, "--ttft", "200", "--itl", "10")...)
	was := readFile(t, filepath.Join(dir, store.RecommendationFile))
	for _, args := range [][]string{
		importing(dir, src, "--ttft", "300", "--itl", "20"),
		{"profile-sla", "--engine", "estimate", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--tp", "1", "--verify", "never", "--output-dir", dir},
	} {
		p := ran(t, exitUsage, args...)
		if want := "the folder holds another run"; !strings.Contains(p.errout.String(), want) {
			t.Errorf("stderr lacks %q:\n%s", want, &p.errout)
		}
	}
	if now := readFile(t, filepath.Join(dir, store.RecommendationFile)); now != was {
		t.Errorf("the import's recommendation became\n%s", now)
	}
	ran(t, exitDone, importing(dir, src, "--ttft", "300", "--itl", "20", "--force")...)
	if moved := readFile(t, filepath.Join(dir+".1", store.RecommendationFile)); moved != was {
		t.Errorf("what was moved aside is\n%s", moved)
	}
}
