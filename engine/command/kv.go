package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
)

const (
	// lineBytes is how much of one log line is looked at.
	lineBytes = 64 << 10
	// maxKVTokens is beyond every machine: a larger number is a misread line.
	maxKVTokens = 1 << 40
)

// knownLines are the lines in which engines state their KV capacity, the more
// direct ones first. vLLM v1 prints the first two for each engine core
// (vllm/v1/core/kv_cache_utils.py), SGLang the third (scheduler.py); formats as quoted in public reports.
// llama.cpp's server prints one of the last two (b11669): its slots have a
// context each, or share one.
var knownLines = []*regexp.Regexp{
	regexp.MustCompile(`GPU KV cache size: ([0-9][0-9,]*) tokens`),
	regexp.MustCompile(`Maximum concurrency for ([0-9][0-9,]*) tokens per request: ([0-9][0-9,.]*)x`),
	regexp.MustCompile(`max_total_num_tokens=([0-9]+)`),
	regexp.MustCompile(`n_slots = ([0-9]+), n_ctx_slot = ([0-9]+), kv_unified = 'false'`),
	regexp.MustCompile(`n_ctx_slot = ([0-9]+), kv_unified = 'true'`),
}

// rank is vLLM's mark of a data-parallel engine core in front of its lines.
var rank = regexp.MustCompile(`\(EngineCore_(?:DP)?([0-9]+)\b|\bDP([0-9]+)\b`)

// ParseKVPattern compiles a user's pattern for the line with the KV capacity. It
// must have one group, the number of tokens, or two, whose product it is (vLLM's
// "for T tokens per request: Cx"). Numbers may have commas.
func ParseKVPattern(s string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(s)
	if err != nil {
		return nil, fmt.Errorf("KV tokens pattern %q: %w", s, err)
	}
	switch re.NumSubexp() {
	case 1, 2:
		return re, nil
	case 0:
		return nil, fmt.Errorf("KV tokens pattern %q: put the number in parentheses, as in \"KV cache size: ([0-9,]+) tokens\"", s)
	default:
		return nil, fmt.Errorf("KV tokens pattern %q: it has %d groups; want one (tokens) or two (their product): write (?:…) for those that only group", s, re.NumSubexp())
	}
}

// KVTokensFromLog reads an engine's log for its KV capacity in tokens, over all
// its data-parallel ranks. With a pattern, as ParseKVPattern gives it, the last
// line that matches holds: engines print estimates before they know, and the
// first line misleads. Without one (nil), the lines of vLLM, SGLang and llama.cpp are known;
// where data-parallel ranks print one each, their last ones are added up.
func KVTokensFromLog(lines io.Reader, pattern *regexp.Regexp) (int, error) {
	patterns := knownLines
	if pattern != nil {
		patterns = []*regexp.Regexp{pattern}
	}
	found := make([]map[string]float64, len(patterns)) // by rank
	var odd error
	err := eachLine(lines, func(line string) {
		for i, re := range patterns {
			at := re.FindStringSubmatchIndex(line)
			if at == nil {
				continue
			}
			n, err := product(re.FindStringSubmatch(line)[1:])
			if err != nil {
				odd = fmt.Errorf("log line %q: %w", line[at[0]:at[1]], err)
				continue
			}
			if found[i] == nil {
				found[i] = map[string]float64{}
			}
			key := ""
			if pattern == nil {
				key = rankOf(line[:at[0]])
			}
			found[i][key] = n
		}
	})
	if err != nil {
		return 0, fmt.Errorf("reading the engine's log: %w", err)
	}
	for _, byRank := range found {
		if n := total(byRank); n >= 1 {
			return int(n), nil
		}
	}
	if odd != nil {
		return 0, odd
	}
	if pattern != nil {
		return 0, fmt.Errorf("no line of the engine's log matches %q: check the pattern against the log", pattern)
	}
	return 0, errors.New("the engine's log does not state its KV capacity in a known way: give it in tokens, or a pattern for the line")
}

// total adds up the ranks; lines without rank (key "") count only if none has one.
func total(byRank map[string]float64) float64 {
	var sum float64
	for key, n := range byRank {
		if key != "" || len(byRank) == 1 {
			sum += n
		}
	}
	return sum
}

func rankOf(prefix string) string {
	m := rank.FindStringSubmatch(prefix)
	if m == nil {
		return ""
	}
	return m[1] + m[2]
}

// product multiplies what the groups of a pattern hold.
func product(groups []string) (float64, error) {
	p := 1.0
	for _, g := range groups {
		n, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(g), ",", ""), 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a number", g)
		}
		p *= n
	}
	if math.IsNaN(p) || p < 1 || p > maxKVTokens {
		return 0, fmt.Errorf("%g is no number of tokens", p)
	}
	return p, nil
}

// eachLine calls f for each line, of which very long ones are cut.
func eachLine(r io.Reader, f func(string)) error {
	b := bufio.NewReaderSize(r, lineBytes)
	for {
		line, err := b.ReadSlice('\n')
		if len(line) > 0 {
			f(string(line))
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = b.ReadSlice('\n')
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
