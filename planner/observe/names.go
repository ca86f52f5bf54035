package observe

import (
	"cmp"
	"slices"
)

// Names are the metrics in which a server says what it did. Of several names for
// one thing the first that has series is taken: the newer names come first.
// Histograms are named without _bucket, _sum and _count. An empty list means that
// this server does not say.
type Names struct {
	Preset string `yaml:"preset,omitempty"` // "vllm": what the names are called together

	// Started counts requests as they arrive, Finished as they end. Demand read at
	// the end stops growing where the engines are full, so that Started is taken
	// where there is one.
	Started  []string `yaml:"started,omitempty"`
	Finished []string `yaml:"finished,omitempty"`

	// Lengths in tokens: a histogram with one value for each request; where there
	// is none, counters of tokens give the mean.
	ISL          []string `yaml:"isl,omitempty"`
	OSL          []string `yaml:"osl,omitempty"`
	PromptTokens []string `yaml:"prompt-tokens,omitempty"`
	OutputTokens []string `yaml:"output-tokens,omitempty"`

	// Counters of prompt tokens: those that were looked up in a prefix cache, and of
	// them those that it held.
	Lookups []string `yaml:"cache-lookups,omitempty"`
	Hits    []string `yaml:"cache-hits,omitempty"`

	// Histograms in seconds.
	TTFT []string `yaml:"ttft,omitempty"`
	ITL  []string `yaml:"itl,omitempty"`  // gaps between tokens
	TPOT []string `yaml:"tpot,omitempty"` // one value for each request: its mean gap
	E2E  []string `yaml:"e2e,omitempty"`

	Running []string `yaml:"running,omitempty"` // requests now
	Waiting []string `yaml:"waiting,omitempty"` // requests now
	KVUse   []string `yaml:"kv-use,omitempty"`  // fraction of 1, of each engine
	Engines []string `yaml:"engines,omitempty"` // a gauge with one series for each engine, for counting them

	// Labels; "" = these metrics have none.
	Model     string `yaml:"model-label,omitempty"`
	Namespace string `yaml:"namespace-label,omitempty"`
	// Shares is a label by which Running and Waiting are split beside a series of
	// the whole, where it is empty; "" = none.
	Shares string `yaml:"shares-label,omitempty"`
	// LowerCase says that the model's name is in lower case here, whatever it is
	// elsewhere.
	LowerCase bool `yaml:"lower-case,omitempty"`

	// Marker is a metric that must be there too, with the same model; "" = none.
	Marker string `yaml:"marker,omitempty"`
	// PerEngine says that each engine counts the requests that it saw: with
	// prefill and decode apart a request is counted in both.
	PerEngine bool `yaml:"per-engine,omitempty"`
	// RunningHasWaiting says that Running counts what is waiting too.
	RunningHasWaiting bool `yaml:"running-has-waiting,omitempty"`
}

// lists are all lists of names: those of single series, and those of histograms.
func (n *Names) lists() (single, histograms []*[]string) {
	return []*[]string{&n.Started, &n.Finished, &n.PromptTokens, &n.OutputTokens, &n.Lookups, &n.Hits, &n.Running, &n.Waiting, &n.KVUse, &n.Engines},
		[]*[]string{&n.ISL, &n.OSL, &n.TTFT, &n.ITL, &n.TPOT, &n.E2E}
}

// With is n where over says nothing, and over where it does: a configuration's own
// names on top of a preset's.
func (n Names) With(over Names) Names {
	ours, ourHistograms := n.lists()
	theirs, theirHistograms := over.lists()
	ours, theirs = append(ours, ourHistograms...), append(theirs, theirHistograms...)
	for i, list := range theirs {
		if len(*list) > 0 {
			*ours[i] = *list
		}
	}
	for _, s := range []struct{ to, from *string }{
		{&n.Preset, &over.Preset}, {&n.Model, &over.Model}, {&n.Namespace, &over.Namespace}, {&n.Shares, &over.Shares}, {&n.Marker, &over.Marker},
	} {
		*s.to = cmp.Or(*s.from, *s.to)
	}
	n.PerEngine = n.PerEngine || over.PerEngine
	n.LowerCase = n.LowerCase || over.LowerCase
	n.RunningHasWaiting = n.RunningHasWaiting || over.RunningHasWaiting
	return n
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
	if n.Marker != "" {
		out = append(out, n.Marker)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// having keeps of every list the first name that has series.
func (n Names) having(series map[string]bool) Names {
	first := func(names []string, suffix string) []string {
		if i := slices.IndexFunc(names, func(name string) bool { return series[name+suffix] }); i >= 0 {
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
	for _, list := range [][]string{n.Started, n.Finished} {
		if len(list) > 0 {
			return list[0]
		}
	}
	return ""
}
