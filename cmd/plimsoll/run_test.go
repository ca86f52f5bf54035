package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"plimsoll/engine/enginetest"
	"plimsoll/profile/store"
)

// markVar marks a run of the program: its engines inherit it, so that what a
// run leaves behind can be found.
const markVar = "PLIMSOLL_TEST_RUN"

// patience bounds every wait: a stalled machine may take long, a hang forever.
const patience = 30 * time.Second

// unhurried is a GPU whose steps take tens of milliseconds: a test waits for it
// beside others, and what a busy machine adds to a step decides nothing.
const unhurried = "l40s"

// small asks for a profile of the embedded engine that takes seconds, nearly all
// of them waiting: few requests in flight keep the processors free for the tests
// that wait at the same time.
func small(dir string, more ...string) []string {
	return append([]string{
		"profile-sla", "--engine", "sim", "--gpu", unhurried, "--tp", "1,2", "--isl", "500", "--osl", "30", "--ttft", "1000", "--itl", "100",
		"--prefill-interpolation-granularity", "3", "--decode-interpolation-granularity", "2", "--max-context-length", "700", "--max-num-seqs", "8", "--verify", "never",
		"--output-dir", dir,
	}, more...)
}

// program is one run of plimsoll.
type program struct {
	cmd         *exec.Cmd
	mark        string
	out, errout buffer
}

// buffer may be read while a process writes it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// start starts plimsoll with further environment, in a process group of its
// own; what is left of it when the test ends is ended.
func start(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	return startAs(t, "plimsoll", env, args...)
}

// startAs is start of a given executable.
func startAs(t *testing.T, path string, env []string, args ...string) *program {
	t.Helper()
	p := &program{cmd: enginetest.Command(t, path, args...)}
	p.mark = fmt.Sprintf("%s=%p-%d", markVar, p, os.Getpid())
	p.cmd.Env = append(append(os.Environ(), p.mark), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errout
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("starting plimsoll: %v", err)
	}
	return p
}

// wait gives the exit code; -1 where a signal ended the program.
func (p *program) wait(t *testing.T) int {
	t.Helper()
	err := p.cmd.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatalf("waiting for plimsoll: %v", err)
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *program) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("sending %v to plimsoll: %v", s, err)
	}
}

// ran runs plimsoll in this process to its end and wants an exit code.
func ran(t *testing.T, code int, args ...string) *program {
	t.Helper()
	p := &program{}
	p.want(t, code, run(t.Context(), append([]string{"plimsoll"}, args...), streams{strings.NewReader(""), &p.out, &p.errout}), args)
	return p
}

// executed runs plimsoll, a process of its own, to its end and wants an exit code:
// what starts the embedded engine, which is another process of the same program.
func executed(t *testing.T, code int, args ...string) *program {
	t.Helper()
	p := start(t, nil, args...)
	p.want(t, code, p.wait(t), args)
	return p
}

func (p *program) want(t *testing.T, code, got int, args []string) {
	t.Helper()
	if got != code {
		t.Fatalf("plimsoll %s: exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", strings.Join(args, " "), got, code, &p.out, &p.errout)
	}
}

// family are the command lines of the processes that a run started and that
// still run, itself left out.
func (p *program) family(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, dir := range dirs {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil || !bytes.Contains(env, []byte(p.mark)) || dir == fmt.Sprintf("/proc/%d", p.cmd.Process.Pid) {
			continue // gone meanwhile, or somebody else's
		}
		if line, err := os.ReadFile(filepath.Join(dir, "cmdline")); err == nil {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// noOrphans waits until nothing that the run started is left.
func (p *program) noOrphans(t *testing.T) {
	t.Helper()
	enginetest.Eventually(t, "every process that it started ends", func() bool { return len(p.family(t)) == 0 })
}

// results are a folder's points and what they come to.
func results(t *testing.T, dir string) (store.Run, store.Recommendation) {
	t.Helper()
	run, err := store.ReadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := store.ReadRecommendation(dir)
	if err != nil {
		t.Fatal(err)
	}
	return run, rec
}

// pointIDs are the points in a folder's journal that count, empty where there is none yet.
func pointIDs(t *testing.T, dir string) []string {
	t.Helper()
	log, err := store.ReadJournal(filepath.Join(dir, store.JournalFile))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, store.ErrNoHeader) {
		return nil
	}
	if err != nil {
		t.Fatalf("reading the journal: %v", err)
	}
	var ids []string
	for _, p := range log.Points {
		if p.Discarded == "" {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// tree is every file below dir with its content, none where there is no dir;
// links and the lock are left out.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return files
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == ".plimsoll.lock" {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		files[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
