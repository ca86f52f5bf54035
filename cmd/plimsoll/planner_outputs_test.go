package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/planner/serve"
	"plimsoll/profile"
)

// A decision's line says what changes and every step on the way, what was not
// seen, and the caveats; as JSON it is a line that is read again.
func TestPlannerOutput(t *testing.T) {
	e := serve.Event{
		At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Name: "dynamo", Kind: serve.Decided,
		Observation: &planner.Observation{Length: time.Minute, Problems: []string{"no series of requests"}, Pools: make([]planner.PoolObservation, 2)},
		Decision: &planner.Decision{
			From: planner.Replicas{Prefill: 1, Decode: 1}, Want: planner.Replicas{Prefill: 1, Decode: 2}, Act: true, GPUs: 3,
			Steps:    []planner.Step{{Rule: "demand", Role: engine.RoleDecode, From: 1, To: 2, Why: "a crowd"}, {Rule: "observed", Why: "much"}},
			Warnings: []profile.Warning{profile.Warnf("x", "beware")},
		},
	}
	print := func(change func(*plannerOutputs)) (string, string) {
		var out, errs bytes.Buffer
		o := &plannerOutputs{out: &out, err: &errs, history: serve.NewHistory(1), metrics: serve.NewMetrics()}
		change(o)
		o.take(e)
		return out.String(), errs.String()
	}
	want := "2026-01-02 03:04:05 dynamo decision: prefill=1, decode=1 becomes prefill=1, decode=2, 3 GPUs\n" +
		"    decode demand 1 to 2: a crowd\n    observed: much\n    not seen: no series of requests\n    warning: beware\n"
	if got, _ := print(func(*plannerOutputs) {}); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	line, _ := print(func(o *plannerOutputs) { o.asJSON = true })
	var back serve.Event
	if err := json.Unmarshal([]byte(line), &back); err != nil || back.Decision.Want.Decode != 2 || strings.Count(line, "\n") != 1 {
		t.Errorf("%v: %s", err, line)
	}
	if got, _ := print(func(o *plannerOutputs) { o.quiet = true }); got != "" {
		t.Errorf("quietly it says %q", got)
	}
	e = serve.Event{Name: "dynamo", Kind: serve.Failed, Text: "refused"}
	if _, errs := print(func(o *plannerOutputs) { o.quiet = true }); errs != "plimsoll: error: dynamo: refused\n" {
		t.Errorf("%q", errs)
	}
}

// A server's address is in what could not be seen, and in what follows from it.
func TestDefectEventsHeldCredentials(t *testing.T) {
	const address = "http://me:Conf1dential@host:9090"
	e := serve.Event{
		Kind: serve.Decided, Text: address, Observation: &planner.Observation{Problems: []string{address}},
		Decision: &planner.Decision{Missing: []string{address}, Steps: []planner.Step{{Why: address}}, Warnings: []profile.Warning{{Message: address}}},
	}
	var out, errs bytes.Buffer
	o := &plannerOutputs{out: &out, err: &errs, history: serve.NewHistory(1), metrics: serve.NewMetrics(), asJSON: true, hidden: &credentials{}}
	o.take(e)
	if strings.Contains(out.String()+errs.String(), "Conf1dential") || strings.Count(out.String(), "http://me:[redacted]@host:9090") != 5 {
		t.Errorf("%s%s", &out, &errs)
	}
}
