package load

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Secret is a string that does not print itself.
type Secret string

const hidden = "[redacted]"

// String is the same for every Secret.
func (Secret) String() string { return hidden }

// GoString is String.
func (Secret) GoString() string { return hidden }

// MarshalText is String.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Header is one HTTP header to send.
type Header struct {
	Name  string
	Value Secret
}

// ParseHeader reads "Name: value".
func ParseHeader(s string) (Header, error) {
	name, value, ok := strings.Cut(s, ":")
	h := Header{Name: strings.TrimSpace(name), Value: Secret(strings.TrimSpace(value))}
	if !ok {
		// The text is not repeated: it may be a bare credential.
		return Header{}, errors.New(`header has no colon: want "Name: value"`)
	}
	return h, checkHeader(h)
}

// ours are the headers that the client sets itself, or that frame the message.
var ours = []string{
	"Accept", "Accept-Encoding", "Connection", "Content-Length", "Content-Type", "Expect", "Host",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", WarmupHeader,
}

func checkHeader(h Header) error {
	if h.Name == "" || strings.ContainsFunc(h.Name, func(r rune) bool { return !isTokenChar(r) }) {
		return fmt.Errorf("header name %q is not a valid HTTP header name", h.Name)
	}
	if slices.Contains(ours, http.CanonicalHeaderKey(h.Name)) {
		return fmt.Errorf("header %s is set by the client itself", http.CanonicalHeaderKey(h.Name))
	}
	if strings.ContainsFunc(string(h.Value), func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return fmt.Errorf("header %s: its value holds a control character", h.Name)
	}
	return nil
}

// isTokenChar is RFC 9110's tchar.
func isTokenChar(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// requestHeader is what every request carries.
func requestHeader(o Options) (http.Header, error) {
	h := http.Header{
		"Content-Type": {"application/json"},
		"User-Agent":   {"plimsoll"},
	}
	var errs []error
	for _, x := range o.Headers {
		if err := checkHeader(x); err != nil {
			errs = append(errs, err)
			continue
		}
		h.Add(x.Name, string(x.Value))
	}
	if o.APIKey != "" {
		if h.Get("Authorization") != "" {
			errs = append(errs, errors.New("both an API key and an Authorization header are given: want one"))
		}
		if err := checkHeader(Header{Name: "Authorization", Value: o.APIKey}); err != nil {
			errs = append(errs, errors.New("API key holds a control character"))
		}
		h.Set("Authorization", "Bearer "+string(o.APIKey))
	}
	return h, errors.Join(errs...)
}

// redactor takes credentials out of text that came from elsewhere. It is safe
// for concurrent use.
type redactor struct {
	words   []string // longest first
	longest int      // bytes
}

// newRedactor knows every header value, the words inside it ("Bearer KEY"),
// and each of them as JSON, Go and URLs write it.
func newRedactor(o Options) redactor {
	var words []string
	add := func(s string) {
		if len(s) < 3 { // too short to hide without mangling ordinary words
			return
		}
		quoted, _ := json.Marshal(s) // a string always marshals
		words = append(words, s, unquoted(string(quoted)), unquoted(strconv.Quote(s)), url.QueryEscape(s))
	}
	add(string(o.APIKey))
	for _, h := range o.Headers {
		add(string(h.Value))
		for _, f := range strings.Fields(string(h.Value)) {
			add(f)
		}
	}
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	words = slices.Compact(words)
	r := redactor{words: words}
	if len(words) > 0 {
		r.longest = len(words[0])
	}
	return r
}

func unquoted(s string) string { return s[1 : len(s)-1] }

// clean hides every credential in s.
func (r redactor) clean(s string) string {
	for _, w := range r.words {
		s = strings.ReplaceAll(s, w, hidden)
	}
	return s
}

const (
	excerptRead = 8 << 10 // bytes of a failed answer's body that are read
	excerptKept = 200     // bytes of it that are kept
)

// excerpt is the beginning of a server's text on one line, without
// credentials. cut says that b is only the beginning of what was sent.
func (r redactor) excerpt(b []byte, cut bool) string {
	s := r.clean(strings.ToValidUTF8(string(b), "?"))
	if cut { // the last credential may have lost its end and so gone unseen
		s = s[:max(0, len(s)-r.longest)]
	}
	s = strings.Join(strings.FieldsFunc(s, func(c rune) bool { return c <= ' ' || c == 0x7f }), " ")
	if len(s) <= excerptKept {
		return s
	}
	s = s[:excerptKept]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "…"
}
