package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// UnknownError says that the catalog has no such row.
type UnknownError struct {
	What    string   // "model" or "GPU"
	Name    string   // as given
	Nearest []string // the names most like it, best first
}

func (e *UnknownError) Error() string {
	s := fmt.Sprintf("unknown %s %q", e.What, e.Name)
	if len(e.Nearest) > 0 {
		s += ": did you mean " + orList(e.Nearest) + "?"
	}
	return s
}

// AmbiguousError says that a short form fits several rows.
type AmbiguousError struct {
	What    string   // "model" or "GPU"
	Name    string   // as given
	Choices []string // the rows that it fits
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%s %q is ambiguous: say which of %s", e.What, e.Name, orList(e.Choices))
}

func orList(s []string) string {
	if len(s) == 1 {
		return s[0]
	}
	return strings.Join(s[:len(s)-1], ", ") + " or " + s[len(s)-1]
}

// key splits a name into the maker, which the asker may leave out, and the
// words that decide, in one spelling.
type key struct{ maker, words string }

var dashes = strings.NewReplacer("_", "-", " ", "-")

func modelKey(name string) key {
	s := dashes.Replace(strings.ToLower(strings.TrimSpace(name)))
	k := key{words: s}
	if maker, words, ok := strings.Cut(s, "/"); ok {
		k = key{maker, words}
	}
	k.words = strings.TrimPrefix(strings.TrimPrefix(k.words, "meta-"), "nvidia-")
	for _, suffix := range []string{"-instruct", "-it", "-pt", "-base"} {
		k.words = strings.TrimSuffix(k.words, suffix)
	}
	return k
}

func gpuKey(name string) key {
	return key{words: dashes.Replace(strings.ToLower(strings.TrimSpace(name)))}
}

// find gives the index of the one name that the asker means.
func find(what, asked string, names []string, keyOf func(string) key) (int, error) {
	want := keyOf(asked)
	var exact, begins []int
	for i, n := range names {
		k := keyOf(n)
		switch {
		case want.words == "" || (want.maker != "" && want.maker != k.maker):
		case k.words == want.words:
			exact = append(exact, i)
		case strings.HasPrefix(k.words, want.words+"-"):
			begins = append(begins, i)
		}
	}
	fits := exact
	if len(fits) == 0 {
		fits = begins
	}
	switch len(fits) {
	case 0:
		return 0, &UnknownError{What: what, Name: asked, Nearest: nearest(want.words, names, keyOf)}
	case 1:
		return fits[0], nil
	}
	e := &AmbiguousError{What: what, Name: asked}
	for _, i := range fits {
		e.Choices = append(e.Choices, names[i])
	}
	return 0, e
}

// nearest are up to three names by edit distance, as long as they share more
// with what was asked than they differ.
func nearest(want string, names []string, keyOf func(string) key) []string {
	type scored struct {
		name string
		d    int
	}
	var s []scored
	for _, n := range names {
		words := keyOf(n).words
		if d := levenshtein.ComputeDistance(want, words); 2*d <= max(len(want), len(words)) {
			s = append(s, scored{n, d})
		}
	}
	slices.SortStableFunc(s, func(a, b scored) int { return cmp.Compare(a.d, b.d) })
	var out []string
	for _, x := range s[:min(3, len(s))] {
		out = append(out, x.name)
	}
	return out
}
