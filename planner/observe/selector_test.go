package observe

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

var (
	matcher      = regexp.MustCompile(`^,?(\w+)(=~|=)`)
	seenPatterns sync.Map // text → *regexp.Regexp
)

// compiled is a whole label's pattern, compiled once.
func compiled(text string) *regexp.Regexp {
	if p, ok := seenPatterns.Load(text); ok {
		return p.(*regexp.Regexp)
	}
	p, _ := seenPatterns.LoadOrStore(text, regexp.MustCompile("^(?:"+text+")$"))
	return p.(*regexp.Regexp)
}

// matching reads a selector, with Go's own reader of quoted strings.
func matching(t testing.TB, selector string) func(labels map[string]string) bool {
	rest := strings.TrimSuffix(strings.TrimPrefix(selector, "{"), "}")
	exact, patterns := map[string]string{}, map[string]*regexp.Regexp{}
	for rest != "" {
		m := matcher.FindStringSubmatch(rest)
		if m == nil {
			t.Errorf("no matcher: %s", rest)
			break
		}
		quoted, err := strconv.QuotedPrefix(rest[len(m[0]):])
		if err != nil {
			t.Errorf("%v: %s", err, rest)
			break
		}
		value, err := strconv.Unquote(quoted)
		if err != nil {
			t.Error(err)
		}
		if m[2] == "=" {
			exact[m[1]] = value
		} else {
			patterns[m[1]] = compiled(value)
		}
		rest = rest[len(m[0])+len(quoted):]
	}
	return func(labels map[string]string) bool {
		for name, value := range exact {
			if labels[name] != value {
				return false
			}
		}
		for name, p := range patterns {
			if !p.MatchString(labels[name]) {
				return false
			}
		}
		return true
	}
}
