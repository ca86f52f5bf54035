//go:build full

package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"plimsoll/planner/replay"
)

// promised is the share of requests that a plan and the bound are for.
const promised = replay.DefaultTarget

// contested says what a row of the contest breaks of what it promises: results of all
// policies with all seeds; no online policy that attains more and costs less than the
// last one beyond both paired intervals; and with a plan's file no schedule that holds
// the promise below the proved bound.
func contested(policies []string, seeds int, f, plan replayFile) error {
	var broken []error
	if len(f.Policies) != len(policies) {
		broken = append(broken, fmt.Errorf("%d policies have results, want %d", len(f.Policies), len(policies)))
	}
	for i, p := range f.Policies {
		if i < len(policies) && p.Name != policies[i] {
			broken = append(broken, fmt.Errorf("policy %d is %s, want %s", i+1, p.Name, policies[i]))
		}
		if len(p.Runs) != seeds {
			broken = append(broken, fmt.Errorf("%s has %d runs, want %d", p.Name, len(p.Runs), seeds))
		}
		for _, r := range p.Runs {
			if r.Outcome.Requests == 0 || r.Outcome.GPUHours <= 0 {
				broken = append(broken, fmt.Errorf("%s, seed %d: %d requests, %g GPU-hours", p.Name, r.Seed, r.Outcome.Requests, r.Outcome.GPUHours))
			}
		}
	}
	for _, name := range betterAndCheaper(f) {
		if online(name) {
			broken = append(broken, fmt.Errorf("%s attains more and costs less than %s, beyond both intervals", name, f.Policies[len(f.Policies)-1].Name))
		}
	}
	return errors.Join(append(broken, belowBound(f, plan)...)...)
}

// belowBound are the runs of the plan's seed that hold the promise for less than the
// bound. Static fleets begin with other replicas than those that it is proved for.
func belowBound(f, plan replayFile) (broken []error) {
	if len(plan.Policies) == 0 {
		return nil
	}
	for _, p := range append(plan.Policies[:1:1], f.Policies...) {
		for _, r := range p.Runs {
			if o := r.Outcome; online(p.Name) && r.Seed == plan.Seeds[0] && o.Attainment.Both >= promised && o.GPUHours < plan.Bound.Mean {
				broken = append(broken, fmt.Errorf("%s attains %.4f at %g GPU-hours, below the bound %g", p.Name, o.Attainment.Both, o.GPUHours, plan.Bound.Mean))
			}
		}
	}
	return broken
}

// online says whether a policy decides by what has been, not by what will be.
func online(policy string) bool { return !strings.HasPrefix(policy, "static-") }

// betterAndCheaper are the policies that attain more and cost less than the last one,
// beyond the 95 % intervals of both differences. Of one seed there is none.
func betterAndCheaper(f replayFile) (names []string) {
	for _, p := range f.Policies {
		if a := p.Against; a != nil && a.Both.Half != nil && a.GPUHours.Half != nil &&
			a.Both.Mean > *a.Both.Half && a.GPUHours.Mean < -*a.GPUHours.Half {
			names = append(names, p.Name)
		}
	}
	return names
}

func TestContested(t *testing.T) {
	half := func(mean, half float64) seedMean { return seedMean{mean, &half} }
	policy := func(name string, attained, hours float64) replayPolicyFile {
		p := replayPolicyFile{Name: name}
		for seed := 1; seed <= 2; seed++ {
			p.Runs = append(p.Runs, replayRunFile{Seed: seed, Outcome: replay.Result{Requests: 9, Attainment: replay.Attainment{Both: attained}, GPUHours: hours}})
		}
		return p
	}
	against := func(p replayPolicyFile, both, hours seedMean) replayPolicyFile {
		p.Against = &replayDifference{"default", both, hours}
		return p
	}
	lost := policy("hpa", 0.99, 5)
	lost.Runs = lost.Runs[:1]
	idle := policy("hpa", 0.99, 5)
	idle.Runs[1].Outcome.Requests = 0
	better, cheaper := half(0.01, 0.005), half(-1, 0.5)
	for _, test := range []struct {
		name  string
		rival replayPolicyFile
		bound float64
		want  string
	}{
		{"as good", policy("hpa", 0.99, 5), 4, ""},
		{"better, not cheaper", against(policy("hpa", 1, 9), better, half(-1, 1.5)), 4, ""},
		{"cheaper, not better", against(policy("hpa", 1, 9), half(0.01, 0.02), cheaper), 4, ""},
		{"better and cheaper", against(policy("hpa", 1, 5), better, cheaper), 4, "hpa attains more and costs less than default"},
		{"with hindsight", against(policy("static-peak", 1, 5), better, cheaper), 4, ""},
		{"one seed", against(policy("hpa", 1, 5), seedMean{Mean: 0.01}, seedMean{Mean: -1}), 4, ""},
		{"below the bound", policy("hpa", 0.99, 5), 5.5, "hpa attains 0.9900 at 5 GPU-hours, below the bound 5.5"},
		{"below the bound, and the promise", policy("hpa", 0.98, 5), 5.5, ""},
		{"a seed lost", lost, 4, "hpa has 1 runs, want 2"},
		{"no requests", idle, 4, "hpa, seed 2: 0 requests, 5 GPU-hours"},
		{"another policy", policy("keda", 0.99, 5), 4, "policy 1 is keda, want"},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := "hpa"
			if !online(test.rival.Name) {
				want = test.rival.Name
			}
			f := replayFile{Policies: []replayPolicyFile{test.rival, policy("default", 0.99, 6)}}
			g := replayFile{Seeds: []int{1}, Bound: seedMean{Mean: test.bound}, Policies: []replayPolicyFile{policy("plan", 0.99, 6)}}
			err := contested([]string{want, "default"}, 2, f, g)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	if err := contested([]string{"hpa", "default"}, 2, replayFile{Policies: []replayPolicyFile{policy("default", 1, 1)}}, replayFile{}); err == nil || !strings.Contains(err.Error(), "1 policies have results, want 2") {
		t.Errorf("a policy without results: %v", err)
	}
}
