package main

import (
	"errors"
	"testing"

	"plimsoll/engine"
)

// unstartable counts how often a process is asked for.
type unstartable struct {
	server
	asked *int
}

func (s unstartable) Spec(engine.Config, engine.Launch) (engine.Spec, error) {
	*s.asked++
	return engine.Spec{}, errors.New("none is to be started")
}

// An embedded engine whose loads cannot be played in virtual time is not started: before,
// it was, and was left running.
func TestNoProcessIsLeftByAModelThatFails(t *testing.T) {
	asked := 0
	l := newLauncher(profileOptions{}, deployment{kind: engine.KindSim, server: unstartable{asked: &asked}}, t.Logf)
	if in, err := l.Launch(t.Context(), engine.Config{Parallelism: engine.TP(1)}); in != nil || err == nil || asked > 0 {
		t.Errorf("%v, %v, and %d processes were asked for", in, err, asked)
	}
}
