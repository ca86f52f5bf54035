package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/process"
)

// Phase is where a worker stands.
type Phase string

// The phases of a worker. One that ended is not there any more.
const (
	Starting Phase = "starting" // does not answer at its ready path yet
	Ready    Phase = "ready"    // serves
	Draining Phase = "draining" // finishes its requests; gets no new ones
)

// object is JSON as it was found, so that keys of others stay what they are.
type object = map[string]json.RawMessage

// The keys of an entry that upstream has too.
const (
	keyWatcher   = "watcher_name"
	keyCmd       = "cmd"
	keyResources = "resources"
	keyGPUs      = "allocated_gpus"
	keyLease     = "lease"
)

// record is what this package adds to an entry. The last four are the pool's and
// stand in its first entry, which is there at zero replicas too.
type record struct {
	Role      engine.Role `json:"role,omitempty"`
	State     Phase       `json:"state,omitempty"` // empty: no worker of ours
	PID       int         `json:"pid,omitempty"`   // 0: about to be started
	Start     uint64      `json:"start_ticks,omitempty"`
	Boot      string      `json:"boot_id,omitempty"`
	Host      string      `json:"host,omitempty"`
	Port      int         `json:"port,omitempty"`
	URL       string      `json:"url,omitempty"`
	Log       string      `json:"log,omitempty"`
	StartedAt time.Time   `json:"started_at,omitzero"`
	ReadyAt   time.Time   `json:"ready_at,omitzero"`
	DrainAt   time.Time   `json:"drain_at,omitzero"`
	TermAt    time.Time   `json:"term_at,omitzero"`  // TERM went to the leader, or is about to
	RestAt    time.Time   `json:"rest_at,omitzero"`  // likewise to what the leader left behind
	Crashed   bool        `json:"crashed,omitempty"` // the leader died unasked

	Want     *int      `json:"want,omitempty"` // nil: nothing was asked for yet
	Failures int       `json:"failures,omitempty"`
	RetryAt  time.Time `json:"retry_at,omitzero"`
	Failure  string    `json:"failure,omitempty"` // how the last one died
}

// ourKeys are the JSON names of record's fields.
var ourKeys = []string{
	"role", "state", "pid", "start_ticks", "boot_id", "host", "port", "url", "log", "started_at", "ready_at", "drain_at",
	"term_at", "rest_at", "crashed", "want", "failures", "retry_at", "failure",
}

func (r record) handle() process.Handle {
	return process.Handle{PID: r.PID, Start: r.Start, Boot: r.Boot}
}

// until takes back what lies ahead of now, as the clock was set back since it was written. A
// drain of which nobody wrote down when it began begins now.
func (r *record) until(now time.Time, maxBackoff time.Duration) {
	if r.State == Draining && r.DrainAt.IsZero() {
		r.DrainAt = now
	}
	for _, at := range []*time.Time{&r.StartedAt, &r.ReadyAt, &r.DrainAt, &r.TermAt, &r.RestAt} {
		if at.After(now) {
			*at = now
		}
	}
	if soonest := now.Add(maxBackoff); r.RetryAt.After(soonest) {
		r.RetryAt = soonest
	}
}

// entry is one component of the state file.
type entry struct {
	own  record
	rest object   // all other keys
	gpus []string // resources.allocated_gpus
}

// ours reports whether the entry has anything of this package's; what has not
// is another program's and stays as it is.
func (e *entry) ours() bool { return e.own.State != "" || e.own.Want != nil }

// taken reports whether a worker, ours or not, has this name.
func (e *entry) taken() bool { return e.own.State != "" || e.rest[keyResources] != nil }

// readEntry takes one entry apart.
func readEntry(raw json.RawMessage) (*entry, error) {
	var all object
	if err := json.Unmarshal(raw, &all); err != nil || all == nil {
		return nil, errors.New("want an object")
	}
	e := &entry{rest: all}
	if err := e.readGPUs(); err != nil {
		return nil, err
	}
	if all["state"] == nil && all["want"] == nil {
		return e, nil
	}
	// By way of the exact names: encoding/json takes PID for pid.
	mine := object{}
	for _, k := range ourKeys {
		if v, ok := all[k]; ok {
			mine[k] = v
			delete(all, k)
		}
	}
	if err := json.Unmarshal(encode(mine), &e.own); err != nil {
		return nil, err
	}
	return e, e.own.check()
}

