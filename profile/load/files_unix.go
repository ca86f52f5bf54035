//go:build unix

package load

import (
	"fmt"
	"syscall"
)

// spareFiles are those that a program has open besides its streams.
const spareFiles = 64

// allowFiles makes sure that n connections can be open at once: it raises the
// process's own limit as far as the system lets it.
func allowFiles(n int) error {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return nil //nolint:nilerr // a limit that is not known: the connections will tell
	}
	want := uint64(max(n, 0) + spareFiles) //nolint:gosec // not negative
	if uint64(l.Cur) >= want {             //nolint:unconvert,gosec // signed on some systems
		return nil
	}
	if uint64(l.Max) < want { //nolint:unconvert,gosec // likewise
		return fmt.Errorf("%d connections at once need a limit of %d open files, and this process may have %d: raise it (ulimit -n %d as root, LimitNOFILE= of a service, --ulimit nofile= of a container)",
			n, want, l.Max, want)
	}
	l.Cur = l.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("raising the limit of open files to %d: %w", l.Max, err)
	}
	return nil
}
