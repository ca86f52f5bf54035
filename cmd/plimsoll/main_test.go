package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"plimsoll/engine/process"
)

// gpusFromStub is set where a test brings its own NVML along.
const gpusFromStub = "PLIMSOLL_TEST_GPUS_FROM_STUB"

// The test binary is also the program: scripts and the engines that the program
// launches execute it again, so that every child process is a real one.
func TestMain(m *testing.M) {
	process.Main()
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
	// Most tests wait for engines that run in real time: more at once than cores.
	// Whoever sets -parallel has the last word; those that compare latencies run alone.
	// Under the race detector each takes several times the processor.
	parallel := "8"
	if raceDetector {
		parallel = "3"
	}
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"plimsoll": main, "badengine": badEngine, "standin": standInMain, "affineengine": affineEngine, "dynamostandin": dynamoStandIn})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			for _, k := range []string{"CUDA_VISIBLE_DEVICES", "GORACE"} {
				e.Setenv(k, os.Getenv(k))
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "says": says, "serve": serveFake, "prometheus": servePrometheus,
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "race": // the race detector is on
				return raceDetector, nil
			case "driver":
				_, err := os.Stat("/dev/nvidiactl")
				return err == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
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
