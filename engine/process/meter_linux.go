package process

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"
)

// resolving is how long a host's name may take to be looked up.
const resolving = 2 * time.Second

// NewMeter is for the engine that listens at host:port of this machine, which this program
// may have started or not: the processes that listen there, those that they talk to over
// TCP on this machine, and what all of them started. It is nil where some of these cannot be
// seen: at another machine's address, in another container, as another user's.
func NewMeter(ctx context.Context, host string, port int) *Meter {
	if !own(ctx, host) {
		return nil
	}
	conns := connections()
	all := processes()
	pids, ok := engineOf(port, conns, owners(all), all, os.Getpid())
	if !ok || slices.ContainsFunc(pids, isProxy) {
		return nil
	}
	roots := slices.DeleteFunc(slices.Clone(all), func(s stat) bool { return !slices.Contains(pids, s.pid) })
	return &Meter{func() (usage, bool) { return readUsage(roots) }}
}

// own reports whether host is this machine, by all its addresses.
func own(ctx context.Context, host string) bool {
	ctx, cancel := context.WithTimeout(ctx, resolving)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(found) == 0 {
		return false
	}
	ours, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(found, func(ip netip.Addr) bool {
		return !ip.IsLoopback() && !slices.ContainsFunc(ours, func(a net.Addr) bool {
			n, ok := a.(*net.IPNet)
			return ok && n.IP.Equal(ip.AsSlice())
		})
	})
}

func isProxy(pid int) bool { return slices.Contains(proxies, nameOf(pid)) }

// readUsage is false where the machine does not tell, or one of the roots is gone.
func readUsage(roots []stat) (usage, bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return usage{}, false
	}
	u, ok := parseUsage(text)
	if !ok {
		return usage{}, false
	}
	all := processes()
	from := []int{os.Getpid()}
	for _, r := range roots {
		if !slices.ContainsFunc(all, func(s stat) bool { return s.pid == r.pid && s.started == r.started }) {
			return usage{}, false
		}
		from = append(from, r.pid)
	}
	for _, s := range within(all, from...) {
		u.ours += s.ticks
	}
	return u, true
}

// parseUsage reads /proc/stat (proc_stat(5)): the line of all processors, and how many have
// a line of their own. Guests are in user and nice already.
func parseUsage(text []byte) (u usage, ok bool) {
	for line := range bytes.Lines(text) {
		name, rest, _ := bytes.Cut(line, []byte(" "))
		if !bytes.HasPrefix(name, []byte("cpu")) {
			continue
		}
		if len(name) > len("cpu") {
			u.cores++
			continue
		}
		fields := bytes.Fields(rest)
		if len(fields) < 8 {
			return usage{}, false
		}
		var t [8]uint64 // user, nice, system, idle, iowait, irq, softirq, steal
		for i := range t {
			var err error
			if t[i], err = strconv.ParseUint(string(fields[i]), 10, 64); err != nil {
				return usage{}, false
			}
			u.total += t[i]
		}
		u.busy, u.worked, u.steal = u.total-t[3]-t[4], t[0]+t[1]+t[2], t[7]
	}
	return u, u.cores > 0 && u.total > 0
}
