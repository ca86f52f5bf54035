package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"plimsoll/engine/sim/fleet"
	"plimsoll/planner/observe"
	"plimsoll/profile/trace"
)

// mustPrint is what a command prints that ends well.
func mustPrint(t *testing.T, args ...string) []byte {
	t.Helper()
	var out, errout bytes.Buffer
	if code := run(t.Context(), append([]string{"plimsoll"}, args...), streams{strings.NewReader(""), &out, &errout}); code != exitDone {
		t.Fatalf("%s: exit code %d: %s", strings.Join(args, " "), code, &errout)
	}
	return out.Bytes()
}

// alikeTrace is a trace of prompts of 12 blocks in four groups, which share 11 of them.
func alikeTrace(t *testing.T) string {
	var b bytes.Buffer
	for i := range 600 {
		fmt.Fprintf(&b, `{"timestamp":%d,"input_length":6144,"output_length":20,"hash_ids":[`, i*1000/12)
		for block := range 11 {
			fmt.Fprintf(&b, "%d,", i%4*100+block)
		}
		fmt.Fprintf(&b, "%d]}\n", 1000+i)
	}
	return written(t, "trace.jsonl", b.String())
}

// A day is sized and simulated with the caches of capacity plan: without them this
// trace takes four GPUs, and one has no chance.
func TestAutoscaleReusesPrefixes(t *testing.T) {
	t.Parallel()
	var f autoscaleFile
	if err := json.Unmarshal(mustPrint(t, "capacity", "autoscale", "--model", "llama-3.1-8b", "--gpu", "h200-sxm", "--tp", "1", "--strategy", "aggregated",
		"--ttft-p99", "1000", "--itl-p99", "100", "--trace", alikeTrace(t), "--format", "json"), &f); err != nil {
		t.Fatal(err)
	}
	if static := f.Policies[0]; static.Most != 1 || !static.HoldsSLO {
		t.Errorf("the static fleet has %d GPUs and holds the SLO: %v", static.Most, static.HoldsSLO)
	}
}

// Where the traffic does not say what prompts share, that is said, and counted as
// planned where that is possible.
func TestWhatIsSharedAsPlanned(t *testing.T) {
	p := smallPlan()
	p.Inputs.Caches = planCaches{Reuse: true, Router: fleet.KVAware}
	for _, planned := range []trace.Prefixes{{}, {Groups: 4, Tokens: 400, Share: 1}} {
		p.Workload.Prefixes = planned
		r := review{plans: p, plan: p.Plans[0], assumed: map[string]string{}}
		length := observe.Lengths{Mean: 200}
		if err := r.asWorkload("server", observe.Traffic{Range: observe.Range{Window: time.Minute}, Rate: 20, Peak: 20, ISL: length, OSL: length}); err != nil {
			t.Fatal(err)
		}
		r.sayWhatIsShared()
		switch got := r.workload.Prefixes; {
		case planned.Groups > 0 && (got != trace.Prefixes{Groups: 4, Tokens: 200, Share: 1} || len(r.warnings) > 0 || r.assumed["prompts begin alike by"] == ""):
			t.Errorf("of prompts of 200 tokens %+v, assumed %v, warnings %v", got, r.assumed, r.warnings)
		case planned.Groups == 0 && (got != trace.Prefixes{} || len(r.warnings) != 1 || r.warnings[0].Code != "prefixes_unknown"):
			t.Errorf("prefixes %+v, warnings %v", got, r.warnings)
		}
		if o := r.options(); !o.caches.reuse || o.caches.router != fleet.KVAware {
			t.Errorf("caches %+v", o.caches)
		}
	}
}

func TestReadPlanRefusesCaches(t *testing.T) {
	for _, c := range []planCaches{
		{Reuse: true, Router: "nearest"},
		{Reuse: true, Router: fleet.KVAware, DRAMBytes: -1},
		{Reuse: true, Router: fleet.KVAware, DRAMBytes: 1},
	} {
		p := smallPlan()
		p.Inputs.Caches = c
		if _, err := readPlan(strings.NewReader(encoded(t, p))); err == nil || !strings.Contains(err.Error(), "inputs.caches: ") {
			t.Errorf("%+v: error %v", c, err)
		}
	}
}
