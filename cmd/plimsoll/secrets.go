package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine/command"
	"plimsoll/engine/field"
	"plimsoll/engine/redact"
)

// credentials are what the program was told in confidence, by flags, files and the
// environment: nothing that it prints or writes down holds them. A nil one knows none.
type credentials struct {
	mu    sync.Mutex
	found []string
	known redact.Values
}

// credentialsKey is where they lie among the app's metadata.
const credentialsKey = "credentials"

// leastVariable is the length in bytes from which a variable of the environment is
// looked for in all that is printed: in many an environment API_KEY=none is a setting.
const leastVariable = 8

// credentialsIn are those of a command line and of the environment.
func credentialsIn(args, environment []string) *credentials {
	found := redact.Certain(args)
	for _, kv := range environment {
		name, value, _ := strings.Cut(kv, "=")
		if len(value) >= leastVariable && (redact.Secret(name) || strings.Contains(value, "://")) {
			found = append(found, redact.Find([]string{kv})...)
		}
	}
	k := &credentials{}
	k.add(found...)
	return k
}

func credentialsOf(c *cli.Context) *credentials {
	k, _ := c.App.Metadata[credentialsKey].(*credentials)
	return k
}

// add makes further ones known.
func (k *credentials) add(found ...string) {
	if k == nil || len(found) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.found = append(k.found, found...)
	k.known = redact.Of(k.found...)
}

func (k *credentials) all() []string {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.found)
}

// text is s without them.
func (k *credentials) text(s string) string {
	if k == nil {
		return s
	}
	k.mu.Lock()
	known := k.known
	k.mu.Unlock()
	return known.Text(s)
}

// words are a command line without them, and without those that it holds itself.
func (k *credentials) words(words []string) []string {
	out := redact.Words(words)
	for i, w := range out {
		out[i] = k.text(w)
	}
	return out
}

// clean is err without them in its text.
func (k *credentials) clean(err error) error {
	if err == nil {
		return nil
	}
	if text := k.text(err.Error()); text != err.Error() {
		return cleanError{err, text}
	}
	return err
}

type cleanError struct {
	err  error
	text string
}

func (e cleanError) Error() string { return e.text }
func (e cleanError) Unwrap() error { return e.err }

// screen is an output of the program, without credentials.
type screen struct {
	io.Writer
	hidden *credentials
}

// Write implements io.Writer. A message is one call.
func (s *screen) Write(p []byte) (int, error) {
	text := string(p)
	clean := s.hidden.text(text)
	if clean == text {
		return s.Writer.Write(p)
	}
	_, err := io.WriteString(s.Writer, clean)
	return len(p), err
}

// fileOf is the file behind an output, if there is one: a terminal, perhaps.
func fileOf(w io.Writer) (*os.File, bool) {
	if s, ok := w.(*screen); ok {
		w = s.Writer
	}
	f, ok := w.(*os.File)
	return f, ok
}

// redacted is words without credentials.
func (o profileOptions) redacted(words []string) []string { return o.hidden.words(words) }

// confide makes known what the profile's flags hold in confidence, beyond what the
// command line shows.
func (o profileOptions) confide(c *cli.Context) {
	o.hidden.add(o.apiKey)
	for _, h := range o.headers {
		if redact.Header(h.Name, o.headerValue(h)) {
			o.hidden.add(o.headerValue(h))
		}
	}
	template := command.Template{Argv: o.command}
	o.hidden.add(template.Secrets()...)
	o.hidden.add(redact.Find(o.extra)...)
	const advice = "export VLLM_API_KEY=… or HF_TOKEN=… instead; engines inherit the environment"
	warnLiteral(c, "--command", template.Secrets(), advice)
	where := "what follows --"
	if len(o.dynamo.Args) > 0 {
		where = "--config, or what follows --,"
	}
	warnLiteral(c, where, redact.Find(o.extra), advice)
}

// warnLiteral says that a template holds credentials.
func warnLiteral(c *cli.Context, where string, found []string, advice string) {
	if len(found) == 0 {
		return
	}
	say(c.App.ErrWriter, "warning", "%s holds a credential. It is written to no file, but all users of this machine can see it in ps", where)
	say(c.App.ErrWriter, "hint", "%s", advice)
}

// secretFile reads a file that holds one secret; "" where no file is named.
func (p *parser) secretFile(name string) string {
	path := p.name(name)
	if path == "" || p.err != nil {
		return ""
	}
	secret, err := readSecret(path)
	if err != nil {
		p.fail(field.Errorf("--%s: %v", name, err))
		return ""
	}
	credentialsOf(p.c).add(secret)
	// Others than the user may read it.
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		say(p.c.App.ErrWriter, "warning", "--%s %s: other users can read it (mode %#o)", name, path, info.Mode().Perm())
		say(p.c.App.ErrWriter, "hint", "chmod 600 %s", path)
	}
	return secret
}

// readSecret reads one line.
func readSecret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	const most = 64 << 10
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(b))
	if secret == "" || len(b) > most || strings.ContainsAny(secret, "\r\n") {
		return "", fmt.Errorf("%s holds no token: want one line with it", path)
	}
	return secret, nil
}

// infoClient asks for metrics as the measuring client asks for answers: with
// the same credentials, and around any proxy of the environment.
func infoClient(o profileOptions) *http.Client {
	return &http.Client{Timeout: 5 * time.Second, Transport: authorized{o, &http.Transport{}}}
}

type authorized struct {
	opts profileOptions
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if a.opts.apiKey != "" {
		r.Header.Set("Authorization", "Bearer "+a.opts.apiKey)
	}
	for _, h := range a.opts.headers {
		r.Header.Set(h.Name, a.opts.headerValue(h))
	}
	return a.next.RoundTrip(r)
}
