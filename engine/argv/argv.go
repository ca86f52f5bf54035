// Package argv puts together the command line of an engine's own program. It takes
// an engine.Config's values one by one; it gives words, and an engine.Spec of them.
// What is zero is left out, for the engine to decide. The other way round it takes a
// user's words and the engine's Table; it gives the Config that they say. Everything
// here is pure.
package argv

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll/engine"
)

// Line is a command line so far.
type Line []string

// Words adds words as they stand.
func (l *Line) Words(words ...string) { *l = append(*l, words...) }

// Address adds where the server is to listen.
func (l *Line) Address(at engine.Launch) {
	l.Words("--host", "127.0.0.1", "--port", strconv.Itoa(at.Port))
}

// Number adds a flag with a whole number, unless that is zero.
func (l *Line) Number(flag string, n int) {
	if n != 0 {
		l.Words(flag, strconv.Itoa(n))
	}
}

// Ranks adds a flag with a number of ranks, where there is more than one.
func (l *Line) Ranks(flag string, n int) {
	if n > 1 {
		l.Number(flag, n)
	}
}

// Share adds a flag with a part of a whole, unless that is zero.
func (l *Line) Share(flag string, f float64) {
	if f != 0 {
		l.Words(flag, Fraction(f))
	}
}

// Says reports whether words hold one of flags, whether its value follows after = or
// not. Engines take _ for - in names.
func Says(words []string, flags ...string) bool {
	return slices.ContainsFunc(Table{}.Arguments(words), func(a Argument) bool { return slices.Contains(flags, dashes(a.Name)) })
}

func dashes(name string) string { return strings.ReplaceAll(name, "_", "-") }

// Fraction is f as command lines and files have it: "0.85".
func Fraction(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// Spec is the process of that command line. Its Name is the role and the layout,
// "decode tp2".
func (l Line) Spec(cfg engine.Config, at engine.Launch, readyPath string, readyTimeout time.Duration) engine.Spec {
	return engine.Spec{
		Name: strings.TrimSpace(string(cfg.Role) + " " + cfg.Slug()),
		Argv: l, Port: at.Port, GPUs: at.GPUs, LogPath: at.LogPath,
		ReadyPath: readyPath, ReadyTimeout: readyTimeout,
	}
}
