//go:build unix

package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

// onPath makes these scripts the only programs on PATH.
func onPath(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o700); err != nil { //nolint:gosec // executable on purpose
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
}

// replay is a tool that prints a recording, if it is asked for JSON.
func replay(t *testing.T, recording string) map[string]string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", "amd", recording))
	if err != nil {
		t.Fatal(err)
	}
	tool, file := "rocm-smi", path
	if strings.HasPrefix(recording, "amd-smi") {
		tool, file = "amd-smi", path+"/$1.json"
	}
	return map[string]string{tool: `case "$*" in *--json) exec /bin/cat "` + file + `";; esac`}
}

func environment(env ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, kv := range env {
			if k, v, _ := strings.Cut(kv, "="); k == name {
				return v, true
			}
		}
		return "", false
	}
}

func TestListAMD(t *testing.T) {
	const mib = 1 << 20
	mi250 := "AMD INSTINCT MI250 (MCM) OAM AC MBA"
	for recording, want := range map[string]Inventory{
		"amd-smi-24": {Devices: []Device{
			{ID: "0", Index: 0, UUID: "GPU-af54e92b0a5d57c8", Name: "MI300X-O", SKU: "MI300X", PCIBusID: "0000:05:00.0", MemoryTotal: 196592 * mib, SMClock: 2102, SMClockMax: 2102},
			{ID: "1", Index: 1, UUID: "0aff74a1-0000-1000-805b-ce698de95724", Name: "AMD GPU", PCIBusID: "0000:26:00.0"},
		}},
		"amd-smi-text": {Driver: "6.3.6", Devices: []Device{
			{ID: "0", UUID: "afff74a1-0000-1000-8054-e92b0a5d57c8", Name: "AMD Instinct MI300X OAM", SKU: "MI300X", PCIBusID: "0000:05:00.0", MemoryTotal: 196592 * mib, MemoryUsed: 1024 * mib, SMClock: 132, SMClockMax: 2100, MemClock: 900},
		}},
		"amd-smi-mi210": {Driver: "Linuxversion6.14.0-24-generic", Devices: []Device{
			{ID: "0", Name: "AMD Instinct MI210", MemoryTotal: 65520 * mib},
		}},
		"amd-smi-mi325x": {Devices: []Device{ // in HIP's order, which is not amd-smi's
			{ID: "0", Index: 0, UUID: "b7ff74b9-0000-1000-80d1-81671a192e45", Name: "AMD Instinct MI325X OAM", SKU: "MI325X", PCIBusID: "0000:8b:00.0"},
			{ID: "1", Index: 1, UUID: "GPU-9f444a2fb30adeb0", Name: "AMD Instinct Mi325X VF", SKU: "MI325X", PCIBusID: "0000:83:00.0", MemClock: 1198, MemClockMax: 1500},
		}},
		"amd-smi-26": {Devices: []Device{
			{ID: "0", UUID: "GPU-4162405e51bb99b0", Name: "AMD Radeon RX 7800 XT", PCIBusID: "0000:03:00.0", MemoryTotal: 16368 * mib},
		}},
		"amd-smi-partitions": {Devices: []Device{ // a part of a GPU is not that GPU
			{ID: "0", Index: 0, UUID: "abff74a1-0000-1000-80d1-3c23a9580558", Name: "AMD Instinct MI300X", PCIBusID: "0000:05:00.0"},
			{ID: "1", Index: 1, UUID: "abff74a1-0000-1000-80d1-3c23a9580558", Name: "AMD Instinct MI300X", PCIBusID: "0000:05:00.1"},
			{ID: "2", Index: 2, UUID: "77ff74a1-0000-1000-8009-1c467da33120", Name: "AMD Instinct MI300X", SKU: "MI300X", PCIBusID: "0000:26:00.0"},
		}, Warnings: []string{"GPUs are cut into partitions, which the catalog does not have. amd-smi set --compute-partition SPX makes whole ones"}},
		"rocm-smi-mi250.json": {Devices: []Device{
			{ID: "0", Index: 0, Name: mi250, MemoryTotal: 68702699520, MemoryUsed: 51527024640},
			{ID: "1", Index: 1, Name: mi250, MemoryTotal: 68702699520, MemoryUsed: 51527024640},
		}, Warnings: []string{
			"GPU 0 is in use (51.5 of 68.7 GB taken). Stop the other program for a clean measurement",
			"GPU 1 is in use (51.5 of 68.7 GB taken). Stop the other program for a clean measurement",
		}},
		"rocm-smi-rx7900xt.json": {Driver: "6.14.14", Devices: []Device{
			{ID: "0", Name: "Radeon RX 7900 XT", MemoryTotal: 21458059264, MemoryUsed: 27856896},
		}},
		"rocm-smi-5.json": {Devices: []Device{
			{ID: "0", UUID: "GPU-a32343daf897162a", Name: "AMD INSTINCT MI200 (MCM) OAM LC MBA HPE C2", PCIBusID: "0000:C1:00.0"},
		}},
	} {
		t.Run(recording, func(t *testing.T) {
			onPath(t, replay(t, recording))
			got, err := listAMD(t.Context(), environment(), tables(t))
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%v\ngot  %+v\nwant %+v", err, got, want)
			}
		})
	}
}

