package process

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
)

// stat is what /proc/PID/stat says of one process (proc_pid_stat(5)).
type stat struct {
	pid, parent, group, session int
	started                     uint64 // clock ticks after the boot
	ticks                       uint64 // processor time, with that of its children that ended
	zombie                      bool
}

// readStat gives ok false for a process that is gone.
func readStat(pid int) (s stat, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false
	}
	return parseStat(pid, text)
}

func parseStat(pid int, text []byte) (s stat, ok bool) {
	// The second field is a name in parentheses that may itself hold spaces and parentheses.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return stat{}, false
	}
	var errs [5]error
	s = stat{pid: pid, zombie: fields[0][0] == 'Z' || fields[0][0] == 'X'}
	s.parent, errs[0] = strconv.Atoi(string(fields[1]))
	s.group, errs[1] = strconv.Atoi(string(fields[2]))
	s.session, errs[2] = strconv.Atoi(string(fields[3]))
	s.started, errs[3] = strconv.ParseUint(string(fields[19]), 10, 64)
	for _, f := range fields[11:15] { // utime, stime, cutime, cstime
		t, err := strconv.ParseUint(string(f), 10, 64)
		s.ticks, errs[4] = s.ticks+t, errors.Join(errs[4], err)
	}
	return s, errors.Join(errs[:]...) == nil
}

// processes is every process that can be seen, less those that died meanwhile.
func processes() []stat {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1) // what was read before the error is still worth having
	out := make([]stat, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if s, ok := readStat(pid); ok {
				out = append(out, s)
			}
		}
	}
	return out
}

// descendants is the living children of root, their children, and so on, parents first.
func descendants(root int) (out []int) {
	for _, s := range within(processes(), root) {
		if s.pid != root && !s.zombie {
			out = append(out, s.pid)
		}
	}
	return out
}

// within is the roots, their children, and so on, zombies too, parents first. What all of
// them have used stays the sum of their ticks as some of them end: their parents have it then.
func within(all []stat, roots ...int) (out []stat) {
	children := map[int][]stat{}
	for _, s := range all {
		if slices.Contains(roots, s.pid) {
			out = append(out, s)
		} else {
			children[s.parent] = append(children[s.parent], s)
		}
	}
	for i := 0; i < len(out); i++ {
		pid := out[i].pid
		out = append(out, children[pid]...)
		delete(children, pid) // a tree that changed while it was read must not loop
	}
	return out
}

// groupAlive reports whether a process group has a member that is no zombie.
func groupAlive(pgid int) bool {
	for _, s := range processes() {
		if s.group == pgid && !s.zombie {
			return true
		}
	}
	return false
}
