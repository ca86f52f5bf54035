package process

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// listening is the state of a listening socket in /proc/net/tcp (proc_pid_net(5)).
const listening = "0A"

// reachable are the local addresses, as /proc/net/tcp and tcp6 write them on
// little-endian and big-endian machines, at which 127.0.0.1 is answered.
var reachable = []string{
	"00000000", "0100007F", "7F000001",
	"00000000000000000000000000000000", "0000000000000000FFFF00000100007F", "00000000000000000000FFFF7F000001",
}

// proxies listen on behalf of a container in which the engine may be, so that
// their port being another process's tells nothing.
var proxies = []string{"docker-proxy", "rootlessport", "rootlesskit", "slirp4netns", "pasta", "conmon", "containerd-shim", "gvproxy", "ssh"}

// inodes is the sockets that answer at 127.0.0.1:port, as "socket:[INODE]".
func inodes(port int) []string {
	var out []string
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // no IPv6, or no /proc
		}
		for line := range strings.Lines(string(text)) {
			// sl local_address rem_address st queues timer retrnsmt uid timeout inode
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != listening {
				continue
			}
			addr, hex, _ := strings.Cut(f[1], ":")
			if p, err := strconv.ParseUint(hex, 16, 16); err == nil && int(p) == port && slices.Contains(reachable, addr) {
				out = append(out, "socket:["+f[9]+"]")
			}
		}
	}
	return out
}

// holds reports whether pid has one of the sockets open; false also where it may not be asked.
func holds(pid int, sockets []string) bool {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		target, err := os.Readlink(dir + "/" + e.Name())
		return err == nil && slices.Contains(sockets, target)
	})
}

// foreignListener says who listens on port, if it is certain that none of tree does.
func foreignListener(tree []int, port int) (who string, foreign bool) {
	sockets := inodes(port)
	if len(sockets) == 0 || slices.ContainsFunc(tree, func(pid int) bool { return holds(pid, sockets) }) {
		return "", false
	}
	pid, name, found := holder(sockets)
	if !found || slices.Contains(tree, pid) || slices.Contains(proxies, name) {
		return "", false
	}
	return describe(pid, name), true
}

// listenerOn describes the process that listens on port; empty where that cannot be told.
func listenerOn(port int) string {
	if sockets := inodes(port); len(sockets) > 0 {
		if pid, name, found := holder(sockets); found {
			return describe(pid, name)
		}
	}
	return ""
}

func holder(sockets []string) (pid int, name string, found bool) {
	for _, s := range processes() {
		if !s.zombie && holds(s.pid, sockets) {
			comm, _ := os.ReadFile("/proc/" + strconv.Itoa(s.pid) + "/comm") // gone meanwhile: no name
			return s.pid, strings.TrimSpace(string(comm)), true
		}
	}
	return 0, "", false
}

func describe(pid int, name string) string {
	if pid == os.Getpid() {
		return fmt.Sprintf("this program (process %d)", pid)
	}
	return fmt.Sprintf("process %d (%s)", pid, cleanLine(name))
}
