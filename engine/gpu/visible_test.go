package gpu

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"plimsoll/engine/catalog"
)

func tables(t testing.TB) catalog.Catalog {
	t.Helper()
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	return cat
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// machine is four GPUs, two of whose UUIDs begin alike, and the slices of the last.
func machine() (gpus, migs []Device) {
	for i, u := range []string{"GPU-aaaa-0", "GPU-aaaa-1", "GPU-bbbb-2", "GPU-cccc-3"} {
		gpus = append(gpus, Device{Index: i, UUID: u})
	}
	for _, u := range []string{"MIG-1111", "MIG-2222"} {
		migs = append(migs, Device{Index: 3, UUID: u, MIG: MIGSlice})
	}
	return gpus, migs
}

func TestVisible(t *testing.T) {
	for _, tc := range []struct {
		env, want, stop string
	}{
		{"", "", ""},
		{" ", "", ""},
		{"-1", "", ""},
		{"0", "GPU-aaaa-0", ""},
		{"2,0", "GPU-bbbb-2 GPU-aaaa-0", ""},
		{" 2 , 0 ", "GPU-bbbb-2 GPU-aaaa-0", ""},
		{"1,-1,2", "GPU-aaaa-1", ""},
		{"0,7,1", "GPU-aaaa-0", `CUDA_VISIBLE_DEVICES="0,7,1": "7" is no GPU of this machine. It and all after it are ignored, as CUDA does`},
		{"0,,1", "GPU-aaaa-0", `"" is no index and no UUID`},
		{"0,x", "GPU-aaaa-0", `"x" is no index and no UUID`},
		{"+1", "", `"+1" is no index and no UUID`},
		{"0x1", "", `"0x1" is no index and no UUID`},
		{"99999999999999999999", "", "is no index and no UUID"},
		{"0,1,0", "GPU-aaaa-0 GPU-aaaa-1", `"0" is listed twice`},
		{"0,GPU-aaaa-0", "GPU-aaaa-0", `"GPU-aaaa-0" is listed twice`},
		{"GPU-bbbb-2", "GPU-bbbb-2", ""},
		{"GPU-b,GPU-c", "GPU-bbbb-2 GPU-cccc-3", ""},
		{"GPU-a", "", `"GPU-a" fits 2 GPUs`},
		{"GPU-", "", `"GPU-" fits 4 GPUs`},
		{"GPU-dddd", "", `"GPU-dddd" is no GPU of this machine`},
		{"bbbb-2", "", `"bbbb-2" is no index and no UUID`},
		{"MIG-1,MIG-2222", "MIG-1111 MIG-2222", ""},
		{"MIG-3", "", `"MIG-3" is no GPU of this machine`},
		{"MIG-GPU-cccc-3/1/0", "", "is no GPU of this machine"},
		{"all", "", `"all" is no index`},
	} {
		gpus, migs := machine()
		devices, stop := visible("CUDA", tc.env, true, gpus, migs)
		if got := uuids(devices); got != tc.want || !strings.Contains(stop, tc.stop) || (stop == "") != (tc.stop == "") {
			t.Errorf("%q: got %q, %q\nwant %q, %q", tc.env, got, stop, tc.want, tc.stop)
		}
	}
	gpus, migs := machine()
	if devices, stop := visible("CUDA", "0", false, gpus, migs); len(devices) != 4 || stop != "" {
		t.Errorf("unset: %v, %q", devices, stop)
	}
	if devices, stop := visible("CUDA", "0", true, nil, nil); len(devices) != 0 || stop == "" {
		t.Errorf("no GPUs: %v, %q", devices, stop)
	}
}

func uuids(devices []Device) string {
	var s []string
	for _, d := range devices {
		s = append(s, d.UUID)
	}
	return strings.Join(s, " ")
}

// An index is NVML's, also where a GPU before it does not answer.
func TestVisibleWithAGap(t *testing.T) {
	gpus, _ := machine()
	devices, stop := visible("CUDA", "2,1", true, slices.Delete(gpus, 1, 2), nil)
	if uuids(devices) != "GPU-bbbb-2" || !strings.Contains(stop, `"1" is no GPU`) {
		t.Errorf("%v, %q", devices, stop)
	}
}

func FuzzVisible(f *testing.F) {
	for _, s := range []string{"", "-1", "0,1", "GPU-b", "MIG-1111", "0,0", "1,,2", "GPU-,MIG-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, env string) {
		gpus, migs := machine()
		devices, stop := visible("CUDA", env, true, gpus, migs)
		seen := map[string]bool{}
		for _, d := range devices {
			if seen[d.UUID] {
				t.Errorf("%q: %s is listed twice", env, d.UUID)
			}
			seen[d.UUID] = true
		}
		if entries := strings.Count(env, ",") + 1; len(devices) > entries {
			t.Errorf("%q: %d devices", env, len(devices))
		}
		// Entries that were taken stay taken without what followed them.
		head := strings.Join(strings.Split(env, ",")[:len(devices)], ",")
		again, _ := visible("CUDA", head, true, gpus, migs)
		if uuids(again) != uuids(devices) {
			t.Errorf("%q gives %s, its head %q %s (%s)", env, uuids(devices), head, uuids(again), stop)
		}
	})
}

func TestDecodeThrottle(t *testing.T) {
	for _, tc := range []struct {
		bits uint64
		want string
	}{
		{0, "[] false"},
		{1, "[] true"},
		{0x4, "[software power cap] false"},
		{0x1 | 0x20 | 0x40, "[software thermal slowdown hardware thermal slowdown] true"},
		{0x1ff, "[application clock setting software power cap hardware slowdown sync boost software thermal slowdown hardware thermal slowdown hardware power brake display clock setting] true"},
		{0x200, "[unknown reason 0x200] false"},
	} {
		reasons, idle := decodeThrottle(tc.bits)
		if got := fmt.Sprint(reasons, idle); got != tc.want {
			t.Errorf("%#x: got %s, want %s", tc.bits, got, tc.want)
		}
	}
}

func TestCaveats(t *testing.T) {
	got := caveats([]Device{
		{Index: 0, Name: "A", MemoryTotal: 80e9, MemoryUsed: 1e9, Idle: true},
		{Index: 1, Name: "A", SMClock: 900, SMClockMax: 1980, Throttle: []string{"software power cap"}},
		{Index: 2, Name: "B", MIG: MIGEnabled, MemoryTotal: 80e9, MemoryUsed: 40e9},
	})
	want := []string{
		"GPU 1 runs below its full clock (SM 900 of 1980 MHz): software power cap",
		"GPU 2 is in MIG mode, so engines get only its slices",
		"GPU 2 is in use (40.0 of 80.0 GB taken). Stop the other program for a clean measurement",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
