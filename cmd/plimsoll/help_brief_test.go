package main

import (
	"slices"
	"strings"
	"testing"
)

// --help fits a screen: at most twelve flags, all of which exist, and three examples.
func TestHelpIsBrief(t *testing.T) {
	brief := briefFlags()
	for _, full := range helps(newApp(streams{}))[1:] {
		name := strings.TrimPrefix(full.name, "plimsoll ")
		delete(brief, name)
		h, flags, examples := full.brief(), 0, 0
		for _, g := range h.groups {
			flags += len(g.flags)
			if slices.Contains(g.flags, helpEntry{}) {
				t.Errorf("%s: a flag of its --help is no flag of the command", name)
			}
		}
		// --help itself and the three of the output are in every full list.
		if flags > mostFlags+4 || h.all != "" && flags > mostFlags {
			t.Errorf("%s --help shows %d flags", name, flags)
		}
		for _, p := range h.about {
			if p.code {
				examples += strings.Count("\n"+p.text, "\nplimsoll ")
			}
		}
		if h.all != "" && (examples == 0 || examples > 3) {
			t.Errorf("%s --help has %d examples", name, examples)
		}
	}
	for name := range brief {
		t.Errorf("there is no command %q", name)
	}
}
