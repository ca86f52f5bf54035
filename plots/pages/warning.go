package pages

import (
	"strings"

	"plimsoll/profile"
)

// Warning is a caveat, and what it is of.
type Warning struct {
	profile.Warning

	Of string // "default"; empty: of all
}

// caveat is a warning, and those of others that have the same code.
type caveat struct {
	Warning

	Likewise []Warning
}

// caveats are the warnings, in order; the same of several policies is one of them.
func (o Origin) caveats() []caveat {
	var out []caveat
	first := map[string]int{} // of a policy's, by code
	for _, w := range o.Warnings {
		if i, known := first[w.Code]; known && w.Of != "" {
			out[i].Likewise = append(out[i].Likewise, w)
			continue
		}
		if w.Of != "" {
			first[w.Code] = len(out)
		}
		out = append(out, caveat{Warning: w})
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
