package command_test

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"plimsoll/engine/command"
)

func TestKVTokensFromKnownLogs(t *testing.T) {
	for file, want := range map[string]int{"vllm-tp.log": 436144, "vllm-dp2.log": 866144, "sglang.log": 442331, "llamacpp.log": 32768, "llamacpp-unified.log": 8192} {
		f, err := os.Open("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := command.KVTokensFromLog(f, nil)
		if err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", file, got, err, want)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestKVTokens(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	for _, c := range []struct {
		name, log, pattern string
		want               int
		fails              string
	}{
		{"one group", "kv = 1,234 tokens\n", `kv = ([\d,]+)`, 1234, ""},
		{"no end of line", "kv = 5", `kv = (\d+)`, 5, ""},
		{"product", "Maximum concurrency for 8,192 tokens per request: 4.50x", `for ([\d,]+) tokens per request: ([\d.]+)x`, 36864, ""},
		{"known product", "Maximum concurrency for 8,192 tokens per request: 4.50x", "", 36864, ""},
		{"the size goes before the product", "Maximum concurrency for 8 tokens per request: 2.00x\nGPU KV cache size: 17 tokens", "", 17, ""},
		{"after a progress bar", "load 10%\rload 100%\rkv = 7\n", `kv = (\d+)`, 7, ""},
		{"beside a long line", long + "\nkv = 9\n" + long, `kv = (\d+)`, 9, ""},
		{"a float", "kv = 1e3", `kv = (\S+)`, 1000, ""},
		{"ranks and a line without", "GPU KV cache size: 1 tokens\n(EngineCore_DP0 pid=1) GPU KV cache size: 10 tokens\n(EngineCore_DP1 pid=2) GPU KV cache size: 20 tokens", "", 30, ""},
		{"newer engine core without rank", "(EngineCore pid=77) INFO GPU KV cache size: 10 tokens", "", 10, ""},
		{"empty", "", "", 0, "does not state its KV capacity"},
		{"no match", "hello\n", `kv = (\d+)`, 0, "no line of the engine's log matches"},
		{"no number", "kv = many\n", `kv = (\w+)`, 0, `"many" is not a number`},
		{"zero", "kv = 0\n", `kv = (\d+)`, 0, "no number of tokens"},
		{"negative", "kv = -5\n", `kv = (\S+)`, 0, "no number of tokens"},
		{"infinite", "kv = inf\n", `kv = (\S+)`, 0, "no number of tokens"},
		{"NaN", "kv = nan\n", `kv = (\S+)`, 0, "no number of tokens"},
		{"absurd", "kv = 99999999999999999999\n", `kv = (\d+)`, 0, "no number of tokens"},
		{"a good line, then a bad one", "kv = 5\nkv = 0\n", `kv = (\d+)`, 5, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var re *regexp.Regexp
			if c.pattern != "" {
				var err error
				if re, err = command.ParseKVPattern(c.pattern); err != nil {
					t.Fatal(err)
				}
			}
			got, err := command.KVTokensFromLog(strings.NewReader(c.log), re)
			if got != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("got %d, %v, want %d %s", got, err, c.want, c.fails)
			}
		})
	}
}

// Upstream took the first line, which TensorRT-LLM prints for a trial run with
// little memory, and sized everything by it.
func TestKVTokensLastLineHolds_Dynamo6905(t *testing.T) {
	log := "[MemUsageChange] Allocated 0.53 GiB for max tokens in paged KV cache (8,224).\n" +
		"[MemUsageChange] Allocated 110.17 GiB for max tokens in paged KV cache (1,650,400).\n"
	re, err := command.ParseKVPattern(`max tokens in paged KV cache \(([0-9,]+)\)`)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := command.KVTokensFromLog(strings.NewReader(log), re); err != nil || got != 1650400 {
		t.Errorf("got %d, %v", got, err)
	}
}

func TestKVTokensUnreadable(t *testing.T) {
	broken := errors.New("broken")
	if _, err := command.KVTokensFromLog(iotest.ErrReader(broken), nil); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

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

func FuzzKVTokensFromLog(f *testing.F) {
	f.Add("GPU KV cache size: 436,144 tokens\n", `size: ([\d,]+)`)
	f.Add("(EngineCore_DP1 pid=1) Maximum concurrency for 4,096 tokens per request: 2.5x", "")
	f.Fuzz(func(t *testing.T, log, pattern string) {
		re, err := command.ParseKVPattern(pattern)
		if err != nil {
			re = nil
		}
		n, err := command.KVTokensFromLog(strings.NewReader(log), re)
		if (err == nil) != (n >= 1) {
			t.Fatalf("%d tokens, %v", n, err)
		}
	})
}
