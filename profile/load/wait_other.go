//go:build !linux

package load

import "time"

// nap does nothing: the caller yields instead, which is as accurate and only
// costs more processor time.
func nap(time.Duration) {}
