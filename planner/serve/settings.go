package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"plimsoll/planner"
	"plimsoll/profile"
)

// Settings are what may be changed while a planner runs, under the names of its
// flags. In a request absent ones stay as they are.
type Settings struct {
	TTFT   *float64 `json:"ttft_ms,omitempty"`
	ITL    *float64 `json:"itl_ms,omitempty"`
	MaxGPU *int     `json:"max_gpu_budget,omitempty"`
	MinGPU *int     `json:"min_gpu_budget,omitempty"`
	Min    *int     `json:"min_endpoint,omitempty"` // of every pool
	Max    *int     `json:"max_endpoint,omitempty"` // of every pool; 0: no bound
}

func settingsOf(d planner.Deployment) Settings {
	s := Settings{MaxGPU: &d.Budget.Max, MinGPU: &d.Budget.Min}
	if ttft := profile.Milliseconds(d.SLA.TTFT); ttft > 0 {
		s.TTFT = &ttft
	}
	if itl := profile.Milliseconds(d.SLA.ITL); itl > 0 {
		s.ITL = &itl
	}
	if len(d.Pools) > 0 {
		s.Min, s.Max = &d.Pools[0].Min, &d.Pools[0].Max
	}
	return s
}

// mostMillis bounds a latency in ms, so that it fits a duration.
const mostMillis = 1e9

// apply is d with the settings that are there.
func (s Settings) apply(d planner.Deployment) (planner.Deployment, error) {
	for _, x := range []struct {
		name string
		v    *float64
		to   *time.Duration
	}{{"ttft_ms", s.TTFT, &d.SLA.TTFT}, {"itl_ms", s.ITL, &d.SLA.ITL}} {
		if x.v == nil {
			continue
		}
		if !(*x.v > 0 && *x.v <= mostMillis) {
			return d, fmt.Errorf("%s is %v: want above 0 to %v", x.name, *x.v, mostMillis)
		}
		*x.to = time.Duration(*x.v * float64(time.Millisecond))
	}
	pools := make([]planner.Pool, len(d.Pools))
	copy(pools, d.Pools)
	set := func(v *int, to *int) {
		if v != nil {
			*to = *v
		}
	}
	for i := range pools {
		set(s.Min, &pools[i].Min)
		set(s.Max, &pools[i].Max)
	}
	d.Pools = pools
	set(s.MaxGPU, &d.Budget.Max)
	set(s.MinGPU, &d.Budget.Min)
	return d, nil
}

// runner is the one that a request's path names.
func (h handler) runner(w http.ResponseWriter, req *http.Request) *Runner {
	name := req.PathValue("name")
	for _, r := range h.Runners {
		if r.o.Name == name {
			return r
		}
	}
	refuse(w, http.StatusNotFound, fmt.Errorf("no deployment %q here", name))
	return nil
}

func (h handler) pause(paused bool) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		if r := h.runner(w, req); r != nil {
			r.Pause(paused)
			answer(w, r.Status())
		}
	}
}

// maxBody bounds a request's body.
const maxBody = 64 << 10

func (h handler) change(w http.ResponseWriter, req *http.Request) {
	r := h.runner(w, req)
	if r == nil {
		return
	}
	dec := json.NewDecoder(io.LimitReader(req.Body, maxBody))
	dec.DisallowUnknownFields()
	var s Settings
	if err := dec.Decode(&s); err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("the settings are not to be read: %w", err))
		return
	}
	if err := r.Change(s.apply); err != nil {
		refuse(w, http.StatusUnprocessableEntity, err)
		return
	}
	answer(w, statusAnswer{r.Status(), settingsOf(r.Deployment())})
}