// What a tool does not say is not 0 in the JSON, but missing.
func TestMissingIsNotZero(t *testing.T) {
	onPath(t, replay(t, "amd-smi-mi210"))
	inv, err := listAMD(t.Context(), environment(), tables(t))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := asJSON(t, inv.Devices), `[{"index":0,"name":"AMD Instinct MI210","memory_total_bytes":68702699520}]`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestListAMDHeedsVisibleDevices(t *testing.T) {
	onPath(t, replay(t, "amd-smi-mi325x"))
	const first, second = "0=0000:8b:00.0", "1=0000:83:00.0"
	for _, tc := range []struct {
		env        []string
		want, stop string
	}{
		{nil, first + " " + second, ""},
		{[]string{"CUDA_VISIBLE_DEVICES=1"}, second, ""},
		{[]string{"CUDA_VISIBLE_DEVICES="}, "", ""},
		{[]string{"CUDA_VISIBLE_DEVICES=0", "HIP_VISIBLE_DEVICES=1,0"}, second + " " + first, ""},
		{[]string{"CUDA_VISIBLE_DEVICES=0", "HIP_VISIBLE_DEVICES="}, first, ""},
		{[]string{"HIP_VISIBLE_DEVICES=GPU-9f444a2fb30adeb0"}, second, ""},
		{[]string{"HIP_VISIBLE_DEVICES=0,2"}, first, `HIP_VISIBLE_DEVICES="0,2": "2" is no GPU of this machine. It and all after it are ignored, as HIP does`},
		{[]string{"ROCR_VISIBLE_DEVICES=1"}, "0=0000:83:00.0", ""},
		{[]string{"ROCR_VISIBLE_DEVICES=1,0", "CUDA_VISIBLE_DEVICES=1"}, "1=0000:8b:00.0", ""},
		{[]string{"ROCR_VISIBLE_DEVICES=1", "HIP_VISIBLE_DEVICES=1"}, "", `"1" is no GPU of this machine`},
	} {
		inv, err := listAMD(t.Context(), environment(tc.env...), tables(t))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range inv.Devices {
			got = append(got, d.ID+"="+d.PCIBusID)
		}
		if warnings := strings.Join(inv.Warnings, "; "); strings.Join(got, " ") != tc.want || !strings.Contains(warnings, tc.stop) || (warnings == "") != (tc.stop == "") {
			t.Errorf("%q: got %q, %q\nwant %q, %q", tc.env, got, warnings, tc.want, tc.stop)
		}
	}
}

func TestListAMDFails(t *testing.T) {
	_, err := os.Stat(amdDriverFile)
	noDriver := err != nil
	amd := func(script string) map[string]string { return map[string]string{"amd-smi": script} }
	for name, tc := range map[string]struct {
		tools  map[string]string
		words  string
		absent bool
	}{
		"no tool":      {nil, "neither amd-smi nor rocm-smi is on PATH", true},
		"no GPU":       {amd("echo '[]'"), "amd-smi lists no GPU", true},
		"none wrapped": {amd(`echo '{"gpu_data": []}'`), "amd-smi lists no GPU", true},
		"none at all":  {map[string]string{"rocm-smi": `echo '{"system": {"Driver version": "6.14.14"}}'`}, "rocm-smi lists no GPU", true},
		"cut short":    {amd(`echo '[{"gpu": 0,'`), "amd-smi list --json: its JSON is broken: ", noDriver},
		"an error":     {amd(`echo '{"error": "AMDSMI_STATUS_NO_PERM"}'`), "amd-smi list: it prints no list of GPUs: \"{\\\"error", noDriver},
		"no number":    {amd(`echo '[{"bdf": "0000:05:00.0"}]'`), "a GPU in it has no number", noDriver},
		"no JSON":      {map[string]string{"rocm-smi": "echo 'WARNING: No JSON data to report'"}, `it prints no JSON: "WARNING: No JSON data to report"`, noDriver},
		"broken tool": {
			amd("echo 'Traceback (most recent call last):' >&2; echo \"ModuleNotFoundError: No module named 'amdsmi'\" >&2; exit 1"),
			`exit status 1: "ModuleNotFoundError: No module named 'amdsmi'": run it yourself to see more`, noDriver,
		},
		"no interpreter": {amd("exec /nowhere"), "amd-smi list --json: exit status 12", noDriver},
	} {
		t.Run(name, func(t *testing.T) {
			onPath(t, tc.tools)
			inv, err := listAMD(t.Context(), environment(), tables(t))
			if err == nil || !strings.Contains(err.Error(), tc.words) || errors.Is(err, ErrUnavailable) != tc.absent {
				t.Errorf("%+v, %v", inv, err)
			}
		})
	}
}

// An older tool that works is better than a newer one that does not.
func TestListAMDTriesBothTools(t *testing.T) {
	tools := replay(t, "rocm-smi-mi250.json")
	tools["amd-smi"] = "exit 1"
	onPath(t, tools)
	if inv, err := listAMD(t.Context(), environment(), tables(t)); err != nil || len(inv.Devices) != 2 {
		t.Errorf("%+v, %v", inv, err)
	}
}

// A tool that hangs is ended with the context, and says why.
func TestListAMDDoesNotHang(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"started", "never"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	onPath(t, map[string]string{"amd-smi": fmt.Sprintf("echo >%s/started; read x <%[1]s/never", dir), "rocm-smi": "echo '{}'"})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		_, err := os.ReadFile(filepath.Join(dir, "started"))
		cancel(errors.Join(errors.New("no answer within its time"), err))
	}()
	inv, err := listAMD(ctx, environment(), tables(t))
	if err == nil || errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "amd-smi list --json: no answer within its time: run it yourself") {
		t.Errorf("%+v, %v", inv, err)
	}
}

