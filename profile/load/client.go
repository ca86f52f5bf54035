// Package load is the measuring client. It takes a profile.Workload and the
// URL of an OpenAI-compatible server, sends the requests, and gives back one
// profile.Request record for each: when it was due, sent, answered and
// streamed, and what went wrong. It computes no statistic.
//
// It refuses a Workload that asks for something impossible; whatever a server
// does is a record, never an error and never a panic.
//
// How it measures, because that is what its numbers depend on:
//
//   - Instants are monotonic and are taken on the connection itself. On Linux
//     they are the kernel's, of when it received the bytes; elsewhere the system
//     call's return, before any byte is looked at. A record holds both where both
//     are known, and their difference is the client's lag. All events that one
//     read brings share its instants, and of several segments the kernel tells
//     when the last came.
//   - A chunk is an event with output tokens. If the server counts tokens in each
//     event (Probe finds out), its count has to rise; otherwise the event has to
//     hold text. A role, a finish reason or the final usage is no token. An answer
//     with neither counts nor text has no TTFT.
//   - A Measure opens its own HTTP/1.1 connections and closes them at its end.
//     There is no limit on their number. Closed-loop connections are dialled
//     before the start, open-loop ones when first needed, then reused.
//   - On Linux the client sets TCP_QUICKACK, so the kernel does not delay
//     acknowledgements. Probe warns if clients without it see a later first token.
//   - Proxies from the environment are not used, redirects are not followed,
//     and compression is not asked for: each would change what is measured.
//   - A send on a connection that the server had closed meanwhile is repeated
//     once on a fresh one, as long as no byte of an answer has come.
//   - Prompts and request bodies are made before the first request is sent.
//   - Credentials are put in no record, no error, and no other text.
package load

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"plimsoll/profile"
)

// Endpoint names the API that the requests are sent to.
type Endpoint string

// The endpoints.
const (
	Completions Endpoint = "completions" // /v1/completions; the default
	Chat        Endpoint = "chat"        // /v1/chat/completions
)

// Header names that the embedded engine knows and no other engine needs to.
const (
	// WarmupHeader is set to "true" on the requests of a Workload with Warmup;
	// the embedded engine prefills those in no time.
	WarmupHeader = "X-Plimsoll-Warm-Up"
	// ProvenanceHeader is what the embedded engine says "simulated" with.
	ProvenanceHeader = "X-Plimsoll-Provenance"
)

// DefaultTimeout bounds one request where neither Workload nor Options does.
const DefaultTimeout = 10 * time.Minute

// Options is what a Client needs to know. The zero value of every field but
// BaseURL has a meaning.
type Options struct {
	BaseURL  string         // http(s)://host[:port][/path], with or without the final /v1
	Model    string         // empty: the only model that the server has
	APIKey   Secret         // sent as a bearer token
	Headers  []Header       // sent with every request
	Secrets  []Secret       // further credentials that no text of a server may show
	Endpoint Endpoint       // empty: Completions
	Timeout  time.Duration  // of one request whose Workload has none; 0: DefaultTimeout
	RootCAs  *x509.CertPool // whom to trust for https; nil: whom the system trusts
	// TokenIDs: Completions is known to take prompts of token ids, whose length is exact
	// by construction, and is not asked. Otherwise words are tried where it refuses ids,
	// and their number is found through its usage.
	TokenIDs bool
	// Vocab is the model's vocabulary size, in tokens: prompt ids stay below
	// it. 0: unknown, and ids are kept to a range that almost every model has.
	Vocab int
	// Nonce takes part in every prompt that is not shared, so that no cache
	// can know it from an earlier run. 0: drawn at random; a value makes the
	// prompts of equal calls equal.
	Nonce uint64
	// OnStart is called once per Measure that sends anything, just before the
	// first request, with the instant that the records count from: what else
	// is timed beside the requests can then use the same base.
	OnStart func(base time.Time)
	// OnDone is called with each record as its request ends, one call at a
	// time, in order of ending, beside the measurement: a slow OnDone delays
	// no request, only the return of Measure. Requests that were never sent
	// are not reported.
	OnDone func(profile.Request)
}

