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
	"plimsoll/recommend"
)

// openJob takes the output folder: a new one, or one to resume.
func openJob(o profileOptions, d deployment) (*job, error) {
	j := &job{opts: o, dep: d, started: time.Now(), inputs: runInputs(o, d), estimate: d.kind == engine.KindEstimate}
	var err error
	switch {
	case o.resume:
		j.dir, err = store.Resume(o.dir)
	case o.force:
		if state, serr := store.Inspect(o.dir); serr == nil && state == store.OurRun {
			if _, err := store.MoveAside(o.dir); err != nil {
				return nil, folderError(fmt.Errorf("moving it aside: %w", err))
			}
		}
		j.dir, err = store.Create(o.dir)
	default:
		j.dir, err = store.Create(o.dir)
		if errors.Is(err, store.ErrOtherRun) && nothingIn(o.dir) {
			j.dir, err = takeOver(o.dir)
		}
	}
	if err != nil {
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
	case errors.Is(err, store.ErrNoRun):
		return e.Hint("leave --resume out for a first run")
	case errors.Is(err, store.ErrDangling):
		return e.Hint("make that folder, or name another: --output-dir DIR")
	case errors.Is(err, store.ErrWorkingDir):
		return e.Hint("start it from another folder, or name another: --output-dir DIR")
	case errors.Is(err, store.ErrLocked):
		return e.Hint("wait until that run has ended, or name another folder")
	case diskFull(err):
		return e.Hint("make room there, or name a folder on another disk: --output-dir DIR")
	case errors.As(err, new(*fs.PathError)):
		return e.Hint("name a folder that can be made and written here: --output-dir DIR")
	}
	return e
}

// nothingIn reports whether the run in dir ended before it knew anything: then
// there is nothing to lose, and nothing to ask about.
func nothingIn(dir string) bool {
	if kept, err := store.HasRecommendation(dir); kept || err != nil {
		return false // an import has one, and nothing in its journal
	}
	run, err := store.ReadRun(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) || len(run.Points)+len(run.Skips) > 0 {
		return false
	}
	log, err := store.ReadJournal(filepath.Join(dir, store.JournalFile))
	return errors.Is(err, store.ErrNoHeader) || err == nil && len(log.Points)+len(log.Skips) == 0
}

// takeOver takes the folder of a run that knew nothing.
func takeOver(dir string) (*store.Dir, error) {
	d, err := store.Resume(dir)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(filepath.Join(dir, store.JournalFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
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
			return unreadable(err)
		default:
			was := store.Inputs{} // earlier versions wrote templates down as they were given
			for name, value := range log.Header.Inputs {
				was[name] = j.opts.redacted([]string{value})[0]
			}
			was["--rank"] = string(recommend.RankNamed(was["--rank"]))
			if diff := append(store.DiffInputs(was, j.inputs), log.Header.DiffCredentials(j.opts.secret)...); len(diff) > 0 {
				return field.Errorf("--resume: the run in %s was another: %s", j.dir.Path, strings.Join(diff, "; ")).
					Hint("ask for the same, or start over with --force")
			}
			if j.opts.retry {
				log.Retry()
			}
			j.started, j.known = log.Header.Started, knownFrom(log)
		}
	}
	var err error
	if j.journal, err = store.OpenJournal(path); err != nil {
		return fmt.Errorf("opening the journal: %w", err)
	}
	j.journal.Unsynced = j.estimate
	switch {
	case !fresh && j.opts.retry:
		return j.journal.Append(store.RetryEntry())
	case !fresh:
		return nil
	}
	return j.journal.Append(store.HeaderEntry(store.NewHeader(j.inputs, buildVersion(), j.started).Sealed(j.opts.secret)))
}

// unreadable is for a journal that cannot be gone on from as it is. Of one with
// damaged lines all points that are whole can be kept, by the user's own hand alone.
func unreadable(err error) error {
	said := fmt.Errorf("reading the journal: %w", err)
	const over = "--force moves this run aside and starts over; its files stay readable"
	var d *store.DamagedError
	if !errors.As(err, &d) {
		return field.WithHint(said, over)
	}
	var cut []string
	for _, n := range d.Lines {
		cut = append(cut, itoa(n)+"d")
	}
	return &field.Failure{Err: said, Hints: []string{
		fmt.Sprintf("%d points before it and %d behind it are whole: sed -i.damaged '%s' '%s' takes out what is damaged (lines: %d), and --resume measures again what that was", d.Before, d.Behind, strings.Join(cut, ";"), d.Path, len(d.Lines)),
		over,
	}}
}
