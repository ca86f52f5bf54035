package command_test

import (
	"regexp"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/command"
)

func TestParseKVPattern(t *testing.T) {
	for pattern, want := range map[string]string{
		`([0-9]+)`: "", `(\d+) x (\d+)`: "", `(?:a|b)(\d+)`: "", `(?P<n>\d+)`: "",
		`[0-9]+`: "put the number in parentheses", `(a)(b)(c)`: "has 3 groups", `(`: "missing closing )", "": "parentheses",
	} {
		_, err := command.ParseKVPattern(pattern)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", pattern, err, want)
		}
	}
}

// Without a pattern the lines of every engine that is known by name are read, with
// one the last line holds for the whole engine.
func TestKVTokens(t *testing.T) {
	dp2 := engine.Config{Parallelism: engine.Parallelism{DP: 2}}
	for _, c := range []struct {
		pattern, log string
		want         int
	}{
		{"", "(EngineCore_DP0 pid=1) GPU KV cache size: 436,144 tokens\n(EngineCore_DP1 pid=2) GPU KV cache size: 430,000 tokens", 866144},
		{"", "[2026-01-01 DP0 TP0] max_total_num_tokens=442331, chunked_prefill_size=8192", 884662},
		{"", "Allocated 0.5 GiB for max tokens in paged KV cache (8224).\nAllocated 9 GiB for max tokens in paged KV cache (65536).", 131072},
		{"", "n_slots = 8, n_ctx_slot = 4096, kv_unified = 'false'", 32768},
		{"", "hello", 0},
		{`kv = ([\d,]+)`, "[DP0] kv = 1,000\n[DP1] kv = 2,000", 2000},
		{`for ([\d,]+) tokens per request: ([\d.]+)x`, "for 8,192 tokens per request: 4.50x", 36864},
		{`kv = (\d+)`, "hello", 0},
	} {
		tmpl := command.Template{}
		if c.pattern != "" {
			tmpl.KVPattern = regexp.MustCompile(c.pattern)
		}
		if got, err := tmpl.KVTokens(dp2, strings.NewReader(c.log)); got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%q in %q: got %d, %v, want %d", c.pattern, c.log, got, err, c.want)
		}
	}
}
