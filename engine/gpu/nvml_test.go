//go:build linux && cgo

package gpu

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/google/uuid"
)

// dgx is go-nvml's machine of eight A100s with what its mock leaves out.
func dgx() (*dgxa100.Server, []*dgxa100.Device) {
	s := dgxa100.New()
	var devices []*dgxa100.Device
	for i := range s.Devices {
		d := s.Devices[i].(*dgxa100.Device)
		d.Name = "NVIDIA A100-SXM4-40GB"
		d.MemoryInfo = nvml.Memory{Total: 40 << 30, Used: 1 << 20}
		d.GetClockInfoFunc = func(c nvml.ClockType) (uint32, nvml.Return) { return 1000 + uint32(c), nvml.SUCCESS }
		d.GetMaxClockInfoFunc = func(c nvml.ClockType) (uint32, nvml.Return) { return 2000 + uint32(c), nvml.SUCCESS }
		d.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) { return 1, nvml.SUCCESS }
		d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
			if link >= 12 {
				return 0, nvml.ERROR_INVALID_ARGUMENT
			}
			return nvml.FEATURE_ENABLED, nvml.SUCCESS
		}
		devices = append(devices, d)
	}
	return s, devices
}

func TestListOfEight(t *testing.T) {
	s, devices := dgx()
	for _, d := range devices {
		if _, err := uuid.Parse(strings.TrimPrefix(d.UUID, "GPU-")); err != nil {
			t.Fatal(err)
		}
	}
	inv, err := list(s, "", false, tables(t))
	if err != nil {
		t.Fatal(err)
	}
	if inv.Driver != "550.54.15" || inv.CUDA != "12.4" || len(inv.Devices) != 8 || len(inv.Warnings) != 0 {
		t.Fatalf("%+v", inv)
	}
	for i, d := range inv.Devices {
		want := Device{
			Index: i, UUID: devices[i].UUID, Name: "NVIDIA A100-SXM4-40GB", SKU: "A100-40-SXM",
			MemoryTotal: 40 << 30, MemoryUsed: 1 << 20, MIG: MIGDisabled,
			SMClock: 1001, SMClockMax: 2001, MemClock: 1002, MemClockMax: 2002, Idle: true, NVLinks: new(12),
		}
		if got, want := asJSON(t, d), asJSON(t, want); got != want {
			t.Errorf("GPU %d:\ngot  %s\nwant %s", i, got, want)
		}
	}
	if n := len(s.ShutdownCalls()); n != 1 {
		t.Errorf("NVML was shut down %d times", n)
	}
}

func TestListHeedsCUDAVisibleDevices(t *testing.T) {
	s, devices := dgx()
	inv, err := list(s, "3,"+devices[1].UUID+",9", true, tables(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(inv.Devices) != 2 || inv.Devices[0].Index != 3 || inv.Devices[1].Index != 1 {
		t.Errorf("%+v", inv.Devices)
	}
	if len(inv.Warnings) != 1 || !strings.Contains(inv.Warnings[0], `"9" is no GPU of this machine`) {
		t.Errorf("%q", inv.Warnings)
	}
}

func TestListOfSeveralKinds(t *testing.T) {
	s, devices := dgx()
	devices[5].Name = "NVIDIA H999"
	inv, err := list(s, "", false, tables(t))
	if err != nil || len(inv.Warnings) != 1 || !strings.Contains(inv.Warnings[0], "Set CUDA_DEVICE_ORDER=PCI_BUS_ID") {
		t.Errorf("%q, %v", inv.Warnings, err)
	}
}

func TestListUnknownKind(t *testing.T) {
	s, devices := dgx()
	devices[0].Name = "NVIDIA H999"
	inv, err := list(s, "0", true, tables(t))
	if err != nil || len(inv.Devices) != 1 || inv.Devices[0].SKU != "" || inv.Devices[0].Name != "NVIDIA H999" {
		t.Errorf("%+v, %v", inv, err)
	}
}

// Each way in which NVML does not start has its own words, and only a machine without
// GPUs is ErrUnavailable: one with device files has some.
func TestNVMLDoesNotStart(t *testing.T) {
	without, with := filepath.Join(t.TempDir(), "nvidia*"), filepath.Join(t.TempDir(), "nvidia*")
	if err := os.WriteFile(filepath.Join(filepath.Dir(with), "nvidia0"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for ret, want := range map[nvml.Return]struct {
		words  string
		absent bool
	}{
		nvml.ERROR_LIBRARY_NOT_FOUND:       {"libnvidia-ml.so.1 is not there", true},
		nvml.ERROR_DRIVER_NOT_LOADED:       {"the NVIDIA driver is not loaded", true},
		nvml.ERROR_NO_PERMISSION:           {"no permission to open the NVIDIA devices", false},
		nvml.ERROR_LIB_RM_VERSION_MISMATCH: {"of different versions", false},
		nvml.ERROR_UNKNOWN:                 {"starting NVML: NVML error 999", false},
	} {
		for files, absent := range map[string]bool{without: want.absent, with: false} {
			if err := initError(ret, files); !strings.Contains(err.Error(), want.words) || errors.Is(err, ErrUnavailable) != absent {
				t.Errorf("return %d, %s: %v", ret, files, err)
			}
		}
	}
}

func TestListWhereGPUsDoNotAnswer(t *testing.T) {
	s, devices := dgx()
	devices[2].GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_GPU_IS_LOST }
	handle := s.DeviceGetHandleByIndexFunc
	s.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i == 5 {
			return nil, nvml.ERROR_NO_PERMISSION
		}
		return handle(i)
	}
	inv, err := list(s, "", false, tables(t))
	if err != nil || len(inv.Devices) != 6 {
		t.Fatalf("%+v, %v", inv, err)
	}
	want := []string{
		"GPU 2 does not answer and is left out: the GPU has fallen off the bus",
		"GPU 5 does not answer and is left out: no permission",
	}
	if len(inv.Warnings) != 2 || inv.Warnings[0] != want[0] || inv.Warnings[1] != want[1] || inv.LeftOut != 2 {
		t.Errorf("%d: %q", inv.LeftOut, inv.Warnings)
	}
	for env, left := range map[string]int{"0,1": 0, "0,2": 2} {
		if inv, err := list(s, env, true, tables(t)); err != nil || inv.LeftOut != left {
			t.Errorf("%s: %+v, %v", env, inv, err)
		}
	}

	s.DeviceGetHandleByIndexFunc = func(int) (nvml.Device, nvml.Return) { return nil, nvml.ERROR_NO_PERMISSION }
	if _, err := list(s, "", false, tables(t)); err == nil || errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "no permission to open any of the 8 GPUs") {
		t.Errorf("no permission anywhere: %v", err)
	}
	s.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_UNKNOWN }
	if _, err := list(s, "", false, tables(t)); err == nil || !strings.Contains(err.Error(), "counting GPUs") {
		t.Errorf("no count: %v", err)
	}
}

