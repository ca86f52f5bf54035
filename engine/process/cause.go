package process

import (
	"bufio"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	"plimsoll/engine/redact"
)

const (
	scanBytes  = 4 << 10 // how much of one log line is looked at for the cause of a failure
	mostFaults = 16      // how many tracebacks, and how many lines, are kept until the log's end
)

// causeFinder reads a log line by line. The engine's process that fails prints why; the others
// follow with tracebacks that only say that it failed. So it takes the first traceback that
// does not point elsewhere, or else the first error line.
type causeFinder struct {
	known      redact.Values
	open       *traceback // the one that is being read
	unraisable bool       // the next traceback is one that ends nothing
	tracebacks []*traceback
	errors     []string
}

// traceback is one of Python's, or several that are chained.
type traceback struct {
	before   string   // what its lines begin with
	said     []string // the first exception, and the last of those chained to it
	raised   bool     // after its exception
	chained  bool     // another exception follows from that one
	harmless bool     // the program goes on after it
}

// cause is what a log gives first as the reason of a failure, as one line without
// credentials; empty where it names none.
func cause(log io.Reader, known redact.Values) string {
	f := causeFinder{known: known}
	b := bufio.NewReaderSize(log, scanBytes)
	for {
		line, err := b.ReadSlice('\n')
		if len(line) > 0 {
			f.line(string(line))
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a long line
			_, err = b.ReadSlice('\n')
		}
		if err != nil { // the end, or as far as it can be read
			return f.best()
		}
	}
}

// suspects are in all lines that begin a traceback or are an error: most lines of a long log
// need no closer look.
var suspects = []string{"rror", "ERROR", "Traceback", "xception", "atal", "FATAL", "CRITICAL", "panic", "failed", "out of memory", "terminate", " E ", " F ", "[E]", "[F]"}

func suspect(line string) bool {
	return slices.ContainsFunc(suspects, func(s string) bool { return strings.Contains(line, s) })
}

func (f *causeFinder) line(raw string) {
	if f.open == nil && !suspect(raw) {
		return
	}
	l := parseLine(raw)
	switch {
	case l.isHeader():
		if f.open == nil || !f.open.chained {
			f.open = &traceback{harmless: f.unraisable || l.level == otherLevel}
		}
		f.open.before, f.open.raised, f.open.chained, f.unraisable = l.before, false, false, false
	case f.open != nil && f.open.add(l, f.known):
		if len(f.open.said) == 1 && len(f.tracebacks) < mostFaults && !f.open.harmless && !slices.Contains(f.tracebacks, f.open) {
			f.tracebacks = append(f.tracebacks, f.open)
		}
	case strings.HasPrefix(l.text, "Exception ignored in"): // Python prints it and goes on
		f.unraisable = true
	default:
		if f.open != nil && f.open.raised {
			f.open = nil
		}
		if len(f.errors) < mostFaults && l.isError() && strings.TrimSpace(l.text) != "" {
			f.errors = append(f.errors, shown(l.text, f.known))
		}
	}
}

// exception is the line that ends a traceback. Other processes write between its lines.
var exception = regexp.MustCompile(`^[A-Za-z_][\w.]*(?:: .*|:)?$`)

// chain stands between two tracebacks of which the first caused the second.
var chain = regexp.MustCompile(`^(?:During handling of the above exception|The above exception was the direct cause)`)

// add takes a line of the traceback; false for one that is not of it.
func (t *traceback) add(l logLine, known redact.Values) bool {
	if l.before != t.before && (l.before != "" || eachLine.MatchString(t.before)) {
		return false
	}
	text := strings.TrimSpace(l.text)
	indented := strings.HasPrefix(l.text, " ")
	switch {
	case text == "", indented && !t.raised:
	case !t.raised && exception.MatchString(text):
		t.raised, t.said = true, append(t.said[:min(len(t.said), 1)], shown(text, known))
	case t.raised && chain.MatchString(text):
		t.chained = true
	case t.raised && indented: // its message goes on, as pydantic's do
		last := &t.said[len(t.said)-1]
		*last = cut(*last + " " + shown(text, known))
	default:
		return false
	}
	return true
}

// elsewhere is in errors that only say that another process, or another error, is the
// reason.
var elsewhere = regexp.MustCompile(`(?i)root cause|stack ?trace|background process|failed to start|worker returned error|died (?:unexpectedly|during)|child process|` +
	`^\w*(?:SystemExit|KeyboardInterrupt|CancelledError|BrokenPipeError|ConnectionResetError|EOFError|ProcessExitedException)\b`)

