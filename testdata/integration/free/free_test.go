package free

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Two processes that ask beside each other were given one port: an API server was
// reached at another's address, and etcd found its port in use.
func TestDefectProcessesGotOnePort(t *testing.T) {
	if os.Getenv("PRINT_PORTS") != "" {
		for range 40 {
			_, _ = os.Stdout.WriteString(Address(t) + "\n")
		}
		return
	}
	mine := map[string]bool{}
	for range 4000 {
		mine[Address(t)] = true
	}
	if len(mine) != 4000 {
		t.Fatalf("%d addresses are different, want 4000", len(mine))
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	other := exec.CommandContext(t.Context(), self, "-test.run", "^TestDefectProcessesGotOnePort$")
	other.Env = append(os.Environ(), "PRINT_PORTS=1")
	out, err := other.Output()
	if err != nil {
		t.Fatal(err)
	}
	theirs := 0
	for line := range strings.Lines(string(out)) {
		if address := strings.TrimSpace(line); strings.HasPrefix(address, "127.0.0.1:") {
			theirs++
			if mine[address] {
				t.Errorf("%s was given twice", address)
			}
		}
	}
	if theirs != 40 {
		t.Errorf("the other process got %d addresses: %s", theirs, out)
	}
}