// A GPU without memory of its own has the machine's.
func TestListUnifiedMemory(t *testing.T) {
	s, devices := dgx()
	devices[0].GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_NOT_SUPPORTED }
	inv, err := list(s, "0", true, tables(t))
	if err != nil || len(inv.Devices) != 1 || len(inv.Warnings) != 0 {
		t.Fatalf("%+v, %v", inv, err)
	}
	if d := inv.Devices[0]; !d.Unified || d.MemoryTotal < 1<<20 || d.MemoryUsed != 0 {
		t.Errorf("%+v", d)
	}
	file := filepath.Join(t.TempDir(), "meminfo")
	if got := machineMemory(file); got != 0 {
		t.Errorf("without a file: %d", got)
	}
	if err := os.WriteFile(file, []byte("MemTotal:       125513152 kB\nMemFree:        12 kB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := machineMemory(file); got != 125513152<<10 {
		t.Errorf("%d", got)
	}
}

func TestListThrottled(t *testing.T) {
	s, devices := dgx()
	devices[4].GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) { return 0x8 | 0x40, nvml.SUCCESS }
	inv, err := list(s, "", false, tables(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(inv.Warnings) != 1 || inv.Warnings[0] != "GPU 4 runs below its full clock (SM 1001 of 2001 MHz): hardware slowdown, hardware thermal slowdown" {
		t.Errorf("%q", inv.Warnings)
	}
}

// An old driver has not every function, and go-nvml ends the process where one
// is called that is missing.
func TestListWithAnOldDriver(t *testing.T) {
	s, devices := dgx()
	s.LookupSymbolFunc = func(name string) error {
		if name == "nvmlDeviceGetCurrentClocksThrottleReasons" {
			return nil
		}
		return errors.New("undefined symbol")
	}
	for _, d := range devices {
		d.GetCurrentClocksEventReasonsFunc, d.GetClockInfoFunc, d.GetMaxClockInfoFunc = nil, nil, nil
		d.GetNvLinkStateFunc, d.GetMigModeFunc = nil, nil
		d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) { return 4, nvml.SUCCESS }
	}
	inv, err := list(s, "0", true, tables(t))
	if err != nil || len(inv.Devices) != 1 {
		t.Fatalf("%+v, %v", inv, err)
	}
	if d := inv.Devices[0]; d.MIG != MIGUnsupported || d.NVLinks != nil || d.SMClock != 0 || len(d.Throttle) != 1 {
		t.Errorf("%+v", d)
	}
}

func TestListMIG(t *testing.T) {
	s, devices := dgx()
	devices[1].MigMode = nvml.DEVICE_MIG_ENABLE
	devices[1].GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	devices[1].GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i != 2 {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return &mock.Device{
			GetUUIDFunc:       func() (string, nvml.Return) { return "MIG-1234", nvml.SUCCESS },
			GetNameFunc:       func() (string, nvml.Return) { return "NVIDIA A100-SXM4-40GB MIG 1g.5gb", nvml.SUCCESS },
			GetMemoryInfoFunc: func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 5 << 30}, nvml.SUCCESS },
		}, nvml.SUCCESS
	}
	inv, err := list(s, "MIG-12", true, tables(t))
	if err != nil || len(inv.Devices) != 1 {
		t.Fatalf("%+v, %v", inv, err)
	}
	if d := inv.Devices[0]; d.UUID != "MIG-1234" || d.MIG != MIGSlice || d.SKU != "" || d.Index != 1 || d.MemoryTotal != 5<<30 {
		t.Errorf("%+v", d)
	}
	inv, err = list(s, "1", true, tables(t))
	if err != nil || len(inv.Devices) != 1 || inv.Devices[0].MIG != MIGEnabled || len(inv.Warnings) != 1 {
		t.Errorf("%+v, %v", inv, err)
	}
}
