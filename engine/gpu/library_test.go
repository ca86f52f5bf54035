//go:build linux && cgo

package gpu

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"plimsoll/engine/catalog"
)

// answer is what a child process that calls List prints.
type answer struct {
	Inventory   Inventory
	Error       string
	Unavailable bool
}

// TestMain makes the test binary its own child: the library path of a process
// is fixed when it starts.
func TestMain(m *testing.M) {
	if os.Getenv("PLIMSOLL_TEST_LIST") == "" {
		os.Exit(m.Run())
	}
	cat, err := catalog.Default()
	if err != nil {
		panic(err)
	}
	var a answer
	if a.Inventory, err = List(context.Background(), os.LookupEnv, cat); err != nil {
		a.Error, a.Unavailable = err.Error(), errors.Is(err, ErrUnavailable)
	}
	if err := json.NewEncoder(os.Stdout).Encode(a); err != nil {
		panic(err)
	}
}
