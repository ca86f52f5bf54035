package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll/engine/field"
	"plimsoll/planner/tune"
)

// tunable is a setting of a policy that may be searched: a flag, and so a key of the
// planner's file.
type tunable struct {
	flag      string
	always    bool // searched where --tune does not say what
	kind      tunedKind
	low, high float64 // that are searched where nothing else is said
	step      float64
	log       bool // over orders of magnitude
	words     []string
	is        func(replayOptions) float64 // as it is set now
	word      func(replayOptions) string  // likewise, of one that is a word
}

// tunedKind is how a value is written.
type tunedKind int

const (
	tunedNumber tunedKind = iota
	tunedTime             // values are seconds
	tunedWhole
	tunedWord
)

// tunables are the parameters of a policy; none where it has none.
func tunables(policy string) []tunable {
	every := func(low, high time.Duration) tunable {
		return tunable{
			flag: "adjustment-interval", always: true, kind: tunedTime, low: low.Seconds(), high: high.Seconds(), step: 15,
			is: func(o replayOptions) float64 { return o.policies[0].settings.interval.Seconds() },
		}
	}
	predictor := func(words ...string) tunable {
		return tunable{
			flag: "load-predictor", always: true, kind: tunedWord, words: words,
			word: func(o replayOptions) string { return string(o.policies[0].settings.forecast.Kind) },
		}
	}
	number := func(flag string, low, high, step float64, is func(replayOptions) float64) tunable {
		return tunable{flag: flag, always: true, low: low, high: high, step: step, is: is}
	}
	switch policy {
	case "default":
		return []tunable{
			number("headroom", 0, 4, 0.1, func(o replayOptions) float64 { return o.policies[0].settings.careful.Margin }),
			{
				flag: "scale-down-after", always: true, kind: tunedTime, low: 15, high: 1800, step: 15,
				is: func(o replayOptions) float64 { return o.policies[0].settings.careful.StableFor.Seconds() },
			},
			every(30*time.Second, 5*time.Minute),
			predictor("auto", "constant", "arima", "kalman", "prophet"),
			{
				flag: "startup-time", kind: tunedTime, low: 15, high: 600, step: 15,
				is: func(o replayOptions) float64 { return o.policies[0].settings.careful.Ahead.Seconds() },
			},
			{
				flag: "max-scale-up", kind: tunedWhole, low: 0, high: 16, step: 1,
				is: func(o replayOptions) float64 { return float64(o.policies[0].settings.careful.MostUp) },
			},
			{
				flag: "max-scale-down", kind: tunedWhole, low: 0, high: 16, step: 1,
				is: func(o replayOptions) float64 { return float64(o.policies[0].settings.careful.MostDown) },
			},
		}
	case "upstream":
		return []tunable{
			every(30*time.Second, 10*time.Minute),
			predictor("constant", "arima", "kalman", "prophet"),
			{
				flag: "load-prediction-window-size", kind: tunedWhole, low: 5, high: 200, step: 5,
				is: func(o replayOptions) float64 { return float64(o.policies[0].settings.forecast.Window) },
			},
		}
	case "load":
		return []tunable{
			number("decode-kv-scale-up-threshold", 0.2, 0.98, 0.02, func(o replayOptions) float64 { return o.policies[0].settings.load.KVUp }),
			number("decode-kv-scale-down-threshold", 0.05, 0.9, 0.05, func(o replayOptions) float64 { return o.policies[0].settings.load.KVDown }),
			number("prefill-queue-scale-up-threshold", 0.05, 5, 0.05, func(o replayOptions) float64 { return o.policies[0].settings.load.QueueUp }).orders(),
			number("prefill-queue-scale-down-threshold", 0.01, 2, 0.01, func(o replayOptions) float64 { return o.policies[0].settings.load.QueueDown }).orders(),
			every(15*time.Second, 2*time.Minute),
		}
	case "hpa:sla", "keda:sla", "wva-v2:sla":
		return []tunable{number("hpa-utilization", 0.2, 1, 0.02, func(o replayOptions) float64 { return o.hpaFull })}
	default:
		return nil
	}
}

func (t tunable) orders() tunable {
	t.log = true
	return t
}

// tunedPolicies are those that have parameters, the default policy first.
func tunedPolicies() []string {
	var names []string
	for _, p := range plannerPolicies() {
		if len(tunables(p.name)) > 0 {
			names = append(names, p.name)
		}
	}
	slices.Reverse(names)
	return names
}

