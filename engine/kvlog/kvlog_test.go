package kvlog_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"plimsoll/engine/kvlog"
)

var (
	size  = kvlog.Line{Pattern: regexp.MustCompile(`size: ([0-9,]+) tokens`)}
	least = kvlog.Line{Pattern: size.Pattern, Least: true}
	whole = kvlog.Line{Pattern: size.Pattern, Whole: true}
	times = kvlog.Line{Pattern: regexp.MustCompile(`for ([0-9,]+) tokens: (\S+)x`)}
	free  = kvlog.Line{Pattern: regexp.MustCompile(`kv = (\S+)`)}
)

func TestTokens(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	for _, c := range []struct {
		name  string
		log   string
		lines []kvlog.Line
		ranks int
		want  int
		fails string
	}{
		{"one group", "size: 1,234 tokens\n", []kvlog.Line{size}, 1, 1234, ""},
		{"no end of line", "size: 5 tokens", []kvlog.Line{size}, 1, 5, ""},
		{"product", "for 8,192 tokens: 4.50x", []kvlog.Line{times}, 1, 36864, ""},
		{"the first kind goes before the second", "for 8 tokens: 2.00x\nsize: 17 tokens", []kvlog.Line{size, times}, 1, 17, ""},
		{"the last line holds", "size: 5 tokens\nsize: 7 tokens\nsize: 6 tokens", []kvlog.Line{size}, 1, 6, ""},
		{"the least holds", "size: 7 tokens\nsize: 5 tokens\nsize: 6 tokens", []kvlog.Line{least}, 1, 5, ""},
		{"a line without end", "load 10%\rload 100%\rsize: 7 tokens\n", []kvlog.Line{size}, 1, 7, ""},
		{"beside a long line", long + "\nsize: 9 tokens\n" + long, []kvlog.Line{size}, 1, 9, ""},
		{"a long line is cut", long + "size: 9 tokens\n", []kvlog.Line{size}, 1, 0, "does not state"},
		{"in colours", "\x1b[0;36m(EngineCore_DP0 pid=1)\x1b[0;0m size: \x1b[1m1\x1b[0m0 tokens\n\x1b[0;36m(EngineCore_DP1 pid=2)\x1b[0;0m size: 20 tokens", []kvlog.Line{size}, 2, 30, ""},
		{"ranks are added up", "(EngineCore_DP0 pid=1) size: 10 tokens\n(EngineCore_DP1 pid=2) size: 20 tokens", []kvlog.Line{size}, 2, 30, ""},
		{"the last line of each worker holds", "[DP0 TP0] size: 1 tokens\n[DP1 TP0] size: 2 tokens\n[DP0 TP0] size: 3 tokens", []kvlog.Line{size}, 2, 5, ""},
		{"the least worker of each rank holds", "[DP0 PP1 TP0] size: 5 tokens\n[DP1 PP0 TP0] size: 2 tokens\n[DP0 PP0 TP0] size: 9 tokens\n[DP1 PP1 TP0] size: 4 tokens", []kvlog.Line{size}, 2, 7, ""},
		{"so of workers without a rank", "[PP1 TP0] size: 5 tokens\n[PP0 TP0] size: 9 tokens", []kvlog.Line{size}, 1, 5, ""},
		{"so of vLLM's workers", "(Worker_DP1_PP0_TP1 pid=4) size: 5 tokens\n(Worker_DP0_PP0_TP1 pid=3) size: 9 tokens\n(Worker_DP1_PP1_TP1 pid=5) size: 7 tokens", []kvlog.Line{size}, 2, 14, ""},
		{"so of older ones", "(VllmWorker rank=0 pid=3) size: 5 tokens\n(VllmWorker rank=1 pid=4) size: 9 tokens", []kvlog.Line{size}, 1, 5, ""},
		{"so under MPI", "[TRT-LLM] [RANK 0] [I] size: 1 tokens\n[TRT-LLM] [RANK 1] [I] size: 1 tokens\n[TRT-LLM] [RANK 0] [I] size: 5 tokens\n[TRT-LLM] [RANK 1] [I] size: 9 tokens", []kvlog.Line{size}, 1, 5, ""},
		{"so under mpirun", "[1,0]<stdout>: size: 5 tokens\n[1,1]<stdout>: size: 9 tokens", []kvlog.Line{size}, 1, 5, ""},
		{"older mark of a rank", "(EngineCore_0 pid=1) size: 10 tokens\n(EngineCore_1 pid=2) size: 20 tokens", []kvlog.Line{size}, 2, 30, ""},
		{"ranks and a line without", "size: 1 tokens\n(EngineCore_DP0 pid=1) size: 10 tokens\n(EngineCore_DP1 pid=2) size: 20 tokens", []kvlog.Line{size}, 2, 30, ""},
		{"no rank in the mark", "(EngineCore pid=77) size: 10 tokens", []kvlog.Line{size}, 1, 10, ""},
		{"one rank speaks for all", "[DP0 TP0] size: 10 tokens", []kvlog.Line{size}, 4, 40, ""},
		{"no rank is named", "size: 10 tokens\nsize: 12 tokens", []kvlog.Line{size}, 4, 48, ""},
		{"the kind that more ranks state", "[DP0] size: 10 tokens\n[DP0] kv = 11\n[DP1] kv = 12", []kvlog.Line{size, free}, 2, 23, ""},
		{"more ranks than were asked for", "[DP0] size: 10 tokens\n[DP1] size: 12 tokens", []kvlog.Line{size}, 1, 22, ""},
		{"one rank is named, beside a line without", "size: 1 tokens\n[DP0] size: 10 tokens", []kvlog.Line{size}, 2, 20, ""},
		{"beyond every machine, together", "[DP0] kv = 6e11\n[DP1] kv = 6e11", []kvlog.Line{free}, 2, 0, "does not state"},
		{"of the whole engine", "[DP0] size: 10 tokens\n[DP1] size: 12 tokens", []kvlog.Line{whole}, 2, 12, ""},
		{"a float", "kv = 1e3", []kvlog.Line{free}, 1, 1000, ""},
		{"empty", "", []kvlog.Line{size}, 1, 0, "does not state its KV capacity"},
		{"no kinds", "size: 10 tokens", nil, 1, 0, "does not state its KV capacity"},
		{"no number", "kv = many\n", []kvlog.Line{free}, 1, 0, `"many" is not a number`},
		{"zero", "kv = 0\n", []kvlog.Line{free}, 1, 0, "no number of tokens"},
		{"negative", "kv = -5\n", []kvlog.Line{free}, 1, 0, "no number of tokens"},
		{"infinite", "kv = inf\n", []kvlog.Line{free}, 1, 0, "no number of tokens"},
		{"NaN", "kv = nan\n", []kvlog.Line{free}, 1, 0, "no number of tokens"},
		{"absurd", "kv = 99999999999999999999\n", []kvlog.Line{free}, 1, 0, "no number of tokens"},
		{"a good line, then a bad one", "kv = 5\nkv = 0\n", []kvlog.Line{free}, 1, 5, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := kvlog.Tokens(strings.NewReader(c.log), c.lines, c.ranks)
			if got != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("got %d, %v, want %d %s", got, err, c.want, c.fails)
			}
			kinds, other := kvlog.Kinds(strings.NewReader(c.log), c.lines, c.ranks)
			if fmt.Sprint(other) != fmt.Sprint(err) || err == nil && !slices.Contains(kinds, got) {
				t.Errorf("by kind %v, %v", kinds, other)
			}
		})
	}
}

func TestTokensUnreadable(t *testing.T) {
	broken := errors.New("broken")
	if _, err := kvlog.Tokens(iotest.ErrReader(broken), []kvlog.Line{size}, 1); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func FuzzTokens(f *testing.F) {
	f.Add("GPU KV cache size: 436,144 tokens\n", 1)
	f.Add("\x1b[1m(EngineCore_DP1 pid=1) for 4,096 tokens: 2.5x\nkv = 3", 7)
	f.Fuzz(func(t *testing.T, log string, ranks int) {
		n, err := kvlog.Tokens(strings.NewReader(log), []kvlog.Line{least, times, free}, ranks%1000)
		if (err == nil) != (n >= 1) || n > 1<<40 {
			t.Fatalf("%d tokens, %v", n, err)
		}
	})
}
