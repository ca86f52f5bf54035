package serve

import (
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

//go:embed page.html
var page []byte //nolint:gochecknoglobals // embedding has no other form

// HandlerOptions make the HTTP side of planners.
type HandlerOptions struct {
	Runners []*Runner
	History *History
	Metrics *Metrics
	Token   string // that everything but the probes asks for; empty: none
	// Certificates asks everything but the probes for a client's certificate,
	// which the listener has verified.
	Certificates bool
	// Hosts are the names under which a browser may reach the planner where there
	// is no token; loopback names are allowed always. It keeps a foreign page from
	// reaching the planner through a name of its own (DNS rebinding).
	Hosts []string
}

// Handler serves the page at /, /metrics, /healthz, /readyz, and the API:
//
//	GET   /api/v1/status
//	GET   /api/v1/events?since=N
//	POST  /api/v1/deployments/NAME/pause, …/resume
//	PATCH /api/v1/deployments/NAME         {"ttft_ms":…, "max_gpu_budget":…}
func Handler(o HandlerOptions) http.Handler {
	h := handler{o}
	guarded := http.NewServeMux()
	guarded.HandleFunc("GET /{$}", h.page)
	guarded.Handle("GET /metrics", h.metrics())
	guarded.HandleFunc("GET /api/v1/status", h.status)
	guarded.HandleFunc("GET /api/v1/events", h.events)
	guarded.HandleFunc("POST /api/v1/deployments/{name}/pause", h.pause(true))
	guarded.HandleFunc("POST /api/v1/deployments/{name}/resume", h.pause(false))
	guarded.HandleFunc("PATCH /api/v1/deployments/{name}", h.change)
	mux := h.probes()
	mux.Handle("/", h.guard(http.NewCrossOriginProtection().Handler(guarded)))
	return mux
}

// MetricsHandler serves /metrics, /healthz and /readyz, and asks nobody for
// anything: there is nothing to control.
func MetricsHandler(o HandlerOptions) http.Handler {
	h := handler{o}
	mux := h.probes()
	mux.Handle("GET /metrics", h.metrics())
	return mux
}

func (h handler) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(h.Metrics, statusMetrics{h.Runners})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

func (h handler) probes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { well(w) })
	mux.HandleFunc("GET /readyz", h.ready)
	return mux
}

type handler struct{ HandlerOptions }

// guard asks for the token, and where there is none for a name that is ours.
func (h handler) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'")
		if h.Certificates && (r.TLS == nil || len(r.TLS.PeerCertificates) == 0) {
			refuse(w, http.StatusUnauthorized, errors.New("a client certificate is wanted"))
			return
		}
		if h.Token == "" {
			if !h.Certificates && !h.ours(r.Host) {
				refuse(w, http.StatusForbidden, fmt.Errorf("the host name %q is not the planner's", r.Host))
				return
			}
		} else if !h.knows(r) {
			w.Header().Set("WWW-Authenticate", `Basic realm="plimsoll planner", charset="UTF-8"`)
			refuse(w, http.StatusUnauthorized, errors.New("a token is wanted: Authorization: Bearer TOKEN, or any user with it as password"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// knows compares the token, a bearer's or a browser's password.
func (h handler) knows(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		_, given, ok = r.BasicAuth()
	}
	return ok && subtle.ConstantTimeCompare([]byte(given), []byte(h.Token)) == 1
}

// ours reports whether a Host header names this planner.
func (h handler) ours(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if ip := net.ParseIP(host); ip != nil {
		return true // a name is needed to rebind
	}
	for _, name := range append([]string{"localhost"}, h.Hosts...) {
		if strings.EqualFold(host, name) {
			return true
		}
	}
	return false
}

func (h handler) page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page) // the browser went away
}

// ready is 200 where another planner leads, and once every deployment was seen, and its last look did not fail.
func (h handler) ready(w http.ResponseWriter, _ *http.Request) {
	for _, r := range h.Runners {
		switch s := r.Status(); {
		case s.Standby: // ready to take over
		case !s.Ready:
			refuse(w, http.StatusServiceUnavailable, fmt.Errorf("%s was not seen yet", s.Name))
			return
		case s.Problem != "" && time.Since(s.SeenAt) > 2*s.Interval:
			refuse(w, http.StatusServiceUnavailable, fmt.Errorf("%s was not seen since %v: %s", s.Name, s.SeenAt.Format(time.RFC3339), s.Problem))
			return
		}
	}
	well(w)
}

func well(w http.ResponseWriter) { _, _ = io.WriteString(w, "ok\n") } // a probe that went away

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client went away
}

func refuse(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()}) // the client went away
}

// statusAnswer is a deployment as the API shows it.
type statusAnswer struct {
	Status
	Settings
}

func (h handler) status(w http.ResponseWriter, _ *http.Request) {
	all := make([]statusAnswer, 0, len(h.Runners))
	for _, r := range h.Runners {
		all = append(all, statusAnswer{r.Status(), settingsOf(r.Deployment())})
	}
	answer(w, map[string]any{"deployments": all})
}

func (h handler) events(w http.ResponseWriter, r *http.Request) {
	since := uint64(0)
	if s := r.URL.Query().Get("since"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			refuse(w, http.StatusBadRequest, fmt.Errorf("since is %q: want the number that an earlier answer gave as next", s))
			return
		}
		since = n
	}
	events, next := h.History.Since(since)
	if events == nil {
		events = []Event{}
	}
	answer(w, map[string]any{"events": events, "next": next})
}
