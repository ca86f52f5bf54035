package process

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"plimsoll/engine/redact"
)

const (
	tailBytes = 64 << 10 // how much of the log's end is looked at for its last lines
	lineRunes = 400      // how much of one line is kept
)

// openLog opens the log for writing at its end, with its folder, and says where
// that end is. What an earlier run left there stays. Nobody else may read it: the
// engine writes there what it likes, which may be the arguments that it was given.
func openLog(path string) (*os.File, int64, error) {
	if err := os.MkdirAll(filepath.Dir(path), privateDir); err != nil {
		return nil, 0, fmt.Errorf("creating the log's folder: %w", err)
	}
	f, err := openPrivate(path, os.O_APPEND)
	if err != nil {
		return nil, 0, fmt.Errorf("opening the log: %w", err)
	}
	at, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		_ = f.Close()
		return nil, 0, fmt.Errorf("opening the log: %w", err)
	}
	return f, at, nil
}

// Log gives what this process has written so far, from its first byte; the
// caller closes it. What an earlier process left in the same file is not shown.
func (p *Process) Log() (io.ReadCloser, error) {
	f, err := os.Open(p.spec.LogPath)
	if err != nil {
		return nil, fmt.Errorf("reading the log of %s: %w", p.spec.Name, err)
	}
	if _, err := f.Seek(p.logStart, io.SeekStart); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("reading the log of %s: %w", p.spec.Name, err)
	}
	return f, nil
}

// Tail is the last n non-empty lines that this process wrote, or fewer: it looks
// at the last 64 KiB only, cuts long lines, and leaves out terminal control. A
// log that cannot be read has no lines. Credentials are left out.
func (p *Process) Tail(n int) []string { return tail(p.spec.LogPath, p.logStart, n, "", p.told()) }

// told are the credentials that the engine was given.
func (p *Process) told() redact.Values { return redact.Told(p.spec.Argv, p.spec.Env) }

// quote is what an error says of the log.
func (p *Process) quote() Quote {
	log, err := p.Log()
	if err != nil {
		return Quote{}
	}
	defer func() { _ = log.Close() }()
	first := cause(log, p.told())
	return Quote{Cause: first, Tail: tail(p.spec.LogPath, p.logStart, errorLines, first, p.told())}
}

// Tail is the last n lines of a log, as Process.Tail gives them; those of the
// process that wrote last, and of earlier ones where it wrote fewer.
func Tail(path string, n int) []string { return tail(path, 0, n, "", redact.Values{}) }

func tail(path string, start int64, n int, cause string, known redact.Values) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	from := max(start, info.Size()-tailBytes)
	text, err := io.ReadAll(io.NewSectionReader(f, from, tailBytes))
	if err != nil {
		return nil
	}
	return lastLines(string(text), n, cause, known)
}

func lastLines(text string, n int, cause string, known redact.Values) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.TrimSpace(plain(line)) != "" {
			lines = append(lines, line)
		}
	}
	lines = lines[max(0, len(lines)-max(n, 0)):]
	if cause != "" {
		lines = withoutCause(lines, cause, known)
	}
	for i, line := range lines {
		lines[i] = shown(line, known)
	}
	return lines
}

// escapes are terminal sequences: colours, cursor moves, window titles.
var escapes = regexp.MustCompile(`\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[@-Z\\-_])`)

// plain is one raw line as it would stand on a terminal: of a progress bar that redraws
// itself with carriage returns the last state, no control characters.
func plain(raw string) string {
	s := strings.TrimRight(raw, "\r\n\t ")
	if i := strings.LastIndexByte(s, '\r'); i >= 0 {
		s = s[i+1:]
	}
	s = escapes.ReplaceAllString(s, "")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return -1
		default:
			return r
		}
	}, s)
}

// shown is one raw line fit to print, without credentials and not too long.
func shown(raw string, known redact.Values) string {
	s := strings.TrimSpace(plain(raw))
	if len(s) > scanBytes { // there is more of it than is read for credentials
		s = strings.ToValidUTF8(s[:scanBytes], "")
	}
	return cut(known.Clean(s))
}

// cut is what is kept of a long line.
func cut(s string) string {
	if utf8.RuneCountInString(s) > lineRunes {
		s = string([]rune(s)[:lineRunes]) + "…"
	}
	return s
}
