//go:build full

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/planner/replay"
)

// The contest is the policies of planner replay on every trace of a folder, at several
// fleet sizes and start-up times, in both modes, beside a plan:
//
//	go test -tags full -run TestContest -v -timeout 2h ./cmd/plimsoll -traces DIR | grep '^|'
//
// It prints one Markdown table, and fails where a row breaks what contested asks.
// Without -traces it has the parts of ServeGen's tables that are in testdata/contest.
// -quick takes the smallest fleets and 60 s to start, without plans; -only REGEXP some
// scenarios by name. What all policies on all rows take is hours, so that heatOf leaves
// out: all of them compete on the smallest fleets with 60 s to start, the best of
// others elsewhere, upstream's predictors in two long rows of their own, and large
// fleets have ten minutes of Azure alone.
//
//nolint:gochecknoglobals // flags of a test binary
var (
	contestTraces   = flag.String("traces", contestParts, "folder of traces; those that it lacks are left out")
	contestQuick    = flag.Bool("quick", false, "small fleets, 60 s to start, no plan")
	contestOnly     = flag.String("only", "", "scenarios whose name matches")
	contestSeeds    = flag.Int("seeds", 0, "of each run; 0: the row's own")
	contestPlan     = flag.Int("plan", -1, "simulations of a plan; 0: no plans; below: the row's own")
	contestPolicies = flag.String("policies", "", "in order, default last (default: the row's own)")
	contestArgs     = flag.String("args", "", "further flags of planner replay")
)

func TestContest(t *testing.T) {
	only, all := regexp.MustCompile(*contestOnly), scenarios(t)
	if len(all) == 0 {
		t.Fatalf("-traces %q: none of the contest's traces is there", *contestTraces)
	}
	fmt.Println("| scenario | start-up | plan: GPU-h | default: attained | GPU-h | / plan | others: attained %, GPU-h | better and cheaper |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, s := range all {
		if only.MatchString(s.title()) {
			t.Run(s.title(), s.run)
		}
	}
}

// title is a row's name among all.
func (s scenario) title() string { return fmt.Sprintf("%s %d", s.name, s.startUp) }

// run replays a row, prints it, and judges it.
func (s scenario) run(t *testing.T) {
	if s.budgets {
		s.runBudgets(t)
		return
	}
	h, began := s.asked(), time.Now()
	var plan chan replayAnswer
	if h.plan > 0 {
		plan = make(chan replayAnswer, 1)
		go func() { // on one processor, beside the policies
			plan <- replayOf(append(s.args, "--policy", "default", "--oracle", "plan", "--oracle-simulations", itoa(h.plan)))
		}()
	}
	r := replayOf(append(s.args, "--policy", h.policies, "--seeds", itoa(h.seeds)))
	if r.err != nil {
		t.Fatal(r.err)
	}
	var g replayFile
	if plan != nil {
		p := <-plan
		if p.err != nil {
			t.Fatal(p.err)
		}
		g = p.file
	}
	fmt.Println(s.row(r.file, g))
	t.Logf("%.0f s", time.Since(began).Seconds())
	if err := contested(strings.Split(h.policies, ","), h.seeds, r.file); err != nil {
		t.Error(err)
	}
}

// asked is the heat, as the flags change it.
func (s scenario) asked() heat {
	h := s.heat
	if *contestPolicies != "" {
		h.policies = *contestPolicies
	}
	if *contestSeeds > 0 {
		h.seeds = *contestSeeds
	}
	switch {
	case h.plan > 0 && *contestPlan >= 0:
		h.plan = *contestPlan
	case *contestQuick:
		h.plan = 0
	}
	return h
}

type replayAnswer struct {
	file replayFile
	err  error
}

// replayOf runs planner replay.
func replayOf(args []string) (r replayAnswer) {
	var out, errs strings.Builder
	all := slices.Concat([]string{"plimsoll", "planner", "replay", "--format", "json", "--quiet", "--max-gpu-budget", "2000"}, args)
	if code := run(context.Background(), all, streams{in: strings.NewReader(""), out: &out, err: &errs}); code != exitDone {
		r.err = fmt.Errorf("%v: %d\n%s", all, code, errs.String())
		return r
	}
	r.err = json.Unmarshal([]byte(out.String()), &r.file)
	return r
}

// row is a line of the table: f has the policies, g the plan where there is one.
func (s scenario) row(f, g replayFile) string {
	plan, ratio := "–", "–"
	ours := f.Policies[len(f.Policies)-1]
	if len(g.Policies) > 0 {
		p := g.Policies[0]
		if plan = fmt.Sprintf("%.4g (%.2f %%)", p.GPUHours.Mean, 100*p.Both.Mean); p.Both.Mean >= replay.DefaultTarget {
			ratio = fmt.Sprintf("%.2f", ours.Runs[0].Outcome.GPUHours/p.GPUHours.Mean)
		} else {
			plan = fmt.Sprintf("none: %.2f %% with all GPUs", 100*p.Both.Mean)
		}
	}
	var others []string
	for _, p := range f.Policies[:len(f.Policies)-1] {
		others = append(others, fmt.Sprintf("%s %.2f %.4g", p.Name, 100*p.Both.Mean, p.GPUHours.Mean))
	}
	beaten := betterAndCheaper(f)
	if len(beaten) == 0 {
		beaten = []string{"none"}
	}
	return fmt.Sprintf("| %s | %d s | %s | %s | %s | %s | %s | %s |", s.name, s.startUp, plan, ours.Both.share(), ours.GPUHours.figure(), ratio, strings.Join(others, "; "), strings.Join(beaten, ", "))
}
