package sim

import (
	"flag"
	"os"
	"testing"
)

// The cases of these properties are cheap, and the rare ones matter: more of
// them than rapid's 100, unless a flag says how many.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "2000"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
