package local

import (
	"fmt"

	"plimsoll/engine"
)

// Worker is one of a state file's workers as a frontend needs it.
type Worker struct {
	Name  string // key in the state file
	Role  engine.Role
	URL   string // base URL, without a slash at the end
	State Phase  // requests go to those that are Ready; a Draining one finishes what it has
}

// Workers reads the workers that were started through the state file at path
// (see Path), oldest name first. The file is replaced whole, so that it can be
// read at any time and without its lock. Entries of other programs are left out. A
// worker that died since the planner last looked is still there. Where there is
// no file, the error wraps fs.ErrNotExist.
func Workers(path string) ([]Worker, error) {
	text, err := readAll(path, maxDocument)
	if err != nil {
		return nil, fmt.Errorf("reading workers: %w", err)
	}
	d, err := parseDocument(text)
	if err != nil {
		return nil, fmt.Errorf("reading workers from state file %s: %w", path, err)
	}
	var out []Worker
	for _, name := range d.names() {
		if e := d.entries[name]; e.own.State != "" && e.own.PID != 0 {
			out = append(out, Worker{Name: name, Role: e.own.Role, URL: e.own.URL, State: e.own.State})
		}
	}
	return out, nil
}
