package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/planner"
)

// The state file holds no credential of a template, nor one that an earlier version
// wrote down; it is the user's own, even where everybody might read it. Workers are
// adopted all the same, also by a planner whose template has another key, and one that
// dies takes its credentials along.
func TestStateHoldsNoCredential(t *testing.T) {
	dir := folder(t)
	o := options(dir, "serve")
	template := o.Pools[0].Template.Argv
	o.Pools[0].Template.Argv = "env HF_TOKEN=Conf1dential-1 " + template + " --api-key 'Conf1dential 2'"
	o.Secrets = []string{"Conf1dential-3"}
	f := newFixture(t, dir, o)
	f.scale(1)
	f.settled(1)
	look := func(when string) {
		t.Helper()
		text, err := os.ReadFile(f.opts.Path)
		if err != nil || strings.Contains(string(text)+f.log(), "Conf1dential") || !strings.Contains(string(text), "HF_TOKEN=[redacted]") || !strings.Contains(string(text), "[redacted]'") {
			t.Errorf("%s: %v\n%s\n%s", when, err, text, f.log())
		}
		for path, want := range map[string]os.FileMode{
			f.opts.Path: 0o600, f.opts.Path + ".lock": 0o600, f.opts.Path + ".owner": 0o600, filepath.Dir(f.opts.Path): 0o700,
			filepath.Join(filepath.Dir(f.opts.Path), "logs"): 0o700, filepath.Join(filepath.Dir(f.opts.Path), "logs", first+".log"): 0o600,
		} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %s: %v, %v: want %v", when, path, info.Mode(), err, want)
			}
		}
	}
	look("started")
	pid := pidOf(f, first)

	f.edit(first, func(e map[string]any) {
		e["cmd"] = "env HF_TOKEN=Conf1dential-1 srv --api-key 'Conf1dential 2'"
		e["failure"] = "it said Conf1dential-3"
	})
	if err := os.Chmod(f.opts.Path, 0o644); err != nil {
		t.Fatal(err)
	}
	f.opts.Pools[0].Template.Argv = "env HF_TOKEN=Conf1dential-4 " + template + " --api-key 'Conf1dential 5'"
	f.restart()
	f.scale(1)
	f.settled(1)
	look("restarted")
	if pidOf(f, first) != pid {
		t.Error("the worker was started again")
	}

	if err := os.Chmod(f.opts.Path, 0o644); err != nil {
		t.Fatal(err)
	}
	f.settled(1) // nothing is to be written
	look("readable again")

	f.opts.Pools[0].Template.Argv = strings.Replace(f.opts.Pools[0].Template.Argv, " serve ", " exit3 ", 1)
	f.restart()
	kill(t, f, first)
	f.until("another that dies", func(p planner.PoolState) bool {
		_ = f.Scale(t.Context(), planner.Replicas{Decode: 1}, "test")
		return strings.Contains(f.log(), "no such tensor")
	})
	if text, err := os.ReadFile(f.opts.Path); err != nil || strings.Contains(string(text)+f.log(), "Conf1dential") {
		t.Errorf("%v\n%s\n%s", err, text, f.log())
	}
}
