package redact

import (
	"regexp"
	"slices"
	"strings"
)

var (
	nameInText = regexp.MustCompile(`-{0,2}[A-Za-z_][A-Za-z0-9_.-]*`)
	headerName = regexp.MustCompile(`^\s*([A-Za-z][A-Za-z0-9-]*):\s*`)
	blank      = regexp.MustCompile(`^(?:[ \t\r\n]|\\\r?\n|\\\\\\n)*`)
	wordBefore = regexp.MustCompile(`([A-Za-z]+)[ \t]$`)
	// envEntry is one of a list of variables, in JSON or YAML, up to its value.
	envEntry = regexp.MustCompile(`\bname\\*["']?\s*:\s*\\*["']?([A-Za-z_]\w*)\\*["']?\s*,?\s*\\*["']?value\\*["']?\s*:[ \t]*`)
	digits   = regexp.MustCompile(`^\d+$`)
	// scheme is the word before the credential in an Authorization header.
	scheme    = regexp.MustCompile(`^(?i)(bearer|basic|token|digest|negotiate|apikey)[ \t]+`)
	continued = regexp.MustCompile(`^\\\r?\n`) // a line that goes on in the next
	port      = regexp.MustCompile(`^\d{0,5}([/?#]|$)`)
	// filledIn is what a shell, Kubernetes or a template puts a value in place of.
	filledIn = regexp.MustCompile(`^(\$[A-Za-z_]\w*|\$\{[A-Za-z_]\w*\}|\$\([^)]*\)|\{\{[^}]*\}\})`)
	nothing  = regexp.MustCompile(`^(None|null|nil|undefined|true|false|True|False)$`)
	// shapes are credentials that are known by how they begin, as of 2026-11.
	shapes = []*regexp.Regexp{
		regexp.MustCompile(`\b(hf_[A-Za-z0-9]{8,})`),                         // Hugging Face
		regexp.MustCompile(`\b(sk-[A-Za-z0-9_-]{8,})`),                       // OpenAI, Anthropic and those that followed them
		regexp.MustCompile(`\b((?:AKIA|ASIA)[A-Z0-9]{12,})`),                 // AWS
		regexp.MustCompile(`\b(gh[pousr]_[A-Za-z0-9]{8,})`),                  // GitHub
		regexp.MustCompile(`\b(github_pat_\w{8,})`),                          // GitHub
		regexp.MustCompile(`\b(glpat-[\w-]{8,})`),                            // GitLab
		regexp.MustCompile(`\b(xox[abeprs]-[\w-]{8,})`),                      // Slack
		regexp.MustCompile(`\b(nvapi-[\w-]{8,})`),                            // NVIDIA
		regexp.MustCompile(`\b(eyJ[\w-]{8,}(?:\.[\w-]*)*)`),                  // JSON Web Token
		regexp.MustCompile(`\b(dckr_pat_[\w-]{8,})`),                         // Docker
		regexp.MustCompile(`\b(gsk_\w{8,})`),                                 // Groq
		regexp.MustCompile(`\b(AIza[\w-]{20,})`),                             // Google
		regexp.MustCompile(`\b(ya29\.[\w-]{8,})`),                            // Google
		regexp.MustCompile(`\b(npm_[A-Za-z0-9]{20,})`),                       // npm
		regexp.MustCompile(`\b(xai-\w{8,})`),                                 // xAI
		regexp.MustCompile(`\b((?:sk|rk)_(?:live|test)_\w{8,})`),             // Stripe
		regexp.MustCompile(`\bBearer\s+([A-Za-z0-9._~+/=-]+)`),               // RFC 6750
		regexp.MustCompile(`\bBasic\s+([A-Za-z0-9+/]{8,}={0,2})`),            // RFC 7617
		regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----(.*?)---`), // PEM
	}
	// ordinaryWord is what they may be instead: hf_transformers, sk-learn-model,
	// "Bearer token".
	ordinaryWord = regexp.MustCompile(`^(hf_[a-z]+|sk-[a-z_-]+|tokens?|auth|authentication|authorization)$`)
)

// inText finds credentials in text.
func inText(s string) []span {
	var out []span
	for _, m := range nameInText.FindAllStringIndex(s, -1) {
		if m[0] > 0 && isWordByte(s[m[0]-1]) {
			continue
		}
		out = append(out, afterName(s, m[0], m[1])...)
	}
	out = append(out, inURLs(s)...)
	for _, m := range envEntry.FindAllStringSubmatchIndex(s, -1) {
		if m[1] < len(s) && secretName(s[m[2]:m[3]]) {
			out = append(out, value{s: s}.spans(m[1])...)
		}
	}
	for _, shape := range shapes {
		for _, m := range shape.FindAllStringSubmatchIndex(s, -1) {
			if !ordinaryWord.MatchString(s[m[2]:m[3]]) {
				out = append(out, span{m[2], m[3]})
			}
		}
	}
	return out
}

// inURLs finds passwords before the host of a URL, and tokens that stand there
// instead of a name.
func inURLs(s string) []span {
	var out []span
	for at := 0; ; {
		i := strings.Index(s[at:], "://")
		if i < 0 {
			return out
		}
		at += i + 3
		url := s[at:]
		if end := strings.IndexAny(url, " \t\r\n\"'`<>\\"); end >= 0 {
			url = url[:end]
		}
		host := url
		if end := strings.IndexAny(url, "/?#"); end >= 0 {
			host = url[:end]
		}
		to := strings.LastIndexByte(host, '@')
		user, password, ok := strings.Cut(url, ":")
		switch {
		case to < 0 && ok && !port.MatchString(password) && !strings.ContainsAny(user, "/?#@"): // it has a / in it, as none should
			to = strings.IndexByte(url, '@')
		case to >= 0:
			user, password, ok = strings.Cut(url[:to], ":")
		}
		switch {
		case to < 0 || ok && filledIn.FindString(url[len(user)+1:to]) == url[len(user)+1:to]:
		case ok:
			out = append(out, span{at + len(user) + 1, at + to})
		case len(user) >= 20 && password == "":
			out = append(out, span{at, at + to})
		}
	}
}

