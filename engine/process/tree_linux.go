package process

import (
	"bytes"
	"errors"
	"os"
	"strconv"
)

// stat is what /proc/PID/stat says of one process (proc_pid_stat(5)).
type stat struct {
	pid, parent, group, session int
	started                     uint64 // clock ticks after the boot
	zombie                      bool
}

// readStat gives ok false for a process that is gone.
func readStat(pid int) (s stat, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false
	}
	// The second field is a name in parentheses that may itself hold spaces and parentheses.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return stat{}, false
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	group, err2 := strconv.Atoi(string(fields[2]))
	session, err3 := strconv.Atoi(string(fields[3]))
	started, err4 := strconv.ParseUint(string(fields[19]), 10, 64)
	dead := fields[0][0] == 'Z' || fields[0][0] == 'X'
	s = stat{pid: pid, parent: parent, group: group, session: session, started: started, zombie: dead}
	return s, errors.Join(err1, err2, err3, err4) == nil
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
func descendants(root int) []int {
	children := map[int][]stat{}
	for _, s := range processes() {
		children[s.parent] = append(children[s.parent], s)
	}
	var out []int
	queue := children[root]
	delete(children, root)
	for len(queue) > 0 {
		s := queue[0]
		queue = append(queue[1:], children[s.pid]...)
		delete(children, s.pid) // a tree that changed while it was read must not loop
		if !s.zombie {
			out = append(out, s.pid)
		}
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
