package load

import (
	"io/fs"
	"maps"
	"slices"
	"strings"

	"plimsoll/profile"
)

// Governor names the CPU frequency governors of this machine's cores, below sys
// (os.DirFS("/sys")), such as "performance" or "powersave, schedutil"; empty
// where there are none, as in most virtual machines.
func Governor(sys fs.FS) string {
	files, err := fs.Glob(sys, "devices/system/cpu/cpu*/cpufreq/scaling_governor")
	if err != nil {
		return "" // only for a bad pattern
	}
	seen := map[string]bool{}
	for _, f := range files {
		b, err := fs.ReadFile(sys, f)
		if name := strings.TrimSpace(string(b)); err == nil && name != "" {
			seen[name] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(seen)), ", ")
}

// GovernorWarnings warns of governors that slow cores down between requests: a
// load generator's TTFT was seen to double under one (aiperf issue 1424).
func GovernorWarnings(governor string) []profile.Warning {
	if governor == "" || governor == "performance" {
		return nil
	}
	return []profile.Warning{profile.Warnf("cpu_governor",
		"the CPU frequency governor here is %s: cores that slow down between requests add to TTFT; for a measurement set it to performance (cpupower frequency-set -g performance)", governor)}
}
