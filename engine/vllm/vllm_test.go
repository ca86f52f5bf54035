package vllm_test

import (
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/vllm"
)

func TestSpec(t *testing.T) {
	for _, c := range []struct {
		cfg  engine.Config
		at   engine.Launch
		want string
	}{
		{
			engine.Config{Model: "m", Role: engine.RolePrefill, Parallelism: engine.TP(1)},
			engine.Launch{Port: 8123},
			"vllm serve m --host 127.0.0.1 --port 8123 --tensor-parallel-size 1 --no-enable-prefix-caching --seed 1",
		},
		{
			engine.Config{
				Model: "m", Role: engine.RoleDecode, PrefixCaching: true, KV: engine.FP8, MemoryFraction: 0.85,
				Parallelism: engine.Parallelism{TP: 2, PP: 2, DP: 2, EP: 4},
				Limits:      engine.Limits{MaxNumSeqs: 64, MaxNumBatchedTokens: 8192, MaxModelLen: 4096, BlockSize: 32},
			},
			engine.Launch{Port: 8000, Host: "0.0.0.0"},
			"vllm serve m --host 0.0.0.0 --port 8000 --tensor-parallel-size 2 --pipeline-parallel-size 2 " +
				"--data-parallel-size 2 --enable-expert-parallel --enable-prefix-caching --max-num-seqs 64 --max-num-batched-tokens 8192 " +
				"--max-model-len 4096 --block-size 32 --kv-cache-dtype fp8 --gpu-memory-utilization 0.85 --seed 1",
		},
	} {
		s, err := vllm.Server{Extra: []string{"--seed", "1"}}.Spec(c.cfg, c.at)
		if got := strings.Join(s.Argv, " "); err != nil || got != c.want {
			t.Errorf("%v\ngot  %q\nwant %q", err, got, c.want)
		}
	}
	if _, err := (vllm.Server{}).Spec(engine.Config{}, engine.Launch{Port: 1}); err == nil {
		t.Error("no model is accepted")
	}
}
