package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"plimsoll/engine/process"
)

// The test binary is also the program: scripts and the engines that the program
// launches execute it again, so that every child process is a real one.
func TestMain(m *testing.M) {
	process.Main()
	testscript.Main(m, map[string]func(){"plimsoll": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			// No GPU of the machine that runs the tests may decide what they see.
			e.Setenv("CUDA_VISIBLE_DEVICES", "")
			return nil
		},
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
	})
}
