package scrape

import (
	"encoding/json"
	"errors"
	"io"
)

// iteration is what TensorRT-LLM's /metrics says of one step, which it forgets
// once it was asked (docs of trtllm-serve; enable_iter_perf_stats).
type iteration struct {
	Number *float64 `json:"iter"`
	Active *float64 `json:"numActiveRequests"`
	Queued *float64 `json:"numQueuedRequests"`
	KV     struct {
		Most   float64 `json:"maxNumBlocks"`
		Used   float64 `json:"usedNumBlocks"`
		Tokens float64 `json:"tokensPerBlock"`
	} `json:"kvCacheStats"`
}

// parseIterations reads TensorRT-LLM's list of steps, of which the last tells how
// it is now. The list is empty where no step was made since it was asked last:
// nothing is known then, not that nothing runs, for a long prefill is one step.
func parseIterations(text io.Reader) (Reading, error) {
	var steps []iteration
	if err := decode(text, &steps); err != nil {
		return Reading{}, err
	}
	r := Reading{Engine: "trtllm"}
	if len(steps) == 0 {
		return r, nil
	}
	last := steps[len(steps)-1]
	r.Running, r.Waiting, r.Work = count(last.Active), count(last.Queued), count(last.Number)
	kv := last.KV
	r.BlockSize = positive(known(kv.Tokens))
	if r.KVTokens = positive(known(kv.Most * kv.Tokens)); r.KVTokens.Known && kv.Used >= 0 && kv.Used <= kv.Most {
		r.KVUsage = known(kv.Used / kv.Most)
	}
	return r, nil
}

func count(n *float64) Value {
	if n == nil || *n < 0 {
		return Value{}
	}
	return known(*n)
}

// ServerInfo is what SGLang says of itself.
type ServerInfo struct {
	Version  string
	KVTokens int // over all data-parallel ranks; 0 = it does not say
	Ranks    int // data-parallel
}

// ParseServerInfo reads the answer of SGLang's /server_info, whose first name was
// /get_server_info (python/sglang/srt/entrypoints/http_server.py): its arguments,
// what its scheduler said, and the state of each rank.
func ParseServerInfo(answer io.Reader) (ServerInfo, error) {
	var a struct {
		Version string          `json:"version"`
		Tokens  int             `json:"max_total_num_tokens"` // of one rank
		Ranks   json.RawMessage `json:"dp_size"`
		States  []struct {
			Memory struct {
				Tokens int `json:"token_capacity"`
			} `json:"memory_usage"`
		} `json:"internal_states"`
	}
	if err := decode(answer, &a); err != nil {
		return ServerInfo{}, err
	}
	var ranks int
	if json.Unmarshal(a.Ranks, &ranks) != nil || ranks < 1 || ranks > maxInfo {
		ranks = 1
	}
	info := ServerInfo{Version: a.Version, Ranks: ranks}
	for _, s := range a.States {
		if n := s.Memory.Tokens; n < 1 || n > maxInfo {
			info.KVTokens = 0
			break
		}
		info.KVTokens += s.Memory.Tokens
	}
	if info.KVTokens == 0 && a.Tokens >= 1 && a.Tokens <= maxInfo {
		info.KVTokens = a.Tokens * ranks
	}
	if info.Version == "" && info.KVTokens == 0 {
		return info, errors.New("not an answer of SGLang's /server_info")
	}
	return info, nil
}
