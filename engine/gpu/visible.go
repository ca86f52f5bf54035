package gpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"plimsoll/engine"
)

// visible are the devices that by ("CUDA", or on AMD "HIP" or "ROCR") would offer
// under its VISIBLE_DEVICES=env, in its order. gpus are all GPUs by rising Index,
// migs the MIG slices.
//
// The rule is CUDA's (CUDA C++ Programming Guide, "CUDA Environment Variables",
// 2025): entries are indices, UUIDs ("GPU-…") or beginnings of one that fit a
// single GPU, or MIG slices ("MIG-…"); the first entry that names nothing ends
// the list, and those before it count. "-1" thus hides all, as does an empty
// value. Where CUDA says nothing, a device named twice ends the list too. stop
// says where and why it ended early, unless that is what the value is for.
func visible(by, env string, set bool, gpus, migs []Device) (devices []Device, stop string) {
	if !set {
		return gpus, ""
	}
	env = strings.TrimSpace(env)
	if env == "" {
		return nil, ""
	}
	for entry := range strings.SplitSeq(env, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "-1" {
			return devices, ""
		}
		d, why := named(entry, gpus, migs)
		if why == "" && contains(devices, d) {
			why = "is listed twice"
		}
		if why != "" {
			return devices, fmt.Sprintf("%s_VISIBLE_DEVICES=%q: %q %s. It and all after it are ignored, as %[1]s does", by, env, entry, why)
		}
		devices = append(devices, d)
	}
	return devices, ""
}

func contains(devices []Device, d Device) bool {
	return slices.ContainsFunc(devices, func(o Device) bool {
		return o.Index == d.Index && o.UUID == d.UUID
	})
}

// named is the one device that an entry names, or why there is none.
func named(entry string, gpus, migs []Device) (d Device, why string) {
	if strings.HasPrefix(entry, "GPU-") {
		return begins(entry, gpus)
	}
	if strings.HasPrefix(entry, "MIG-") {
		return begins(entry, migs)
	}
	i, err := strconv.ParseUint(entry, 10, 31)
	if err != nil {
		return Device{}, "is no index and no UUID"
	}
	for _, g := range gpus {
		if g.Index == int(i) {
			return g, ""
		}
	}
	return Device{}, "is no GPU of this machine"
}

// begins is the one device whose UUID begins with entry.
func begins(entry string, devices []Device) (d Device, why string) {
	fits := 0
	for _, c := range devices {
		if c.UUID == entry {
			return c, ""
		}
		if strings.HasPrefix(c.UUID, entry) {
			d = c
			fits++
		}
	}
	switch fits {
	case 0:
		return Device{}, "is no GPU of this machine"
	case 1:
		return d, ""
	default:
		return Device{}, fmt.Sprintf("fits %s", engine.Count(fits, "GPU"))
	}
}
