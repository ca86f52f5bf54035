package load

import (
	"encoding/json"
	"errors"
	"fmt"
)

// errJSON is wrapped by every complaint of a scan.
var errJSON = errors.New("bad JSON")

// maxDepth of nested values, as in encoding/json.
const maxDepth = 10000

// scan walks JSON (RFC 8259) without allocating: a stream brings thousands of
// small objects a second, of which a few fields matter, and encoding/json
// takes several times as long for them. It accepts exactly what json.Valid
// does. Its error sticks; after one, every method does nothing.
type scan struct {
	b     []byte
	i     int
	depth int
	err   error
}

func (s *scan) fail(what string) {
	if s.err == nil {
		s.err = fmt.Errorf("%w: %s at byte %d", errJSON, what, s.i)
	}
}

// peek skips white space and gives the byte that follows, 0 at the end.
func (s *scan) peek() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// enter takes the bracket c, which begins an object or array.
func (s *scan) enter(c byte) {
	if s.err != nil {
		return
	}
	if s.peek() != c {
		s.fail("want " + string(rune(c)))
		return
	}
	if s.depth++; s.depth > maxDepth {
		s.fail("nested too deeply")
		return
	}
	s.i++
}

// more reports whether another member follows before the bracket end, and
// takes the comma or the bracket. first is true before the first member.
func (s *scan) more(first *bool, end byte) bool {
	if s.err != nil {
		return false
	}
	c := s.peek()
	if c == end {
		s.i++
		s.depth--
		return false
	}
	if *first {
		*first = false
		return true
	}
	if c != ',' {
		s.fail("want a comma or " + string(rune(end)))
		return false
	}
	s.i++
	return true
}

// key takes a member's name and the colon.
func (s *scan) key() []byte {
	raw, escaped := s.str()
	if s.err != nil {
		return nil
	}
	if s.peek() != ':' {
		s.fail("want a colon")
		return nil
	}
	s.i++
	if escaped {
		return []byte(unquote(raw))
	}
	return raw
}

// str takes a string and gives what stands between its quotes.
func (s *scan) str() (raw []byte, escaped bool) {
	if s.err != nil {
		return nil, false
	}
	if s.peek() != '"' {
		s.fail("want a string")
		return nil, false
	}
	s.i++
	from := s.i
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return s.b[from : s.i-1], escaped
		case c == '\\':
			escaped = true
			if !s.escape() {
				return nil, false
			}
		case c < ' ':
			s.fail("control character in a string")
			return nil, false
		default:
			s.i++
		}
	}
	s.fail("string without end")
	return nil, false
}

// escape takes one escape sequence.
func (s *scan) escape() bool {
	s.i++ // the backslash
	if s.i >= len(s.b) {
		s.fail("string without end")
		return false
	}
	switch s.b[s.i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i++
		return true
	case 'u':
		s.i++
		for range 4 {
			if s.i >= len(s.b) || !isHex(s.b[s.i]) {
				s.fail("bad \\u escape")
				return false
			}
			s.i++
		}
		return true
	default:
		s.fail("bad escape")
		return false
	}
}

func isHex(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// unquote resolves the escapes of what str gave.
func unquote(raw []byte) string {
	var out string
	q := make([]byte, 0, len(raw)+2)
	q = append(append(append(q, '"'), raw...), '"')
	_ = json.Unmarshal(q, &out) // str has accepted it
	return out
}

// number takes a number and gives its text.
func (s *scan) number() []byte {
	if s.err != nil {
		return nil
	}
	s.peek()
	from := s.i
	s.accept('-')
	switch {
	case s.accept('0'):
	case s.digits():
	default:
		s.fail("want a value")
		return nil
	}
	if s.accept('.') && !s.digits() {
		s.fail("bad number")
		return nil
	}
	if s.accept('e') || s.accept('E') {
		if !s.accept('+') {
			s.accept('-')
		}
		if !s.digits() {
			s.fail("bad number")
			return nil
		}
	}
	return s.b[from:s.i]
}

func (s *scan) accept(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

func (s *scan) digits() bool {
	from := s.i
	for s.i < len(s.b) && isDigit(s.b[s.i]) {
		s.i++
	}
	return s.i > from
}

// skip takes one value of any kind.
func (s *scan) skip() {
	if s.err != nil {
		return
	}
	first := true
	switch s.peek() {
	case '{':
		for s.enter('{'); s.more(&first, '}'); {
			s.key()
			s.skip()
		}
	case '[':
		for s.enter('['); s.more(&first, ']'); {
			s.skip()
		}
	case '"':
		s.str()
	case 't':
		s.word("true")
	case 'f':
		s.word("false")
	case 'n':
		s.word("null")
	default:
		s.number()
	}
}

func (s *scan) word(w string) {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		s.fail("want a value")
		return
	}
	s.i += len(w)
}

// end makes sure that nothing follows.
func (s *scan) end() {
	if s.err == nil && (s.peek() != 0 || s.i < len(s.b)) {
		s.fail("text after the value")
	}
}
