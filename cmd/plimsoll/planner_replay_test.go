package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/profile"
)

// replayJSON is what planner replay prints as JSON.
func replayJSON(t failing, args ...string) []byte {
	var out, errs bytes.Buffer
	args = append([]string{"plimsoll", "planner", "replay", "--format", "json", "--quiet"}, args...)
	for _, f := range [][2]string{{"--ttft", "500"}, {"--itl", "50"}} {
		if !slices.Contains(args, f[0]) && !slices.Contains(args, "--config") {
			args = append(args, f[0], f[1])
		}
	}
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
	t.Parallel()
	enginetest.Check(t, func(r *rapid.T) {
		tp := rapid.SampledFrom([]int{1, 2}).Draw(r, "tp")
		mode := rapid.SampledFrom([]string{"aggregated", "disaggregated"}).Draw(r, "mode")
		minutes := rapid.IntRange(1, 3).Draw(r, "minutes")
		f := replayed(r, "--policy", "static-peak,static-mean", "--tp", itoa(tp), "--mode", mode, "--max-gpu-budget", "-1",
			"--rate", fmt.Sprint(rapid.Float64Range(0.5, 8).Draw(r, "rate")), "--isl", "2000", "--osl", "20", "--duration", fmt.Sprintf("%dm", minutes),
			"--seed", itoa(rapid.IntRange(0, 1000).Draw(r, "seed")), "--noise", "0.1")
		for _, p := range f.Policies {
			n := p.Start.Prefill + p.Start.Decode + p.Start.Aggregated
			if want := float64(n*tp*minutes) / 60; math.Abs(p.GPUHours.Mean-want) > 1e-9 || p.Scalings.Mean != 0 {
				r.Fatalf("%s: %v GPU-hours, want %v of %d replicas; %v scalings", p.Name, p.GPUHours.Mean, want, n, p.Scalings.Mean)
			}
			o := p.Runs[0].Outcome
			if o.Requests != int64(f.Load.Requests) || o.Requests != o.Finished+o.Rejected+o.Refused+o.Unfinished {
				r.Fatalf("%s: of %d requests: %+v", p.Name, f.Load.Requests, o)
			}
		}
		if peak, mean := f.Policies[0], f.Policies[1]; peak.GPUHours.Mean < mean.GPUHours.Mean {
			r.Fatalf("the busiest minutes take %v GPU-hours, the mean %v", peak.GPUHours.Mean, mean.GPUHours.Mean)
		}
	})
}

// Within a budget that just fits, is an engine short or half of what is needed, the default
// policy attains what the best split does that stays, and moves nothing at a steady load.
func TestBudgetIsAsGoodAsItsBestSplit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args        string
		engines, tp int
		attains     float64 // at least, by the best split
	}{
		{"--model llama-3.1-8b --tp 1 --arrival constant --rate 20 --isl 3000 --osl 150 --itl 20", 3, 1, 1},
		{"--model llama-3.1-8b --tp 1 --arrival poisson --rate 62 --isl 3000 --osl 150 --itl 20 --duration 6m", 8, 1, 0.98},
		{"--model llama-3.1-8b --tp 1 --arrival poisson --rate 62 --isl 3000 --osl 150 --itl 20 --duration 6m", 7, 1, 0},
		{"--model llama-3.1-8b --tp 1 --arrival gamma --rate 20 --isl 1000 --osl 800 --itl 15 --sla-stat p99 --duration 8m", 4, 1, 0.8},
		{"--model llama-3.1-70b --weights fp8 --tp 2 --arrival poisson --rate 8.5 --isl 3000 --osl 150 --ttft 1000 --duration 20m", 4, 2, 0.95},
	} {
		within := func(args ...string) replayPolicyFile {
			all := append(strings.Fields(c.args), "--gpu", "h100-sxm", "--mode", "disaggregated", "--max-gpu-budget", itoa(c.engines*c.tp))
			return replayed(t, append(all, args...)...).Policies[0]
		}
		best := 0.0
		for p := 1; p < c.engines; p++ { // the first decision of this policy comes when all is over
			split := fmt.Sprintf("prefill=%d,decode=%d", p, c.engines-p)
			best = max(best, within("--policy", "upstream:constant", "--adjustment-interval", "86400", "--start-replicas", split).Both.Mean)
		}
		ours := within("--policy", "default")
		if ours.Both.Mean < best-0.01 || best < c.attains || ours.Scalings.Mean > 0 {
			t.Errorf("%s in %d engines: %.2f %% with %g scalings, the best split %.2f %%", c.args, c.engines, 100*ours.Both.Mean, ours.Scalings.Mean, 100*best)
		}
	}
}

