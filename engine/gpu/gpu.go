// Package gpu says which GPUs this machine offers to a program that it starts
// now: how many, which kind, their memory, clocks, throttling and links. It takes
// the environment and a catalog to name the kinds by. It asks NVML, which comes
// with NVIDIA's driver, and where that finds nothing amd-smi or rocm-smi; it
// changes nothing. Where there is none of them it refuses with ErrUnavailable; a
// GPU that does not answer is left out with a warning.
package gpu

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"plimsoll/engine/catalog"
)

// ErrUnavailable is in every error of List that means that this machine has no GPU:
// no library or tool, no driver and no device. A driver that is there but refuses to
// answer, or a device that this build cannot ask about, is another error.
var ErrUnavailable = errors.New("no GPUs can be seen")

// deviceFiles are the files that the NVIDIA driver makes, one for each GPU.
const deviceFiles = "/dev/nvidia[0-9]*"

// unavailable says why a maker's GPUs cannot be asked. It is ErrUnavailable unless
// device files show that GPUs are here.
func unavailable(maker, files, why string) error {
	if found, _ := filepath.Glob(files); len(found) > 0 {
		return fmt.Errorf("this machine has %s GPUs (%s), but they cannot be asked: %s", maker, strings.Join(found, ", "), why)
	}
	return fmt.Errorf("%w: %s", ErrUnavailable, why)
}

// List is the GPUs that a program started now would see: NVIDIA's, and where there
// are none AMD's. lookup is os.LookupEnv, for the variables that hide and order GPUs;
// cat gives each its SKU.
func List(ctx context.Context, lookup func(string) (string, bool), cat catalog.Catalog) (Inventory, error) {
	env, set := lookup("CUDA_VISIBLE_DEVICES")
	nvidia, err := listNVIDIA(env, set, cat)
	return orAMD(nvidia, err, func() (Inventory, error) { return listAMD(ctx, lookup, cat) })
}

// orAMD is NVML's answer, or AMD's where NVML has nothing to say.
func orAMD(nvidia Inventory, err error, list func() (Inventory, error)) (Inventory, error) {
	absent := errors.Is(err, ErrUnavailable)
	if err != nil && !absent || len(nvidia.Devices)+len(nvidia.Warnings) > 0 {
		return nvidia, err
	}
	amd, amdErr := list()
	switch {
	case amdErr == nil && (absent || len(amd.Devices) > 0):
		return amd, nil
	case !absent:
		return nvidia, nil
	case errors.Is(amdErr, ErrUnavailable):
		return Inventory{}, fmt.Errorf("%w; %s", err, strings.TrimPrefix(amdErr.Error(), ErrUnavailable.Error()+": "))
	}
	return Inventory{}, amdErr
}

// Inventory is the GPUs that a program started now would see.
type Inventory struct {
	Driver   string   `json:"driver_version,omitempty"`
	CUDA     string   `json:"cuda_version,omitempty"` // the newest that the driver runs
	Devices  []Device `json:"devices"`
	LeftOut  int      `json:"left_out,omitempty"` // GPUs that should be in Devices and do not answer
	Warnings []string `json:"warnings,omitempty"`
}

// Device is one GPU, or one MIG slice of one. What the GPU does not tell is empty,
// and not in the JSON.
type Device struct {
	ID          string   `json:"-"`     // what CUDA_VISIBLE_DEVICES names it by for an engine: NVIDIA's UUID, AMD's Index, which is all that vLLM reads there
	Index       int      `json:"index"` // NVML's, by PCI bus; of the GPU that a slice is cut from. HIP's on AMD
	UUID        string   `json:"uuid,omitempty"`
	Name        string   `json:"name"`
	SKU         string   `json:"sku,omitempty"` // catalog name; empty where the catalog has none, and for a slice
	PCIBusID    string   `json:"pci_bus_id,omitempty"`
	MemoryTotal int64    `json:"memory_total_bytes,omitempty"`
	Unified     bool     `json:"unified_memory,omitempty"` // MemoryTotal is the machine's, which GPU and CPU share
	MemoryUsed  int64    `json:"memory_used_bytes,omitempty"`
	MIG         MIG      `json:"mig,omitempty"`
	SMClock     int      `json:"sm_clock_mhz,omitempty"`
	SMClockMax  int      `json:"sm_clock_max_mhz,omitempty"`
	MemClock    int      `json:"memory_clock_mhz,omitempty"`
	MemClockMax int      `json:"memory_clock_max_mhz,omitempty"`
	Throttle    []string `json:"throttle_reasons,omitempty"` // why the clocks are not higher, without idleness
	Idle        bool     `json:"idle,omitempty"`             // the clocks are low because nothing runs
	NVLinks     *int     `json:"nvlinks,omitempty"`          // active links
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
	for _, d := range devices {
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
	return out
}
