package trtllm_test

import (
	"errors"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/kvlog"
	"plimsoll/engine/trtllm"
)

// Upstream took the first line, which is of a trial run with little memory, and
// sized everything by it.
func TestKVTokensLastLineHolds_Dynamo6905(t *testing.T) {
	log := "[MemUsageChange] Allocated 0.53 GiB for max tokens in paged KV cache (8,224).\n" +
		"[MemUsageChange] Allocated 110.17 GiB for max tokens in paged KV cache (1,650,400).\n"
	if got, err := (trtllm.Server{}).KVTokens(engine.Config{}, strings.NewReader(log)); err != nil || got != 1650400 {
		t.Errorf("got %d, %v", got, err)
	}
}

// Where no line states it, upstream's profiler goes on with 100000 tokens
// (config_modifiers/trtllm.py); here it is not known.
func TestKVTokensOfSilentLog_DynamoAssumes100000(t *testing.T) {
	got, err := trtllm.Server{}.KVTokens(engine.Config{}, strings.NewReader("[TRT-LLM] [I] get signal from executor worker\n"))
	if got != 0 || !errors.Is(err, kvlog.ErrSilent) {
		t.Errorf("got %d, %v", got, err)
	}
}

// Prefill and decode have files of their own, and nothing of one is in the other.
func TestConfigOfItsOwn(t *testing.T) {
	at := engine.Launch{Port: 1, LogPath: "engines/decode_tp1.log"}
	decode, err := trtllm.Server{}.Spec(engine.Config{Model: "m", PrefixCaching: true, MemoryFraction: 0.8}, at)
	if err != nil || len(decode.Files) != 1 || decode.Files[0].Path != "engines/decode_tp1.yaml" {
		t.Fatalf("%v: %+v", err, decode.Files)
	}
	at.LogPath = "engines/prefill_tp1.log"
	prefill, err := trtllm.Server{}.Spec(engine.Config{Model: "m"}, at)
	if err != nil || len(prefill.Files) != 1 || prefill.Files[0].Path != "engines/prefill_tp1.yaml" || strings.Contains(prefill.Files[0].Text, "fraction") {
		t.Fatalf("%v: %+v", err, prefill.Files)
	}
	if _, err := (trtllm.Server{}).Spec(engine.Config{Model: "m"}, engine.Launch{Port: 1}); err == nil {
		t.Error("a launch without a log has a file")
	}
}
