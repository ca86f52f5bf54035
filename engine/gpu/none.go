//go:build !linux || !cgo

package gpu

import "plimsoll/engine/catalog"

// List refuses: this build cannot ask NVML.
func List(_ string, _ bool, _ catalog.Catalog) (Inventory, error) {
	return Inventory{}, unavailable(deviceFiles, "this build cannot ask NVML, which takes Linux and CGO_ENABLED=1")
}