func isWordByte(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// afterName finds the credential that the name at s[from:to] announces.
func afterName(s string, from, to int) []span {
	name := s[from:to]
	flag := strings.HasPrefix(name, "-")
	query := from > 0 && (s[from-1] == '?' || s[from-1] == '&') && slices.Contains([]string{"auth", "key", "sig", "signature"}, name)
	header := headerFlag(name)
	if !query && !header && !secretName(name) {
		return nil
	}
	if m := wordBefore.FindStringSubmatch(s[:from]); strings.EqualFold(name, "token") && m != nil && slices.Contains(ordinaryTokens, strings.ToLower(m[1])) {
		return nil // "time to first token: 12.5 ms"
	}
	at, spaced, ok := separator(s, to, flag)
	if !ok {
		return nil
	}
	if spaced && (looksLikeFlag(firstWord(s[at:])) || looksLikeFlag(firstWord(strings.TrimLeft(s[at:], `\"'`)))) {
		return nil // the flag has no value
	}
	v := value{s: s, flag: flag, query: from > 0 && (s[from-1] == '?' || s[from-1] == '&')}
	if header {
		x := v.quotedOrBare(at)
		return inHeader(s, x.from, x.to)
	}
	v.scheme = strings.HasSuffix(strings.ToLower(name), "authorization")
	return v.spans(at)
}

func firstWord(s string) string {
	if i := strings.IndexAny(s, " \t\r\n\"'"); i >= 0 {
		return s[:i]
	}
	return s
}

// separator finds where the value begins after a name that ends at i: after = or :,
// or for a flag after blanks, or in the next string of a list.
func separator(s string, i int, flag bool) (at int, spaced, ok bool) {
	if i < len(s) && s[i] == '=' {
		return i + 1, false, i+1 < len(s)
	}
	_, n := openQuote(s[i:])
	quoted := n > 0
	i += n
	rest := skipBlanks(s[i:])
	blanks := len(s) - i - len(rest)
	switch {
	case rest == "":
		return 0, false, false
	case !flag && (rest[0] == ':' || rest[0] == '='):
		rest = strings.TrimLeft(rest[1:], " \t\r\n>")
		return len(s) - len(rest), false, rest != ""
	case flag && quoted && rest[0] == ',':
		rest = strings.TrimLeft(rest[1:], " \t\r\n")
		return len(s) - len(rest), true, rest != ""
	case flag && blanks > 0:
		return len(s) - len(rest), true, true
	}
	return 0, false, false
}

// skipBlanks is s from the first character on that is no blank. A backslash before the
// end of a line, with which a shell joins two lines, is one; so is that of a JSON string.
func skipBlanks(s string) string { return s[len(blank.FindString(s)):] }

// openQuote is a quote at the beginning of s, with the backslashes of the text that
// it is nested in.
func openQuote(s string) (quote string, n int) {
	i := len(s) - len(strings.TrimLeft(s, `\`))
	if i < len(s) && strings.IndexByte("\"'`", s[i]) >= 0 {
		return s[:i+1], i + 1
	}
	return "", 0
}

// value reads what stands after a name.
type value struct {
	s      string
	flag   bool // after a flag: a word of a shell
	query  bool // in the query of a URL
	scheme bool // "Bearer" may come first
}

// spans are the credentials in the value at i.
func (v value) spans(i int) []span {
	if !v.flag && (v.s[i] == '[' || v.s[i] == '{') && !strings.HasPrefix(v.s[i:], Mark) && !strings.HasPrefix(v.s[i:], "{{") {
		return v.group(i)
	}
	x := v.quotedOrBare(i)
	if v.scheme {
		if m := scheme.FindString(v.s[x.from:]); m != "" {
			if after := x.from + len(m); after < x.to {
				x.from = after // in quotes
			} else if after < len(v.s) {
				x = v.quotedOrBare(after)
			}
		}
	}
	text := v.s[x.from:x.to]
	if text == "" || !v.flag && nothing.MatchString(text) || filledIn.FindString(text) == text {
		return nil
	}
	return []span{x}
}

// quotedOrBare is the value at i: what is between quotes, or a word.
func (v value) quotedOrBare(i int) span {
	quote, n := openQuote(v.s[i:])
	if n > 0 && !v.closes(i, quote) {
		if end := closing(v.s, i+n, quote); end >= 0 {
			if next := end + n; !v.flag || v.wordEnds(next) {
				return span{i + n, end}
			}
		} else {
			i += n
		}
	}
	return v.bare(i)
}

// closes reports whether a quote at i ends a string that began before.
func (v value) closes(i int, quote string) bool {
	return strings.Count(v.s[:i], quote[len(quote)-1:])%2 == 1 && len(quote) == 1
}

func (v value) wordEnds(i int) bool {
	if i >= len(v.s) || strings.IndexByte(" \t\r\n,:;|&<>()}]", v.s[i]) >= 0 || strings.HasPrefix(v.s[i:], "{{") {
		return true
	}
	q, n := openQuote(v.s[i:])
	return n > 0 && v.closes(i, q)
}

// closing is where a string that was opened with quote ends, -1 if it does not.
func closing(s string, i int, quote string) int {
	for ; i < len(s); i++ {
		q, n := openQuote(s[i:])
		switch {
		case n > 0 && q == quote:
			return i
		case s[i] == '\\' && quote != "'":
			if n > 0 {
				i += n - 1 // a quote of another depth
			} else {
				i++
			}
		}
	}
	return -1
}

// bare is a word without quotes around it: to the next blank, or what separates
// commands, parameters or strings.
func (v value) bare(i int) span {
	from := i
	ends := " \t\r\n;|&<>()"
	if v.query {
		ends += "#"
	}
	for i < len(v.s) {
		c := v.s[i]
		if strings.IndexByte(ends, c) >= 0 || strings.HasPrefix(v.s[i:], "{{") || continued.MatchString(v.s[i:]) { // the end, or a template's action
			break
		}
		if q, n := openQuote(v.s[i:]); n > 0 {
			end := -1
			if n == 1 && v.flag && !v.closes(i, q) {
				end = closing(v.s, i+1, q)
			}
			switch {
			case end >= 0:
				i = end + 1
				continue
			case n > 1 && v.flag && strings.Count(v.s[:from], q)%2 == 0:
				i += n // an escaped quote in a shell's word
				continue
			}
			break
		}
		if c == '\\' && v.flag && i+1 < len(v.s) {
			i++
		}
		i++
	}
	i = min(i, len(v.s))
	return span{from, from + len(strings.TrimRight(v.s[from:i], ",}])")) + markEnd(v.s[from:i])}
}

// markEnd gives a Mark its bracket back that was trimmed.
func markEnd(word string) int {
	if strings.HasSuffix(strings.TrimRight(word, ",}])")+"]", Mark) {
		return 1
	}
	return 0
}

// group finds the strings in the list or object at i that are values.
func (v value) group(i int) []span {
	var out []span
	for depth := 0; i < len(v.s); i++ {
		quote, n := openQuote(v.s[i:])
		if n > 0 {
			end := closing(v.s, i+n, quote)
			if end < 0 {
				return append(out, span{i + n, len(v.s)})
			}
			if rest := strings.TrimLeft(v.s[end+n:], " \t\r\n"); !strings.HasPrefix(rest, ":") && end > i+n {
				out = append(out, span{i + n, end})
			}
			i = end + n - 1
			continue
		}
		switch v.s[i] {
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return out
			}
		}
	}
	return out
}

// inHeader finds the credential in the header "Name: value" at s[from:to].
func inHeader(s string, from, to int) []span {
	m := headerName.FindStringSubmatchIndex(s[from:to])
	if m == nil {
		return nil
	}
	name := strings.ToLower(s[from+m[2] : from+m[3]])
	from += m[1]
	if from >= to || slices.Contains(plainHeaders, name) || digits.MatchString(s[from:to]) { // -H may be a host and port
		return nil
	}
	if m := scheme.FindString(s[from:to]); m != "" {
		from += len(m)
	}
	if filledIn.FindString(s[from:to]) == s[from:to] {
		return nil
	}
	return []span{{from, to}}
}
