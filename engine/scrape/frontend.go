package scrape

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
)

// Frontend is what Dynamo's frontend says of the workers of one model. It states
// each capacity once, as one worker registered it, however many there are (1.6.1).
type Frontend struct {
	KVTokens   int // 0 = it does not say; so with the others
	BlockSize  int // tokens
	MaxNumSeqs int // requests in a worker's batch
	Context    int // tokens
	Workers    int // that have given answers, of all models and since its start; some may be gone
}

// ParseFrontend reads the /metrics of Dynamo's frontend for what it says of a model.
// Requests that run are not among it: its dynamo_frontend_inflight_requests wait too, and
// dynamo_frontend_queued_requests are all without a first token, those in prefill too.
func ParseFrontend(text io.Reader, model string) (Frontend, error) {
	fs, err := parseFamilies(text)
	if err != nil {
		return Frontend{}, err
	}
	const stem = "dynamo_frontend_"
	of := func(name string) int {
		for _, m := range fs[stem+"model_"+name].GetMetric() {
			if v, ok := value(m); ok && strings.EqualFold(labelOf(m, "model"), model) {
				return positive(known(v)).Int()
			}
		}
		return 0
	}
	f := Frontend{BlockSize: of("kv_cache_block_size"), MaxNumSeqs: of("max_num_seqs"), Context: of("context_length")}
	f.KVTokens = positive(known(float64(f.BlockSize) * float64(of("total_kv_blocks")))).Int()
	if f == (Frontend{}) {
		return f, errors.New("not the metrics of Dynamo's frontend, or it does not know the model " + model)
	}
	workers := map[string]bool{}
	for _, m := range fs[stem+"worker_last_time_to_first_token_seconds"].GetMetric() {
		if labelOf(m, "worker_type") != "prefill" {
			workers[labelOf(m, "worker_id")] = true
		}
	}
	f.Workers = len(workers)
	return f, nil
}

// ReadFrontend asks url, the /metrics of Dynamo's frontend, once.
func ReadFrontend(ctx context.Context, client *http.Client, url, model string) (Frontend, error) {
	var f Frontend
	err := get(ctx, client, url, func(body io.Reader) (err error) {
		f, err = ParseFrontend(body, model)
		return err
	})
	return f, err
}
