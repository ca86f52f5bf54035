//go:build !linux

package process

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// Main does nothing on this system. See its description on Linux.
func Main() {}

func startOwned(_ context.Context, l launch, log *os.File) (child, error) {
	return startDirect(l, log, false)
}

func groupAlive(pgid int) bool { return syscall.Kill(-pgid, 0) == nil }

func descendants(int) []int { return nil }

func foreignListener([]int, int) (string, bool) { return "", false }

// NewMeter is nil: only Linux tells which processes an engine has.
func NewMeter(context.Context, string, int) *Meter { return nil }

// HandleOf refuses: only Linux tells when a process started.
func HandleOf(int) (Handle, error) {
	return Handle{}, fmt.Errorf("%w: %s", ErrNoHandles, runtime.GOOS)
}

// Marked finds nothing on this system.
func Marked(string) []Mark { return nil }

// Leads is false on this system, which has no Handle.
func (h Handle) Leads() bool { return false }

// Members is empty on this system, which has no Handle.
func (h Handle) Members(string) []Handle { return nil }

// Signal does nothing on this system, which has no Handle.
func (h Handle) Signal(syscall.Signal) error { return nil }
