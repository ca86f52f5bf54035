package observe

import "slices"

// Names are the metrics in which a server says what it did. Of several names for
// one thing the first that has series is taken: the newer names come first.
// Histograms are named without _bucket, _sum and _count. An empty list means that
// this server does not say.
type Names struct {
	Preset string // "vllm": what the names are called together

	// Started counts requests as they arrive, Finished as they end. Demand read at
	// the end stops growing where the engines are full, so that Started is taken
	// where there is one.
	Started  []string
	Finished []string

	// Lengths in tokens: a histogram with one value for each request; where there
	// is none, counters of tokens give the mean.
	ISL          []string
	OSL          []string
	PromptTokens []string
	OutputTokens []string

	// Counters of prompt tokens: those that were looked up in a prefix cache, and of
	// them those that it held.
	Lookups []string
	Hits    []string

	// Histograms in seconds.
	TTFT []string
	ITL  []string // gaps between tokens
	TPOT []string // one value for each request: its mean gap
	E2E  []string

	Running []string // requests now
	Waiting []string // requests now
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

	// PerEngine says that each engine counts the requests that it saw: with
	// prefill and decode apart a request is counted in both.
	PerEngine bool
	// RunningHasWaiting says that Running counts what is waiting too.
	RunningHasWaiting bool
}

// lists are all lists of names: those of single series, and those of histograms.
func (n *Names) lists() (single, histograms []*[]string) {
	return []*[]string{&n.Started, &n.Finished, &n.PromptTokens, &n.OutputTokens, &n.Lookups, &n.Hits, &n.Running, &n.Waiting, &n.KVUse, &n.Engines},
		[]*[]string{&n.ISL, &n.OSL, &n.TTFT, &n.ITL, &n.TPOT, &n.E2E}
}

// all are the series' names that n may have, histograms by their count.
func (n Names) all() []string {
	single, histograms := n.lists()
	var out []string
	for _, list := range single {
		out = append(out, *list...)
	}
	for _, list := range histograms {
		for _, h := range *list {
			out = append(out, h+"_count")
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// having keeps of every list the first name that has series.
func (n Names) having(series []string) Names {
	first := func(names []string, suffix string) []string {
		if i := slices.IndexFunc(names, func(name string) bool { return slices.Contains(series, name+suffix) }); i >= 0 {
			return names[i : i+1 : i+1]
		}
		return nil
	}
	single, histograms := n.lists()
	for _, list := range single {
		*list = first(*list, "")
	}
	for _, list := range histograms {
		*list = first(*list, "_count")
	}
	return n
}

// requestNames are all that its counter of requests may be called.
func (n Names) requestNames() []string { return slices.Concat(n.Started, n.Finished) }

// requests is the counter of requests, as they arrive if there is one; "" = none.
func (n Names) requests() string {
	return first(n.requestNames())
}
