//go:build !linux || !cgo

package gpu

import (
	"fmt"

	"plimsoll/engine/catalog"
)

// List refuses: this build cannot ask NVML.
func List(_ string, _ bool, _ catalog.Catalog) (Inventory, error) {
	return Inventory{}, fmt.Errorf("%w: this build cannot ask NVML, which takes Linux and CGO_ENABLED=1", ErrUnavailable)
}
