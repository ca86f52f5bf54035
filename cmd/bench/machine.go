package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// machine is what figures were measured on.
type machine struct {
	CPU, System, Go string
	Cores           int
	Load            string // average over the last minute at the beginning; empty where it is not known
	Date            time.Time
	Took            time.Duration
}

func thisMachine() machine {
	return machine{System: system(), Go: runtime.Version(), Cores: runtime.NumCPU(), Load: load(), Date: time.Now().UTC()}
}

func (m machine) String() string {
	var text strings.Builder
	if m.CPU != "" {
		text.WriteString(m.CPU + ", ")
	}
	fmt.Fprintf(&text, "%d cores, %s, %s, %s", m.Cores, m.System, m.Go, m.Date.Format(time.DateOnly))
	if m.Load != "" {
		fmt.Fprintf(&text, "; load %s before", m.Load)
	}
	fmt.Fprintf(&text, "; %v in all.", m.Took.Round(time.Second))
	return text.String()
}

// system is the operating system and its distribution, where there is one.
func system() string {
	name := runtime.GOOS + "/" + runtime.GOARCH
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return name
	}
	for line := range bytes.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "PRETTY_NAME="); ok {
			return strings.Trim(v, `"`) + ", " + name
		}
	}
	return name
}

// load is what Linux says of the work waiting for processors.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 0 {
		return fields[0]
	}
	return ""
}
