package command

import (
	"errors"
	"fmt"
	"strings"
)

// splitter is the state of cutting one command line into words.
type splitter struct {
	kept   []string
	words  []string
	word   strings.Builder
	plain  strings.Builder // of the word, what stood there unquoted and unmarked
	inWord bool
	quoted bool // some of the word was quoted, so that it counts even if it is empty
	marked bool // a value is in it
}

// split cuts s into words as a POSIX shell does: white space separates; '…' is
// literal; "…" is literal but for \" \\ \$ \` and a backslash at the end of a
// line; a backslash makes the next character literal. Marks stand for kept
// values, which are literal everywhere.
func split(s string, kept []string) ([]string, error) {
	p := splitter{kept: kept}
	for s != "" {
		var err error
		if s, err = p.step(s); err != nil {
			return nil, err
		}
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	return p.words, nil
}

// step takes the first piece of s and gives what is left.
func (p *splitter) step(s string) (string, error) {
	switch c := s[0]; c {
	case ' ', '\t', '\n', '\r':
		return s[1:], p.end()
	case mark:
		return p.value(s[1:]), nil
	case '\'':
		body, rest, found := strings.Cut(s[1:], "'")
		if !found {
			return "", errors.New("a ' is not closed")
		}
		for body != "" {
			before, after, found := strings.Cut(body, string(mark))
			p.literal(before)
			if !found {
				break
			}
			body = p.value(after)
		}
		p.inWord, p.quoted = true, true
		return rest, nil
	case '"':
		p.inWord, p.quoted = true, true
		return p.double(s[1:])
	case '\\':
		return p.escape(s[1:])
	default:
		if err := expansion(s); err != nil {
			return "", err
		}
		p.literal(s[:1])
		p.plain.WriteByte(c)
		return s[1:], nil
	}
}

func (p *splitter) literal(s string) {
	p.inWord = true
	p.word.WriteString(s)
}

func (p *splitter) value(s string) (rest string) {
	v, rest := unmark(s, p.kept)
	p.literal(v)
	p.marked = true
	return rest
}

// escape is what follows a backslash outside quotes.
func (p *splitter) escape(s string) (string, error) {
	switch {
	case s == "":
		return "", errors.New("it ends with a backslash")
	case s[0] == '\n': // continued on the next line
		return s[1:], nil
	case s[0] == mark:
		return p.value(s[1:]), nil
	}
	p.quoted = true
	p.literal(s[:1])
	return s[1:], nil
}

// double is what follows a double quote, up to the closing one.
func (p *splitter) double(s string) (string, error) {
	for s != "" {
		switch c := s[0]; {
		case c == '"':
			return s[1:], nil
		case c == mark:
			s = p.value(s[1:])
		case c == '\\' && len(s) > 1 && s[1] == '\n':
			s = s[2:]
		case c == '\\' && len(s) > 1 && strings.IndexByte("\"\\$`", s[1]) >= 0:
			p.literal(s[1:2])
			s = s[2:]
		default:
			if err := expansion(s); err != nil {
				return "", err
			}
			p.literal(s[:1])
			s = s[1:]
		}
	}
	return "", errors.New(`a " is not closed`)
}

// end closes a word, if one was begun.
func (p *splitter) end() error {
	word, plain := p.word.String(), p.plain.String()
	keep := p.inWord && (word != "" || p.quoted)
	operator := !p.quoted && !p.marked && isOperator(plain)
	home := !p.quoted && strings.HasPrefix(word, "~/") && strings.HasPrefix(plain, "~/")
	p.word.Reset()
	p.plain.Reset()
	p.inWord, p.quoted, p.marked = false, false, false
	if operator {
		return fmt.Errorf("%q needs a shell, but none runs the command: write sh -c '…', or quote it", plain)
	}
	if home {
		return fmt.Errorf("%q needs a shell, but none runs the command: write the folder's full path", word)
	}
	if keep {
		p.words = append(p.words, word)
	}
	return nil
}

// expansion refuses what a shell would replace at the beginning of s.
func expansion(s string) error {
	if s[0] == '`' || len(s) > 1 && s[0] == '$' && (s[1] == '{' || s[1] == '(' || isName(s[1:2])) {
		return fmt.Errorf("%q needs a shell, but none runs the command: write the value itself, or put it in single quotes",
			strings.ReplaceAll(firstWord(s), string(mark), ""))
	}
	return nil
}

func firstWord(s string) string {
	if f := strings.Fields(s); len(f) > 0 {
		return f[0]
	}
	return s
}

// isOperator reports whether an unquoted word is a pipe, a list or a redirection.
func isOperator(word string) bool {
	switch word {
	case "|", "||", "&", "&&", ";", "|&":
		return true
	}
	rest := strings.TrimLeft(word, "0123456789&")
	return rest != "" && (rest[0] == '>' || rest[0] == '<')
}