// best is the first cause that does not point elsewhere, or else the first.
func (f *causeFinder) best() string {
	var all []string
	for _, t := range f.tracebacks {
		all = append(all, t.text())
	}
	all = append(all, f.errors...)
	if i := slices.IndexFunc(all, func(s string) bool { return !elsewhere.MatchString(s) }); i >= 0 {
		return all[i]
	}
	return strings.Join(all[:min(1, len(all))], "")
}

// text is the first exception and the last one that it caused, unless one repeats the other
// or points elsewhere.
func (t *traceback) text() string {
	first, last := t.said[0], t.said[len(t.said)-1]
	_, what, _ := strings.Cut(first, ": ")
	switch {
	case elsewhere.MatchString(last):
		return first
	case elsewhere.MatchString(first), strings.Contains(last, strings.Trim(what, `'"`)):
		return last
	}
	return first + "; then " + last
}

// logLine is a line, taken apart.
type logLine struct {
	before string // what stands before the message, without the time: which process, which place in its source
	level  level
	text   string // the message, indented as it was
}

type level int

const (
	noLevel level = iota
	otherLevel
	errorLevel
)

var (
	// origin is what loggers begin a line with, times and processes, as in
	//	(EngineCore pid=18735) …
	//	[2026-03-03 03:53:36 TP3] …
	//	[04/30/2025-14:03:32] [TRT-LLM] [RANK 0] …
	//	2026-11-28 11:30:37,123 - name - …
	//	0.01.728.234 …
	origin = regexp.MustCompile(`^(?:\([^()]*pid=[^()]*\) |\[rank\d+\]: ?|\[[^\[\]]*\d\d:\d\d:\d\d[^\[\]]*\] |\[(?:TRT-LLM|TensorRT-LLM|RANK \d+)\] ?|` +
		`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S* (?:- )?(?:[\w.]+ - )?|\d+\.\d\d\.\d{3}\.\d{3} )*`)
	// severity is what follows, with vLLM's time and place behind it: ERROR 11-28 11:30:57 [core.py:1510].
	severity = regexp.MustCompile(`^\[?(?:(DEBUG|INFO|WARN|WARNING|[DIW])|ERROR|CRITICAL|FATAL|[EF])\b\]?(?::(?:\w+:)?| -)? ?(?:\d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?)?`)
	times    = regexp.MustCompile(`\d\d:\d\d:\d\d[.,\d]*`)
	// eachLine is in origins that stand before each line of a traceback.
	eachLine = regexp.MustCompile(`pid=|\[rank`)
)

func parseLine(raw string) logLine {
	s := plain(raw)
	n := len(origin.FindString(s))
	l := logLine{text: s[n:]}
	if m := severity.FindStringSubmatch(l.text); m != nil && (n > 0 || len(strings.Trim(m[0], "[]: ")) > 1) { // a single letter only after an origin
		l.level, l.text = errorLevel, l.text[len(m[0]):]
		if m[1] != "" {
			l.level = otherLevel
		}
	}
	l.before = times.ReplaceAllString(s[:len(s)-len(l.text)], "")
	return l
}

func (l logLine) isHeader() bool {
	return strings.Contains(l.text, "Traceback (most recent call last)")
}

// plainError is in lines without a level that are errors: of argparse, llama.cpp, CUDA, Go, and an
// exception without its traceback.
var plainError = regexp.MustCompile(`^(?:\S+: +|\w+ +\w+: +)?(?:[Ee]rror|fatal|panic)\b[^:]*: \S|^[\w.]*(?:Error|Exception): \S|^\w+: .*(?:failed to open GGUF|cudaMalloc failed|out of memory)|^terminate called`)

func (l logLine) isError() bool {
	return l.level == errorLevel || l.level == noLevel && plainError.MatchString(strings.TrimSpace(l.text))
}

// withoutCause drops the lines that the cause makes needless: traceback frames, what the cause
// says already, and what points to it.
func withoutCause(lines []string, cause string, known redact.Values) []string {
	const file = `  File "`
	traced := slices.ContainsFunc(lines, func(s string) bool { return strings.HasPrefix(parseLine(s).text, file) })
	return slices.DeleteFunc(lines, func(s string) bool {
		l := parseLine(s)
		return l.isHeader() || elsewhere.MatchString(l.text) || strings.Contains(cause, shown(l.text, known)) ||
			traced && (strings.HasPrefix(l.text, file) || strings.HasPrefix(l.text, "    "))
	})
}
