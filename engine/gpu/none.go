//go:build !linux || !cgo

package gpu

import "plimsoll/engine/catalog"

// List refuses: this build cannot ask NVML.
func List(_ string, _ bool, _ catalog.Catalog) (Inventory, error) {
	return Inventory{}, unavailable(deviceFiles, "this build cannot query NVML. Build on Linux with CGO_ENABLED=1")
}
