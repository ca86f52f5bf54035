package process

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// HandleOf is the Handle of a process that lives.
func HandleOf(pid int) (Handle, error) {
	boot, err := bootID()
	if err != nil {
		return Handle{}, err
	}
	s, ok := readStat(pid)
	if !ok || s.zombie {
		return Handle{}, fmt.Errorf("there is no process %d", pid)
	}
	return s.handle(boot), nil
}

func (s stat) handle(boot string) Handle { return Handle{PID: s.pid, Start: s.started, Boot: boot} }

// bootID is random(4)'s name for the time since the machine was started.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("telling this boot of the machine from others: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// Marked are the processes of this user that were started with the environment variable
// name, the oldest first. A Detached engine and what it starts are found so where nothing
// was written down of them. The program itself is left out.
func Marked(name string) []Mark {
	boot, err := bootID()
	if err != nil {
		return nil
	}
	var out []Mark
	for _, s := range processes() {
		if s.zombie || s.pid == os.Getpid() {
			continue
		}
		if v := environment(s.pid, name); v != "" {
			out = append(out, Mark{s.handle(boot), v})
		}
	}
	slices.SortFunc(out, func(a, b Mark) int { return cmp.Or(cmp.Compare(a.Start, b.Start), a.PID-b.PID) })
	return out
}

// environment is a variable that a process of this user was started with; empty where
// that cannot be told.
func environment(pid int, name string) string {
	path := "/proc/" + strconv.Itoa(pid)
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return ""
	}
	text, err := os.ReadFile(path + "/environ")
	if err != nil {
		return ""
	}
	for kv := range strings.SplitSeq(string(text), "\x00") {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// writesTo reports whether one of pid's standard outputs is the file at path.
func writesTo(pid int, path string) bool {
	want, err := os.Stat(path)
	if err != nil {
		return false
	}
	return slices.ContainsFunc([]string{"1", "2"}, func(fd string) bool {
		got, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/fd/" + fd)
		return err == nil && os.SameFile(got, want)
	})
}

// Leads reports whether the very process lives.
func (h Handle) Leads() bool {
	boot, err := bootID()
	if err != nil || boot != h.Boot {
		return false
	}
	s, ok := readStat(h.PID)
	return ok && !s.zombie && s.started == h.Start
}

// Members are the living processes of h's session, h itself among them, whose
// leader wrote to the log at logPath. Once h itself is gone its number might
// lead another session, so that only those count that still write to that log. A
// process with a session of its own (setsid) is no member; Marked finds it.
func (h Handle) Members(logPath string) []Handle {
	if boot, err := bootID(); err != nil || boot != h.Boot || h.PID <= 1 {
		return nil
	}
	leader, there := readStat(h.PID)
	if there && leader.started != h.Start {
		return nil // the number was given out again: nothing of the session is left
	}
	leads := there && !leader.zombie
	var out []Handle
	for _, s := range processes() {
		if s.session != h.PID || s.zombie || s.started < h.Start {
			continue
		}
		if leads || writesTo(s.pid, logPath) {
			out = append(out, s.handle(h.Boot))
		}
	}
	return out
}

// Signal sends sig to the very process and to no other that has its number by
// now. That it is gone is no error.
func (h Handle) Signal(sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(h.PID, 0)
	switch {
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL):
		return nil
	case err != nil: // before Linux 5.3, or forbidden: a moment lies between look and signal
		if !h.Leads() {
			return nil
		}
		return h.failed(sig, syscall.Kill(h.PID, sig))
	}
	defer func() { _ = unix.Close(fd) }()
	if !h.Leads() { // the descriptor holds on to whichever process that was
		return nil
	}
	return h.failed(sig, unix.PidfdSendSignal(fd, sig, nil, 0))
}

func (h Handle) failed(sig syscall.Signal, err error) error {
	if err == nil || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return fmt.Errorf("sending %s to process %d: %w", unix.SignalName(sig), h.PID, err)
}
