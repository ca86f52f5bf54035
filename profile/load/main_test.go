package load

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// No test may leave a goroutine behind. The same binary is the paced server of
// the benchmarks, or the client, in a process of its own.
func TestMain(m *testing.M) {
	if spec := os.Getenv(pacedEnv); spec != "" {
		os.Exit(pacedProcess(spec))
	}
	if spec := os.Getenv(clientEnv); spec != "" {
		os.Exit(clientProcess(spec))
	}
	goleak.VerifyTestMain(m)
}
