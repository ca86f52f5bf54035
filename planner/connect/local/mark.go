package local

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/process"
)

// markVar is the variable of a worker's environment by which it is found where the state
// file does not name it.
const markVar = "PLIMSOLL_WORKER"

// mark is the value of markVar.
type mark struct {
	File string      `json:"file"` // the state file
	Name string      `json:"name"` // the worker's key in it
	Role engine.Role `json:"role"`
	Port int         `json:"port"`
	Log  string      `json:"log"`
	GPUs []string    `json:"gpus,omitempty"` // or slots

	of process.Handle
}

// environ is what marks a worker. Engines in Python that change their title write it over
// their environment unless they are told not to.
func (m mark) environ() []string {
	return []string{markVar + "=" + string(encode(m)), "SPT_NOENV=1"}
}

// fileID names the state file as every run of the program does, whichever link leads to
// its folder.
func (t *Target) fileID() string {
	dir, file := filepath.Split(t.opts.Path)
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return filepath.Join(dir, file)
}

// marks are the living processes that carry a mark of this state file, the oldest first.
func (t *Target) marks() []mark {
	file := t.fileID()
	return marksOf(func(of string) bool { return of == file })
}

// elsewhere are the GPUs or slots of the workers of other state files in the same folder,
// whichever process runs their planners.
func (t *Target) elsewhere() []string {
	var gpus []string
	file := t.fileID()
	for _, m := range marksOf(func(of string) bool { return of != file && filepath.Dir(of) == filepath.Dir(file) }) {
		gpus = append(gpus, m.GPUs...)
	}
	slices.Sort(gpus)
	return slices.Compact(gpus) // a worker has several processes
}

// marksOf are the living processes with a mark of some state files.
func marksOf(file func(string) bool) []mark {
	var out []mark
	for _, found := range process.Marked(markVar) {
		m := mark{of: found.Handle}
		if json.Unmarshal([]byte(found.Value), &m) == nil && file(m.File) {
			out = append(out, m)
		}
	}
	return out
}

// marked are the workers of this state file that live, the oldest first. What a worker
// started has the same mark and is younger.
func (t *Target) marked() []mark {
	var out []mark
	seen := map[string]bool{}
	for _, m := range t.marks() {
		if value := string(encode(m)); !seen[value] {
			seen[value] = true
			out = append(out, m)
		}
	}
	return out
}

// members are the living processes of a worker: those of its session, and those with its
// mark that left it.
func (t *Target) members(o record) []process.Handle {
	out := o.handle().Members(o.Log)
	for _, m := range t.marks() {
		if o.PID != 0 && m.of.Boot == o.Boot && m.of.Start >= o.Start && m.Log == o.Log && m.Port == o.Port && !slices.Contains(out, m.of) {
			out = append(out, m.of)
		}
	}
	return out
}

// foreign reports whether the port of a worker belongs to another process for certain.
func (t *Target) foreign(o record) (who string, foreign bool) {
	return process.Foreign(t.members(o), o.Port)
}

// entry is the worker as the state file has it: whether it is ready is yet to be seen.
func (m mark) entry(host, cmd string, now time.Time) *entry {
	e := &entry{rest: object{}, own: record{
		Role: m.Role, State: Starting, PID: m.of.PID, Start: m.of.Start, Boot: m.of.Boot, Host: host,
		Port: m.Port, URL: urlOf(m.Port), Log: m.Log, StartedAt: now,
	}}
	e.occupy(m.Name, cmd, m.GPUs)
	return e
}

// withoutFile is the document where the file is gone or damaged: as this run wrote it
// last, else of the workers that are found by their mark.
func (t *Target) withoutFile() *document {
	if t.written != nil {
		if d, err := parseDocument(t.written); err == nil {
			d.text = nil
			return d
		}
	}
	d := newDocument()
	for _, m := range t.marked() {
		cmd := ""
		if p, ok := t.pool(m.Name); ok {
			cmd = p.Template.String()
		}
		e := m.entry(t.host, cmd, t.now())
		if e.own.check() != nil {
			continue // not of our making
		}
		if d.entries[m.Name] != nil {
			base, _ := split(m.Name)
			m.Name = d.newName(base)
		}
		d.entries[m.Name] = e
	}
	return d
}
