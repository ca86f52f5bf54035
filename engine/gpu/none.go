//go:build !linux || !cgo

package gpu

import "plimsoll/engine/catalog"

// listNVIDIA refuses: this build cannot ask NVML.
func listNVIDIA(_ string, _ bool, _ catalog.Catalog) (Inventory, error) {
	return Inventory{}, unavailable("NVIDIA", deviceFiles, "this build cannot query NVML. Build on Linux with CGO_ENABLED=1")
}
