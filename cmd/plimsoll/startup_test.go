package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// startedIn says how long a profile's engines took to start, in seconds.
func startedIn(prefill, decode float64) func(*store.Recommendation) {
	return func(r *store.Recommendation) { r.Prefill.StartUpSeconds, r.Decode.StartUpSeconds = prefill, decode }
}

// The default policy plans ahead by the slowest of the profile's engines, and by the
// default where none was launched; --startup-time wins.
func TestPlannerBeginsWithTheProfilesStartUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		prefill, decode float64
		flags           []string
		want            time.Duration
		words           string
	}{
		{42.5, 95, nil, 95 * time.Second, "1m35s: by the profile"},
		{0, 95, nil, 95 * time.Second, "1m35s: by the profile"},
		{42.5, 95, []string{"--startup-time", "30s"}, 30 * time.Second, "30s: by --startup-time"},
		{0, 0, nil, 2 * time.Minute, "2m: the default"},
	} {
		all, err := parsedPlanner(t, append([]string{"--profile", plannerProfile(t, startedIn(c.prefill, c.decode))}, c.flags...)...)
		if err != nil {
			t.Fatal(err)
		}
		s := all[0]
		if words := s.startUpWords(len(c.flags) > 0); s.careful.Ahead != c.want || !strings.Contains(words, c.words) {
			t.Errorf("%+v: %v, %q", c, s.careful.Ahead, words)
		}
	}
}

func onH100(r *store.Recommendation) { r.GPU = "h100-sxm" }

// replayReady is what planner replay is about to run.
func replayReady(t *testing.T, args ...string) (all comparison) {
	t.Helper()
	command := plannerReplayCommand()
	command.Action = func(c *cli.Context) error {
		o, err := parseReplay(&parser{c: c}, nil)
		if err == nil {
			all, err = newComparison(o, func(string) {})
		}
		return err
	}
	app := newApp(streams{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}})
	app.Commands = []*cli.Command{command}
	finish(command)
	if err := app.RunContext(t.Context(), append([]string{"plimsoll", "replay"}, args...)); err != nil {
		t.Fatal(err)
	}
	return all
}

// Each simulated pool starts as the profile's engine of its role did, or as
// --replica-startup says.
func TestReplayBeginsWithTheProfilesStartUp(t *testing.T) {
	t.Parallel()
	load := []string{"--rate", "2", "--requests", "100", "--isl", "1000", "--osl", "50", "--policy", "static-mean"}
	for _, c := range []struct {
		prefill, decode float64
		flags           []string
		slowest         float64
		pools           [2]float64
		words           string
	}{
		{42.5, 95, nil, 95, [2]float64{42.5, 95}, "a replica starts in 42.5s prefill, 1m35s decode by the profile's launches"},
		{0, 95, nil, 95, [2]float64{60, 95}, "a replica starts in 1m prefill, 1m35s decode by the profile's launches"},
		{42.5, 95, []string{"--replica-startup", "10s"}, 10, [2]float64{10, 10}, "a replica starts in 10s"},
		{0, 0, nil, 60, [2]float64{60, 60}, "a replica starts in 1m"},
	} {
		dir := plannerProfile(t, startedIn(c.prefill, c.decode), onH100)
		if err := store.WriteRun(dir, store.Run{Complete: true}); err != nil {
			t.Fatal(err)
		}
		x := replayReady(t, append(append([]string{"--profile", dir}, load...), c.flags...)...)
		if f := x.file(); f.Fleet.StartUp != c.slowest || !strings.HasSuffix(x.head(f)[1], "; "+c.words) {
			t.Errorf("%+v: %v s, %q", c, f.Fleet.StartUp, x.head(f)[1])
		}
		for i, p := range x.fleet.Pools {
			if p.StartUp != engine.FromSeconds(c.pools[i]) {
				t.Errorf("%+v: %s starts in %v", c, p.Engine.Role, p.StartUp.Duration())
			}
		}
	}
}

// A layout has the longest start-up of its real launches, in the picks and among those
// that lost.
func TestStartUpInTheRecommendation(t *testing.T) {
	t.Parallel()
	of := func(n int) engine.Config { return engine.Config{Parallelism: engine.TP(n)} }
	one, two := store.NewPick(engine.Config{Parallelism: engine.TP(1)}), store.NewPick(engine.Config{Parallelism: engine.TP(2)})
	rec := store.Recommendation{Prefill: &one, Decode: &two, Rejected: []store.Rejected{{Label: "TP:2"}, {Label: "TP:4"}, {Label: "TP:8"}}}
	startUps(&rec, map[string]profile.EngineFacts{
		"prefill/tp1": {StartUpSeconds: 40}, "tp2": {StartUpSeconds: 50}, "decode/tp2": {StartUpSeconds: 60},
		"decode/tp4": {StartUpSeconds: 0.05, Provenance: profile.Simulated},
	}, []engine.Config{of(1), of(2), of(4), of(8)})
	got := [5]float64{rec.Prefill.StartUpSeconds, rec.Decode.StartUpSeconds, rec.Rejected[0].StartUpSeconds, rec.Rejected[1].StartUpSeconds, rec.Rejected[2].StartUpSeconds}
	if want := [5]float64{40, 60, 60, 0, 0}; got != want {
		t.Errorf("%v, want %v", got, want)
	}
}
