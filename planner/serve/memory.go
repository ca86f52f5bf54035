package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/planner/statefile"
)

// memory is the state file: what a restart must not lose.
type memory struct {
	Schema   int             `json:"schema"`
	Name     string          `json:"deployment"`
	Profile  string          `json:"profile"`
	End      time.Time       `json:"end"` // of the last interval
	Interval time.Duration   `json:"interval_ns"`
	GPUHours float64         `json:"gpu_hours"`
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
		b, err = json.Marshal(memory{memorySchema, r.o.Name, r.o.Profile, end, r.o.Interval, st.GPUHours, core})
	}
	if err == nil {
		err = statefile.Replace(r.o.StatePath, b)
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

// errDamaged is wrapped where a state file is none that a planner wrote whole.
var errDamaged = errors.New("is damaged")

// restore takes back the state file, if there is one. The time since then is
// made known as intervals without figures. A damaged file is set aside.
func (r *Runner) restore() error {
	if r.o.StatePath == "" {
		return nil
	}
	m, err := readMemory(r.o.StatePath, r.o.Name)
	if err == nil {
		err = r.resume(m)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, errDamaged):
		return r.setAside(err)
	default:
		return err
	}
}

// resume goes on from what was remembered.
func (r *Runner) resume(m memory) error {
	r.set(func(s *Status) { s.GPUHours = m.GPUHours }) // whatever becomes of the history
	why, err := "", error(nil)
	switch {
	case m.Interval != r.o.Interval:
		why = fmt.Sprintf("the history has intervals of %v, not %v, and is dropped", m.Interval, r.o.Interval)
		err = r.o.Core.RestoreRecord(m.Core)
	case m.Profile != r.o.Profile:
		why = "the history is of another profile and is dropped"
		err = r.o.Core.RestoreRecord(m.Core)
	default:
		if err = r.recall(m); errors.Is(err, planner.ErrPolicyState) {
			why, err = fmt.Sprintf("the history is dropped: %v", err), nil
		}
	}
	if err != nil {
		return &StateFileError{r.o.StatePath, fmt.Errorf("%w (%w)", errDamaged, err)}
	}
	if why != "" {
		r.emit(Warned, why, nil, nil)
	}
	return nil
}

// setAside moves a damaged state file out of the way, and goes on without it: a planner
// that refused would be started again and again, and do nothing. This planner has the
// file's lock.
func (r *Runner) setAside(damage error) error {
	to, err := statefile.SetAside(r.o.StatePath)
	if err != nil {
		return &StateFileError{r.o.StatePath, fmt.Errorf("%w, and cannot be moved aside: %w", errDamaged, err)}
	}
	r.mu.Lock()
	r.o.Core.Forgot()
	r.mu.Unlock()
	r.emit(Warned, fmt.Sprintf("%v, and is now %s. The last decision, the history of the load, corrections and earlier GPU-hours are unknown. The planner goes on from the replicas that it sees", damage, to), nil, nil)
	return nil
}

// readMemory reads the state file of a deployment; fs.ErrNotExist where there is none.
func readMemory(path, name string) (m memory, err error) {
	bad := func(format string, args ...any) (memory, error) {
		return m, &StateFileError{path, fmt.Errorf(format, args...)}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return bad("cannot be read: %w", err)
	}
	if begin := bytes.Trim(b, "\x00 \n"); len(begin) > 0 && begin[0] != '{' {
		return bad("is no state file of a planner")
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return bad("%w (%w)", errDamaged, engine.PlainJSON("the file", err))
	}
	if m.Schema > memorySchema {
		return bad("is of schema %d, and this version reads up to %d: run the version that wrote it", m.Schema, memorySchema)
	}
	if m.Schema != memorySchema || m.Name != name {
		return bad("is of schema %d, deployment %q: want schema %d, %q", m.Schema, m.Name, memorySchema, name)
	}
	return m, nil
}

// CheckState reports, before anything is begun, whether a deployment can keep its memory
// in a file: the file must be its own, or absent, and its folder writable. A damaged file
// passes: Run sets it aside.
func CheckState(path, name string) error {
	if _, err := readMemory(path, name); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errDamaged) {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".plimsoll-")
	if err != nil {
		return &StateFileError{path, fmt.Errorf("is not to be written: %w", err)}
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return &StateFileError{path, fmt.Errorf("is not to be written: %w", err)}
	}
	return nil
}

// recall gives the core its memory back, and tells it of the time since.
func (r *Runner) recall(m memory) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.o.Core.Restore(m.Core); err != nil {
		return err
	}
	for i := range min(maxGaps, int(time.Since(m.End)/r.o.Interval)) {
		r.o.Core.Tell(planner.Observation{Start: m.End.Add(time.Duration(i) * r.o.Interval), Length: r.o.Interval})
	}
	return nil
}

// ErrStateInUse is wrapped by Run where another planner remembers in the same file.
var ErrStateInUse = errors.New("another planner uses this state file")

// own takes the state file for this planner, as long as it runs; the kernel lets
// go of it when the program dies. Two planners on one file would each make the
// other forget.
func (r *Runner) own() (release func(), err error) {
	if r.o.StatePath == "" {
		return func() {}, nil
	}
	f, err := os.OpenFile(r.o.StatePath+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the state file's lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil { //nolint:gosec // a descriptor
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrStateInUse
		}
		return nil, fmt.Errorf("%s: %w", r.o.StatePath, errors.Join(err, f.Close()))
	}
	return func() {
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) //nolint:gosec // a descriptor
		_ = f.Close()                                   // nothing was written
	}, nil
}
