package pages

import (
	"regexp"
	"strings"

	"plimsoll/profile"
)

// Warning is a caveat, and what it is of.
type Warning struct {
	profile.Warning

	Of string // "default"; empty: of all
}

// caveat is a warning, and those of others that say the same but for numbers.
type caveat struct {
	Warning

	Likewise []Warning
}

// numbers are what the same warning of another may differ in.
func numbers() *regexp.Regexp { return regexp.MustCompile(`[0-9][0-9.,]*`) }

// caveats are the warnings, in order; the same of several policies, or profiles, is one
// of them.
func (o Origin) caveats() []caveat {
	var out []caveat
	first := map[string]int{} // of a policy's, by code and words
	number := numbers()
	for _, w := range o.Warnings {
		says := w.Code + " " + number.ReplaceAllString(w.Message, "#")
		if i, known := first[says]; known && w.Of != "" {
			out[i].Likewise = append(out[i].Likewise, w)
			continue
		}
		if w.Of != "" {
			first[says] = len(out)
		}
		out = append(out, caveat{Warning: w})
	}
	return out
}

// implausible are the warnings that figures cannot be right: the page begins with them.
func (o Origin) implausible() (out []Warning) {
	for _, w := range o.Warnings {
		if w.Implausible() {
			out = append(out, w)
		}
	}
	return out
}

// Others names those that it is also of.
func (c caveat) Others() string {
	names := make([]string, len(c.Likewise))
	for i, w := range c.Likewise {
		names[i] = w.Of
	}
	return strings.Join(names, ", ")
}
