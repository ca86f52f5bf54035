package observe

import (
	"slices"
	"strconv"
	"strings"
)

// Names are the metrics in which a server says what it did. Of several names for
// one thing the first that has series is taken: the newer names come first.
// Histograms are named without _bucket, _sum and _count. A single series may be named
// with a label that it must have, as name{label="value"}; its server has all values of
// the label from the start. An empty list means that this server does not say.
type Names struct {
	Preset string // "vllm": what the names are called together

	// Started counts requests as they arrive, FirstTokens as they get their first token,
	// whoever leaves afterwards, Finished as they end. Demand read at the end stops growing
	// where the engines are full: the first of the three that there is is taken, and what
	// the requests that it has not counted yet, as gauges have them, grew by. A server with
	// FirstTokens counts OutputTokens as they are made.
	Started     []string
	FirstTokens []string
	Finished    []string

	// Lengths in tokens: a histogram with one value for each request; where there
	// is none, counters of tokens give the mean.
	ISL          []string
	OSL          []string
	PromptTokens []string
	OutputTokens []string

	// Counters of prompt tokens: those that were looked up in a prefix cache, and of
	// them those that it held. Each of Hits goes with the one in its place in Lookups.
	Lookups []string
	Hits    []string

	// Histograms in seconds.
	TTFT []string
	ITL  []string // gaps between tokens, or between steps or events of several
	TPOT []string // one value for each request: its mean gap
	E2E  []string

	Running []string // requests now
	Waiting []string // requests now: all that have series are added up
	// Queue are those of Waiting that no engine has room for. Where it comes to Waiting's own
	// name, requests whose KV cache is on its way to a decode engine are among them; where
	// it is empty there are none such.
	Queue   []string
	KVUse   []string // fraction of 1, of each engine
	Engines []string // a gauge with one series for each engine, for counting them

	// Labels; "" = these metrics have none.
	Model     string
	Namespace string
	// Shares is a label by which Running and Waiting are split beside a series of
	// the whole, where it is empty; "" = none.
	Shares string
	// LowerCase says that the model's name is in lower case here, whatever it is
	// elsewhere.
	LowerCase bool

	// Phase is a label that has "prefill" where a request is counted once for each phase.
	Phase string
	// Only are labels that a series must have, for names that other programs use too.
	Only map[string]string
	// Lacks is why this version of a server says no number of running and waiting
	// requests; "" = it does. Requests are counted as they end then.
	Lacks string

	// PerEngine says that each engine counts the requests that it saw: with
	// prefill and decode apart a request is counted in both.
	PerEngine bool
	// RunningHasWaiting says that Running counts what is waiting too.
	RunningHasWaiting bool
}

// lists are all lists of names: those of single series, and those of histograms.
func (n *Names) lists() (single, histograms []*[]string) {
	return []*[]string{&n.Started, &n.FirstTokens, &n.Finished, &n.PromptTokens, &n.OutputTokens, &n.Lookups, &n.Hits, &n.Running, &n.Waiting, &n.Queue, &n.KVUse, &n.Engines},
		[]*[]string{&n.ISL, &n.OSL, &n.TTFT, &n.ITL, &n.TPOT, &n.E2E}
}

// all are the series' names that n may have, histograms by their count.
func (n Names) all() []string {
	single, histograms := n.lists()
	var out []string
	for _, list := range single {
		for _, name := range *list {
			base, _ := split(name)
			out = append(out, base)
		}
	}
	for _, list := range histograms {
		for _, h := range *list {
			out = append(out, h+"_count")
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// having keeps of every list the first name that has series; of Waiting all.
func (n Names) having(series []string) Names {
	has := func(name, suffix string) bool {
		base, _ := split(name)
		return slices.Contains(series, base+suffix)
	}
	only := func(names []string, suffix string) []string {
		if i := slices.IndexFunc(names, func(name string) bool { return has(name, suffix) }); i >= 0 {
			return names[i : i+1 : i+1]
		}
		return nil
	}
	waiting := slices.DeleteFunc(slices.Clone(n.Waiting), func(name string) bool { return !has(name, "") })
	if hits := only(n.Hits, ""); len(hits) > 0 {
		n.Lookups = n.Lookups[slices.Index(n.Hits, hits[0]):][:1:1]
	}
	single, histograms := n.lists()
	for _, list := range single {
		*list = only(*list, "")
	}
	for _, list := range histograms {
		*list = only(*list, "_count")
	}
	n.Waiting = waiting
	return n
}

// split is a name, and the label that its series must have.
func split(name string) (base string, fixed labels) {
	base, rest, ok := strings.Cut(strings.TrimSuffix(name, "}"), "{")
	if !ok {
		return name, nil
	}
	label, quoted, _ := strings.Cut(rest, "=")
	value, _ := strconv.Unquote(quoted)
	return base, labels{label: value}
}

// requestNames are all that its counter of requests may be called.
func (n Names) requestNames() []string { return slices.Concat(n.Started, n.FirstTokens, n.Finished) }

// requests is the counter of requests, as early as there is one; "" = none.
func (n Names) requests() string {
	return first(n.requestNames())
}

// held are the lists of gauges of requests that came and that requests() does not have yet.
func (n Names) held() [][]string {
	switch {
	case len(n.Started) > 0 || n.Lacks != "":
		return nil
	case len(n.FirstTokens) > 0:
		return [][]string{n.Waiting}
	case n.RunningHasWaiting:
		return [][]string{n.Running}
	}
	return [][]string{n.Running, n.Waiting}
}

// queue are the gauges of what waits for room at an engine, and mixed reports whether
// requests are among it whose KV cache is on its way.
func (n Names) queue() (gauges []string, mixed bool) {
	if len(n.Queue) == 0 {
		return n.Waiting, false
	}
	return n.Queue, slices.Equal(n.Queue, n.Waiting)
}
