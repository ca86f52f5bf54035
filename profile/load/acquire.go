//go:build !race && linux

package load

// acquire is for the race detector only.
func acquire(uintptr) {}
