package trace

import (
	"io"
	"iter"
)

// ReadWindows is a table of rates row by row.
func ReadWindows(r io.Reader, name string) iter.Seq2[Window, error] {
	l, err := newLines(r, name)
	if err != nil {
		return func(yield func(Window, error) bool) { yield(Window{}, err) }
	}
	return readWindows(l)
}
