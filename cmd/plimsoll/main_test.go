package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"plimsoll/engine/enginetest"
	"plimsoll/engine/process"
	"plimsoll/plots"
)

// gpusFromStub is set where a test brings its own NVML along.
const gpusFromStub = "PLIMSOLL_TEST_GPUS_FROM_STUB"

// The test binary is also the program: scripts and the engines that the program
// launches execute it again, so that every child process is a real one.
func TestMain(m *testing.M) {
	process.Main()
	configureCLI()
	// No GPU of the machine that runs the tests may decide what they see, and
	// under the race detector no exit needs to sleep for a second.
	fixed := map[string]string{"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "GORACE": "atexit_sleep_ms=0", "GOGC": "400"}
	if os.Getenv(gpusFromStub) != "" {
		delete(fixed, "CUDA_VISIBLE_DEVICES")
	}
	for k, v := range fixed {
		if err := os.Setenv(k, v); err != nil {
			panic(err)
		}
	}
	plots.DPI = 12
	// Tests that run engines wait for them: more at once than cores.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"plimsoll": main, "badengine": badEngine, "standin": standInMain, "affineengine": affineEngine})
}

// serial runs scripts one after the other: the program runs in this process, whose
// folder and environment they change.
type serial struct{ *testing.T }

func (serial) Parallel()     {}
func (serial) Verbose() bool { return testing.Verbose() }
func (s serial) Run(name string, f func(testscript.T)) {
	s.T.Run(name, func(t *testing.T) { f(serial{t}) })
}

const scripts = "testdata/script"

func TestScripts(t *testing.T) {
	testscript.RunT(serial{t}, testscript.Params{
		Dir: scripts,
		Setup: func(e *testscript.Env) error {
			for _, k := range []string{"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GORACE"} {
				e.Setenv(k, os.Getenv(k))
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "says": says, "estimated": estimatedCopies(t), "serve": serveFake, "prometheus": servePrometheus,
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "race": // the race detector is on
				return raceDetector, nil
			case "full":
				return enginetest.Full, nil
			case "driver":
				_, nvidia := os.Stat("/dev/nvidiactl")
				_, amd := exec.LookPath("amd-smi")
				_, older := exec.LookPath("rocm-smi")
				return nvidia == nil || amd == nil || older == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
	})
}

// exits runs plimsoll and wants an exit code: `exits 2 plimsoll gpus --x`. It does so
// in this process, or with `exits -process 0 plimsoll …`, as what starts engines must
// run, in another. A wrong asking must leave nothing on stdout.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	process := len(args) > 0 && args[0] == "-process"
	if process {
		args = args[1:]
	}
	if neg || len(args) < 2 || args[1] != "plimsoll" {
		ts.Fatalf("usage: exits [-process] code plimsoll [args…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	var got int
	var out string
	if process {
		got = inAnother(ts, args[2:])
		out = ts.ReadFile("stdout")
	} else {
		got, out = inProcess(ts, args[2:])
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
	if got == exitUsage && out != "" {
		ts.Fatalf("wrong usage, yet stdout holds %q", out)
	}
}

// estimatedCopies hands out copies of a profile of small engines, made once: `estimated DIR`.
func estimatedCopies(t *testing.T) func(*testscript.TestScript, bool, []string) {
	dir := sync.OnceValue(func() string { return estimatedProfile(t) })
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 1 {
			ts.Fatalf("usage: estimated dir")
		}
		ts.Check(os.CopyFS(ts.MkAbs(args[0]), os.DirFS(dir())))
	}
}

// inAnother runs plimsoll as a process of its own.
func inAnother(ts *testscript.TestScript, args []string) int {
	err := ts.Exec("plimsoll", args...)
	if err == nil {
		return exitDone
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		ts.Check(err)
	}
	return exit.ExitCode()
}

// set finds the variables that a script sets.
var set = regexp.MustCompile(`(?m)^env ([A-Z_]+)=`)

// inProcess runs plimsoll in the script's folder with its environment.
func inProcess(ts *testscript.TestScript, args []string) (int, string) {
	script, err := os.ReadFile(filepath.Join(scripts, ts.Name()+".txt"))
	ts.Check(err)
	names := []string{"HOME", "PATH", "TMPDIR", "WORK", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}
	for _, m := range set.FindAllStringSubmatch(string(script), -1) {
		names = append(names, m[1])
	}
	folder, err := os.Getwd()
	ts.Check(err)
	environment := os.Environ()
	defer func() {
		os.Clearenv()
		for _, kv := range environment {
			k, v, _ := strings.Cut(kv, "=")
			ts.Check(os.Setenv(k, v))
		}
		ts.Check(os.Chdir(folder))
	}()
	ts.Check(os.Chdir(ts.MkAbs(".")))
	os.Clearenv()
	for _, name := range names {
		if value := ts.Getenv(name); value != "" {
			ts.Check(os.Setenv(name, value))
		}
	}
	var out, errout buffer
	code := run(context.Background(), append([]string{"plimsoll"}, args...), streams{strings.NewReader(""), &out, &errout})
	_, err = io.WriteString(ts.Stdout(), out.String())
	ts.Check(err)
	_, err = io.WriteString(ts.Stderr(), errout.String())
	ts.Check(err)
	return code, out.String()
}

// says compares the whole of stderr with its arguments, one for each line
// without the program's name: `says 'error: it broke' 'hint: mend it'`.
func says(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("says cannot be negated")
	}
	var want strings.Builder
	for _, line := range args {
		fmt.Fprintf(&want, "plimsoll: %s\n", line)
	}
	if got := ts.ReadFile("stderr"); got != want.String() {
		ts.Fatalf("stderr is\n%swant\n%s", got, want.String())
	}
}
