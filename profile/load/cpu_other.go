//go:build !unix

package load

import "time"

// cpuTime is not known here: a share of 0 then says nothing.
func cpuTime() time.Duration { return 0 }
