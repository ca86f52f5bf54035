package frontend

import (
	"net/http"
	"strings"
	"testing"

	"plimsoll/engine"
)

// What a worker refuses, the client hears in the worker's words.
func TestRefusalsPassThrough(t *testing.T) {
	for name, workers := range map[string][]worker{
		"aggregated": {engineAt(t, "a", engine.RoleAggregated, quick)},
		"apart":      {engineAt(t, "p", engine.RolePrefill, quick), engineAt(t, "d", engine.RoleDecode, quick)},
	} {
		s := serve(t, Options{}, workers...)
		for body, want := range map[string]int{
			`{"model":"nobody/none","prompt":"a"}`:             http.StatusNotFound,
			`{"model":"test/model","prompt":""}`:               http.StatusBadRequest,
			`{"model":"test/model","prompt":"a","n":3}`:        http.StatusBadRequest,
			`{"model":"test/model","prompt":"a","stream":true`: http.StatusBadRequest,
			`[]`:   http.StatusBadRequest,
			`null`: http.StatusBadRequest,
			``:     http.StatusBadRequest,
			`{"model":"test/model","prompt":"a","max_tokens":-4}`: http.StatusBadRequest,
		} {
			if a := s.post(t.Context(), "/v1/completions", body); a.status != want || !strings.Contains(a.body, `"error"`) {
				t.Errorf("%s, %s: status %d, want %d: %s", name, body, a.status, want, a.body)
			}
		}
		if got := s.metric("dynamo_frontend_requests_total", `status="error"`); got != 8 {
			t.Errorf("%s: %v errors counted, want 8", name, got)
		}
		if got := s.metric("dynamo_frontend_requests_total", `error_type="not_found"`); got != 1 {
			t.Errorf("%s: %v not found, want 1", name, got)
		}
	}
}

func TestModelsHealthAndKey(t *testing.T) {
	const key = "secret-key"
	s := serve(t, Options{APIKey: key}, engineAt(t, "a", engine.RoleAggregated, quick), engineAt(t, "b", engine.RoleAggregated, quick))
	if status, body := s.get("/health"); status != http.StatusOK || !strings.Contains(body, `"name":"b"`) {
		t.Errorf("/health: %d %s", status, body)
	}
	if status, _ := s.get("/v1/models"); status != http.StatusUnauthorized {
		t.Errorf("/v1/models without a key: %d", status)
	}
	if a := s.post(t.Context(), "/v1/completions", ask("a", 2, false)); a.status != http.StatusUnauthorized || strings.Contains(a.body, key) {
		t.Errorf("without a key: %d %s", a.status, a.body)
	}
	if a := s.post(t.Context(), "/v1/completions", ask("a", 2, false), "Authorization", "Bearer "+key); a.status != http.StatusOK {
		t.Errorf("with the key: %d %s", a.status, a.body)
	}
	open := serve(t, Options{}, engineAt(t, "a", engine.RoleAggregated, quick), engineAt(t, "b", engine.RoleAggregated, quick))
	if status, body := open.get("/v1/models"); status != http.StatusOK || strings.Count(body, `"id":"test/model"`) != 1 {
		t.Errorf("/v1/models: %d %s", status, body)
	}
	open.front.SetWorkers(nil)
	if status, _ := open.get("/health"); status != http.StatusServiceUnavailable {
		t.Errorf("/health without workers: %d", status)
	}
	if status, body := open.get("/v1/models"); status != http.StatusOK || !strings.Contains(body, `"data":[]`) {
		t.Errorf("/v1/models without workers: %d %s", status, body)
	}
	if status, _ := open.get("/nothing"); status != http.StatusNotFound {
		t.Errorf("/nothing: %d", status)
	}
}
