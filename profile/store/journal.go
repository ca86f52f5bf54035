package store

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/profile"
)

// JournalSchema is the version that Header.Schema carries.
const JournalSchema = 1

// EntryType names what a journal line holds.
type EntryType string

// The entry types of schema 1.
const (
	EntryHeader EntryType = "header" // the first line, once
	EntryPoint  EntryType = "point"
	EntryEngine EntryType = "engine"
)

// Entry is one journal line; exactly the field that Type names is set, and with
// a point what the run has cost.
type Entry struct {
	Type   EntryType      `json:"type"`
	Header *Header        `json:"header,omitempty"`
	Point  *profile.Point `json:"point,omitempty"`
	Cost   *Cost          `json:"cost,omitempty"` // of the run until and with Point
	Engine *EngineFacts   `json:"engine,omitempty"`
}

// Header says which run a journal belongs to.
type Header struct {
	Schema      int       `json:"schema"`
	Fingerprint string    `json:"fingerprint"` // of Inputs
	Inputs      Inputs    `json:"inputs"`
	Version     string    `json:"version"` // of this program
	Started     time.Time `json:"started"`

	// What inputs were before credentials were taken out: HMAC-SHA256 by Salt, which is
	// random, of those that held some. Both are hexadecimal.
	Salt        string            `json:"salt,omitempty"`
	Credentials map[string]string `json:"credentials,omitempty"`
}

// Sealed is the header with the hashes of inputs that hold credentials, by name.
func (h Header) Sealed(secret Inputs) Header {
	if len(secret) > 0 {
		h.Salt = rand.Text()
		h.Credentials = map[string]string{}
		for name, value := range secret {
			h.Credentials[name] = h.sealed(value)
		}
	}
	return h
}

func (h Header) sealed(value string) string {
	mac := hmac.New(sha256.New, []byte(h.Salt))
	mac.Write([]byte(value))
	return hex.EncodeToString(mac.Sum(nil))
}

// DiffCredentials says which inputs hold other credentials than the header's run, one
// line each, sorted. Headers of earlier versions have no hashes, and differ in none.
func (h Header) DiffCredentials(secret Inputs) []string {
	var diff []string
	for _, name := range slices.Sorted(maps.Keys(h.Credentials)) {
		if h.Credentials[name] != h.sealed(secret[name]) {
			diff = append(diff, name+" holds another credential")
		}
	}
	return diff
}

// EngineFacts is what one launched engine said of itself. Key is the sweep's
// name of the launch: "decode/tp2".
type EngineFacts struct {
	Key string `json:"key"`
	profile.EngineFacts
}

// NewHeader is the header of a run that starts now.
func NewHeader(in Inputs, version string, started time.Time) Header {
	return Header{Schema: JournalSchema, Fingerprint: in.Fingerprint(), Inputs: in, Version: version, Started: started}
}

// PointEntry wraps a Point for Append.
func PointEntry(p profile.Point, spent Cost) Entry {
	return Entry{Type: EntryPoint, Point: &p, Cost: &spent}
}

// EngineEntry wraps EngineFacts for Append.
func EngineEntry(f EngineFacts) Entry { return Entry{Type: EntryEngine, Engine: &f} }

// HeaderEntry wraps a Header for Append.
func HeaderEntry(h Header) Entry { return Entry{Type: EntryHeader, Header: &h} }

// check refuses what this version does not know and what Type does not name.
func (e Entry) check() error {
	var set bool
	switch e.Type {
	case EntryHeader:
		set = e.Header != nil
		if set && e.Header.Schema != JournalSchema {
			return fmt.Errorf("journal schema %d is not %d: use the plimsoll version that wrote it, or start over with "+field.Force, e.Header.Schema, JournalSchema)
		}
	case EntryPoint:
		set = e.Point != nil
	case EntryEngine:
		set = e.Engine != nil
	default:
		return fmt.Errorf("unknown entry type %.40q: the journal is not of schema %d; use the plimsoll version that wrote it, or start over with "+field.Force, e.Type, JournalSchema)
	}
	if !set {
		return fmt.Errorf("entry of type %q holds no %s", e.Type, e.Type)
	}
	return nil
}

// Journal appends entries, each on disk before Append returns. It is not for concurrent
// use.
type Journal struct {
	Unsynced bool // Append does not wait for the disk: what is lost can be computed again

	f    *os.File
	size int64 // end of the last whole line
}

