// Package redact takes credentials out of command lines, text and errors, so that
// they can be shown and written down.
//
// It takes words of a command line (Words), or text with command lines, JSON, URLs
// or headers in it (Text), and knows a credential by the name of its flag, variable,
// key or header, or by its shape. Values takes out credentials that are known
// already, wherever they stand. It gives the same text with Mark in their place.
// Everything here is pure.
//
// A credential that has neither a telling name nor a known shape stays: what is
// given as a bare argument is not found.
package redact

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// Mark stands where a credential stood.
const Mark = "[redacted]"

// span is where a credential stands in a text.
type span struct{ from, to int }

// Words is a command line without credentials. It has as many words as before, and
// a flag keeps its name.
func Words(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = cut(w, inWord(words[:i], w))
	}
	return out
}

// Find gives the credentials in a command line, in their order.
func Find(words []string) []string {
	var out []string
	for i, w := range words {
		for _, s := range merged(w, inWord(words[:i], w)) {
			out = append(out, w[s.from:s.to])
		}
	}
	return out
}

// Certain is Find without the values of headers that need not be credentials, such as
// "X-Pool: decode".
func Certain(words []string) []string {
	words = slices.Clone(words)
	for i, w := range words {
		flag, line, joined := strings.Cut(w, "=")
		switch {
		case i > 0 && headerFlag(words[i-1]) && !certainHeader(w):
			words[i-1] = ""
		case joined && headerFlag(flag) && !certainHeader(line):
			words[i] = line
		}
	}
	return Find(words)
}

func certainHeader(line string) bool {
	name, value, _ := strings.Cut(line, ":")
	return Header(strings.TrimSpace(name), strings.TrimSpace(value))
}

// leastScheme is the length in bytes from which "Bearer KEY" is a credential in any header.
const leastScheme = 8

// Header reports whether the HTTP header of that name and value holds a credential for
// certain.
func Header(name, value string) bool {
	return Secret(name) || len(value) >= leastScheme && scheme.MatchString(value)
}

// Text is s without credentials.
func Text(s string) string {
	for range 8 { // what is taken out may have hidden another: mostly the second look finds none
		clean := cut(s, append(inText(s), inScript(s, true)...))
		if clean == s {
			break
		}
		s = clean
	}
	return s
}

// inWord finds the credentials in one word of a command line. A value is the whole
// word here, whatever characters it has; only a shell's script is read as text.
func inWord(before []string, w string) []span {
	last := ""
	if len(before) > 0 {
		last = before[len(before)-1]
	}
	if shellFlag.MatchString(last) {
		return append(inText(w), inScript(w, false)...)
	}
	if x := byProgram(before, w); x != nil {
		return append(x, inText(w)...)
	}
	if !looksLikeFlag(w) {
		switch {
		case isFlag(last) && secretName(last), moreKeys(before):
			return whole(w, 0)
		case headerFlag(last):
			return append(inHeader(w, 0, len(w)), inText(w)...)
		}
	}
	if name, _, ok := strings.Cut(w, "="); ok && wordName.MatchString(name) {
		from := len(name) + 1
		switch {
		case secretName(name):
			return whole(w, from)
		case headerFlag(name):
			return append(inHeader(w, from, len(w)), inText(w)...)
		}
	}
	return inText(w)
}

var (
	wordName  = regexp.MustCompile(`^-{0,2}[A-Za-z_][A-Za-z0-9_.-]*$`)
	shellFlag = regexp.MustCompile(`^-[a-z]*c$`) // sh -c, bash -lc
	reference = regexp.MustCompile(`^(\$\{[A-Za-z_]\w*\}|\$\([^)]*\)|\{\{[^}]*\}\})$`)
)

// whole is all of a word from an offset on, unless another program fills it in.
func whole(w string, from int) []span {
	if v := w[from:]; v == "" || reference.MatchString(v) {
		return nil
	}
	return []span{{from, len(w)}}
}

// moreKeys says that a word is one more value of vLLM's --api-key, which takes
// several (vllm/entrypoints/openai/cli_args.py, 0.10).
func moreKeys(before []string) bool {
	i := len(before) - 1
	for i >= 0 && !looksLikeFlag(before[i]) {
		i--
	}
	return i >= 0 && (before[i] == "--api-key" || before[i] == "--api_key") &&
		(i == 0 || looksLikeFlag(before[0]) || slices.ContainsFunc(before[:i], func(w string) bool { return strings.Contains(w, "vllm") }))
}

func isFlag(w string) bool { return strings.HasPrefix(w, "-") && wordName.MatchString(w) }

// looksLikeFlag tells the next flag from a value.
func looksLikeFlag(w string) bool {
	name, _, _ := strings.Cut(w, "=")
	return isFlag(name)
}

// cut puts Mark in place of spans.
func cut(s string, spans []span) string {
	var b strings.Builder
	at := 0
	for _, x := range merged(s, spans) {
		b.WriteString(s[at:x.from])
		b.WriteString(Mark)
		at = x.to
	}
	b.WriteString(s[at:])
	return b.String()
}

// merged puts spans in order, joins those that overlap, and leaves out those that
// hold nothing but marks.
func merged(s string, spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(a.from-b.from, b.to-a.to) })
	var out []span
	for _, x := range spans {
		switch n := len(out); {
		case strings.ReplaceAll(s[x.from:x.to], Mark, "") == "":
		case n > 0 && x.from < out[n-1].to:
			out[n-1].to = max(out[n-1].to, x.to)
		default:
			out = append(out, x)
		}
	}
	return out
}
