package process

import (
	"encoding/binary"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// connection is a TCP socket that listens or is connected.
type connection struct {
	local, remote netip.AddrPort // remote is zero where it listens
	inode         string
}

// connections are those of this machine, or of the container.
func connections() (out []connection) {
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(file) // there may be no IPv6
		out = append(out, parseConnections(string(text))...)
	}
	return out
}

// established is the state of a connected socket in /proc/net/tcp (proc_pid_net(5)).
const established = "01"

func parseConnections(text string) (out []connection) {
	for line := range strings.Lines(text) {
		// sl local_address rem_address st queues timer retrnsmt uid timeout inode
		words := strings.Fields(line)
		if len(words) < 10 || words[3] != listening && words[3] != established {
			continue
		}
		c := connection{inode: "socket:[" + words[9] + "]"}
		var ok bool
		if c.local, ok = address(words[1]); !ok {
			continue
		}
		if words[3] == established {
			if c.remote, ok = address(words[2]); !ok {
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

// address reads "0100007F:1F90": words of 32 bits in this machine's byte order.
func address(text string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(text, ":")
	p, err := strconv.ParseUint(port, 16, 16)
	if err != nil || len(host) != 8 && len(host) != 32 {
		return netip.AddrPort{}, false
	}
	var b []byte
	for word := range slices.Chunk([]byte(host), 8) {
		v, err := strconv.ParseUint(string(word), 16, 32)
		if err != nil {
			return netip.AddrPort{}, false
		}
		b = binary.NativeEndian.AppendUint32(b, uint32(v))
	}
	ip, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(ip.Unmap(), uint16(p)), ok
}

// owners are the processes that have each socket open, by "socket:[INODE]".
func owners(all []stat) map[string][]int {
	out := map[string][]int{}
	for _, s := range all {
		dir := "/proc/" + strconv.Itoa(s.pid) + "/fd"
		entries, _ := os.ReadDir(dir) // another user's process, or one that is gone
		for _, e := range entries {
			if target, err := os.Readlink(dir + "/" + e.Name()); err == nil && strings.HasPrefix(target, "socket:") {
				out[target] = append(out[target], s.pid)
			}
		}
	}
	return out
}

// engineOf are the processes that make up the engine at port: those that listen, and, as a
// router's workers are processes of their own, those at the other end of their connections,
// and of theirs. Who connected to port is a client and no part of it, and neither is this
// program. It is false where a part may be out of sight: whose socket nobody has, or at a
// private address, where containers of this machine are.
func engineOf(port int, conns []connection, owners map[string][]int, all []stat, self int) ([]int, bool) {
	other := map[[2]netip.AddrPort]connection{}
	var roots []int
	for _, c := range conns {
		if c.remote.IsValid() {
			other[[2]netip.AddrPort{c.remote, c.local}] = c
			continue
		}
		if int(c.local.Port()) == port {
			if len(owners[c.inode]) == 0 {
				return nil, false
			}
			roots = append(roots, owners[c.inode]...)
		}
	}
	for grew := len(roots) > 0; grew; {
		grew = false
		parts := map[int]bool{}
		for _, s := range within(all, roots...) {
			parts[s.pid] = true
		}
		isPart := func(pid int) bool { return parts[pid] }
		for _, c := range conns {
			if !c.remote.IsValid() || int(c.local.Port()) == port || !slices.ContainsFunc(owners[c.inode], isPart) {
				continue
			}
			peer, seen := other[[2]netip.AddrPort{c.local, c.remote}]
			switch pids := owners[peer.inode]; {
			case !seen && !c.remote.Addr().IsPrivate() && !c.remote.Addr().IsLoopback(): // on another machine
			case len(pids) == 0:
				return nil, false
			case !slices.ContainsFunc(pids, isPart) && !slices.Contains(pids, self):
				roots, grew = append(roots, pids...), true
			}
		}
	}
	slices.Sort(roots)
	return slices.Compact(roots), len(roots) > 0
}
