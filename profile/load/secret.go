package load

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"plimsoll/engine/redact"
)

// Secret is a string that does not print itself.
type Secret string

// String is the same for every Secret.
func (Secret) String() string { return redact.Mark }

// GoString is String.
func (Secret) GoString() string { return redact.Mark }

// MarshalText is String.
func (Secret) MarshalText() ([]byte, error) { return []byte(redact.Mark), nil }

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

// secrets are what no text that came from elsewhere may show.
type secrets struct{ redact.Values }

// secretsOf are the API key, every header's value, and what the caller knows besides.
func secretsOf(o Options) secrets {
	words := []string{string(o.APIKey)}
	for _, s := range o.Secrets {
		words = append(words, string(s))
	}
	for _, h := range o.Headers {
		words = append(words, string(h.Value))
	}
	return secrets{redact.Of(words...)}
}

const (
	excerptRead = 8 << 10 // bytes of a failed answer's body that are read
	excerptKept = 200     // bytes of it that are kept
)

// excerpt is the beginning of a server's text on one line, without
// credentials. cut says that b is only the beginning of what was sent.
func (known secrets) excerpt(b []byte, cut bool) string {
	s := known.Text(strings.ToValidUTF8(string(b), "?"))
	if cut { // the last credential may have lost its end and so gone unseen
		s = s[:max(0, len(s)-known.Longest())]
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
