// Package enginetest is what the tests of all packages share.
package enginetest

import (
	"flag"
	"os"
	"testing"

	"pgregory.net/rapid"
)

// Properties draw 15 cases by one seed, so that a run repeats the last one; under
// the tag full they draw 100 by a random seed. The environment (RAPID_CHECKS,
// RAPID_SEED) and the command line (-rapid.checks, -rapid.seed) have the last word.
func init() {
	if Full {
		return // rapid's own settings
	}
	for name, value := range map[string]string{"checks": "15", "seed": "1"} {
		if os.Getenv(map[string]string{"checks": "RAPID_CHECKS", "seed": "RAPID_SEED"}[name]) != "" {
			continue
		}
		if err := flag.Set("rapid."+name, value); err != nil {
			panic(err)
		}
	}
}

// Check checks a property as rapid.Check does, with the number of cases and the
// seed of this package.
func Check(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	rapid.Check(t, property)
}
