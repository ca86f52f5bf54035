package serve

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/profile"
)

//go:embed page.html
var page []byte //nolint:gochecknoglobals // embedding has no other form

// HandlerOptions make the HTTP side of planners.
type HandlerOptions struct {
	Runners []*Runner
	History *History
	Metrics *Metrics
	// Hosts are the names under which a browser may reach the planner, as engine.OwnHost
	// has it.
	Hosts []string
}

// Handler serves the page at /, /metrics, /healthz, /readyz, /api/v1/status and
// /api/v1/events?since=N. All of it is read only.
func Handler(o HandlerOptions) http.Handler {
	h := handler{o}
	registry := prometheus.NewRegistry()
	registry.MustRegister(h.Metrics, statusMetrics{h.Runners})
	guarded := http.NewServeMux()
	guarded.HandleFunc("GET /{$}", h.page)
	guarded.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	guarded.HandleFunc("GET /api/v1/status", h.status)
	guarded.HandleFunc("GET /api/v1/events", h.events)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { well(w) })
	mux.HandleFunc("GET /readyz", h.ready)
	mux.Handle("/", h.guard(guarded))
	return mux
}

type handler struct{ HandlerOptions }

// guard asks for a name that is ours.
func (h handler) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'")
		if !engine.OwnHost(r.Host, h.Hosts) {
			refuse(w, http.StatusForbidden, fmt.Errorf("the host name %q is not allowed. Use the planner's address, or allow the name", r.Host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (h handler) page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page) // the browser went away
}

// ready is 200 where another planner leads, and once every deployment was seen and its
// metrics were read, while neither fails for two intervals.
func (h handler) ready(w http.ResponseWriter, _ *http.Request) {
	for _, r := range h.Runners {
		switch s := r.Status(); {
		case s.Standby: // ready to take over
		case !s.Ready:
			refuse(w, http.StatusServiceUnavailable, fmt.Errorf("%s is not ready: %s", s.Name, cmp.Or(s.Waiting, strings.TrimSuffix("no metrics yet: "+s.Unheard, ": "))))
			return
		case s.Problem != "" && time.Since(s.SeenAt) > 2*s.Interval:
			refuse(w, http.StatusServiceUnavailable, fmt.Errorf("%s was not seen since %v: %s", s.Name, s.SeenAt.Format(time.RFC3339), s.Problem))
			return
		case s.Unheard != "" && time.Since(s.Heard) > 2*s.Interval:
			refuse(w, http.StatusServiceUnavailable, fmt.Errorf("%s: no metrics since %v: %s", s.Name, s.Heard.Format(time.RFC3339), s.Unheard))
			return
		}
	}
	well(w)
}

func well(w http.ResponseWriter) { _, _ = io.WriteString(w, "ok\n") } // a probe that went away

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the client went away
}

func refuse(w http.ResponseWriter, code int, err error) {
	answer(w, code, map[string]string{"error": err.Error()})
}

// statusAnswer is a deployment as the API shows it.
type statusAnswer struct {
	Status
	settings
}

// settings are what is planned for, under the names of the planner's flags.
type settings struct {
	TTFT   float64 `json:"ttft_ms,omitempty"`
	ITL    float64 `json:"itl_ms,omitempty"`
	MaxGPU int     `json:"max_gpu_budget"`
	MinGPU int     `json:"min_gpu_budget"`
	Min    int     `json:"min_endpoint"` // of every pool
	Max    int     `json:"max_endpoint"` // of every pool; 0: no bound
}

func settingsOf(d planner.Deployment) settings {
	return settings{
		TTFT: profile.Milliseconds(d.SLA.TTFT), ITL: profile.Milliseconds(d.SLA.ITL),
		MaxGPU: d.Budget.Max, MinGPU: d.Budget.Min, Min: d.Pools[0].Min, Max: d.Pools[0].Max,
	}
}

func (h handler) status(w http.ResponseWriter, _ *http.Request) {
	all := make([]statusAnswer, 0, len(h.Runners))
	for _, r := range h.Runners {
		all = append(all, statusAnswer{r.Status(), settingsOf(r.Deployment())})
	}
	answer(w, http.StatusOK, map[string]any{"deployments": all})
}

func (h handler) events(w http.ResponseWriter, r *http.Request) {
	number := cmp.Or(r.URL.Query().Get("since"), "0")
	since, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("since is %q: want the number that an earlier answer gave as next", number))
		return
	}
	events, next := h.History.Since(since)
	if events == nil {
		events = []Event{}
	}
	answer(w, http.StatusOK, map[string]any{"events": events, "next": next})
}
