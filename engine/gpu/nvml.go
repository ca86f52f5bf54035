//go:build linux && cgo

package gpu

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"plimsoll/engine/catalog"
)

// listNVIDIA is NVIDIA's GPUs under CUDA_VISIBLE_DEVICES=env, or without it where set is
// false.
func listNVIDIA(env string, set bool, cat catalog.Catalog) (Inventory, error) {
	return list(nvml.New(), env, set, cat)
}

func list(lib nvml.Interface, env string, set bool, cat catalog.Catalog) (Inventory, error) {
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return Inventory{}, initError(ret, deviceFiles)
	}
	defer func() { _ = lib.Shutdown() }() // nothing was changed that could be lost
	r := reader{lib: lib, cat: cat, meminfo: "/proc/meminfo"}
	inv := Inventory{}
	if v, ret := lib.SystemGetDriverVersion(); ret == nvml.SUCCESS {
		inv.Driver = v
	}
	if v, ret := lib.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS {
		inv.CUDA = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	}
	gpus, migs, warnings, err := r.devices()
	if err != nil {
		return Inventory{}, err
	}
	devices, stop := visible("CUDA", env, set, gpus, migs)
	if !set || stop != "" { // else all that were asked for are there
		inv.LeftOut = len(warnings)
	}
	if stop != "" {
		warnings = append(warnings, stop)
	}
	inv.Devices = devices
	inv.Warnings = slices.Concat(warnings, caveats(devices), mixed(devices))
	return inv, nil
}

// mixed warns of several kinds of GPU, which CUDA by default counts in another order.
func mixed(devices []Device) []string {
	if !slices.ContainsFunc(devices, func(d Device) bool { return d.Name != devices[0].Name }) {
		return nil
	}
	return []string{"the GPUs are of several kinds. Set CUDA_DEVICE_ORDER=PCI_BUS_ID so that CUDA counts them in this order"}
}

// initError is what a failed start of NVML means to a person, on a machine with these
// device files.
func initError(ret nvml.Return, files string) error {
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return unavailable("NVIDIA", files, "the library libnvidia-ml.so.1 is not there: no NVIDIA driver is installed, or the container was started without it")
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return unavailable("NVIDIA", files, "the NVIDIA driver is not loaded")
	case nvml.ERROR_NO_PERMISSION:
		return errors.New("NVML refuses to answer: no permission to open the NVIDIA devices: check the rights on /dev/nvidiactl and /dev/nvidia*")
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return errors.New("NVML refuses to answer: its library and the loaded driver are of different versions: reboot, or reload the driver, after an update")
	default:
		return fmt.Errorf("starting NVML: %s", words(ret))
	}
}

// words names a Return without the library, whose own naming function may be
// missing.
func words(ret nvml.Return) string {
	switch ret {
	case nvml.ERROR_NO_PERMISSION:
		return "no permission"
	case nvml.ERROR_GPU_IS_LOST:
		return "the GPU has fallen off the bus"
	case nvml.ERROR_RESET_REQUIRED:
		return "the GPU needs a reset"
	case nvml.ERROR_IRQ_ISSUE:
		return "the GPU has an interrupt problem"
	case nvml.ERROR_INSUFFICIENT_POWER:
		return "the GPU has no external power"
	case nvml.ERROR_NOT_SUPPORTED:
		return "not supported"
	case nvml.ERROR_TIMEOUT:
		return "time-out"
	default:
		return fmt.Sprintf("NVML error %d", int(ret))
	}
}

// reader reads devices. It asks the library for each function that not every
// driver has before calling it: go-nvml ends the process on a missing one.
type reader struct {
	lib     nvml.Interface
	cat     catalog.Catalog
	meminfo string // file of Linux with the machine's memory
}

func (r reader) has(symbol string) bool { return r.lib.Extensions().LookupSymbol(symbol) == nil }

// devices are all GPUs and MIG slices, with a warning for each GPU that does
// not answer. No permission for any GPU is an error.
func (r reader) devices() (gpus, migs []Device, warnings []string, err error) {
	n, ret := r.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, nil, nil, fmt.Errorf("counting GPUs: %s", words(ret))
	}
	denied := 0
	for i := range n {
		h, ret := r.lib.DeviceGetHandleByIndex(i)
		var d Device
		if ret == nvml.SUCCESS {
			d, ret = r.device(i, h)
		}
		if ret != nvml.SUCCESS {
			warnings = append(warnings, fmt.Sprintf("GPU %d does not answer and is left out: %s", i, words(ret)))
			if ret == nvml.ERROR_NO_PERMISSION {
				denied++
			}
			continue
		}
		gpus = append(gpus, d)
		if d.MIG == MIGEnabled {
			migs = append(migs, r.slices(d, h)...)
		}
	}
	if n > 0 && denied == n {
		return nil, nil, nil, fmt.Errorf("no permission to open any of the %d GPUs: check the rights on /dev/nvidia*", n)
	}
	return gpus, migs, warnings, nil
}

