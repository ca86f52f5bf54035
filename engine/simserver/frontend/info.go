package frontend

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"plimsoll/engine/simserver"
)

const (
	// modelsTimeout bounds how long a worker may take to name its models.
	modelsTimeout = 2 * time.Second
	// maxInfo bounds what it may say.
	maxInfo = 1 << 20
)

// health is 200 where a request would find a worker, else 503.
func (f *Frontend) health(w http.ResponseWriter, _ *http.Request) {
	l := f.pool.load()
	status, word := http.StatusOK, "healthy"
	if !l.serves {
		status, word = http.StatusServiceUnavailable, "unhealthy"
	}
	type row struct {
		Name     string `json:"name"`
		Role     string `json:"role"`
		State    State  `json:"state"`
		InFlight int    `json:"in_flight"`
	}
	rows := make([]row, len(l.members))
	for i, m := range l.members {
		rows[i] = row{m.Name, string(m.Role), m.state(), m.inFlight}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct { // fails only where the client is gone
		Status  string `json:"status"`
		Workers []row  `json:"workers"`
	}{word, rows})
}

// models is the union of what the ready workers have; of two with one name the
// first worker's.
func (f *Frontend) models(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), modelsTimeout)
	defer cancel()
	var ready []member
	for _, m := range f.pool.load().members {
		if m.takes(time.Now()) {
			ready = append(ready, m)
		}
	}
	answers := make([]modelList, len(ready))
	var all sync.WaitGroup
	for i, m := range ready {
		all.Go(func() {
			list, err := f.modelsOf(ctx, m.URL, r.Header)
			if err != nil {
				f.log.Printf("warning: the models of worker %s: %v", m.Name, err)
			}
			answers[i] = list
		})
	}
	all.Wait()
	out := modelList{Object: "list", Data: []json.RawMessage{}}
	seen := map[string]bool{}
	for _, list := range answers {
		if p := list.provenance; p != "" {
			w.Header().Set(simserver.ProvenanceHeader, p)
		}
		for _, raw := range list.Data {
			var model struct{ ID string }
			if json.Unmarshal(raw, &model) == nil && !seen[model.ID] {
				seen[model.ID] = true
				out.Data = append(out.Data, raw)
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // fails only where the client is gone
}

// modelList is an answer to /v1/models.
type modelList struct {
	Object     string            `json:"object"`
	Data       []json.RawMessage `json:"data"`
	provenance string
}

func (f *Frontend) modelsOf(ctx context.Context, url string, header http.Header) (modelList, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/models", nil)
	if err != nil {
		return modelList{}, err
	}
	req.Header = passedOn(header)
	resp, err := f.client.Do(req)
	if err != nil {
		return modelList{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode != http.StatusOK {
		return modelList{}, fmt.Errorf("status %s", resp.Status)
	}
	list := modelList{provenance: resp.Header.Get(simserver.ProvenanceHeader)}
	return list, json.NewDecoder(io.LimitReader(resp.Body, maxInfo)).Decode(&list)
}