// text is a value as the flag takes it.
func (t tunable) text(v float64) string {
	switch t.kind {
	case tunedTime:
		return short(time.Duration(math.Round(v * float64(time.Second))))
	case tunedWhole:
		return itoa(int(v))
	case tunedWord:
		return t.words[int(v)]
	default:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
}

// searched is what is searched, in words.
func (t tunable) searched() string {
	if t.kind == tunedWord {
		return strings.Join(t.words, "|")
	}
	return t.text(t.low) + " to " + t.text(t.high)
}

// parameter is the same to the search; now is what the flags say.
func (t tunable) parameter(now replayOptions) tune.Parameter {
	p := tune.Parameter{Name: t.flag, Low: t.low, High: t.high, Step: t.step, Log: t.log, Choices: len(t.words)}
	if t.kind == tunedWord {
		p.Default = float64(slices.Index(t.words, t.word(now)))
	} else {
		p.Default = t.is(now)
	}
	return p
}

// with is the parameter with the word that is set now among those searched.
func (t tunable) with(now replayOptions) tunable {
	if t.kind == tunedWord && !slices.Contains(t.words, t.word(now)) {
		t.words = append(slices.Clone(t.words), t.word(now))
	}
	return t
}

// parseTunables reads --tune: names of a policy's parameters, each with a range or
// words where other ones are to be searched than the table's.
func parseTunables(s string, all []tunable) ([]tunable, error) {
	var out []tunable
	if strings.TrimSpace(s) == "" {
		for _, t := range all {
			if t.always {
				out = append(out, t)
			}
		}
		return out, nil
	}
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = t.flag
	}
	for word := range strings.SplitSeq(s, ",") {
		name, values, given := strings.Cut(strings.TrimSpace(word), "=")
		i := slices.Index(names, name)
		if i < 0 {
			e := field.Errorf("--tune %q: want some of %s, separated by commas, each with =LOW..HIGH where another range is to be searched", word, strings.Join(names, ", "))
			if n := nearest(name, names); n != "" && name != "" {
				e = e.Hint("did you mean %s?", n)
			}
			return nil, e
		}
		if slices.ContainsFunc(out, func(t tunable) bool { return t.flag == name }) {
			return nil, field.Errorf("--tune: %s is there twice", name)
		}
		t := all[i]
		if given {
			var err error
			if t, err = t.within(values); err != nil {
				return nil, field.Errorf("--tune %s: %v", word, err)
			}
		}
		out = append(out, t)
	}
	return out, nil
}

// within is the parameter in another range, or with fewer words.
func (t tunable) within(s string) (tunable, error) {
	if t.kind == tunedWord {
		return t.among(strings.Split(s, "|"))
	}
	low, high, ok := strings.Cut(s, "..")
	if !ok {
		return t, fmt.Errorf("want LOW..HIGH, such as %s..%s", t.text(t.low), t.text(t.high))
	}
	for _, x := range []struct {
		text string
		to   *float64
	}{{low, &t.low}, {high, &t.high}} {
		v, err := t.value(strings.TrimSpace(x.text))
		if err != nil {
			return t, err
		}
		*x.to = v
	}
	if t.low >= t.high {
		return t, fmt.Errorf("it goes from %s to %s: want the first below the second", t.text(t.low), t.text(t.high))
	}
	t.log = t.log && t.low > 0
	t.step = math.Min(t.step, t.high-t.low)
	return t, nil
}

// value reads one end of a range.
func (t tunable) value(s string) (float64, error) {
	switch t.kind {
	case tunedTime:
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 {
			return 0, fmt.Errorf("%q: want a time such as %s", s, t.text(t.high))
		}
		return d.Seconds(), nil
	case tunedWhole:
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n > maxReplicas {
			return 0, fmt.Errorf("%q: want a whole number from 0 to %d", s, maxReplicas)
		}
		return float64(n), nil
	default:
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || !(v >= 0 && v <= 1e6) {
			return 0, fmt.Errorf("%q: want a number from 0 to 1000000", s)
		}
		return v, nil
	}
}

// among is the parameter with some of its words.
func (t tunable) among(words []string) (tunable, error) {
	for i, w := range words {
		if !slices.Contains(t.words, w) || slices.Contains(words[:i], w) {
			return t, fmt.Errorf("%q: want some of %s, each once, with | between them", w, strings.Join(t.words, ", "))
		}
	}
	if len(words) < 2 {
		return t, fmt.Errorf("one word leaves nothing to choose: want two or more of %s", strings.Join(t.words, ", "))
	}
	t.words = words
	return t, nil
}
