package main

import (
	"slices"
	"testing"

	"plimsoll/profile/store"
)

// The command of a page is the run's own, or says what it lacks.
func TestProfileAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		in   store.Inputs
		want string
		lost []string
	}{
		{"defaults", store.Inputs{"--isl": "3000", "--osl": "500", "engine kind": "sim"}, "plimsoll profile-sla", nil},
		{"changed", store.Inputs{"--isl": "4000", "--model": "a b", "--stall-p99": "100"}, "plimsoll profile-sla --isl 4000 --stall-p99 100 --model 'a b'", nil},
		{"engine's own", store.Inputs{"engine arguments": "--quantization fp8"}, "plimsoll profile-sla -- --quantization fp8", nil},
		{"engine's own, in quotes", store.Inputs{"engine arguments": `--x {"a": 1}`}, "plimsoll profile-sla", []string{`engine arguments --x {"a": 1}`}},
	} {
		if got, lost := profileAgain(c.in); got != c.want || !slices.Equal(lost, c.lost) {
			t.Errorf("%s: %q without %q, want %q without %q", c.name, got, lost, c.want, c.lost)
		}
	}
}
