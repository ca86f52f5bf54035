package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
	"pgregory.net/rapid"
)

// replayJSON is what planner replay prints as JSON.
func replayJSON(t failing, args ...string) []byte {
	var out, errs bytes.Buffer
	args = append([]string{"plimsoll", "planner", "replay", "--format", "json", "--quiet"}, args...)
	if code := run(context.Background(), args, streams{in: strings.NewReader(""), out: &out, err: &errs}); code != exitDone {
		t.Fatalf("%v: %d\n%s", args, code, errs.String())
	}
	return out.Bytes()
}

// failing is what *testing.T and *rapid.T share here.
type failing interface{ Fatalf(string, ...any) }

func replayed(t failing, args ...string) replayFile {
	var f replayFile
	if err := json.Unmarshal(replayJSON(t, args...), &f); err != nil {
		t.Fatalf("%v", err)
	}
	return f
}

// A static fleet's GPU-hours are its replicas' GPUs times the length, whatever the
// load and the seed are, and every request counts once.
func TestReplayOfAStaticFleet(t *testing.T) {
	long(t)
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		tp := rapid.SampledFrom([]int{1, 2}).Draw(r, "tp")
		mode := rapid.SampledFrom([]string{"aggregated", "disaggregated"}).Draw(r, "mode")
		minutes := rapid.IntRange(1, 3).Draw(r, "minutes")
		f := replayed(r, "--policy", "static-peak,static-mean", "--tp", itoa(tp), "--mode", mode, "--max-gpu-budget", "-1",
			"--rate", fmt.Sprint(rapid.Float64Range(0.5, 20).Draw(r, "rate")), "--isl", "2000", "--osl", "20", "--duration", fmt.Sprintf("%dm", minutes),
			"--seed", itoa(rapid.IntRange(0, 1000).Draw(r, "seed")), "--noise", "0.1")
		for _, p := range f.Policies {
			n := p.Start.Prefill + p.Start.Decode + p.Start.Aggregated
			if want := float64(n*tp*minutes) / 60; math.Abs(p.GPUHours.Mean-want) > 1e-9 || p.Scalings.Mean != 0 {
				r.Fatalf("%s: %v GPU-hours, want %v of %d replicas; %v scalings", p.Name, p.GPUHours.Mean, want, n, p.Scalings.Mean)
			}
			o := p.Runs[0].Outcome
			if o.Requests != int64(f.Load.Requests) || o.Requests != o.Finished+o.Rejected+o.Refused+o.Lost+o.Unfinished {
				r.Fatalf("%s: of %d requests: %+v", p.Name, f.Load.Requests, o)
			}
		}
		if peak, mean := f.Policies[0], f.Policies[1]; peak.GPUHours.Mean < mean.GPUHours.Mean {
			r.Fatalf("the busiest minutes take %v GPU-hours, the mean %v", peak.GPUHours.Mean, mean.GPUHours.Mean)
		}
	})
}

// A policy's outcome is its own: not that of those that run beside it, nor of their
// order. Seeds are the same for all.
func TestReplayedPoliciesDoNotMeet(t *testing.T) {
	if !raceDetector { // it takes all processors, which others that look at real time need
		t.Parallel()
	}
	load := []string{"--arrival", "gamma", "--rate", "30", "--isl", "3000", "--osl", "50", "--duration", "10m", "--seeds", "2", "--replica-lifetime", "4m"}
	of := func(policies string) map[string]replayPolicyFile {
		out := map[string]replayPolicyFile{}
		for _, p := range replayed(t, append(slices.Clone(load), "--policy", policies)...).Policies {
			p.Against = nil
			out[p.Name] = p
		}
		return out
	}
	all, alone, turned := of("all"), of("default"), of("default,upstream:kalman,queue,hpa")
	maps.Copy(turned, alone)
	for name, p := range turned {
		if !bytes.Equal(marshaled(t, p), marshaled(t, all[name])) {
			t.Errorf("%s depends on its company", name)
		}
	}
	for name, p := range all {
		for i, r := range p.Runs {
			if r.Seed != i+1 || r.Outcome.Requests != all["default"].Runs[i].Outcome.Requests {
				t.Errorf("%s: run %d is of seed %d with %d requests", name, i, r.Seed, r.Outcome.Requests)
			}
		}
	}
}

func marshaled(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Whatever planner serve reads, planner replay reads the same way: its file does
// for both.
func TestReplayReadsWhatServeReads(t *testing.T) {
	long(t)
	t.Parallel()
	replay := plannerReplayCommand().Flags
	changed := []string{"policy", "accept-provenance", "adjustment-interval", "metric-pulling-interval"}
	for _, f := range plannerFlags() {
		name := f.Names()[0]
		i := slices.IndexFunc(replay, func(o cli.Flag) bool { return o.Names()[0] == name })
		if i < 0 {
			t.Errorf("--%s is not known to replay", name)
			continue
		}
		if a, b := fmt.Sprintf("%T %v", f, f), fmt.Sprintf("%T %v", replay[i], replay[i]); a != b && !slices.Contains(changed, name) {
			t.Errorf("--%s: serve has\n%s\nreplay\n%s", name, a, b)
		}
	}
}

// What is printed is as the schema says, and the schema knows every field.
func TestReplaySchema(t *testing.T) {
	long(t)
	t.Parallel()
	var schema map[string]any
	if err := json.Unmarshal(replaySchema(), &schema); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--policy", "default,keda", "--seeds", "3", "--cost-per-gpu-hour", "2", "--replica-lifetime", "2m"},
		{"--policy", "static-mean", "--mode", "aggregated"},
	} {
		var v any
		if err := json.Unmarshal(replayJSON(t, append(args, "--rate", "5", "--isl", "500", "--osl", "20", "--duration", "5m")...), &v); err != nil {
			t.Fatal(err)
		}
		for _, complaint := range against(schema, v, "") {
			t.Error(complaint)
		}
		v.(map[string]any)["seconds"] = "300" //nolint:forcetypeassert // the schema says so
		if against(schema, v, "") == nil {
			t.Error("a text is taken for a number")
		}
	}
}

// against is all that a schema made from Go types has against a value.
func against(schema map[string]any, v any, at string) (out []string) {
	kinds := map[string]bool{}
	switch x := v.(type) {
	case map[string]any:
		kinds["object"] = true
		fields, _ := schema["properties"].(map[string]any)
		for name, inner := range x {
			if s, ok := fields[name].(map[string]any); ok {
				out = append(out, against(s, inner, at+"."+name)...)
			} else {
				out = append(out, at+"."+name+" is not in the schema")
			}
		}
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, ok := x[fmt.Sprint(name)]; !ok {
				out = append(out, fmt.Sprintf("%s.%v is missing", at, name))
			}
		}
	case []any:
		kinds["array"] = true
		items, _ := schema["items"].(map[string]any)
		for i, inner := range x {
			out = append(out, against(items, inner, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case string:
		kinds["string"] = true
	case bool:
		kinds["boolean"] = true
	case float64:
		kinds["number"], kinds["integer"] = true, x == math.Trunc(x)
	}
	if want, ok := schema["type"].(string); ok && !kinds[want] {
		out = append(out, fmt.Sprintf("%s is %v, want %s", at, v, want))
	}
	if list, ok := schema["enum"].([]any); ok && !slices.Contains(list, v) {
		out = append(out, fmt.Sprintf("%s is %v, want one of %v", at, v, list))
	}
	if one, ok := schema["const"]; ok && one != v {
		out = append(out, fmt.Sprintf("%s is %v, want %v", at, v, one))
	}
	return out
}
