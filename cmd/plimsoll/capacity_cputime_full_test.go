//go:build full

package main

import (
	"testing"
	"time"

	"plimsoll/engine/enginetest/cputime"
)

// A plan of README size takes less than 5 s on two cores: long enough trials, and
// no more of them than decide.
func TestReadmePlanTakesLittleProcessorTime(t *testing.T) {
	begin := cputime.Used()
	ran(t, exitDone, "capacity", "plan", "--model", "llama-3.1-70b", "--gpu", "h100-sxm", "--rate", "20", "--isl", "2000", "--isl-p99", "8000",
		"--osl", "200", "--osl-p99", "800", "--ttft-p99", "1000", "--itl-p99", "50", "--availability", "0.999", "--replica-availability", "0.995")
	if used := cputime.Used() - begin; used > 7500*time.Millisecond {
		t.Errorf("%v of processor time", used)
	}
}