// Only what bounds and budget take away is warned of, not what they add.
func TestBudgetBelowThePeakIsSaid(t *testing.T) {
	t.Parallel()
	for bound, want := range map[string]bool{"--max-gpu-budget 3": true, "--min-prefill-decode-ratio 4": false, "--min-endpoint 4": false} {
		f := replayed(t, strings.Fields("--tp 1 --mode disaggregated --policy static-mean --rate 30 --isl 3000 --osl 150 --itl 20 --duration 1m "+bound)...)
		if said := slices.ContainsFunc(f.Warnings, func(w profile.Warning) bool { return w.Code == "budget_below_peak" }); said != want {
			t.Errorf("%s: %v", bound, f.Warnings)
		}
	}
}

// The article's rule adds 8 GPUs to a replica that is overloaded, and again two minutes later.
func TestReplayOfTheArticle(t *testing.T) {
	t.Parallel()
	f := replayed(t, strings.Fields("--tp 1 --mode aggregated --policy article --start-replicas aggregated=1 --replica-startup 5m --rate 60 --isl 3000 --osl 100 --duration 4m")...)
	if r := f.Policies[0].Runs[0].Outcome; r.Scales != 2 || r.Pools[0].Most != 17 || r.Unseen != 0 {
		t.Errorf("%d scalings to %d replicas, %d decisions without metrics", r.Scales, r.Pools[0].Most, r.Unseen)
	}
}

// Less of what fills a replica takes more replicas, by each rule that it is said to.
func TestUtilizationMovesTheRules(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"hpa:sla", "keda:sla", "wva-v2:sla"} {
		hours := func(utilization string) float64 {
			return replayed(t, "--tp", "1", "--policy", rule, "--hpa-utilization", utilization, "--rate", "20", "--isl", "3000", "--osl", "100", "--duration", "4m").Policies[0].GPUHours.Mean
		}
		if few, many := hours("1"), hours("0.4"); many < 1.2*few {
			t.Errorf("%s: %v GPU-hours at 0.4, %v at 1", rule, many, few)
		}
	}
}

// Whatever planner serve reads, planner replay reads the same way: its file does
// for both.
func TestReplayReadsWhatServeReads(t *testing.T) {
	t.Parallel()
	replay := plannerReplayCommand().Flags
	changed := []string{"mode", "ttft", "itl", "max-gpu-budget", "policy", "accept-provenance", "adjustment-interval", "metric-pulling-interval"}
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
	t.Parallel()
	var schema map[string]any
	if err := json.Unmarshal(replaySchema(), &schema); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--policy", "default,keda", "--seeds", "3", "--max-gpu-budget", "2"},
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

// evenTrace is a file of so many requests that come at so many a second.
func evenTrace(t *testing.T, requests int, rate float64, isl, osl int) string {
	var b bytes.Buffer
	b.WriteString("arrival_s,isl,osl\n")
	for i := range requests {
		fmt.Fprintf(&b, "%.4f,%d,%d\n", float64(i)/rate, isl, osl)
	}
	return written(t, "trace.csv", b.String())
}

// firstPlan is the first row of capacity plan.
func firstPlan(t *testing.T, args ...string) sizedPlan {
	t.Helper()
	out, err := readPlan(bytes.NewReader(mustPrint(t, append([]string{"capacity", "plan", "--format", "json"}, args...)...)))
	if err != nil {
		t.Fatal(err)
	}
	return out.Plans[0]
}

// Engines that nobody named are those of capacity plan's first row for the same requests:
// prefill and decode each of their own layout, aggregated with the plan's chunk, and in the
// plan's mode where nobody named one.
func TestReplayChoosesAsAPlan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ mode, strategy, model, ttft, itl, file string }{
		{"disaggregated", "disaggregated", "llama-3.1-70b", "300", "18", evenTrace(t, 1500, 30, 3000, 150)},
		{"aggregated", "aggregated", "llama-3.1-8b", "2000", "15", evenTrace(t, 1000, 20, 2000, 150)},
		{"", "auto", "llama-3.1-8b", "500", "25", evenTrace(t, 1000, 5, 2000, 150)}, // one engine is enough: aggregated
	} {
		of := []string{"--model", c.model, "--gpu", "h100-sxm", "--trace", c.file}
		plan := firstPlan(t, append([]string{"--strategy", c.strategy, "--ttft-p99", c.ttft, "--itl-p99", c.itl}, of...)...)
		args := append([]string{"--ttft", c.ttft, "--itl", c.itl, "--policy", "static-peak"}, of...)
		if c.mode != "" {
			args = append(args, "--mode", c.mode)
		}
		f := replayed(t, args...)
		if !strings.HasPrefix(f.Fleet.Chosen, fmt.Sprintf("%s (%s): ", plan.Layout, plan.Strategy)) || len(f.Fleet.Pools) != len(plan.Pools) {
			t.Fatalf("%s: the plan's first row is %s, the replay chose %s", c.mode, plan.Layout, f.Fleet.Chosen)
		}
		for i, p := range plan.Pools {
			if got := f.Fleet.Pools[i]; got.Label != p.Engine || got.GPUs*p.Engines != p.GPUs {
				t.Errorf("%s: the plan's %s engines are %s, the replay's %s of %d GPUs", c.mode, p.Role, p.Engine, got.Label, got.GPUs)
			}
		}
	}
}

