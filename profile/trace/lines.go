package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds a line in bytes: a prompt of a million tokens in blocks of 16
// has 65,536 ids of at most 21 bytes each.
const maxLine = 4 << 20

// lines reads a text line by line, gzip or not, and knows where it is. Blank
// lines, carriage returns at line ends and a byte order mark do not count.
type lines struct {
	name string
	scan *bufio.Scanner
	n    int // of the line that next or peek gave last, from 1
	kept bool
}

func newLines(r io.Reader, name string) (*lines, error) {
	plain := bufio.NewReaderSize(r, 64<<10)
	var text io.Reader = plain
	if magic, _ := plain.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) { // RFC 1952, 2.3.1
		z, err := gzip.NewReader(plain)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w (hint: begins like gzip, and is none)", name, err)
		}
		text = z
	}
	scan := bufio.NewScanner(text)
	scan.Buffer(make([]byte, 0, 64<<10), maxLine)
	return &lines{name: name, scan: scan}, nil
}

// peek is the next line, which the next call gives again; false at the end.
func (l *lines) peek() ([]byte, bool, error) {
	if l.kept {
		return l.text(), true, nil
	}
	// A reader that failed leaves half a line, which is not to be believed.
	for l.scan.Scan() && l.scan.Err() == nil {
		l.n++
		if len(l.text()) > 0 {
			l.kept = true
			return l.text(), true, nil
		}
	}
	err := l.scan.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		return nil, false, fmt.Errorf("%s:%d: longer than %d bytes (hint: a trace has one request a line)", l.name, l.n+1, maxLine)
	}
	if err != nil {
		return nil, false, fmt.Errorf("%s:%d: reading: %w", l.name, l.n+1, err)
	}
	return nil, false, nil
}

// text is the scanner's line.
func (l *lines) text() []byte {
	b := l.scan.Bytes()
	if l.n == 1 {
		b = bytes.TrimPrefix(b, []byte("\ufeff"))
	}
	return bytes.TrimSpace(b)
}

// skip passes over the line that peek gave.
func (l *lines) skip() { l.kept = false }

// all are the lines that are left, each good until the next.
func (l *lines) all(yield func([]byte, error) bool) {
	for {
		line, more, err := l.peek()
		l.skip()
		if err != nil {
			yield(nil, err)
			return
		}
		if !more || !yield(line, nil) {
			return
		}
	}
}

// fail says in which line something is wrong.
func (l *lines) fail(err error) error { return fmt.Errorf("%s:%d: %w", l.name, l.n, err) }