func (e *entry) readGPUs() error {
	raw := e.rest[keyResources]
	if raw == nil {
		return nil
	}
	var resources object
	if err := json.Unmarshal(raw, &resources); err != nil {
		return fmt.Errorf("%s: want an object", keyResources)
	}
	if resources[keyGPUs] == nil {
		return nil
	}
	var ids []any
	if err := json.Unmarshal(resources[keyGPUs], &ids); err != nil {
		return fmt.Errorf("%s.%s: want a list", keyResources, keyGPUs)
	}
	for _, id := range ids {
		switch v := id.(type) {
		case string:
			e.gpus = append(e.gpus, v)
		case float64:
			e.gpus = append(e.gpus, strconv.FormatFloat(v, 'f', -1, 64))
		default:
			return fmt.Errorf("%s.%s: %v: want indices or UUIDs", keyResources, keyGPUs, v)
		}
	}
	return nil
}

// check refuses a record that could not have been written here.
func (r record) check() error {
	if r.Want != nil && (*r.Want < 0 || *r.Want > maxReplicas) {
		return fmt.Errorf("want %d: want 0 to %d", *r.Want, maxReplicas)
	}
	if r.Failures < 0 {
		return fmt.Errorf("failures %d: want none below 0", r.Failures)
	}
	switch r.State {
	case "":
		return nil
	case Starting, Ready, Draining:
	default:
		return fmt.Errorf("state %q: want starting, ready or draining", r.State)
	}
	u, err := url.Parse(r.URL)
	switch {
	case !slices.Contains(engine.Roles(), r.Role):
		return fmt.Errorf("role %q: want prefill, decode or aggregated", r.Role)
	case r.PID < 0 || r.PID == 1:
		return fmt.Errorf("pid %d: want 2 or more", r.PID)
	case r.PID > 0 && (r.Start == 0 || r.Boot == ""):
		return errors.New("pid without start_ticks and boot_id: the process cannot be identified")
	case r.Port < 1 || r.Port > 65535:
		return fmt.Errorf("port %d: want 1 to 65535", r.Port)
	case err != nil || u.Scheme != "http" || u.Host == "":
		return fmt.Errorf("url %q: want http://host:port", r.URL)
	case !filepath.IsAbs(r.Log) || strings.ContainsRune(r.Log, 0):
		return fmt.Errorf("log %q: want the full path of a file", r.Log)
	}
	return nil
}

// MarshalJSON puts the entry together again.
func (e *entry) MarshalJSON() ([]byte, error) {
	out := maps.Clone(e.rest)
	if e.ours() {
		text, err := json.Marshal(e.own)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &out); err != nil { // adds to what is there
			return nil, err
		}
	}
	return json.Marshal(out)
}

// occupy makes the entry a worker's.
func (e *entry) occupy(name, cmd string, gpus []string) {
	ids := make([]any, len(gpus))
	for i, id := range gpus {
		ids[i] = id
		if n, err := strconv.Atoi(id); err == nil && strconv.Itoa(n) == id {
			ids[i] = n // upstream has indices as numbers
		}
	}
	e.gpus = gpus
	e.rest[keyResources] = encode(map[string]any{keyGPUs: ids})
	e.describe(name, cmd)
}

func (e *entry) describe(name, cmd string) {
	e.rest[keyWatcher], e.rest[keyCmd] = encode(name), encode(cmd)
}

// vacate takes the worker off the entry; what is the pool's stays.
func (e *entry) vacate() {
	delete(e.rest, keyResources)
	delete(e.rest, keyLease)
	e.gpus = nil
	o := e.own
	e.own = record{Want: o.Want, Failures: o.Failures, RetryAt: o.RetryAt, Failure: o.Failure}
}

// lease is the etcd lease that routers know the worker by; ok is false where
// none is recorded.
func (e *entry) lease() (id int64, ok bool, err error) {
	raw := strings.Trim(string(e.rest[keyLease]), `"`)
	if raw == "" || raw == "null" {
		return 0, false, nil
	}
	if id, err = strconv.ParseInt(raw, 10, 64); err != nil {
		return 0, true, fmt.Errorf("lease %s: want a whole number", e.rest[keyLease])
	}
	return id, true, nil
}

// encode is v as JSON; v is made of strings, numbers and JSON.
func encode(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic("local: " + err.Error()) // these always encode
	}
	return text
}
