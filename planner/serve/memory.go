package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/google/renameio/v2"

	"plimsoll/planner"
)

// memory is the state file: what a restart must not lose.
type memory struct {
	Schema   int             `json:"schema"`
	Name     string          `json:"deployment"`
	End      time.Time       `json:"end"` // of the last interval
	Interval time.Duration   `json:"interval_ns"`
	GPUHours float64         `json:"gpu_hours"`
	Paused   bool            `json:"paused"`
	Core     json.RawMessage `json:"core"`
}

const memorySchema = 1

// maxGaps bounds the intervals that a planner which was away is told of.
const maxGaps = 1000

// save writes the state file whole or not at all. A planner that cannot write it
// goes on: what it would lose is history.
func (r *Runner) save(end time.Time) {
	if r.o.StatePath == "" {
		return
	}
	r.mu.Lock()
	core, err := r.o.Core.Save()
	st := r.status
	r.mu.Unlock()
	var b []byte
	if err == nil {
		b, err = json.Marshal(memory{memorySchema, r.o.Name, end, r.o.Interval, st.GPUHours, st.Paused, core})
	}
	if err == nil {
		err = renameio.WriteFile(r.o.StatePath, b, 0o600)
	}
	if err != nil {
		r.emit(Failed, fmt.Sprintf("writing the state file: %v", err), nil, nil)
	}
}

// StateFileError is a state file that cannot be taken up. It is left as it is.
type StateFileError struct {
	Path string
	Err  error
}

// Error implements error.
func (e *StateFileError) Error() string { return fmt.Sprintf("the state file %s %v", e.Path, e.Err) }

// Unwrap is the cause.
func (e *StateFileError) Unwrap() error { return e.Err }

// restore takes back the state file, if there is one. The time since then is
// made known as intervals without figures.
func (r *Runner) restore() error {
	if r.o.StatePath == "" {
		return nil
	}
	bad := func(format string, args ...any) error {
		return &StateFileError{r.o.StatePath, fmt.Errorf(format, args...)}
	}
	b, err := os.ReadFile(r.o.StatePath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return bad("is not to be read: %w", err)
	}
	var m memory
	if err := json.Unmarshal(b, &m); err != nil {
		return bad("is damaged: %w", err)
	}
	if m.Schema != memorySchema || m.Name != r.o.Name {
		return bad("is of schema %d, deployment %q: want schema %d, %q", m.Schema, m.Name, memorySchema, r.o.Name)
	}
	if m.Interval != r.o.Interval {
		r.emit(Warned, fmt.Sprintf("history is of intervals of %v, not %v: it is left behind", m.Interval, r.o.Interval), nil, nil)
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.o.Core.Restore(m.Core); err != nil {
		return bad("does not fit: %w", err)
	}
	r.status.GPUHours, r.status.Paused = m.GPUHours, m.Paused
	for i := range min(maxGaps, int(time.Since(m.End)/r.o.Interval)) {
		r.o.Core.Tell(planner.Observation{Start: m.End.Add(time.Duration(i) * r.o.Interval), Length: r.o.Interval})
	}
	return nil
}
