//go:build full

package main

import (
	"bytes"
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"plimsoll/planner"
	"plimsoll/planner/replay"
	"plimsoll/profile"
)

// seenDecision is what a replay's planner saw, and what it decided.
type seenDecision struct {
	observation planner.Observation
	decision    planner.Decision
}

// replaySeen replays a configuration file's deployment, and gives what its planner
// saw and decided beside its settings.
func replaySeen(t *testing.T, file string) (s plannerSettings, scenario replay.Scenario, seen []seenDecision) {
	t.Helper()
	command := plannerReplayCommand()
	command.Action = func(c *cli.Context) error {
		one, err := oneDeployment(c)
		if err != nil {
			return err
		}
		o, err := parseReplay(&parser{c: one}, nil)
		if err != nil {
			return err
		}
		all, err := newComparison(o, func(string) {})
		if err != nil {
			return err
		}
		x := all.outcomes[0]
		rule, err := all.rule(x)
		if err != nil {
			return err
		}
		s, scenario = x.policy.settings, all.scenario(x, 1)
		core, err := s.coreOf(rule, epoch())
		if err != nil {
			return err
		}
		watched := scenario
		watched.On = func(o planner.Observation, d planner.Decision) { seen = append(seen, seenDecision{o, d}) }
		_, err = replay.Run(all.options.load.requests(1, all.span, &err), watched, core)
		return err
	}
	app := newApp(streams{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}})
	app.Commands = []*cli.Command{command}
	finish(command)
	args := []string{"plimsoll", "replay", "--config", file, "--arrival", "sine", "--rate", "40", "--period", "5m", "--amplitude", "0.8", "--isl", "1000", "--osl", "100", "--duration", "15m"}
	if err := app.RunContext(context.Background(), args); err != nil {
		t.Fatal(err)
	}
	return s, scenario, seen
}

// One configuration file makes planner serve and planner replay promise the same,
// decide as often, and decide the same on the same observations.
func TestServeAndReplayJudgeAlike(t *testing.T) {
	t.Parallel()
	dir := estimatedProfile(t)
	for _, c := range []struct {
		name     string
		stat     profile.Statistic // the profile's
		more     string
		promised profile.Statistic
	}{
		{"a profile by requests", profile.P99, "", profile.P99},
		{"a profile by means", profile.Mean, "", profile.Mean},
		{"a profile by means, told another promise", profile.Mean, "sla-stat: p99\n", profile.P99},
		{"by load", profile.P99, "policy: load\n", profile.P99},
		{"by Dynamo's", profile.P99, "policy: upstream\nadjustment-interval: 30\n", profile.P99},
	} {
		t.Run(c.name, func(t *testing.T) {
			promise(t, dir, c.stat)
			file := configFile(t, "profile: "+dir+"\naccept-provenance: estimated\nmax-gpu-budget: 60\n"+c.more)
			served, err := parsedPlanner(t, "--config", file)
			if err != nil {
				t.Fatal(err)
			}
			s, scenario, seen := replaySeen(t, file)
			if got := served[0].deployment; got.SLA.Stat != c.promised || !reflect.DeepEqual(got, s.deployment) {
				t.Errorf("serve keeps %+v, replay %+v", got, s.deployment)
			}
			if got := served[0].pace(); got != scenario.Pace {
				t.Errorf("serve decides as %+v, replay as %+v", got, scenario.Pace)
			}
			rule, err := served[0].rule()
			if err != nil {
				t.Fatal(err)
			}
			core, err := served[0].coreOf(rule, epoch())
			if err != nil {
				t.Fatal(err)
			}
			stepAlike(t, core, seen)
		})
	}
}

// stepAlike feeds a core what another one saw, and holds its decisions against that
// one's.
func stepAlike(t *testing.T, core *planner.Core, seen []seenDecision) {
	t.Helper()
	changes := 0
	for i, x := range seen {
		if x.observation.Length == 0 {
			continue // bounds alone
		}
		d := core.Step(x.observation)
		if !reflect.DeepEqual(d, x.decision) {
			t.Fatalf("decision %d of serve\n%+v, of replay\n%+v", i, d, x.decision)
		}
		if d.Act {
			changes++
			core.Asked(d.Want)
		}
	}
	if len(seen) < 5 || changes == 0 {
		t.Errorf("%d decisions, %d of them changed something", len(seen), changes)
	}
}
