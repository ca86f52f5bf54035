//go:build full && linux && cgo

package gpu

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// child runs List in a process of its own, with libraries from dir.
func child(t *testing.T, dir string, env ...string) answer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(env, "PLIMSOLL_TEST_LIST=1", "LD_LIBRARY_PATH="+dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var a answer
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// stub compiles testdata/nvml_stub.c into a library of NVML's name.
func stub(t *testing.T) string {
	t.Helper()
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("NOT RUN: the way through a real libnvidia-ml.so.1 takes gcc, which is not here")
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), cc, "-shared", "-fPIC", "-Wall", "-Werror", "-o", filepath.Join(dir, "libnvidia-ml.so.1"), "testdata/nvml_stub.c")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

func TestListThroughALibrary(t *testing.T) {
	dir := stub(t)
	a := child(t, dir)
	if a.Error != "" {
		t.Fatal(a.Error)
	}
	inv := a.Inventory
	if inv.Driver != "570.86" || inv.CUDA != "12.8" || len(inv.Devices) != 8 {
		t.Fatalf("%+v", inv)
	}
	for i, d := range inv.Devices {
		want := Device{
			Index: i, UUID: fmt.Sprintf("GPU-0000000%d-1111-2222-3333-444444444444", i), Name: "NVIDIA H100 80GB HBM3", SKU: "H100-SXM",
			PCIBusID: fmt.Sprintf("00000000:%02X:00.0", 27+i), MemoryTotal: 81559 << 20, MemoryUsed: 4 << 20, MIG: MIGDisabled,
			SMClock: 1980, SMClockMax: 1980, MemClock: 2619, MemClockMax: 2619, Idle: true, NVLinks: new(18),
		}
		switch i {
		case 3:
			want.SMClock, want.Idle = 1200, false
			want.Throttle = []string{"software power cap", "hardware thermal slowdown"}
		case 7:
			want.MemoryUsed = 40 << 30
		}
		if got, want := asJSON(t, d), asJSON(t, want); got != want {
			t.Errorf("GPU %d:\ngot  %s\nwant %s", i, got, want)
		}
	}
	if len(inv.Warnings) != 2 || !strings.HasPrefix(inv.Warnings[0], "GPU 3 runs below its full clock") || !strings.HasPrefix(inv.Warnings[1], "GPU 7 is in use (42.9 of 85.5 GB") {
		t.Errorf("%q", inv.Warnings)
	}
}

func TestListThroughALibraryHeedsCUDAVisibleDevices(t *testing.T) {
	dir := stub(t)
	a := child(t, dir, "CUDA_VISIBLE_DEVICES=6,GPU-00000001")
	if len(a.Inventory.Devices) != 2 || a.Inventory.Devices[0].Index != 6 || a.Inventory.Devices[1].Index != 1 {
		t.Errorf("%+v", a)
	}
	if a = child(t, dir, "CUDA_VISIBLE_DEVICES="); a.Error != "" || len(a.Inventory.Devices) != 0 {
		t.Errorf("%+v", a)
	}
}

func TestListThroughALibraryThatDoesNotStart(t *testing.T) {
	dir := stub(t)
	for code, want := range map[string]struct {
		words  string
		absent bool
	}{
		"9":  {"the NVIDIA driver is not loaded", true},
		"4":  {"no permission to open the NVIDIA devices", false},
		"18": {"of different versions", false},
	} {
		a := child(t, dir, "STUB_NVML_INIT="+code)
		if !strings.Contains(a.Error, want.words) || a.Unavailable != want.absent {
			t.Errorf("nvmlInit returns %s: %+v", code, a)
		}
	}
}

// A file of the library's name that is no library is the nearest thing to a
// machine without one that a machine with one can show.
func TestListWithoutALibrary(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "libnvidia-ml.so.1"), []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a := child(t, dir); !a.Unavailable || !strings.Contains(a.Error, "libnvidia-ml.so.1 is not there") {
		t.Errorf("%+v", a)
	}
}
