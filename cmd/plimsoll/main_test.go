package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"plimsoll/engine/enginetest"
	"plimsoll/engine/process"
	"plimsoll/plots"
)

// gpusFromStub is set where a test brings its own NVML along.
const gpusFromStub = "PLIMSOLL_TEST_GPUS_FROM_STUB"

// priority is the nice value of a process, where it is not that of the tests.
const priority = "PLIMSOLL_TEST_PRIORITY"

// prioritize sets the priority of all threads that the process has so far; those to
// come, and children, inherit it. Only root may raise it.
func prioritize(nice int) {
	threads, _ := filepath.Glob("/proc/self/task/*")
	for _, thread := range threads {
		if id, err := strconv.Atoi(filepath.Base(thread)); err == nil {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, nice) // a thread may have ended
		}
	}
}

// The test binary is also the program: scripts and the engines that the program
// launches execute it again, so that every child process is a real one.
func TestMain(m *testing.M) {
	if nice, err := strconv.Atoi(os.Getenv(priority)); err == nil {
		prioritize(nice)
	} else if !raceDetector { // tests that wait for engines go before other packages and compilers
		prioritize(-5)
	}
	process.Main()
	configureCLI()
	// No GPU of the machine that runs the tests may decide what they see, and
	// under the race detector no exit needs to sleep for a second.
	fixed := map[string]string{"CUDA_VISIBLE_DEVICES": "", "GORACE": "atexit_sleep_ms=0"}
	if os.Getenv(gpusFromStub) != "" {
		delete(fixed, "CUDA_VISIBLE_DEVICES")
	}
	for k, v := range fixed {
		if err := os.Setenv(k, v); err != nil {
			panic(err)
		}
	}
	plots.DPI = 12
	// Most tests wait for engines that run in real time: more at once than cores.
	// Whoever sets -parallel has the last word. Two of them only wait for processes of
	// their own. Under the race detector each takes several times the processor.
	parallel := "10"
	if raceDetector {
		parallel = "6"
	}
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"plimsoll": main, "badengine": badEngine, "standin": standInMain, "affineengine": affineEngine, "dynamostandin": dynamoStandIn})
}

func TestScripts(t *testing.T) {
	update := os.Getenv("UPDATE_SCRIPTS") != ""
	if apart(t, 5, "-test.parallel=3") {
		return
	}
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			for _, k := range []string{"CUDA_VISIBLE_DEVICES", "GORACE"} {
				e.Setenv(k, os.Getenv(k))
			}
			e.Setenv(priority, "5")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "says": says, "serve": serveFake, "prometheus": servePrometheus,
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "race": // the race detector is on
				return raceDetector, nil
			case "full":
				return enginetest.Full, nil
			case "driver":
				_, err := os.Stat("/dev/nvidiactl")
				return err == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		UpdateScripts: update,
	})
}

// exits runs a program and wants an exit code: `exits 2 plimsoll gpus --x`. A
// wrong asking must leave nothing on stdout.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code program [args…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Check(err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
	if out := ts.ReadFile("stdout"); got == exitUsage && out != "" {
		ts.Fatalf("wrong usage, yet stdout holds %q", out)
	}
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