// Client measures one server. Its settings never change; it may be used by
// several goroutines, though measurements at the same time disturb each other.
type Client struct {
	base    *url.URL // ends in /v1, without a final slash
	opt     Options
	header  http.Header // of every request; never written after New
	secrets secrets
	clock   clock

	calls atomic.Uint64 // prompts handed out so far, so that no two are alike
	live  atomic.Bool   // the server tells token counts with each chunk

	turn    chan struct{} // held by whoever uses what follows: a lock that heeds a context
	learned *server       // what is known of the server; nil before it was asked
	words   map[int]int   // prompt tokens → symbols, as the server counted them
}

// New checks the options. It contacts nobody.
func New(o Options) (*Client, error) {
	base, errURL := parseBase(o.BaseURL)
	header, errHeader := requestHeader(o)
	err := errors.Join(errURL, errHeader, checkOptions(o))
	if err != nil {
		return nil, err
	}
	o.Headers = append([]Header(nil), o.Headers...)
	o.Endpoint = cmp.Or(o.Endpoint, Completions)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	if o.Nonce == 0 {
		var b [8]byte
		_, _ = rand.Read(b[:]) // documented never to fail
		o.Nonce = binary.LittleEndian.Uint64(b[:])
	}
	return &Client{
		base: base, opt: o, header: header, secrets: secretsOf(o),
		clock: clock{epoch: time.Now()}, turn: make(chan struct{}, 1), words: map[int]int{},
	}, nil
}

func (c *Client) lock(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Client) unlock() { <-c.turn }

// String names the server; it holds no credentials.
func (c *Client) String() string { return "client of " + c.base.Redacted() }

// GoString is String, so that %#v prints no credentials either.
func (c *Client) GoString() string { return c.String() }

func checkOptions(o Options) error {
	var errs []error
	switch o.Endpoint {
	case "", Completions, Chat:
	default:
		errs = append(errs, fmt.Errorf("endpoint %q is unknown: want completions or chat", o.Endpoint))
	}
	if o.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout %v is negative", o.Timeout))
	}
	if o.Vocab != 0 && (o.Vocab < minVocab || o.Vocab > maxVocab) {
		errs = append(errs, fmt.Errorf("vocab %d is out of range: want 0 (unknown) or %d to %d tokens", o.Vocab, minVocab, maxVocab))
	}
	return errors.Join(errs...)
}

// parseBase gives the URL that the API's paths are put under.
func parseBase(s string) (*url.URL, error) {
	if s == "" {
		return nil, errors.New("base URL is empty: want http://host:port")
	}
	u, err := url.Parse(s)
	if err != nil {
		// url.Parse's error repeats its input, which may hold a password.
		return nil, errors.New("base URL cannot be parsed: want http://host:port")
	}
	switch {
	case u.User != nil:
		return nil, errors.New("base URL holds a user or password: give credentials as a header or an API key")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("base URL %q: scheme is not http or https: want http://host:port", s)
	case u.Hostname() == "":
		return nil, fmt.Errorf("base URL %q has no host: want http://host:port", s)
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return nil, errors.New("base URL has a query or fragment: want only http://host:port/path")
	}
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v1") + "/v1"
	u.RawPath = ""
	return u, nil
}

// url is the address of one API path, such as "/models".
func (c *Client) url(path string) string { return c.base.String() + path }

// completionsURL is where prompts go.
func (c *Client) completionsURL() string {
	if c.opt.Endpoint == Chat {
		return c.url("/chat/completions")
	}
	return c.url("/completions")
}

// address is what to dial.
func (c *Client) address() (hostPort string, secure bool) {
	secure = c.base.Scheme == "https"
	port := c.base.Port()
	switch {
	case port != "":
	case secure:
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(c.base.Hostname(), port), secure
}
