//go:build !linux

package process

import (
	"context"
	"os"
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

func listenerOn(int) string { return "" }
