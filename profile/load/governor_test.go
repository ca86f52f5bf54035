package load

import (
	"strings"
	"testing"
	"testing/fstest"
)

// Fault 10: the CPU frequency governor. A machine that saves power is named and
// warned of; one that does not, or says nothing, is not.
func TestFault10CPUGovernor(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + "\n")} }
	const at = "devices/system/cpu/cpu"
	for name, c := range map[string]struct {
		sys  fstest.MapFS
		want string
		warn bool
	}{
		"virtual machine": {fstest.MapFS{at + "0/topology/core_id": file("0")}, "", false},
		"performance":     {fstest.MapFS{at + "0/cpufreq/scaling_governor": file("performance"), at + "1/cpufreq/scaling_governor": file("performance")}, "performance", false},
		"powersave":       {fstest.MapFS{at + "0/cpufreq/scaling_governor": file("powersave")}, "powersave", true},
		"mixed":           {fstest.MapFS{at + "0/cpufreq/scaling_governor": file("schedutil"), at + "11/cpufreq/scaling_governor": file("performance")}, "performance, schedutil", true},
		"empty":           {fstest.MapFS{at + "0/cpufreq/scaling_governor": file("")}, "", false},
	} {
		got := Governor(c.sys)
		ws := GovernorWarnings(got)
		if got != c.want || (len(ws) > 0) != c.warn || c.warn && !strings.Contains(ws[0].Message, c.want) {
			t.Errorf("%s: governor %q, warnings %v", name, got, ws)
		}
	}
}