// OpenJournal opens or creates a journal for appending. What a killed run left
// of its last line is cut off.
func OpenJournal(path string) (*Journal, error) {
	whole := int64(0)
	switch b, err := readFile(path); {
	case err == nil:
		_, rest := lines(b)
		whole = int64(len(b) - len(rest))
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, filePerm)
	if err != nil {
		return nil, err
	}
	j := &Journal{f: f, size: whole}
	if err := errors.Join(j.rewind(), f.Sync(), syncDir(filepath.Dir(path))); err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, errors.Join(err, f.Close()))
	}
	return j, nil
}

// Append writes one line and syncs it. After a failure (a full disk) the
// journal holds what it held before.
func (j *Journal) Append(e Entry) error {
	if err := e.check(); err != nil {
		return fmt.Errorf("appending to %s: %w", j.f.Name(), err)
	}
	b, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("appending a %s to %s: %w", e.Type, j.f.Name(), err)
	}
	b = append(b, '\n')
	if _, err := j.f.Write(b); err != nil {
		return fmt.Errorf("appending to %s: %w", j.f.Name(), errors.Join(err, j.rewind()))
	}
	if !j.Unsynced {
		if err := j.f.Sync(); err != nil {
			return fmt.Errorf("syncing %s: %w", j.f.Name(), errors.Join(err, j.rewind()))
		}
	}
	j.size += int64(len(b))
	return nil
}

// Close closes the file.
func (j *Journal) Close() error { return j.f.Close() }

func (j *Journal) rewind() error {
	if err := j.f.Truncate(j.size); err != nil {
		return err
	}
	_, err := j.f.Seek(j.size, io.SeekStart)
	return err
}

// JournalLog is a journal as read back.
type JournalLog struct {
	Header  Header
	Points  []profile.Point // a point measured again replaces the earlier one
	Engines []EngineFacts
	Spent   Spent // until and with the last point
	Torn    bool  // the last line was cut off by a kill and dropped
	Damaged []int // lines before it that are not what was written, from 1, and dropped
}

// ErrNoHeader is returned by ReadJournal for a journal that was killed before
// its header was on disk: nothing was measured, the run starts from the start.
var ErrNoHeader = errors.New("the journal has no header yet")

// ReadJournal reads what was finished. A torn last line, which a kill leaves, and lines
// behind the header that are damaged are dropped: their points are measured again.
func ReadJournal(path string) (JournalLog, error) {
	b, err := readFile(path)
	if err != nil {
		return JournalLog{}, err
	}
	whole, rest := lines(b)
	log := JournalLog{Torn: len(rest) > 0}
	seen := map[string]int{}
	for i, line := range whole {
		var e Entry
		switch err := json.Unmarshal(line, &e); {
		case err != nil && i == 0:
			return JournalLog{}, fmt.Errorf("%s:1: %w", path, engine.PlainJSON("the line", err))
		case err != nil:
			log.Damaged = append(log.Damaged, i+1)
			continue
		}
		if err := log.add(e, i == 0, seen); err != nil {
			return JournalLog{}, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
	}
	if len(whole) == 0 {
		return JournalLog{}, fmt.Errorf("%s: %w", path, ErrNoHeader)
	}
	return log, nil
}

func (l *JournalLog) add(e Entry, first bool, seen map[string]int) error {
	if err := e.check(); err != nil {
		return err
	}
	if first != (e.Type == EntryHeader) {
		return fmt.Errorf("entry of type %q: want one header, as the first line", e.Type)
	}
	switch e.Type {
	case EntryHeader:
		l.Header = *e.Header
		if l.Header.Inputs.Fingerprint() != l.Header.Fingerprint {
			return errors.New("the header's fingerprint is not that of its inputs")
		}
	case EntryEngine:
		l.Engines = append(l.Engines, *e.Engine)
	case EntryPoint:
		if e.Cost != nil {
			l.Spent.Reach(e.Point.Stage, *e.Cost)
		}
		if at, again := seen[e.Point.ID]; again {
			l.Points[at] = *e.Point
			return nil
		}
		seen[e.Point.ID] = len(l.Points)
		l.Points = append(l.Points, *e.Point)
	}
	return nil
}

// lines splits b into whole lines and the torn rest. A last line is whole when
// it ends and is JSON: after a power failure it may be of full length with
// holes of zeros.
func lines(b []byte) (whole [][]byte, rest []byte) {
	for len(b) > 0 {
		line, after, ended := bytes.Cut(b, []byte("\n"))
		if !ended || (len(after) == 0 && !json.Valid(line)) {
			return whole, b
		}
		whole = append(whole, line)
		b = after
	}
	return whole, nil
}
