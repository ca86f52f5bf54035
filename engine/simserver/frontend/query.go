package frontend

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
)

// query is what the frontend reads of a request; the rest is the worker's.
type query struct {
	Model         string
	Stream        bool
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxCompletionTokens int `json:"max_completion_tokens"`

	body   []byte // as it came
	fields object // the same, taken apart where it must be changed
}

// object is a JSON object whose values stay as they are.
type object map[string]json.RawMessage

// parseQuery reads a body. What is wrong with a value is for the worker to say,
// where the frontend can still tell how to pass the answer on.
func parseQuery(body []byte) (query, error) {
	q := query{body: body}
	if err := json.Unmarshal(body, &q); err != nil {
		return query{}, fmt.Errorf("the body is not a valid request: %w", err)
	}
	return q, nil
}

// with is the body with other values of some fields; nil takes one out.
func (q *query) with(changes map[string]any) ([]byte, error) {
	if q.fields == nil {
		if err := json.Unmarshal(q.body, &q.fields); err != nil {
			return nil, err
		}
		if q.fields == nil {
			return nil, errors.New("the body is null")
		}
	}
	out := maps.Clone(q.fields)
	for k, v := range changes {
		if v == nil {
			delete(out, k)
			continue
		}
		b, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		out[k] = b
	}
	return json.Marshal(out)
}

// counted is the body of a request whose answer says how many tokens it has.
func (q *query) counted(changes map[string]any) ([]byte, error) {
	if !q.Stream || q.StreamOptions.IncludeUsage {
		if len(changes) == 0 {
			return q.body, nil
		}
		return q.with(changes)
	}
	all := map[string]any{"stream_options": map[string]any{"include_usage": true}}
	maps.Copy(all, changes)
	return q.with(all)
}

// prefill is the body for a prefill worker: one token, which nobody gets, and the KV
// kept for another worker (vLLM, tests/v1/kv_connector/nixl_integration/
// toy_proxy_server.py of its main branch, November 2026).
func (q *query) prefill() ([]byte, error) {
	changes := map[string]any{
		"stream": false, "stream_options": nil, "max_tokens": 1, "min_tokens": nil,
		"kv_transfer_params": map[string]any{
			"do_remote_decode": true, "do_remote_prefill": false,
			"remote_engine_id": nil, "remote_block_ids": nil, "remote_host": nil, "remote_port": nil,
		},
	}
	if q.MaxCompletionTokens != 0 {
		changes["max_completion_tokens"] = 1
	}
	return q.with(changes)
}
