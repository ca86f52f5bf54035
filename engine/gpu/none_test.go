//go:build !linux || !cgo

package gpu

import (
	"errors"
	"testing"

	"plimsoll/engine/catalog"
)

func TestListWithoutNVML(t *testing.T) {
	inv, err := listNVIDIA("", false, catalog.Catalog{})
	if !errors.Is(err, ErrUnavailable) || len(inv.Devices) != 0 {
		t.Errorf("%+v, %v", inv, err)
	}
	t.Log("NOT RUN: the tests of NVML, which take Linux and cgo")
}
