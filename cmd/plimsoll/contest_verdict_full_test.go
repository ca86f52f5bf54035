//go:build full

package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"plimsoll/planner/replay"
)

// contested says what a row of the contest breaks of what it promises: results of all
// policies with all seeds, and no online policy that attains more and costs less than
// the last one beyond both paired intervals.
func contested(policies []string, seeds int, f replayFile) error {
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
	return errors.Join(broken...)
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
		want  string
	}{
		{"as good", policy("hpa", 0.99, 5), ""},
		{"better, not cheaper", against(policy("hpa", 1, 9), better, half(-1, 1.5)), ""},
		{"cheaper, not better", against(policy("hpa", 1, 9), half(0.01, 0.02), cheaper), ""},
		{"better and cheaper", against(policy("hpa", 1, 5), better, cheaper), "hpa attains more and costs less than default"},
		{"with hindsight", against(policy("static-peak", 1, 5), better, cheaper), ""},
		{"one seed", against(policy("hpa", 1, 5), seedMean{Mean: 0.01}, seedMean{Mean: -1}), ""},
		{"a seed lost", lost, "hpa has 1 runs, want 2"},
		{"no requests", idle, "hpa, seed 2: 0 requests, 5 GPU-hours"},
		{"another policy", policy("keda", 0.99, 5), "policy 1 is keda, want"},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := "hpa"
			if !online(test.rival.Name) {
				want = test.rival.Name
			}
			f := replayFile{Policies: []replayPolicyFile{test.rival, policy("default", 0.99, 6)}}
			err := contested([]string{want, "default"}, 2, f)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	if err := contested([]string{"hpa", "default"}, 2, replayFile{Policies: []replayPolicyFile{policy("default", 1, 1)}}); err == nil || !strings.Contains(err.Error(), "1 policies have results, want 2") {
		t.Errorf("a policy without results: %v", err)
	}
}
