package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// DefaultTimeout is how long one query may take.
const DefaultTimeout = 30 * time.Second

// maxAnswer bounds the bytes of one answer: 11,000 points of a few hundred buckets.
const maxAnswer = 256 << 20

// Options say how to reach a Prometheus server.
type Options struct {
	// URL is the server's, with the path that it is mounted at, and a user and
	// password for basic authentication where it wants them.
	URL string
	// BearerToken goes into the header Authorization; "" = none. It is sent to
	// the URL's host only, and is in no error.
	BearerToken string
	Timeout     time.Duration // of one query; 0 = DefaultTimeout
}

// Server is a Prometheus server, or what speaks its API. It is safe for concurrent
// use.
type Server struct {
	api     v1.API
	name    string   // the URL without its password
	secrets []string // that it is asked with
	timeout time.Duration
	kind    atomic.Int32
}

// Kinds of servers.
const (
	unknownKind int32 = iota
	prometheus
	victoria
)

// Dial checks o; nothing is sent.
func Dial(o Options) (*Server, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, errors.New("no URL: want http://HOST:9090") // url.Error has the password
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q: want http://HOST:9090 or https://…, without a query", u.Redacted())
	}
	password, basic := u.User.Password()
	if basic && o.BearerToken != "" {
		return nil, errors.New("a password in the URL and a bearer token: want one of them")
	}
	if strings.ContainsFunc(o.BearerToken, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the bearer token has blanks or other characters that no header takes")
	}
	s := &Server{name: u.Redacted(), secrets: []string{o.BearerToken, password}, timeout: cmp.Or(o.Timeout, DefaultTimeout)}
	client, err := api.NewClient(api.Config{Address: o.URL, Client: &http.Client{
		Transport: guarded{token: o.BearerToken, kind: &s.kind},
		// Credentials stay with the host they are for, and a query that was posted
		// would arrive without its words.
		CheckRedirect: func(r *http.Request, _ []*http.Request) error {
			return &redirectError{to: r.URL.Scheme + "://" + r.URL.Host}
		},
	}})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	s.api = v1.NewAPI(client)
	return s, nil
}

// Name is the server's URL, without a password.
func (s *Server) Name() string { return s.name }

// isVictoria reports whether the server is a VictoriaMetrics: its build information has no
// revision and no version of Go (1.79.5 has nothing in it, 1.148.9 "version":"2.24.0"), as
// Prometheus', Thanos' and Mimir's have. A server that does not say it is none; one that does
// not answer at all is asked again next time.
func (s *Server) isVictoria(ctx context.Context) (bool, error) {
	if s.kind.Load() != unknownKind {
		return s.kind.Load() == victoria, nil
	}
	var info v1.BuildinfoResult
	says := false
	err := s.ask(ctx, "build information", func(ctx context.Context) (err error) {
		info, err = s.api.Buildinfo(ctx)
		if says = err == nil; errors.As(err, new(*v1.Error)) || errors.As(err, new(*strayError)) {
			err = nil
		}
		return err
	})
	switch {
	case says && info.Revision == "" && info.GoVersion == "":
		s.kind.Store(victoria)
	case says:
		s.kind.Store(prometheus)
	}
	return s.kind.Load() == victoria, err
}

// victoriaWords are what its user is told.
const victoriaWords = "the server is VictoriaMetrics: rises are counted over whole scrape intervals"

// backKey is of a context's value: how far back VictoriaMetrics may look for a sample.
type backKey struct{}

// lookingBack is a context for questions about series that are scraped every so often:
// VictoriaMetrics otherwise takes what rose in a gap of minutes for the rise after it.
func lookingBack(ctx context.Context, every time.Duration) context.Context {
	return context.WithValue(ctx, backKey{}, time.Duration(mostGap*float64(every)))
}

// guarded is the default transport with a token, bounded answers, and what makes
// VictoriaMetrics answer as Prometheus does.
type guarded struct {
	token string
	kind  *atomic.Int32
}

// RoundTrip implements http.RoundTripper.
func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if g.token != "" {
		r.Header.Set("Authorization", "Bearer "+g.token)
	}
	if g.kind.Load() == victoria {
		// Without these an instant is 30 s ago, what a range has since then repeats what was
		// before (that since 1.83 only), and a long range begins at another time.
		q := r.URL.Query()
		q.Set("nocache", "1")
		q.Set("latency_offset", "1ms")
		if back, _ := r.Context().Value(backKey{}).(time.Duration); back > 0 {
			q.Set("max_lookback", promDuration(back))
		}
		r.URL.RawQuery = q.Encode()
	}
	resp, err := api.DefaultRoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusNotFound {
		return nil, errors.Join(&strayError{r.URL.Path}, resp.Body.Close())
	}
	resp.Body = &bounded{resp.Body, maxAnswer}
	return resp, nil
}

// bounded ends with an error where more than so many bytes come.
type bounded struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

var errTooLong = fmt.Errorf("an answer of more than %d MiB", maxAnswer>>20)

// ask bounds a question in time, and puts words to what went wrong.
func (s *Server) ask(ctx context.Context, what string, do func(context.Context) error) error {
	began := time.Now() // before the time begins to run out: what was waited is all of it then
	asked, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := do(asked)
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return s.explain(what, time.Since(began), err)
}

// ask is a query at an instant whose answer has a type: a vector, or of a range a matrix of
// the samples as they were scraped.
func ask[T model.Value](ctx context.Context, s *Server, query string, at time.Time) (T, error) {
	var out T
	err := s.ask(ctx, query, func(ctx context.Context) error {
		v, _, _, err := s.api.Query(ctx, query, at, v1.WithTimeout(s.timeout))
		if err != nil {
			return err
		}
		typed, ok := v.(T)
		if !ok {
			return &shapeError{want: out.Type(), got: v}
		}
		out = typed
		return nil
	})
	return out, err
}

// mostPoints is how many points of time one range query may have (Prometheus,
// web/api/v1: "exceeded maximum resolution of 11,000 points per timeseries").
const mostPoints = 11_000

// along is a query at every step from first to last, both included; in pieces
// that the server answers.
func (s *Server) along(ctx context.Context, query string, first, last time.Time, step time.Duration, more ...v1.Option) (model.Matrix, error) {
	var out model.Matrix
	for from := first; !from.After(last); from = from.Add(mostPoints * step) {
		to := from.Add((mostPoints - 1) * step)
		if to.After(last) {
			to = last
		}
		err := s.ask(ctx, query, func(ctx context.Context) error {
			v, _, _, err := s.api.QueryRange(ctx, query, v1.Range{Start: from, End: to, Step: step}, append(more, v1.WithTimeout(s.timeout))...)
			if err != nil {
				return err
			}
			m, ok := v.(model.Matrix)
			if !ok {
				return &shapeError{want: model.ValMatrix, got: v}
			}
			out = append(out, m...)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// values are those of a label over series that match.
func (s *Server) values(ctx context.Context, label, match string, from, to time.Time) ([]string, error) {
	var out []string
	err := s.ask(ctx, "values of the label "+label, func(ctx context.Context) error {
		vs, _, _, err := s.api.LabelValues(ctx, label, []string{match}, from, to)
		for _, v := range vs {
			if v != "" {
				out = append(out, string(v))
			}
		}
		return err
	})
	return out, err
}
