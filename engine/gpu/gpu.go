// Package gpu says which NVIDIA GPUs this machine offers to a program that it
// starts now: how many, which kind, their memory, clocks, throttling and links.
// It takes the value of CUDA_VISIBLE_DEVICES and a catalog to name the kinds by;
// it asks NVML, which comes with the driver, and changes nothing. Where NVML is
// absent it refuses with ErrUnavailable; a GPU that does not answer is left out
// with a warning.
package gpu

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// ErrUnavailable is in every error of List that means that this machine has no NVIDIA
// GPU: no library, no driver and no device. A driver that is there but refuses to answer,
// or a device that this build cannot ask about, is another error.
var ErrUnavailable = errors.New("no NVIDIA GPUs can be seen")

// deviceFiles are the files that the NVIDIA driver makes, one for each GPU.
const deviceFiles = "/dev/nvidia[0-9]*"

// unavailable says why NVML cannot be asked. It is ErrUnavailable unless device files
// show that GPUs are here.
func unavailable(files, why string) error {
	if found, _ := filepath.Glob(files); len(found) > 0 {
		return fmt.Errorf("this machine has NVIDIA GPUs (%s), but they cannot be asked: %s", strings.Join(found, ", "), why)
	}
	return fmt.Errorf("%w: %s", ErrUnavailable, why)
}

// Inventory is the GPUs that a program started now would see.
type Inventory struct {
	Driver   string   `json:"driver_version"`
	CUDA     string   `json:"cuda_version"` // the newest that the driver runs
	Devices  []Device `json:"devices"`
	Warnings []string `json:"warnings,omitempty"`
}

// Device is one GPU, or one MIG slice of one. Figures that the GPU does not
// tell are 0.
type Device struct {
	Index       int      `json:"index"` // NVML's, by PCI bus; of the GPU that a slice is cut from
	UUID        string   `json:"uuid"`
	Name        string   `json:"name"`
	SKU         string   `json:"sku,omitempty"` // catalog name; empty where the catalog has none, and for a slice
	PCIBusID    string   `json:"pci_bus_id"`
	MemoryTotal int64    `json:"memory_total_bytes"`
	MemoryUsed  int64    `json:"memory_used_bytes"`
	MIG         MIG      `json:"mig"`
	SMClock     int      `json:"sm_clock_mhz"`
	SMClockMax  int      `json:"sm_clock_max_mhz"`
	MemClock    int      `json:"memory_clock_mhz"`
	MemClockMax int      `json:"memory_clock_max_mhz"`
	Throttle    []string `json:"throttle_reasons"` // why the clocks are not higher, without idleness
	Idle        bool     `json:"idle"`             // the clocks are low because nothing runs
	NVLinks     int      `json:"nvlinks"`          // active links
}

// MIG says how a Device relates to multi-instance GPU mode.
type MIG string

// The states of MIG.
const (
	MIGUnsupported MIG = "unsupported"
	MIGDisabled    MIG = "disabled"
	MIGEnabled     MIG = "enabled" // cut into slices; CUDA offers these instead
	MIGSlice       MIG = "slice"   // the Device is one slice
)

// throttleReasons are the bits of nvmlDeviceGetCurrentClocksEventReasons
// (nvml.h, CUDA 13.0, 2025). Bit 0 is idleness.
var throttleReasons = [...]string{
	1: "application clock setting",
	2: "software power cap",
	3: "hardware slowdown",
	4: "sync boost",
	5: "software thermal slowdown",
	6: "hardware thermal slowdown",
	7: "hardware power brake",
	8: "display clock setting",
}

func decodeThrottle(bits uint64) (reasons []string, idle bool) {
	for i, r := range throttleReasons {
		if i > 0 && bits&(1<<i) != 0 {
			reasons = append(reasons, r)
		}
	}
	if rest := bits >> len(throttleReasons); rest != 0 {
		reasons = append(reasons, fmt.Sprintf("unknown reason 0x%x", rest<<len(throttleReasons)))
	}
	return reasons, bits&1 != 0
}

// caveats are what a user of these devices should know.
func caveats(devices []Device) []string {
	var out []string
	names := map[string]bool{}
	for _, d := range devices {
		names[d.Name] = true
		if len(d.Throttle) > 0 {
			out = append(out, fmt.Sprintf("GPU %d runs below its full clock (SM %d of %d MHz): %s", d.Index, d.SMClock, d.SMClockMax, strings.Join(d.Throttle, ", ")))
		}
		if d.MIG == MIGEnabled {
			out = append(out, fmt.Sprintf("GPU %d is in MIG mode, so engines get only its slices", d.Index))
		}
		if d.MemoryTotal > 0 && d.MemoryUsed > d.MemoryTotal/20 {
			out = append(out, fmt.Sprintf("GPU %d is in use (%.1f of %.1f GB taken). Stop the other program for a clean measurement", d.Index, float64(d.MemoryUsed)/1e9, float64(d.MemoryTotal)/1e9))
		}
	}
	if len(names) > 1 {
		out = append(out, "the GPUs are of several kinds. Set CUDA_DEVICE_ORDER=PCI_BUS_ID so that CUDA counts them in this order")
	}
	return out
}
