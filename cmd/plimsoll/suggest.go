package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/urfave/cli/v2"

	"plimsoll/engine/field"
)

// unknownCommand is the error for a word that is no command here.
func unknownCommand(c *cli.Context) error {
	commands := c.App.Commands
	if c.Command != nil && len(c.Command.Subcommands) > 0 {
		commands = c.Command.Subcommands
	}
	return noCommand(c.App, c.Args().First(), commands)
}

// noCommand is the error for a word that none of the commands has for a name.
func noCommand(app *cli.App, name string, commands []*cli.Command) error {
	var names []string
	for _, c := range commands {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return field.Errorf("unexpected argument %q", name).Hint("the command before it has no commands of its own")
	}
	e := field.Errorf("unknown command %q", name)
	if s := suggestions(app, name, names); len(s) > 0 {
		return e.Hint("did you mean %s?", orList(s))
	}
	return e.Hint("commands are %s", strings.Join(names, ", "))
}

// leastPrefix is how much of a name has to be there to be taken for its beginning.
const leastPrefix = 3

// suggestions are the commands that a word may mean: those of that name elsewhere and
// those here that begin with it, else the nearest here, else others that begin so.
func suggestions(app *cli.App, name string, here []string) []string {
	begins := func(n string) bool { return len(name) >= leastPrefix && strings.HasPrefix(n, name) }
	var same, elsewhere []string
	for _, h := range helps(app)[1:] {
		path := strings.TrimPrefix(h.name, app.Name+" ")
		switch last := path[strings.LastIndex(path, " ")+1:]; {
		case last == name:
			same = append(same, path)
		case begins(last):
			elsewhere = append(elsewhere, path)
		}
	}
	for _, n := range here {
		if begins(n) && !slices.Contains(same, n) {
			same = append(same, n)
		}
	}
	if len(same) > 0 {
		return same
	}
	if n := nearest(name, here); n != "" {
		return []string{n}
	}
	return elsewhere
}

// nearest is the name within a third of its length in edits, and one; empty if none is.
// A word of three letters may have one edit.
func nearest(name string, names []string) string {
	best, least := "", len(name)/3+2
	if len(name) <= 3 {
		least = 2
	}
	for _, n := range names {
		if d := levenshtein.ComputeDistance(name, n); d < least {
			best, least = n, d
		}
	}
	return best
}

// otherWords are words of other programs, and words that come to mind, for flags of ours.
// Of several flags the first that the command has is meant.
func otherWords() map[string]string {
	out := map[string]string{}
	for flags, words := range map[string]string{
		"rate":                           "qps rps request-rate requests-per-second peak-rps",
		"gpu-count max-gpu-budget":       "gpus num-gpus total-gpus n-gpus",
		"gpu":                            "gpu-type gpu-name hardware system",
		"isl":                            "input-len input-length random-input-len input-tokens prompt-tokens synthetic-input-tokens-mean prompt-len",
		"osl":                            "output-len output-length random-output-len output-tokens synthetic-output-tokens-mean max-tokens",
		"isl-p99":                        "isl-p95 max-isl",
		"osl-p99":                        "osl-p95 max-osl",
		"tp parallelism":                 "tensor-parallel-size tensor-parallel tp-size",
		"max-in-flight":                  "concurrency max-concurrency",
		"endpoint":                       "url base-url server target-url",
		"engine fit":                     "backend framework",
		"ttft-p99 ttft":                  "ttft ttft-p99 ttft-slo slo-ttft ttft-ms",
		"itl-p99 itl":                    "itl itl-p99 tpot tpot-p99 itl-slo slo-itl itl-ms",
		"model":                          "model-path model-name hf-id checkpoint",
		"cost-per-gpu-hour":              "cost price gpu-cost gpu-price",
		"output-dir output":              "out dir results-dir",
		"weights":                        "dtype quantization precision weight-dtype",
		"kv-dtype":                       "kv-cache-dtype",
		"max-num-seqs":                   "max-batch-size batch-size",
		"max-num-batched-tokens":         "chunk chunk-size chunked-prefill-size",
		"max-model-len":                  "context-length max-context-length max-seq-len",
		"max-gpu-budget gpu-count":       "budget gpu-budget max-gpus",
		"trace workload":                 "dataset trace-file",
		"arrival":                        "burstiness arrival-process distribution",
		"memory-fraction":                "gpu-memory-utilization mem-fraction-static",
		"replicas":                       "workers instances",
		"prometheus-endpoint prometheus": "prometheus-url prometheus prometheus-endpoint",
		"no-operation dry-run":           "dry-run no-operation",
	} {
		for word := range strings.FieldsSeq(words) {
			out[word] = strings.TrimSpace(out[word] + " " + flags)
		}
	}
	return out
}

// meantFlag is the flag of names that a word may mean, empty if none is.
func meantFlag(word string, names []string) string {
	flags := otherWords()[word]
	for flag := range strings.FieldsSeq(flags) {
		if slices.Contains(names, flag) {
			return flag
		}
	}
	if flags != "" {
		return ""
	}
	return nearest(word, names)
}

// insteadOf says what does the job of a word for which the command has no flag; empty if
// nothing does. The first flag of the word's own and one of the command's choose it.
func insteadOf(word string, names []string) string {
	own, _, _ := strings.Cut(otherWords()[word], " ")
	for _, other := range []struct{ word, has, says string }{
		{"rate", "search", "a profile finds the rate itself; plimsoll engine simulate --rate and plimsoll capacity plan --rate take one"},
		{"max-in-flight", "rate", "the load is a rate: --rate R; --max-num-seqs N bounds the sequences at once per engine"},
		{"gpu-count", "replicas", "the GPUs are those of the engines: --replicas N of --tp N, or --prefill-replicas N and --decode-replicas N"},
		{"goodput", "ttft-p99", "--ttft-p99 MS and --itl-p99 MS are the SLO"},
		{"goodput", "ttft", "--ttft MS and --itl MS are the SLA"},
		{"rate", "noise", "the clients make the load: plimsoll engine simulate --rate R needs none"},
		{"max-in-flight", "noise", "the clients make the load; --max-num-seqs N bounds the sequences at once"},
		{"gpu-count", "noise", "one engine has the GPUs of its layout: --tp N, or --parallelism"},
		{"goodput", "noise", "a server has no SLA; plimsoll profile-sla --endpoint URL --ttft MS --itl MS measures by one"},
	} {
		if other.word == cmp.Or(own, word) && slices.Contains(names, other.has) {
			return other.says
		}
	}
	return ""
}
