package process

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"plimsoll/engine/redact"
)

func TestLastLines(t *testing.T) {
	for _, c := range []struct {
		name, text string
		n          int
		want       string
	}{
		{"empty", "", 3, ""},
		{"fewer", "a\nb\n", 3, "a|b"},
		{"last", "a\nb\nc", 2, "b|c"},
		{"blank lines", "a\n\n  \r\n\nb\n\n", 5, "a|b"},
		{"none wanted", "a\n", 0, ""},
		{"negative", "a\n", -1, ""},
		{"progress bar", "load: 10%\rload: 50%\rload: 100%\r\nready\n", 5, "load: 100%|ready"},
		{"colours", "\x1b[1;31mERROR\x1b[0m out of \x1b]0;title\x07memory\n", 1, "ERROR out of memory"},
		{"binary", "a\x00\x01\xff\xfeb\n", 1, "ab"},
		{"tabs", "a\tb", 1, "a b"},
		{"long", strings.Repeat("é", 1000), 1, strings.Repeat("é", lineRunes) + "…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.Join(lastLines(c.text, c.n, "", redact.Values{}), "|"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func FuzzLastLines(f *testing.F) {
	f.Add("a\nb\r\n\x1b[31mc", 2)
	f.Add("\x1b]0;\x1b\\\xff\x00", 1)
	f.Fuzz(func(t *testing.T, text string, n int) {
		lines := lastLines(text, n, "", redact.Values{})
		if len(lines) > max(n, 0) {
			t.Fatalf("%d lines of %d", len(lines), n)
		}
		for _, l := range lines {
			if l == "" || !utf8.ValidString(l) || utf8.RuneCountInString(l) > lineRunes+1 ||
				strings.ContainsFunc(l, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Fatalf("line %q", l)
			}
		}
	})
}

func TestLastOfEach(t *testing.T) {
	got := strings.Join(lastOfEach([]string{"A=1", "B=2", "A=3=4", "C", "B="}), " ")
	if want := "A=3=4 C B="; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What was left of a known credential, once a part of it was taken out, was shown.
func TestDefectTailTookOutPartsFirst(t *testing.T) {
	got := lastLines("srv --password S3cret Part2 --port 80", 1, "", redact.Of("S3cret Part2"))
	if want := "srv --password [redacted] --port 80"; len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
