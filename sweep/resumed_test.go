package sweep

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// Points of two engines are never one result: a resumed run that starts another engine
// than was measured ends, and keeps nothing of it.
func TestResumeRefusesAnotherEngine(t *testing.T) {
	b := newLab(three())
	b.version = "0.15.1"
	_, n, err := run(t, b, options(b, 1), Known{})
	if err != nil {
		t.Fatal(err)
	}
	half := n.Known
	half.Points = slices.Clone(n.Points[:len(n.Points)/2])
	for _, c := range []struct {
		name string
		with func(*lab, *law)
		want string // empty = the run goes on
	}{
		{"the same", func(*lab, *law) {}, ""},
		{"it does not tell its version", func(b *lab, _ *law) { b.version = "" }, ""},
		{"a few blocks fewer", func(_ *lab, l *law) { l.kv -= l.kv / 50 }, ""},
		{"another version", func(b *lab, _ *law) { b.version = "0.20.0" }, "version 0.20.0, tp1 was 0.15.1"},
		{"half the KV cache", func(_ *lab, l *law) { l.kv /= 2 }, "KV capacity 200000, was 400000"},
		{"fewer sequences", func(_ *lab, l *law) { l.seqs = 32 }, "sequence limit 32, was 64"},
	} {
		b, l := newLab(three()), three()["TP:1"]
		b.version = "0.15.1"
		c.with(b, &l)
		b.laws["TP:1"] = l
		_, notes, err := run(t, b, options(b, 1), half)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (!errors.Is(err, ErrOtherEngine) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		case c.want != "" && len(notes.Points)+len(notes.Engines) > 0:
			t.Errorf("%s: %d points and %d engines are kept", c.name, len(notes.Points), len(notes.Engines))
		}
		if b.running != 0 {
			t.Errorf("%s: %d engines left running", c.name, b.running)
		}
	}
}

// Configurations are compared: of another one too the version is that of then. Where
// nothing could be measured the engine may be another.
func TestResumeWantsOneVersion(t *testing.T) {
	b := newLab(three())
	b.version = "0.15.1"
	_, n, err := run(t, b, options(b, 1), Known{})
	if err != nil {
		t.Fatal(err)
	}
	b = newLab(three())
	b.version = "0.20.0"
	if _, _, err := run(t, b, options(b, 1, 2), n.Known); !errors.Is(err, ErrOtherEngine) {
		t.Errorf("%v", err)
	}
	failed := Known{Engines: n.Engines}
	b = newLab(three())
	b.version = "0.20.0"
	if _, _, err := run(t, b, options(b, 1), failed); err != nil {
		t.Errorf("nothing was measured: %v", err)
	}
}

// Of each layout the longest of its launches is kept, those of an earlier run included;
// an engine that was found running has none.
func TestStartUpOfALayout(t *testing.T) {
	b := newLab(three())
	_, n, err := run(t, b, options(b, 1), Known{})
	if err != nil {
		t.Fatal(err)
	}
	again := n.Known
	again.Points = slices.Clone(n.Points[:len(n.Points)/2])
	for name, c := range map[string]struct {
		before float64
		found  bool
		want   float64
	}{
		"first":            {0, false, 1},
		"slower before":    {7, false, 7},
		"faster before":    {0.5, false, 1},
		"found running":    {0, true, 0},
		"found, then slow": {7, true, 0},
	} {
		b := newLab(three())
		b.found = c.found
		for key, f := range again.Engines {
			f.StartUpSeconds = c.before
			again.Engines[key] = f
		}
		res, notes, err := run(t, b, options(b, 1), again)
		if err != nil {
			t.Fatal(err)
		}
		if len(notes.Engines) == 0 || len(notes.Engines) != len(res.Engines) {
			t.Fatalf("%s: engines %v, kept %v", name, res.Engines, notes.Engines)
		}
		for key, f := range res.Engines {
			if f.StartUpSeconds != c.want || notes.Engines[key].StartUpSeconds != c.want {
				t.Errorf("%s: %s starts in %v s, the recorder has %v, want %v", name, key, f.StartUpSeconds, notes.Engines[key].StartUpSeconds, c.want)
			}
		}
	}
}
