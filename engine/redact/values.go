package redact

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Values are credentials that are known. The zero value knows none. It is safe for
// concurrent use.
type Values struct {
	words []string // longest first, as they are and as JSON, Go and URLs write them
}

const (
	// leastKnown is the length in bytes below which a credential is not looked for
	// everywhere, and leastNumber that of digits alone: a shorter one is more likely
	// a word or a figure of the text.
	leastKnown, leastNumber = 5, 12
	// leastInside is the length from which a credential is found within a longer word.
	leastInside = 8
)

// Of are the credentials given, and what follows the scheme of an Authorization
// header ("Bearer KEY"). Short ones are left out.
func Of(credentials ...string) Values {
	var v Values
	add := func(s string) {
		number := strings.Trim(s, "0123456789.") == ""
		if len(s) < leastKnown || number && len(s) < leastNumber || strings.Contains(Mark, s) || strings.TrimSpace(scheme.FindString(s+" ")) == s {
			return
		}
		quoted, _ := json.Marshal(s) // a string always marshals
		v.words = append(v.words, s, unquoted(string(quoted)), unquoted(strconv.Quote(s)), url.QueryEscape(s), url.PathEscape(s))
	}
	for _, c := range credentials {
		add(c)
		if m := scheme.FindString(c); m != "" {
			add(strings.TrimSpace(c[len(m):]))
		}
	}
	slices.SortFunc(v.words, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	v.words = slices.Compact(v.words)
	return v
}

// Told are the credentials that lists of words hold, such as a command line and its
// environment.
func Told(lists ...[]string) Values {
	var found []string
	for _, words := range lists {
		found = append(found, Find(words)...)
	}
	return Of(found...)
}

// String is the same for all Values: they do not print themselves.
func (Values) String() string { return Mark }

// GoString is String.
func (Values) GoString() string { return Mark }

func unquoted(s string) string { return s[1 : len(s)-1] }

// Longest is the length of the longest credential, in bytes.
func (v Values) Longest() int {
	if len(v.words) == 0 {
		return 0
	}
	return len(v.words[0])
}

// Text is s without the credentials. A short one counts only where it is a word of
// its own.
func (v Values) Text(s string) string {
	for _, w := range v.words {
		s = without(s, w)
	}
	return s
}

// Clean is s without the credentials, and without those that Text knows by name or shape.
// It looks for known ones first: what Text leaves of one is no longer known.
func (v Values) Clean(s string) string { return Text(v.Text(s)) }

func without(s, word string) string {
	if !strings.Contains(s, word) {
		return s
	}
	if len(word) >= leastInside {
		return strings.ReplaceAll(s, word, Mark)
	}
	var b strings.Builder
	at := 0 // up to here s is written
	for from := 0; ; {
		i := strings.Index(s[from:], word)
		if i < 0 {
			b.WriteString(s[at:])
			return b.String()
		}
		begin, end := from+i, from+i+len(word)
		if begin > 0 && isWordByte(s[begin-1]) && isWordByte(word[0]) || end < len(s) && isWordByte(s[end]) && isWordByte(word[len(word)-1]) {
			from = begin + 1
			continue
		}
		b.WriteString(s[at:begin])
		b.WriteString(Mark)
		at, from = end, end
	}
}
