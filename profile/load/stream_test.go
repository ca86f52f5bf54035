package load

import (
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"plimsoll/engine/enginetest"

	"pgregory.net/rapid"
)

// pieces is a reader that gives one piece per Read, and err after the last.
type pieces struct {
	left []string
	err  error
	n    int // reads so far
}

func (p *pieces) Read(b []byte) (int, error) {
	for len(p.left) > 0 && p.left[0] == "" {
		p.left = p.left[1:]
	}
	if len(p.left) == 0 {
		if p.err != nil {
			return 0, p.err
		}
		return 0, io.EOF
	}
	p.n++
	n := copy(b, p.left[0])
	p.left[0] = p.left[0][n:]
	return n, nil
}

// all reads a stream to its end; the instant of the n-th read is n.
func all(ps ...string) (data []string, at []time.Duration, err error) {
	src := &pieces{left: ps}
	var e events
	e.reset(src, func() stamp { return stampAt(time.Duration(src.n)) })
	for {
		d, t, err := e.next()
		if errors.Is(err, io.EOF) {
			return data, at, nil
		}
		if err != nil {
			return data, at, err
		}
		data, at = append(data, string(d)), append(at, t.at)
	}
}

func TestEvents(t *testing.T) {
	for _, c := range []struct {
		name string
		in   string
		want []string
	}{
		{"nothing", "", nil},
		{"one", "data: a\n\n", []string{"a"}},
		{"no space", "data:a\n\n", []string{"a"}},
		{"only one space is taken", "data:  a\n\n", []string{" a"}},
		{"crlf", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		{"lone cr", "data: a\r\rdata: b\r\r", []string{"a", "b"}},
		{"several lines", "data: a\ndata: b\n\n", []string{"a\nb"}},
		{"comment", ": ping\n\n:\n\ndata: a\n\n", []string{"a"}},
		{"other fields", "event: x\nid: 1\nretry: 5\ndata: a\n\n", []string{"a"}},
		{"a field that only begins alike", "database: x\n\n", nil},
		{"field without colon", "data\n\n", []string{""}},
		{"no final blank line", "data: a\n", []string{"a"}},
		{"no final newline", "data: a\n\ndata: [DONE]", []string{"a", "[DONE]"}},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n", []string{"a"}},
		{"event without data", "event: x\n\ndata: a\n\n", []string{"a"}},
		{"blank lines", "\n\n\ndata: a\n\n\n\n", []string{"a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, in := range [][]string{{c.in}, strings.Split(c.in, "")} {
				got, _, err := all(in...)
				if err != nil || !slices.Equal(got, c.want) {
					t.Errorf("%q: got %q, %v; want %q", in, got, err, c.want)
				}
			}
		})
	}
}

func TestEventsShareTheInstantOfTheirRead(t *testing.T) {
	_, at, err := all("data: a\n\ndata: b\n\ndata", ": c\n\n", "data: d", "\n", "\n")
	if want := []time.Duration{1, 1, 2, 4}; err != nil || !slices.Equal(at, want) {
		t.Errorf("instants %v, %v; want %v", at, err, want)
	}
}

func TestEventsAreBounded(t *testing.T) {
	line := "data: " + strings.Repeat("x", maxEvent/2) + "\n"
	if _, _, err := all(line, "\n"); err != nil {
		t.Errorf("half the bound: %v", err)
	}
	for name, in := range map[string][]string{
		"line":  {"data: ", strings.Repeat("x", maxEvent), "x"},
		"event": {line, line, line},
	} {
		if _, _, err := all(in...); !errors.Is(err, errEventTooLong) {
			t.Errorf("%s: got %v, want errEventTooLong", name, err)
		}
	}
}

func TestEventsGiveTheReadersError(t *testing.T) {
	broken := errors.New("broken")
	var e events
	e.reset(&pieces{left: []string{"data: a\n\ndata: b"}, err: broken}, func() stamp { return stampAt(1) })
	if d, _, err := e.next(); string(d) != "a" || err != nil {
		t.Fatalf("got %q, %v", d, err)
	}
	if d, _, err := e.next(); !errors.Is(err, broken) {
		t.Errorf("got %q, %v; want the reader's error", d, err)
	}
}

// dumbEvents is the standard's algorithm on the whole text at once.
func dumbEvents(in string) []string {
	in = strings.TrimPrefix(in, "\xef\xbb\xbf")
	in = strings.ReplaceAll(strings.ReplaceAll(in, "\r\n", "\n"), "\r", "\n")
	var out, data []string
	for line := range strings.SplitSeq(in+"\n\n", "\n") {
		field, value, _ := strings.Cut(line, ":")
		switch {
		case line == "" && data != nil:
			out, data = append(out, strings.Join(data, "\n")), nil
		case field == "data":
			data = append(data, strings.TrimPrefix(value, " "))
		}
	}
	return out
}

func checkEvents(t interface{ Errorf(string, ...any) }, in string, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	var ps []string
	for rest := in; rest != ""; {
		n := 1 + rng.IntN(len(rest))
		ps, rest = append(ps, rest[:n]), rest[n:]
	}
	got, _, err := all(ps...)
	if want := dumbEvents(in); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q in pieces %q: got %q, %v; want %q", in, ps, got, err, want)
	}
}

func TestEventsEqualTheStandard(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		part := rapid.SampledFrom([]string{"data:", "data: ", "data", "event: x", ":", "x", " ", "\n", "\r", "\r\n", "\n\n", "\xef\xbb\xbf", "{}"})
		in := strings.Join(rapid.SliceOfN(part, 0, 30).Draw(t, "parts"), "")
		checkEvents(t, in, rapid.Uint64().Draw(t, "seed"))
	})
}

func FuzzEvents(f *testing.F) {
	f.Add("data: {\"choices\":[{\"text\":\"a\"}]}\r\n\r\n: c\n\ndata: [DONE]", uint64(1))
	f.Add("\xef\xbb\xbfdata\rdata:\n\n", uint64(2))
	f.Fuzz(func(t *testing.T, in string, seed uint64) { checkEvents(t, in, seed) })
}

func TestEventsReadByteByByte(t *testing.T) {
	var e events
	e.reset(iotest.OneByteReader(strings.NewReader(strings.Repeat("data: abc\n\n", 1000))), func() stamp { return stampAt(1) })
	n := 0
	for ; ; n++ {
		if _, _, err := e.next(); err != nil {
			break
		}
	}
	if n != 1000 {
		t.Errorf("got %d events, want 1000", n)
	}
}
