package process

import "errors"

// ErrNoHandles is wrapped by HandleOf on systems other than Linux: they do not
// tell when a process started, so that a process and another that got its number
// later look the same.
var ErrNoHandles = errors.New("processes cannot be told apart for good on this system")

// Handle is a process as it can be written down and found again, by a later run
// of the program too: a process number is given out again, with another start.
// It is meant for engines that were started Detached.
type Handle struct {
	PID   int    // process number; of a Detached engine that of its session too
	Start uint64 // clock ticks after the boot at which it started
	Boot  string // the boot of the machine that it belongs to
}

// Mark is a process and the variable of its environment by which it was found.
type Mark struct {
	Handle
	Value string // of the variable; not empty
}

// Foreign reports whether port belongs for certain to a process that is none of the
// members, and says who that is. Where nobody listens, or that cannot be told, it is false.
func Foreign(members []Handle, port int) (who string, foreign bool) {
	var tree []int
	for _, m := range members {
		tree = append(tree, m.PID)
	}
	return foreignListener(tree, port)
}
