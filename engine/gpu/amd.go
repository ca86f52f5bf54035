package gpu

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll/engine/catalog"
)

// amdPatience bounds all that is asked of AMD's tools: Python programs that take a
// second or more each, and hang where the driver does.
const amdPatience = 30 * time.Second

// amdDriverFile is the device file of AMD's compute driver.
const amdDriverFile = "/dev/kfd"

// amdTools tell of AMD's GPUs; the first is the newer one.
var amdTools = []struct {
	name string
	read func(query) (found []amdGPU, driver string, err error)
}{{"amd-smi", readAMDSMI}, {"rocm-smi", readROCmSMI}}

// query runs a tool and decodes what it prints.
type query func(into any, args ...string) error

// amdGPU is one GPU as a tool tells of it.
type amdGPU struct {
	Device
	names []string // of the chip and of the board, in order of trust
	node  int64    // in the driver's topology, by which HIP counts; 0 is not known
}

// listAMD is AMD's GPUs by the first tool that answers.
func listAMD(ctx context.Context, lookup func(string) (string, bool), cat catalog.Catalog) (Inventory, error) {
	limited, cancel := context.WithTimeoutCause(ctx, amdPatience, fmt.Errorf("no answer within %v", amdPatience))
	defer cancel()
	var failed error
	for _, tool := range amdTools {
		path, err := exec.LookPath(tool.name)
		if err != nil {
			continue
		}
		found, driver, err := tool.read(func(into any, args ...string) error { return run(limited, path, into, args) })
		switch {
		case err == nil && len(found) == 0:
			return Inventory{}, fmt.Errorf("%w: %s lists no GPU", ErrUnavailable, tool.name)
		case err == nil:
			return amdInventory(found, driver, lookup, cat), nil
		case limited.Err() != nil:
			return Inventory{}, fmt.Errorf("asking for AMD GPUs: %w", err)
		}
		failed = cmp.Or(failed, err)
	}
	if failed == nil {
		return Inventory{}, fmt.Errorf("%w: neither amd-smi nor rocm-smi is on PATH", ErrUnavailable)
	}
	return Inventory{}, unavailable("AMD", amdDriverFile, failed.Error())
}

// jsonStart is where JSON begins behind what Python and the tools print before it.
var jsonStart = regexp.MustCompile(`(?m)^[\[{]`)

// run decodes the JSON that a tool prints. A field of another type than expected, such
// as "N/A", stays empty.
func run(ctx context.Context, path string, into any, args []string) error {
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // AMD's tools, under fixed names
	cmd.WaitDelay = time.Second                    // for a pipe that a child of it keeps open
	out, err := cmd.Output()
	var other *json.UnmarshalTypeError
	if at := jsonStart.FindIndex(out); at != nil {
		bad := json.NewDecoder(bytes.NewReader(out[at[0]:])).Decode(into)
		if bad == nil || errors.As(bad, &other) {
			return nil
		}
		err = cmp.Or(err, fmt.Errorf("its JSON is broken: %w", bad))
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		out = append(out, exit.Stderr...)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case err == nil:
		err = fmt.Errorf("it prints no JSON: %q", lines[len(lines)-1])
	case exit != nil:
		err = fmt.Errorf("%w: %q", err, lines[len(lines)-1]) // Python ends with what went wrong
	}
	return fmt.Errorf("%s: %w: run it yourself to see more", strings.Join(cmd.Args, " "), err)
}

// amdRow is one GPU in amd-smi's JSON: of list, static and metric, whose keys differ.
type amdRow struct {
	BDF  string `json:"bdf"`
	UUID string `json:"uuid"`
	Node amount `json:"node_id"`
	ASIC struct {
		Name   string `json:"market_name"`
		Serial string `json:"asic_serial"`
	} `json:"asic"`
	Board struct {
		Name string `json:"product_name"`
	} `json:"board"`
	Driver struct {
		Version string `json:"version"`
		Old     string `json:"driver_version"`
	} `json:"driver"`
	VRAM struct {
		Size amount `json:"size"`
	} `json:"vram"`
	Memory struct {
		Total amount `json:"total_vram"`
		Used  amount `json:"used_vram"`
	} `json:"mem_usage"`
	Clocks map[string]struct {
		Now amount `json:"clk"`
		Max amount `json:"max_clk"`
	} `json:"clock"`
}

