package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mitchellh/go-wordwrap"
	"github.com/urfave/cli/v2"
)

// ruleLines say of each rule what it is, how often it looks and decides, and where
// it is from: its name in one column, the rest beside it.
func ruleLines() []string {
	var lines []string
	for _, p := range plannerPolicies() {
		every := p.every
		if p.name == "default" {
			every = pulse(every)
		}
		about := fmt.Sprintf("%s; metrics every %s, decisions every %s", p.about, short(p.look), short(every))
		if p.source != "" {
			about += " (" + p.source + ")"
		}
		for i, line := range strings.Split(wordwrap.WrapString(about, ruleWidth), "\n") {
			name := ""
			if i == 0 {
				name = p.name
			}
			lines = append(lines, fmt.Sprintf("%-12s%s", name, line))
		}
	}
	return lines
}

// ruleWidth is the columns of what is said of a rule, so that it fits with its name
// into a line of help, which shows it as it is.
const ruleWidth = defaultWidth - 20

// hideServing leaves a flag out of the help that says where replicas and metrics
// are, or how to serve: a replay reads it, because planner serve's file has it, and
// makes nothing of it.
func hideServing(f cli.Flag) {
	unused := func(category string) bool {
		return slices.Contains([]string{"environment", "etcd", "kubernetes", "metrics", "running"}, category)
	}
	switch f := f.(type) {
	case *cli.StringFlag:
		f.Hidden = f.Hidden || unused(f.Category)
	case *cli.StringSliceFlag:
		f.Hidden = f.Hidden || unused(f.Category)
	case *cli.BoolFlag:
		f.Hidden = f.Hidden || unused(f.Category)
	}
}
