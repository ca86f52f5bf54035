package sweep

import (
	"time"

	"plimsoll/profile"
)

// Progress is where a sweep stands.
type Progress struct {
	Text      string        // what is being done: "sweep/decode/tp2/isl3000/n16"
	Share     float64       // of the expected work, 0..1
	Points    int           // finished
	Remaining time.Duration // expected; 0 = not known yet
}

// step names one Step of a plan.
type step struct {
	stage profile.Stage
	phase profile.Phase
	label string // empty for surfaces: their configuration is not known beforehand
}

func (s *trial) step(stage profile.Stage) step {
	if stage != profile.StageSweep {
		return step{stage: stage, phase: s.phase}
	}
	return step{stage: stage, phase: s.phase, label: s.label()}
}

// meter follows expected against real time.
type meter struct {
	planned  map[step]time.Duration // expected cost of what is still to do
	unrated  map[step]bool          // of these nobody knows it
	spent    time.Duration          // expected cost of what is done
	expected time.Duration          // the part of spent that was measured now, not resumed
	actual   time.Duration          // what that part took
	points   int
}

func newMeter(plan []Step) meter {
	m := meter{planned: map[step]time.Duration{}, unrated: map[step]bool{}}
	for _, s := range plan {
		at := step{s.Stage, s.Phase, s.Label}
		m.planned[at] += s.Expected
		if s.Unrated {
			m.unrated[at] = true
		}
	}
	return m
}

// done counts a finished point; actual is 0 for a resumed one.
func (m *meter) done(s step, cost, actual time.Duration) {
	m.planned[s] = max(0, m.planned[s]-cost)
	m.spent += cost
	m.points++
	if actual > 0 {
		m.expected += cost
		m.actual += actual
	}
}

// close drops what is left of a step: the search needed less, or it failed.
func (m *meter) close(s step) {
	delete(m.planned, s)
	delete(m.unrated, s)
}

// scaled corrects an expected duration by how long the points took so far.
func (m *meter) scaled(d time.Duration) time.Duration {
	if m.expected <= 0 {
		return d
	}
	return time.Duration(float64(d) * float64(m.actual) / float64(m.expected))
}

// launches is how many engines are still to be launched for sweeps, but for those of the
// label that runs.
func (m *meter) launches(running string) int {
	labels := map[string]bool{}
	for s, d := range m.planned {
		if s.stage == profile.StageSweep && s.label != running && d > 0 {
			labels[s.label] = true
		}
	}
	return len(labels)
}

func (m *meter) at(text string) Progress {
	left := time.Duration(0)
	for _, d := range m.planned {
		left += d
	}
	p := Progress{Text: text, Points: m.points, Share: 1}
	if total := m.spent + left; total > 0 {
		p.Share = float64(m.spent) / float64(total)
	}
	if m.expected > 0 && len(m.unrated) == 0 {
		p.Remaining = m.scaled(left)
	}
	return p
}
