package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

// Inputs are what decided a run, by the name the user knows them by ("--isl",
// "engine version") and in the form the user would write them. Credentials do
// not belong here: Inputs are written to files.
type Inputs map[string]string

// Fingerprint is equal for equal inputs and, for all purposes, for them alone.
func (in Inputs) Fingerprint() string {
	var b []byte
	for _, k := range slices.Sorted(maps.Keys(in)) {
		b = fmt.Appendf(b, "%q=%q\n", k, in[k])
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// DiffInputs says in what two runs' inputs differ, one line each, sorted:
// "--isl was 3000, now 4000". Nil where they are the same.
func DiffInputs(was, now Inputs) []string {
	keys := maps.Clone(was)
	if keys == nil {
		keys = Inputs{}
	}
	maps.Copy(keys, now)
	var diff []string
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		o, had := was[k]
		n, has := now[k]
		switch {
		case had && has && o == n:
		case !had:
			diff = append(diff, fmt.Sprintf("%s was not set, now %s", k, shown(n)))
		case !has:
			diff = append(diff, fmt.Sprintf("%s was %s, now not set", k, shown(o)))
		default:
			diff = append(diff, fmt.Sprintf("%s was %s, now %s", k, shown(o), shown(n)))
		}
	}
	return diff
}

// shown keeps an empty value visible.
func shown(s string) string {
	if s == "" {
		return `""`
	}
	return s
}