// NVML goes first, and AMD's tools are asked only where it has nothing to say.
func TestNVIDIAOrAMD(t *testing.T) {
	one := func(name string) Inventory { return Inventory{Devices: []Device{{Name: name}}} }
	warned := Inventory{Warnings: []string{"GPU 0 does not answer"}}
	noLibrary := fmt.Errorf("%w: no library", ErrUnavailable)
	noTool := fmt.Errorf("%w: no tool", ErrUnavailable)
	refused, broken := errors.New("NVML refuses"), errors.New("broken tool")
	for name, tc := range map[string]struct {
		nvidia    Inventory
		nvidiaErr error
		amd       Inventory
		amdErr    error
		want      string
		asked     bool
	}{
		"NVIDIA":                 {one("H100"), nil, one("MI300X"), nil, "H100", false},
		"NVIDIA that refuses":    {Inventory{}, refused, one("MI300X"), nil, "NVML refuses", false},
		"NVIDIA, none answers":   {warned, nil, one("MI300X"), nil, "GPU 0 does not answer", false},
		"NVIDIA hidden, AMD":     {Inventory{}, nil, one("MI300X"), nil, "MI300X", true},
		"NVIDIA hidden, no AMD":  {Inventory{CUDA: "13.0"}, nil, Inventory{}, noTool, "13.0", true},
		"no driver, AMD":         {Inventory{}, noLibrary, one("MI300X"), nil, "MI300X", true},
		"no driver, AMD hidden":  {Inventory{}, noLibrary, Inventory{Driver: "6.3.6"}, nil, "6.3.6", true},
		"no driver, AMD refuses": {Inventory{}, noLibrary, Inventory{}, broken, "broken tool", true},
		"neither":                {Inventory{}, noLibrary, Inventory{}, noTool, "no GPUs can be seen: no library; no tool", true},
	} {
		asked := false
		got, err := orAMD(tc.nvidia, tc.nvidiaErr, func() (Inventory, error) { asked = true; return tc.amd, tc.amdErr })
		if s := fmt.Sprintf("%+v %v", got, err); !strings.Contains(s, tc.want) || asked != tc.asked {
			t.Errorf("%s: %s, AMD asked: %v", name, s, asked)
		}
		if errors.Is(err, ErrUnavailable) != (name == "neither") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
