package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/profile/store"
)

// openJob takes the output folder: a new one, or one to resume.
func openJob(o profileOptions, d deployment) (*job, error) {
	state, unseen := store.Inspect(o.dir)
	if unseen == nil && state == store.Empty { // a run that measured nothing was there, if any
		o.resume = false
	}
	j := &job{opts: o, dep: d, started: time.Now(), inputs: runInputs(o, d), estimate: d.kind == engine.KindEstimate}
	take := store.Create
	if o.resume {
		take = store.Resume
	}
	if o.force && unseen == nil && state == store.OurRun {
		if _, err := store.MoveAside(o.dir); err != nil {
			return nil, folderError(fmt.Errorf("moving it aside: %w", err))
		}
	}
	var err error
	if j.dir, err = take(o.dir); err != nil {
		if d.imported && errors.Is(err, store.ErrOtherRun) { // an import has no --resume
			return nil, field.Errorf("--output-dir: %s: the folder holds another run", o.dir).Hint("--force moves it aside")
		}
		return nil, folderError(err)
	}
	if err := j.openJournal(); err != nil {
		return nil, errors.Join(err, j.dir.Close())
	}
	return j, nil
}

func folderError(err error) error {
	e := field.Errorf("--output-dir: %v", err)
	switch {
	case errors.Is(err, store.ErrLink):
		return e.Hint("name the folder it points to, or another: --output-dir DIR")
	case errors.Is(err, store.ErrNoRun):
		return e.Hint("leave --resume out for a first run")
	case errors.Is(err, store.ErrLocked):
		return e.Hint("wait until that run has ended, or name another folder")
	case diskFull(err):
		return e.Hint("make room there, or name a folder on another disk: --output-dir DIR")
	case errors.As(err, new(*fs.PathError)), errors.As(err, new(*os.LinkError)):
		return e.Hint("name a folder that can be made and written here: --output-dir DIR")
	}
	return e
}

// openJournal reads what a resumed run knows, refuses changed inputs, and opens
// the journal for more.
func (j *job) openJournal() error {
	path := filepath.Join(j.dir.Path, store.JournalFile)
	fresh := !j.opts.resume
	if !fresh {
		log, err := store.ReadJournal(path)
		switch {
		case errors.Is(err, store.ErrNoHeader):
			fresh = true
		case err != nil:
			return field.WithHint(fmt.Errorf("reading the journal: %w", err), "--force moves this run aside and starts over; its files stay readable")
		default:
			was := store.Inputs{} // earlier versions wrote templates down as they were given
			for name, value := range log.Header.Inputs {
				was[name] = j.opts.redacted([]string{value})[0]
			}
			if diff := append(store.DiffInputs(was, j.inputs), log.Header.DiffCredentials(j.opts.secret)...); len(diff) > 0 {
				return field.Errorf("--resume: the run in %s was another: %s", j.dir.Path, strings.Join(diff, "; ")).
					Hint("ask for the same, or start over with --force")
			}
			j.started, j.known, j.damaged, j.spent = log.Header.Started, knownFrom(log), log.Damaged, log.Spent
		}
	}
	var err error
	if j.journal, err = store.OpenJournal(path); err != nil {
		return fmt.Errorf("opening the journal: %w", err)
	}
	j.journal.Unsynced = j.estimate
	if !fresh {
		return nil
	}
	return j.journal.Append(store.HeaderEntry(store.NewHeader(j.inputs, buildVersion(), j.started).Sealed(j.opts.secret)))
}
