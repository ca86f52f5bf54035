package process

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrPortInUse is wrapped by Start and Ready where somebody else listens on the
// engine's port: pick another one, with FreePort, and start again.
var ErrPortInUse = errors.New("port is in use")

// errorLines is how many of the last log lines an error carries.
const errorLines = 12

// Quote is what an error says of an engine's log.
type Quote struct {
	Cause string   // its first error, in one line; empty where it has none
	Tail  []string // its last lines, less what Cause says and, with a Cause, the frames of tracebacks
}

// String is what follows a message.
func (q Quote) String() string {
	s := ""
	switch {
	case q.Cause != "":
		s = "; its first error: " + q.Cause
	case len(q.Tail) == 0:
		return "; it printed nothing"
	}
	if len(q.Tail) > 0 {
		s += "\n  its last log lines:\n  | " + strings.Join(q.Tail, "\n  | ")
	}
	return s
}

// ExitError says how an engine ended that nobody had asked to.
type ExitError struct {
	Name   string
	Code   int            // exit status; -1 where a signal ended it
	Signal syscall.Signal // 0 where it exited by itself
	Log    Quote
}

func (e *ExitError) Error() string {
	how := fmt.Sprintf("exited with code %d", e.Code)
	if e.Signal != 0 {
		how = "was ended by signal " + unix.SignalName(e.Signal)
	}
	if e.Signal == syscall.SIGKILL {
		how += " (often the kernel, out of memory)"
	}
	return e.Name + " " + how + e.Log.String()
}

// NotReadyError says that an engine did not answer as ready in time. It still runs.
type NotReadyError struct {
	Name   string
	URL    string        // what was asked
	Waited time.Duration // how long
	Answer string        // the last answer: status and the beginning of the body, or why there was none
	Log    Quote
}

func (e *NotReadyError) Error() string {
	return fmt.Sprintf("%s is not ready after %v: %s: %s%s", e.Name, e.Waited, e.URL, e.Answer, e.Log)
}
