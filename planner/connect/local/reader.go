package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"plimsoll/engine"
	"plimsoll/planner"
)

var _ planner.Target = Reader{}

// Reader is a planner.Target that only looks at a state file, for advice: it needs no
// command and no GPU. Until a worker is in the file, what runs is not known, and State has
// no pool.
type Reader struct {
	Path  string // of the state file
	Roles []engine.Role
}

// State counts the file's workers. It does not say how many were asked for, nor the GPUs
// of one.
func (r Reader) State(context.Context) (planner.State, error) {
	workers, err := Workers(r.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return planner.State{}, fmt.Errorf("reading local workers: %w", err)
	}
	workers = slices.DeleteFunc(workers, func(w Worker) bool { return !slices.Contains(r.Roles, w.Role) })
	if len(workers) == 0 {
		return planner.State{}, nil
	}
	var s planner.State
	for _, role := range r.Roles {
		s.Pools = append(s.Pools, planner.PoolState{Role: role, Want: -1})
	}
	for _, w := range workers {
		i := slices.IndexFunc(s.Pools, func(p planner.PoolState) bool { return p.Role == w.Role })
		switch p := &s.Pools[i]; w.State {
		case Starting:
			p.Starting++
		case Ready:
			p.Ready++
		case Draining:
			p.Draining++
		}
	}
	return s, nil
}

// ErrReadOnly says that a Reader was asked to scale.
var ErrReadOnly = errors.New("local workers are only observed: no command says how to start them")

// Scale fails with ErrReadOnly.
func (Reader) Scale(context.Context, planner.Replicas, string) error { return ErrReadOnly }