// amount is a figure with its unit, which releases of amd-smi write as 196592,
// "196592 MB" or {"value": 196592, "unit": "MB"}. One that is not known is 0.
type amount struct {
	value int64
	unit  string
}

// UnmarshalJSON takes any of the three.
func (a *amount) UnmarshalJSON(b []byte) error {
	var o struct {
		Value json.RawMessage `json:"value"`
		Unit  string          `json:"unit"`
	}
	if json.Unmarshal(b, &o) == nil && o.Value != nil {
		a.unit, b = o.Unit, o.Value
	}
	_, _ = fmt.Sscan(strings.Trim(string(b), `"`), &a.value, &a.unit) // what it cannot read stays 0
	return nil
}

// bytes are what the tool means: its MB is 2^20 bytes.
func (a amount) bytes() int64 {
	return a.value << map[string]int{"B": 0, "KB": 10, "GB": 30, "MB": 20, "": 20}[a.unit]
}

// readAMDSMI asks amd-smi (ROCm 6 and 7).
func readAMDSMI(ask query) (found []amdGPU, driver string, err error) {
	rows := map[int]*amdRow{}
	for _, args := range [][]string{
		{"list", "--json"},
		{"static", "--asic", "--driver", "--vram", "--board", "--json"},
		{"metric", "--mem-usage", "--clock", "--json"},
	} {
		var answer json.RawMessage
		if err := ask(&answer, args...); err != nil {
			if args[0] == "metric" {
				break // use and clocks stay unknown
			}
			return nil, "", err
		}
		if err := merge(rows, answer); err != nil {
			return nil, "", fmt.Errorf("amd-smi %s: %w", args[0], err)
		}
	}
	for _, i := range slices.Sorted(maps.Keys(rows)) {
		r := rows[i]
		gfx, mem := r.Clocks["gfx_0"], r.Clocks["mem_0"]
		driver = cmp.Or(driver, told(r.Driver.Version), told(r.Driver.Old))
		found = append(found, amdGPU{names: []string{r.ASIC.Name, r.Board.Name}, node: r.Node.value, Device: Device{
			UUID: cmp.Or(hipUUID(r.ASIC.Serial), told(r.UUID)), PCIBusID: told(r.BDF),
			MemoryTotal: cmp.Or(r.VRAM.Size.bytes(), r.Memory.Total.bytes()), MemoryUsed: r.Memory.Used.bytes(),
			SMClock: int(gfx.Now.value), SMClockMax: int(gfx.Max.value), MemClock: int(mem.Now.value), MemClockMax: int(mem.Max.value),
		}})
	}
	return found, driver, nil
}

// merge adds an answer to the rows: a list, or since ROCm 7 one under "gpu_data".
func merge(rows map[int]*amdRow, answer json.RawMessage) error {
	var list []json.RawMessage
	if json.Unmarshal(answer, &list) != nil {
		var wrapped struct {
			GPUs []json.RawMessage `json:"gpu_data"`
		}
		if json.Unmarshal(answer, &wrapped) != nil || wrapped.GPUs == nil {
			return fmt.Errorf("it prints no list of GPUs: %.200q", answer)
		}
		list = wrapped.GPUs
	}
	for _, raw := range list {
		var id struct {
			GPU *int `json:"gpu"`
		}
		if json.Unmarshal(raw, &id) != nil || id.GPU == nil {
			return fmt.Errorf("a GPU in it has no number: %.200q", raw)
		}
		if rows[*id.GPU] == nil {
			rows[*id.GPU] = &amdRow{}
		}
		_ = json.Unmarshal(raw, rows[*id.GPU]) // it is JSON; "N/A" in place of an object stays empty
	}
	return nil
}

