package kube

import (
	"crypto/rand"
	"strconv"
	"strings"
)

// Labels by which everything that a run makes is found again.
const (
	labelRun    = "plimsoll.dev/run"    // the run's ID
	labelEngine = "plimsoll.dev/engine" // the engine's name
	labelOwner  = "app.kubernetes.io/managed-by"
	labelName   = "app.kubernetes.io/name"
)

// longestName leaves room for what controllers append: a Deployment's pods get 16
// characters, and a LeaderWorkerSet's become labels of at most 63.
const longestName = 45

// newID names a run: 8 letters and digits, of which no two runs share all.
func newID() string { return strings.ToLower(rand.Text()[:8]) }

// nameOf is an engine's: a DNS-1035 label, unique for a run and an attempt.
func nameOf(run string, attempt int, what string) string {
	name := "plimsoll-" + run + "-" + strconv.Itoa(attempt) + "-" + label(what)
	return strings.Trim(name[:min(len(name), longestName)], "-")
}

// label has of a text what a DNS label may have.
func label(s string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(s) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	return strings.Trim(b.String(), "-")
}
