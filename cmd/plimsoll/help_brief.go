package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// mostFlags is how many flags --help shows; --help-all shows all of them.
const mostFlags = 12

// helpAllFlag is in every command. No help lists it: the last line of --help names it.
const helpAllFlag = "help-all"

func helpAll() cli.Flag { return &cli.BoolFlag{Name: helpAllFlag, Hidden: true} }

// briefFlags are the flags in the --help of a command that has more than mostFlags, in
// the order of the job: what to deploy, the load, the SLA, where the engine is.
func briefFlags() map[string]string {
	return map[string]string{
		"profile-sla":          "model gpu gpu-count isl osl ttft itl sla-stat mode engine endpoint output-dir",
		"profile-sla import":   "model gpu tp isl osl ttft itl row provenance accept output-dir force",
		"profile-sla manifest": "model gpu gpu-count isl osl ttft itl engine image plimsoll-image results-pvc secret-env",
		"engine serve":         "model gpu tp parallelism weights kv-dtype role host port max-num-seqs max-num-batched-tokens enable-prefix-caching",
		"engine simulate":      "model gpu tp profile replicas rate arrival isl osl trace ttft itl",
		"engine frontend":      "workers state-file etcd-endpoints namespace listen port api-key-file drain-timeout",
		"capacity plan":        "model gpu profile rate isl osl trace gpu-count ttft-p99 itl-p99 availability cost-per-gpu-hour",
		"capacity ratio":       "model gpu tp profile isl osl itl-p99 throughput weights kv-dtype fit format",
		"capacity autoscale":   "model gpu profile rate pattern isl osl trace ttft-p99 itl-p99 start-up plot",
		"planner serve":        "profile environment deployment prometheus-endpoint served-model-name ttft itl max-gpu-budget policy no-operation config listen",
		"planner replay":       "model gpu profile rate arrival isl osl trace ttft itl policy max-gpu-budget",
		"planner manifest":     "image deployment target kube-namespace profile-config-map profile-pvc config name replicas port",
	}
}

// brief is what --help shows: what the command is for, examples, and the flags of the job.
func (h help) brief() help {
	words, ok := briefFlags()[strings.TrimPrefix(h.name, "plimsoll ")]
	if !ok {
		return h
	}
	if i := slices.IndexFunc(h.about, func(p helpParagraph) bool { return p.code }); i >= 0 {
		h.about = h.about[:i+1]
	}
	named := map[string]helpEntry{}
	for _, g := range h.groups {
		for _, f := range g.flags {
			name, _, _ := strings.Cut(strings.TrimPrefix(f.name, "--"), " ")
			f.name, _, _ = strings.Cut(f.name, ", ") // without its other names
			named[strings.TrimSuffix(name, ",")] = f
		}
	}
	h.groups = []flagGroup{{}}
	for name := range strings.FieldsSeq(words) {
		h.groups[0].flags = append(h.groups[0].flags, named[name])
	}
	h.all = h.name + " --" + helpAllFlag
	return h
}

// showAll prints all of a command's help where --help-all asks for it.
func showAll(c *cli.Context) bool {
	if !slices.ContainsFunc(c.Lineage(), func(c *cli.Context) bool { return c.Bool(helpAllFlag) }) { // also before the command
		return false
	}
	w := c.App.Writer
	_, _ = w.Write([]byte(helpOf(c.Command, c.Command.HelpName).text(widthOf(w)))) // a terminal that is gone cannot be told
	return true
}
