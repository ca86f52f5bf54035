package engine

import (
	"fmt"
	"strconv"
	"strings"
)

// mostRanks bounds each number of a layout: beyond is a slip of the keyboard.
const mostRanks = 4096

// ParseParallelism reads what Label and Slug write: "TP:4", "tep8",
// "TP:4 PP:2", in any letter case, each part once. TEP:n spreads experts over n
// tensor-parallel ranks, DEP:n over n attention replicas; a plain EP has to be 1
// or TP·DP, since experts are spread over all GPUs of a stage or over none. What
// it returns with a nil error is Normal, and its Label reads back as itself.
func ParseParallelism(s string) (Parallelism, error) {
	parts := map[string]int{}
	for rest := strings.ToLower(strings.TrimSpace(s)); rest != ""; rest = strings.TrimLeft(rest, " ") {
		name := rest[:len(rest)-len(strings.TrimLeft(rest, "dept"))] // the letters of all names
		rest = strings.TrimPrefix(rest[len(name):], ":")
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		rest = rest[len(digits):]
		n, err := strconv.Atoi(digits)
		switch name {
		case "tp", "pp", "dp", "ep", "tep", "dep":
		default:
			return Parallelism{}, layoutError(s, "want parts such as TP:4, PP:2, DP:8, EP:8, TEP:8 or DEP:8")
		}
		if err != nil || n < 1 || n > mostRanks {
			return Parallelism{}, layoutError(s, fmt.Sprintf("%s wants a whole number from 1 to %d", strings.ToUpper(name), mostRanks))
		}
		if parts[name] > 0 {
			return Parallelism{}, layoutError(s, strings.ToUpper(name)+" is listed twice")
		}
		parts[name] = n
	}
	return assembled(s, parts)
}

// assembled is the layout of named parts.
func assembled(s string, parts map[string]int) (Parallelism, error) {
	p := Parallelism{TP: parts["tp"], PP: parts["pp"], DP: parts["dp"], EP: parts["ep"]}.Normal()
	tep, dep := parts["tep"], parts["dep"]
	plain := parts["tp"]+parts["dp"]+parts["ep"] > 0
	switch {
	case len(parts) == 0:
		return Parallelism{}, layoutError(s, "want a layout such as TP:4, TEP:8 or TP:4 PP:2")
	case tep > 0 && dep > 0, tep+dep > 0 && plain:
		return Parallelism{}, layoutError(s, "TEP and DEP say TP, DP and EP by themselves: only PP goes with one of them")
	case p.EP > 1 && p.EP != p.TP*p.DP:
		return Parallelism{}, layoutError(s, fmt.Sprintf("EP %d: experts are spread over all TP·DP = %d GPUs of a stage or over none", p.EP, p.TP*p.DP))
	case tep > 0:
		p.TP, p.EP = tep, tep
	case dep > 0:
		p.DP, p.EP = dep, dep
	}
	return p, nil
}

func layoutError(s, why string) error { return fmt.Errorf("layout %q: %s", s, why) }