// readROCmSMI asks rocm-smi, which writes every figure as text.
func readROCmSMI(ask query) (found []amdGPU, driver string, err error) {
	var cards map[string]struct {
		Series string `json:"Card Series"` // "Card series" before ROCm 6
		Name   string `json:"Device Name"`
		Unique string `json:"Unique ID"`
		Bus    string `json:"PCI Bus"`
		Node   amount `json:"Node ID"`
		Total  amount `json:"VRAM Total Memory (B)"`
		Used   amount `json:"VRAM Total Used Memory (B)"`
		Driver string `json:"Driver version"`
	}
	if err := ask(&cards, "--showproductname", "--showmeminfo", "vram", "--showuniqueid", "--showbus", "--showdriverversion", "--json"); err != nil {
		return nil, "", err
	}
	byNumber := func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }
	for _, name := range slices.SortedFunc(maps.Keys(cards), byNumber) {
		c := cards[name]
		if !strings.HasPrefix(name, "card") {
			continue // "system"
		}
		found = append(found, amdGPU{names: []string{c.Series, c.Name}, node: c.Node.value, Device: Device{
			UUID: hipUUID(c.Unique), PCIBusID: told(c.Bus), MemoryTotal: c.Total.value, MemoryUsed: c.Used.value,
		}})
	}
	return found, told(cards["system"].Driver), nil
}

// told is what a tool says, without its word for not knowing.
func told(s string) string {
	if s == "N/A" {
		return ""
	}
	return s
}

// hipUUID is a chip's serial number, 0xAF54E92B0A5D57C8, as HIP and ROCr name it.
func hipUUID(serial string) string {
	if hex, ok := strings.CutPrefix(strings.ToLower(serial), "0x"); ok && strings.Trim(hex, "0") != "" {
		return "GPU-" + hex
	}
	return ""
}

// amdInventory counts and names the GPUs as HIP does, and leaves out the hidden ones.
func amdInventory(found []amdGPU, driver string, lookup func(string) (string, bool), cat catalog.Catalog) Inventory {
	if !slices.ContainsFunc(found, func(g amdGPU) bool { return g.node == 0 }) {
		slices.SortStableFunc(found, func(a, b amdGPU) int { return cmp.Compare(a.node, b.node) })
	}
	chip := func(g amdGPU) string { address, _, _ := strings.Cut(g.PCIBusID, "."); return address } // partitions differ behind the dot
	parts := map[string]int{"": -len(found)}
	for _, g := range found {
		parts[chip(g)]++
	}
	var devices []Device
	var warnings []string
	for i, g := range found {
		d := g.Device
		d.Index, d.Name = i, "AMD GPU"
		for _, n := range slices.Backward(g.names) {
			if told(n) == "" || strings.HasPrefix(n, "0x") { // the number of a chip that the tool cannot name
				continue
			}
			d.Name = n
			if sku, ok := cat.GPUByDeviceName(n); ok {
				d.SKU = sku.Name
			}
		}
		if parts[chip(g)] > 1 {
			d.SKU = ""
			warnings = []string{"GPUs are cut into partitions, which the catalog does not have. amd-smi set --compute-partition SPX makes whole ones"}
		}
		devices = append(devices, d)
	}
	devices, stops := amdVisible(devices, lookup)
	version, _, _ := strings.Cut(driver, "(") // the driver in the kernel answers with all of /proc/version
	return Inventory{Driver: version, Devices: devices, Warnings: slices.Concat(warnings, stops, caveats(devices))}
}

// amdVisible are the devices that HIP would offer: of those that ROCR_VISIBLE_DEVICES
// leaves, which it counts anew, those in HIP_VISIBLE_DEVICES, else in CUDA_VISIBLE_DEVICES.
func amdVisible(devices []Device, lookup func(string) (string, bool)) (shown []Device, stops []string) {
	by := "HIP"
	if v, _ := lookup("HIP_VISIBLE_DEVICES"); v == "" {
		by = "CUDA"
	}
	for _, by := range []string{"ROCR", by} {
		env, set := lookup(by + "_VISIBLE_DEVICES")
		var stop string
		if devices, stop = visible(by, env, set, devices, nil); stop != "" {
			stops = append(stops, stop)
		}
		for i := range devices {
			if by == "ROCR" {
				devices[i].Index = i
			}
			devices[i].ID = strconv.Itoa(devices[i].Index)
		}
	}
	return devices, stops
}
