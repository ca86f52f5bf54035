package store

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"plimsoll/engine/enginetest"
	"plimsoll/profile"
)

type process struct{ cmd *exec.Cmd }

func startChild(t *testing.T, job string) process {
	t.Helper()
	cmd := enginetest.Command(t, os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+job)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	return process{cmd}
}

// kill is kill -9.
func (p process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := p.cmd.Wait(); !errors.As(err, &exit) {
		t.Fatal(err)
	}
}

// begun makes path a run with a header.
func begun(t *testing.T, path string) {
	t.Helper()
	d, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	j, err := OpenJournal(filepath.Join(path, JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.Append(header()), j.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCreateAndResume(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "out")
	if _, err := Resume(dir); !errors.Is(err, ErrNoRun) {
		t.Errorf("resuming nothing: %v", err)
	}
	d, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err = Create(dir); err != nil { // nothing was begun: still free
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	begun(t, dir)
	if _, err := Create(dir); !errors.Is(err, ErrOtherRun) || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("a second run: %v", err)
	}
	left := filepath.Join(dir, ".run.json1234567890")
	write(t, left, "half")
	keep := filepath.Join(dir, ".mine.json")
	write(t, keep, "{}")
	if d, err = Resume(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a half-written file is kept")
	}
	if _, err := os.Stat(keep); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestInspect(t *testing.T) {
	header := `{"type":"header","header":{"schema":1,`
	for name, c := range map[string]struct {
		file, text string
		want       State
	}{
		"empty":                 {"", "", Empty},
		"lock only":             {lockFile, "", Empty},
		"journal":               {JournalFile, header, OurRun},
		"journal killed early":  {JournalFile, `{"type":"hea`, OurRun},
		"journal killed at all": {JournalFile, "", OurRun},
		"another's journal":     {JournalFile, `{"type":"post","title":"x"}`, Foreign},
		"run":                   {RunFile, "{\n  \"schema\": 1,\n  \"program\": \"plimsoll\",", OurRun},
		"run of another schema": {RunFile, "{\n  \"schema\": 12,\n  \"program\": \"plimsoll\",", OurRun},
		"another's run.json":    {RunFile, `{"run": 1}`, Foreign},
		"something else":        {"notes.txt", "x", Foreign},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.file != "" {
				write(t, filepath.Join(dir, c.file), c.text)
			}
			if got, err := Inspect(dir); err != nil || got != c.want {
				t.Errorf("%v, %v, want %v", got, err, c.want)
			}
		})
	}
	begunOnly := t.TempDir() // killed between the first files of a run
	write(t, filepath.Join(begunOnly, lockFile), "")
	write(t, filepath.Join(begunOnly, "engine.log"), "x")
	if got, err := Inspect(begunOnly); err != nil || got != OurRun {
		t.Errorf("a run without a journal yet: %v, %v", got, err)
	}
	dir := t.TempDir()
	if err := WriteRun(dir, Run{Version: "v1"}); err != nil {
		t.Fatal(err)
	}
	if got, err := Inspect(dir); err != nil || got != OurRun {
		t.Errorf("what WriteRun writes: %v, %v", got, err)
	}
	if got, err := Inspect(filepath.Join(dir, "none")); err != nil || got != Absent {
		t.Errorf("%v, %v", got, err)
	}
}

func TestForeignAndUnwritable(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "thesis.tex"), "x")
	if _, err := Create(dir); !errors.Is(err, ErrForeign) {
		t.Errorf("create: %v", err)
	}
	if _, err := Resume(dir); !errors.Is(err, ErrForeign) {
		t.Errorf("resume: %v", err)
	}
	if _, err := MoveAside(dir); !errors.Is(err, ErrForeign) {
		t.Errorf("move aside: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, lockFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Error("somebody's folder was written to")
	}
	file := filepath.Join(dir, "thesis.tex")
	for _, bad := range []string{file, filepath.Join(file, "out"), "/proc/self/out"} {
		if _, err := Create(bad); err == nil || !strings.Contains(err.Error(), "output folder") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestTwoRunsDoNotShareAFolder(t *testing.T) {
	dir := t.TempDir()
	child := startChild(t, "lock "+dir)
	if _, err := Create(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("while another holds it: %v", err)
	}
	child.kill(t) // kill -9 leaves the lock's file, not the lock
	d, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("twice in one process: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestMoveAside(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := MoveAside(dir); !errors.Is(err, ErrNoRun) {
		t.Errorf("nothing there: %v", err)
	}
	for _, want := range []string{".1", ".2", ".3"} {
		begun(t, dir)
		to, err := MoveAside(dir)
		if err != nil || to != dir+want {
			t.Fatalf("%s, %v", to, err)
		}
		if state, err := Inspect(to); err != nil || state != OurRun {
			t.Errorf("%v, %v", state, err)
		}
		if state, err := Inspect(dir); err != nil || state != Absent {
			t.Errorf("%v, %v", state, err)
		}
	}
	begun(t, dir)
	d, err := Resume(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := MoveAside(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("a run that is being written: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// A link is refused, and what it leads to stays where it is.
func TestMoveAsideOfALink(t *testing.T) {
	base := t.TempDir()
	disk, link := filepath.Join(base, "disk"), filepath.Join(base, "results")
	begun(t, disk)
	if err := os.Symlink("disk", link); err != nil {
		t.Fatal(err)
	}
	if to, err := MoveAside(link + "/"); !errors.Is(err, ErrLink) {
		t.Errorf("moved to %q, %v", to, err)
	}
	if state, err := Inspect(disk); err != nil || state != OurRun {
		t.Errorf("%v, %v", state, err)
	}
}

// The working directory cannot be moved, and stays as it is.
func TestMoveAsideLeavesTheWorkingDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	begun(t, dir)
	t.Chdir(dir)
	if to, err := MoveAside("."); err == nil {
		t.Errorf("moved to %s", to)
	}
	if state, err := Inspect(dir); err != nil || state != OurRun {
		t.Errorf("%v, %v", state, err)
	}
}

// A link to nothing is not made a folder.
func TestDanglingLink(t *testing.T) {
	base := t.TempDir()
	link := filepath.Join(base, "results")
	if err := os.Symlink("unmounted", link); err != nil {
		t.Fatal(err)
	}
	for name, take := range map[string]func(string) (*Dir, error){"Create": Create, "Resume": Resume} {
		if _, err := take(link); err == nil {
			t.Errorf("%s takes it", name)
		}
	}
	if _, err := os.Stat(filepath.Join(base, "unmounted")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder was made: %v", err)
	}
}

func TestWriteFileReplacesWhole(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.json")
	for _, text := range []string{"one", "two, longer", ""} {
		if err := WriteFile(file, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(file); err != nil || string(b) != text {
			t.Errorf("%q, %v", b, err)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
	if err := WriteFile(filepath.Join(file, "x"), nil); err == nil {
		t.Error("a file below a file is written")
	}
}

func TestLink(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(WritePrefill(dir, numpyPrefill), WriteDecode(dir, numpyDecode)); err != nil {
		t.Fatal(err)
	}
	for _, slug := range []string{"tp4", "tep8", "tp4pp2", "tp2", "tp2"} {
		if err := Link(dir, profile.Prefill, slug); err != nil {
			t.Fatal(err)
		}
	}
	if err := Link(dir, profile.Decode, "tp2"); err != nil {
		t.Fatal(err)
	}
	links, err := filepath.Glob(filepath.Join(dir, "*_*p*_interpolation"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil {
			got = append(got, filepath.Base(l)+" -> "+to)
		}
	}
	want := "decode_tp2_interpolation -> selected_decode_interpolation, prefill_tp2_interpolation -> selected_prefill_interpolation"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("links %s, want %s", s, want)
	}
	if s, err := ReadDecode(filepath.Join(dir, "decode_tp2_interpolation", "raw_data.npz"), LoadOptions{}); err != nil || len(s.Samples) != 4 {
		t.Errorf("%v, %v", s, err)
	}
	if err := Link(dir, profile.Decode, "../x"); err == nil {
		t.Error("a slug leads out of the folder")
	}
}

func TestLinkWhereThereAreCopies(t *testing.T) {
	dir := t.TempDir()
	if err := WritePrefill(dir, numpyPrefill); err != nil {
		t.Fatal(err)
	}
	// What a file system without links was left with, by copySurface.
	old := filepath.Join(dir, LinkName(profile.Prefill, "tp8"))
	if err := copySurface(dir, profile.Prefill, old); err != nil {
		t.Fatal(err)
	}
	if s, err := ReadPrefill(filepath.Join(old, "raw_data.npz"), LoadOptions{}); err != nil || len(s.Samples) != 3 {
		t.Errorf("the copy: %v, %v", s, err)
	}
	mine := filepath.Join(dir, LinkName(profile.Prefill, "tp1"))
	if err := os.Mkdir(mine, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(mine, "notes.txt"), "x")
	if err := Link(dir, profile.Prefill, "tp4"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the stale copy stays")
	}
	if _, err := os.Stat(filepath.Join(mine, "notes.txt")); err != nil {
		t.Error("somebody's folder is gone")
	}
	if err := Link(dir, profile.Prefill, "tp1"); err == nil || !strings.Contains(err.Error(), "is in the way") {
		t.Errorf("error %v", err)
	}
}

// A process that is being forked holds the lock's file until it runs its program.
func TestDefectLockOutlivedItsHolder(t *testing.T) {
	d, err := Create(filepath.Join(t.TempDir(), "results"))
	if err != nil {
		t.Fatal(err)
	}
	copied, err := syscall.Dup(int(d.lock.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(copied) }()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := hold(d.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