// device reads one GPU. What identifies it must answer; the rest may not.
func (r reader) device(i int, h nvml.Device) (Device, nvml.Return) {
	d := Device{Index: i, MIG: MIGUnsupported}
	var ret nvml.Return
	if d.UUID, ret = h.GetUUID(); ret != nvml.SUCCESS {
		return d, ret
	}
	d.ID = d.UUID
	if d.Name, ret = h.GetName(); ret != nvml.SUCCESS {
		return d, ret
	}
	switch mem, ret := h.GetMemoryInfo(); ret {
	case nvml.SUCCESS:
		d.MemoryTotal, d.MemoryUsed = int64(mem.Total), int64(mem.Used) //nolint:gosec // bytes of memory fit
	case nvml.ERROR_NOT_SUPPORTED: // GB10 and Jetson have no memory of their own
		d.Unified, d.MemoryTotal = true, machineMemory(r.meminfo)
	default:
		return d, ret
	}
	if g, ok := r.cat.GPUByDeviceName(d.Name); ok {
		d.SKU = g.Name
	}
	if pci, ret := h.GetPciInfo(); ret == nvml.SUCCESS {
		d.PCIBusID = busID(pci)
	}
	if r.has("nvmlDeviceGetMigMode") {
		if now, _, ret := h.GetMigMode(); ret == nvml.SUCCESS {
			d.MIG = MIGDisabled
			if now == nvml.DEVICE_MIG_ENABLE {
				d.MIG = MIGEnabled
			}
		}
	}
	r.clocks(&d, h)
	d.NVLinks = r.links(h)
	return d, nvml.SUCCESS
}

// machineMemory is the machine's memory in bytes as /proc/meminfo has it; 0 = not known.
func machineMemory(file string) (kib int64) {
	text, _ := os.ReadFile(file) //nolint:gosec // not known without it
	_, _ = fmt.Sscanf(string(text), "MemTotal: %d kB", &kib)
	return kib << 10
}

func (r reader) clocks(d *Device, h nvml.Device) {
	for _, c := range []struct {
		symbol string
		get    func(nvml.ClockType) (uint32, nvml.Return)
		of     nvml.ClockType
		into   *int
	}{
		{"nvmlDeviceGetClockInfo", h.GetClockInfo, nvml.CLOCK_SM, &d.SMClock},
		{"nvmlDeviceGetMaxClockInfo", h.GetMaxClockInfo, nvml.CLOCK_SM, &d.SMClockMax},
		{"nvmlDeviceGetClockInfo", h.GetClockInfo, nvml.CLOCK_MEM, &d.MemClock},
		{"nvmlDeviceGetMaxClockInfo", h.GetMaxClockInfo, nvml.CLOCK_MEM, &d.MemClockMax},
	} {
		if r.has(c.symbol) {
			if mhz, ret := c.get(c.of); ret == nvml.SUCCESS {
				*c.into = int(mhz)
			}
		}
	}
	// The function had another name in drivers before 535.
	reasons := h.GetCurrentClocksEventReasons
	if !r.has("nvmlDeviceGetCurrentClocksEventReasons") {
		if !r.has("nvmlDeviceGetCurrentClocksThrottleReasons") {
			return
		}
		reasons = h.GetCurrentClocksThrottleReasons
	}
	if bits, ret := reasons(); ret == nvml.SUCCESS {
		d.Throttle, d.Idle = decodeThrottle(bits)
	}
}

// links counts the active NVLinks; nil where the driver cannot.
func (r reader) links(h nvml.Device) *int {
	if !r.has("nvmlDeviceGetNvLinkState") {
		return nil
	}
	active := 0
	for link := range nvml.NVLINK_MAX_LINKS {
		state, ret := h.GetNvLinkState(link)
		if ret != nvml.SUCCESS {
			break // the GPU has no more
		}
		if state == nvml.FEATURE_ENABLED {
			active++
		}
	}
	return &active
}

// slices are the MIG slices of GPU d.
func (r reader) slices(d Device, h nvml.Device) []Device {
	if !r.has("nvmlDeviceGetMaxMigDeviceCount") || !r.has("nvmlDeviceGetMigDeviceHandleByIndex") {
		return nil
	}
	n, ret := h.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil
	}
	var out []Device
	for i := range n {
		s, ret := h.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue // no slice in this place
		}
		slice := Device{Index: d.Index, PCIBusID: d.PCIBusID, MIG: MIGSlice}
		if slice.UUID, ret = s.GetUUID(); ret != nvml.SUCCESS {
			continue
		}
		slice.ID = slice.UUID
		if slice.Name, ret = s.GetName(); ret != nvml.SUCCESS {
			slice.Name = d.Name + " MIG slice"
		}
		if mem, ret := s.GetMemoryInfo(); ret == nvml.SUCCESS {
			slice.MemoryTotal, slice.MemoryUsed = int64(mem.Total), int64(mem.Used) //nolint:gosec // bytes of memory fit
		}
		out = append(out, slice)
	}
	return out
}

// busID is the PCI address as text; C's char array ends at the first zero.
func busID(p nvml.PciInfo) string {
	var b strings.Builder
	for _, c := range p.BusId {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c)) //nolint:gosec // a C char
	}
	return b.String()
}