// Engines hold the longest request that comes, as a plan's do: one GPU that has no room
// for the model's whole context is chosen where its requests fit.
func TestReplayChoosesEnginesThatHoldTheLoad(t *testing.T) {
	t.Parallel()
	load := []string{
		"--model", "qwen3-32b", "--gpu", "h100-sxm", "--mode", "aggregated", "--ttft", "3000", "--itl", "100", "--sla-stat", "p99",
		"--rate", "0.5", "--isl", "3000", "--osl", "150", "--duration", "2m", "--policy", "static-peak",
	}
	f := replayed(t, load...)
	if f.Fleet.Pools[0].GPUs != 1 || f.Policies[0].Both.Mean < 0.99 || !strings.Contains(f.Fleet.Chosen, "--max-model-len 4096") {
		t.Errorf("%+v: %s, %v attained", f.Fleet.Pools, f.Fleet.Chosen, f.Policies[0].Both.Mean)
	}
	f = replayed(t, append(load, "--max-model-len", "40960")...) // which was asked for
	if f.Fleet.Pools[0].GPUs == 1 || strings.Contains(f.Fleet.Chosen, "--max-model-len") {
		t.Errorf("%+v: %s", f.Fleet.Pools, f.Fleet.Chosen)
	}
}

// A replay plans by the profile's statistic where no flag says another, and else says so.
func TestReplayPlansByTheProfilesStatistic(t *testing.T) {
	t.Parallel()
	dir := estimatedProfile(t, "--sla-stat", "p95")
	for stat, want := range map[string]profile.Statistic{"": profile.P95, "p95": profile.P95, "p99": profile.P99} {
		args := []string{"--profile", dir, "--rate", "2", "--isl", "400", "--osl", "40", "--duration", "1m", "--policy", "static-peak"}
		if stat != "" {
			args = append(args, "--sla-stat", stat)
		}
		f := replayed(t, args...)
		other := slices.ContainsFunc(f.Warnings, func(w profile.Warning) bool { return w.Code == "other_stat" })
		if f.SLA.Planned != want || other != (want != profile.P95) {
			t.Errorf("--sla-stat %q: plans by %s, warns of another: %v", stat, f.SLA.Planned, other)
		}
	}
}

// KEDA takes metrics that Prometheus no longer has for 0, unless something else is asked for.
func TestReplayOfKEDAWithoutMetrics(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]int{"": 1, "--on-metrics-loss hold": 4, "--metric-delay 4m": 4} {
		f := replayed(t, strings.Fields("--tp 1 --mode aggregated --policy keda:sla --start-replicas aggregated=4 --rate 50 --isl 3000 --osl 100 --metric-delay 10m --duration 6m --drain-time 0 "+args)...)
		if r := f.Policies[0].Runs[0].Outcome; r.Pools[0].Least != want {
			t.Errorf("%s: as few as %d replicas, want %d", args, r.Pools[0].Least, want)
		}
	}
}

// Rules that say nothing of behavior grow from 2 to 4, 8, 16 and 20 replicas, and the guides'
// in as many steps.
func TestReplayGrowsAsKubernetes(t *testing.T) {
	t.Parallel()
	f := replayed(t, strings.Fields("--tp 1 --mode aggregated --policy hpa:sla,keda:sla,keda --start-replicas aggregated=2 --max-endpoint 20 --rate 400 --isl 3000 --osl 100 --duration 2m --drain-time 0")...)
	for _, p := range f.Policies {
		if r := p.Runs[0].Outcome; r.Scales != 4 || r.Pools[0].Most != 20 {
			t.Errorf("%s: %d scalings to %d replicas", p.Name, r.Scales, r.Pools[0].Most)
		}
	}
}

// A fleet that is sized by the profile holds the ITL where answers vary, whose KV is more
// than that of answers of the mean length.
func TestSizedForAnswersThatVary(t *testing.T) {
	t.Parallel()
	f := replayed(t, strings.Fields("--gpu l40s --tp 1 --mode disaggregated --ttft 1000 --itl 40 --isl 200 --osl 400 --osl-p99 2000 --rate 60 --duration 10m --policy static-peak")...)
	if p := f.Policies[0]; p.Both.Mean < 0.95 {
		t.Errorf("%.2f %% of the requests met both promises", 100*p.Both.Mean)
	}
	rate := func(args ...string) float64 {
		var all []shapeRatio
		args = append(strings.Fields("capacity ratio --throughput model --model llama-3.1-8b --gpu l40s --isl 200 --osl 400 --itl-p99 60 --format json"), args...)
		if err := json.Unmarshal(mustPrint(t, args...), &all); err != nil {
			t.Fatal(err)
		}
		return all[0].Throughput.DecodeTPS
	}
	if alike, varied := rate(), rate("--osl-p99", "2000"); varied > 0.9*alike {
		t.Errorf("an engine decodes %.0f tokens/s of answers that vary, %.0f of others", varied, alike)
	}
}
