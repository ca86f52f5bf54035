package process

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"

	"plimsoll/engine/redact"
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
var proxies = []string{"docker-proxy", "rootlessport", "rootlesskit", "slirp4netns", "pasta", "conmon", "containerd-shim", "gvproxy", "kubectl", "ssh"}

// sockets are those that answer at 127.0.0.1:port, as "socket:[INODE]".
func sockets(port int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			if f, err := os.Open(file); err == nil { // otherwise no IPv6, or no /proc
				more := socketsIn(f, port, yield)
				_ = f.Close() // it was only read
				if !more {
					return
				}
			}
		}
	}
}

// socketsIn reads no further than to the last listening socket, which come first, and
// in small pieces: the kernel looks through a large table for the first connection.
func socketsIn(f io.Reader, port int, yield func(string) bool) bool {
	lines := bufio.NewReaderSize(f, 256)
	for header := true; ; header = false {
		line, err := lines.ReadString('\n')
		if err != nil {
			return true
		}
		if header {
			continue
		}
		// sl local_address rem_address st queues timer retrnsmt uid timeout inode
		words := strings.Fields(line)
		if len(words) < 10 || words[3] != listening {
			return true
		}
		addr, hex, _ := strings.Cut(words[1], ":")
		p, err := strconv.ParseUint(hex, 16, 16)
		if err == nil && int(p) == port && slices.Contains(reachable, addr) && !yield("socket:["+words[9]+"]") {
			return false
		}
	}
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
	var others []string
	for s := range sockets(port) {
		if slices.ContainsFunc(tree, func(pid int) bool { return holds(pid, []string{s}) }) {
			return "", false
		}
		others = append(others, s)
	}
	if len(others) == 0 {
		return "", false
	}
	pid, name, found := holder(others)
	if !found || slices.Contains(tree, pid) || slices.Contains(proxies, name) {
		return "", false
	}
	return describe(pid, name), true
}

func holder(sockets []string) (pid int, name string, found bool) {
	for _, s := range processes() {
		if !s.zombie && holds(s.pid, sockets) {
			return s.pid, nameOf(s.pid), true
		}
	}
	return 0, "", false
}

// nameOf is empty where the process is gone.
func nameOf(pid int) string {
	comm, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return strings.TrimSpace(string(comm))
}

func describe(pid int, name string) string {
	if pid == os.Getpid() {
		return fmt.Sprintf("this program (process %d)", pid)
	}
	return fmt.Sprintf("process %d (%s)", pid, shown(name, redact.Values{}))
}
