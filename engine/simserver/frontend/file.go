package frontend

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"
)

// PollInterval is how often a file of workers is looked at.
const PollInterval = 200 * time.Millisecond

// settling is how long after a change the file is read again even if it looks the
// same: another change within the clock's step of the file system leaves the same
// times and maybe the same size.
const settling = 2 * time.Second

// File is a file of workers that somebody else replaces.
type File struct {
	Path string
	Read func(path string) ([]Worker, error)
	// Every is how often it is looked at; 0 = PollInterval.
	Every time.Duration
}

// Follow gives to the file's workers now and whenever it changed, until ctx is
// done. Where there is no file, there are no workers. One that cannot be read
// leaves the workers as they were, and is logged once.
func (f File) Follow(ctx context.Context, to *Frontend) {
	f.Every = cmp.Or(f.Every, PollInterval)
	tick := time.NewTicker(f.Every)
	defer tick.Stop()
	s := seenFile{File: f, set: to.SetWorkers, logf: to.log.Printf}
	for {
		s.look(time.Now())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// seenFile is a file as it was last read.
type seenFile struct {
	File
	set   func([]Worker)
	logf  func(format string, args ...any)
	info  fs.FileInfo // nil = there was none
	began bool
	said  string // the last complaint
	list  []Worker
}

func (s *seenFile) look(now time.Time) {
	info, err := os.Stat(s.Path) // before reading: a change in between is seen next time
	if errors.Is(err, fs.ErrNotExist) {
		if !s.began || s.info != nil {
			s.take(nil)
		}
		s.info, s.began, s.said = nil, true, ""
		return
	}
	if err == nil && s.began && s.same(info, now) {
		return
	}
	var list []Worker
	if err == nil {
		list, err = s.Read(s.Path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return // it went away this very moment
	}
	if err != nil {
		s.complain(err)
		return
	}
	s.said = ""
	if !s.began || s.info == nil || !slices.Equal(list, s.list) {
		s.take(list)
	}
	s.info, s.began = info, true
}

// same reports whether the file is the one that was read.
func (s *seenFile) same(info fs.FileInfo, now time.Time) bool {
	return s.info != nil && os.SameFile(info, s.info) && info.Size() == s.info.Size() &&
		info.ModTime().Equal(s.info.ModTime()) && now.Sub(info.ModTime()) > settling
}

func (s *seenFile) take(list []Worker) {
	s.list = list
	s.set(list)
}

func (s *seenFile) complain(err error) {
	if err.Error() != s.said {
		s.said = err.Error()
		s.logf("warning: %v: the workers stay as they were", err)
	}
}
