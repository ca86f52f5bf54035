package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

func recommendation() Recommendation {
	p, d := NewPick(engine.Config{Parallelism: engine.TP(4)}), NewPick(engine.Config{Parallelism: engine.Parallelism{TP: 2, PP: 2}})
	p.TTFTMillis, p.ThroughputPerGPU, p.Margin, p.SustainedRPS, p.Why = 48.37, 15505.23, 0.0326, 1.5, "the best throughput per GPU with TTFT <= 50 ms"
	d.ITLMillis, d.ThroughputPerGPU, d.InFlight, d.KVUsage = 4.83, 51.22, 1, 0.01
	d.Interval = profile.Interval{Low: 50, High: 52}
	return Recommendation{
		Schema: 1, Provenance: profile.Simulated, Mode: Disaggregated, Feasible: true, Model: "meta-llama/Llama-3.1-8B", GPU: "h100-sxm",
		Engine: EngineName{Kind: engine.KindSim, Version: "1"},
		SLA:    NewSLA(profile.SLA{TTFT: 50 * time.Millisecond, ITL: 10 * time.Millisecond, Stat: profile.Mean}), Workload: Lengths{3000, 150},
		Prefill: &p, Decode: &d, Alternatives: []Alternative{
			{Mode: Aggregated, Phase: profile.Aggregated, Label: "TP:1, chunk 512", GPUs: 1, MaxNumBatchedTokens: 512, RPS: 0.3, RPSPerGPU: 0.3, PickRPSPerGPU: 0.4, Provenance: profile.Estimated, Source: "a model"},
		}, Rejected: []Rejected{{profile.Prefill, "TP:1", "TTFT above the SLA", "ttft_ms", 120, 0}},
		Thresholds: Thresholds{PrefillQueueSize: Bounds{0.24, 0.10}, DecodeKVUtilization: Bounds{0.20, 0.10}},
		Surfaces: Surfaces{
			Prefill: &Surface{File: "selected_prefill_interpolation/raw_data.npz", Points: 16, Provenance: profile.Simulated},
			Decode:  &Surface{File: "selected_decode_interpolation/raw_data.npz", Points: 36, MaxKVTokens: 490000, Provenance: profile.Simulated},
		},
		Assumptions: []string{"fixed ISL and OSL"}, Warnings: []profile.Warning{{Code: "few_samples", Message: "one"}},
		Planner: PlannerSettings{PrefillEngineNumGPU: 4, DecodeEngineNumGPU: 4, TTFTMillis: 50, ITLMillis: 10},
	}
}

// 4 GPUs prefill 2 requests/s and 8 decode 4: 2 GPUs for each and 2.
func TestRateOfBothPoolsTogether(t *testing.T) {
	r := recommendation()
	r.Prefill.GPUs, r.Prefill.SustainedRPS, r.Decode.GPUs, r.Decode.SustainedRPS = 4, 2, 8, 4
	if got := r.RPSPerGPU(); got != 0.25 {
		t.Errorf("%v requests/s per GPU, want 0.25", got)
	}
	a := Alternative{RPSPerGPU: 0.3, PickRPSPerGPU: r.RPSPerGPU()}
	if got := a.Less(); math.Abs(got+0.2) > 1e-12 {
		t.Errorf("%v less per GPU, want a fifth more", got)
	}
	r.Feasible = false
	if a.PickRPSPerGPU = r.RPSPerGPU(); a.PickRPSPerGPU != 0 || a.Less() != 0 {
		t.Errorf("picks that are no answer serve %v requests/s per GPU", a.PickRPSPerGPU)
	}
}

func TestRecommendationRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "folder.json") // a name that looks like a file's
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	want := recommendation()
	want.Prefill.StartUpSeconds, want.Rejected[0].StartUpSeconds = 93.25, 41
	if err := WriteRecommendation(dir, want); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{dir, filepath.Join(dir, RecommendationFile)} {
		if got, err := ReadRecommendation(at); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", at, got, err)
		}
	}
	if p, d := want.StartUp(engine.RolePrefill), want.StartUp(engine.RoleDecode); p != 93250*time.Millisecond || d != 0 {
		t.Errorf("prefill starts in %v, decode in %v", p, d)
	}
	b, err := os.ReadFile(filepath.Join(dir, RecommendationFile))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), `TTFT <= 50 ms`) || !strings.Contains(string(b), `"label": "TP:2 PP:2"`) {
		t.Errorf("%s", b)
	}
}

func TestRecommendationHasTheKeysOfTheContract(t *testing.T) {
	r := recommendation()
	r.Alternatives = nil // they are optional
	b, err := encodeJSON(r)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	want := "assumptions decode engine feasible gpu mode model planner prefill provenance rejected schema sla surfaces thresholds warnings workload"
	if got := keys(m); got != want {
		t.Errorf("keys %s, want %s", got, want)
	}
	for key, want := range map[string]string{
		"engine": "kind version", "sla": "itl_ms stat ttft_ms", "workload": "isl osl",
		"prefill": "dp ep gpus in_flight interval itl_ms kv_usage label margin pp sustained_rps throughput_per_gpu tp ttft_ms why",
	} {
		var sub map[string]json.RawMessage
		if err := json.Unmarshal(m[key], &sub); err != nil || keys(sub) != want {
			t.Errorf("%s has keys %s (%v), want %s", key, keys(sub), err, want)
		}
	}
}

func keys(m map[string]json.RawMessage) string {
	var k []string
	for name := range m {
		k = append(k, name)
	}
	slices.Sort(k)
	return strings.Join(k, " ")
}

func TestRecommendationRefuses(t *testing.T) {
	good, err := encodeJSON(recommendation())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, now, want string }{
		"not JSON":        {"{", "", "invalid character"},
		"other schema":    {`"schema": 1`, `"schema": 2`, "another schema: schema 2, this version reads 1"},
		"no schema":       {`"schema": 1,`, ``, `no "schema" key`},
		"unknown key":     {`"model":`, `"modell":`, `unknown field "modell"`},
		"provenance":      {`"simulated"`, `"guessed"`, `unknown provenance "guessed"`},
		"mode":            {`"disaggregated"`, `"both"`, `mode is "both"`},
		"aggregated":      {`"disaggregated"`, `"aggregated"`, "mode aggregated needs aggregated"},
		"negative":        {`"ttft_ms": 48.37`, `"ttft_ms": -1`, "prefill: ttft_ms is -1"},
		"label":           {`"TP:4"`, `"TP:8"`, `prefill: label is "TP:8" where the layout is "TP:4"`},
		"gpus":            {`"gpus": 4`, `"gpus": 5`, "prefill: gpus is 5 where the layout holds 4"},
		"statistic":       {`"stat": "mean"`, `"stat": "p42"`, `sla.stat: unknown statistic "p42"`},
		"isl":             {`"isl": 3000`, `"isl": 0`, "workload.isl is 0"},
		"thresholds":      {`"upper": 0.24`, `"upper": 0.05`, "thresholds.prefill_queue_size: lower 0.1 and upper 0.05"},
		"outside":         {`selected_prefill_interpolation/raw_data.npz`, `../../etc/passwd`, "surfaces.prefill: file"},
		"two values":      {"{\n  \"schema\"", "{\"schema\":1} {\n  \"schema\"", "invalid character"},
		"several at once": {`"isl": 3000,` + "\n    " + `"osl": 150`, `"isl": -1, "osl": -2`, "workload.isl is -1, want above 0\nworkload.osl is -2"},
	} {
		bad := strings.Replace(string(good), c.old, c.now, 1)
		if bad == string(good) {
			t.Errorf("%s: %q is not in the sample", name, c.old)
		}
		file := filepath.Join(t.TempDir(), RecommendationFile)
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadRecommendation(file)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), file) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
		if (name == "other schema") != errors.Is(err, ErrSchema) && name != "no schema" {
			t.Errorf("%s: ErrSchema is %v", name, errors.Is(err, ErrSchema))
		}
	}
	if err := WriteRecommendation(t.TempDir(), Recommendation{}); err == nil {
		t.Error("an empty recommendation is written")
	}
}

// TestRecommendationSchema holds samples against the JSON Schema with a small
// validator of the keywords that it uses, and every field of the type against it.
func TestRecommendationSchema(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(RecommendationSchema(), &schema); err != nil {
		t.Fatal(err)
	}
	aggregated := recommendation()
	aggregated.Mode, aggregated.Aggregated, aggregated.Prefill, aggregated.Decode = Aggregated, aggregated.Decode, nil, nil
	for _, r := range []Recommendation{recommendation(), aggregated} {
		b, err := encodeJSON(r)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		if err := conforms(v, schema, "$"); err != nil {
			t.Error(err)
		}
		for _, breakIt := range []func(map[string]any){
			func(m map[string]any) { m["extra"] = 1.0 },
			func(m map[string]any) { delete(m, "sla") },
			func(m map[string]any) { m["mode"] = "both" },
			func(m map[string]any) { m["schema"] = 2.0 },
			func(m map[string]any) { m["workload"].(map[string]any)["isl"] = 3.5 },
			func(m map[string]any) { m["rejected"] = nil },
		} {
			var v map[string]any
			if err := json.Unmarshal(b, &v); err != nil {
				t.Fatal(err)
			}
			breakIt(v)
			if conforms(v, schema, "$") == nil {
				t.Errorf("%v conforms", v)
			}
		}
	}
	hasFields(t, reflect.TypeFor[Recommendation](), schema, "$")
}

func hasFields(t *testing.T, typ reflect.Type, schema map[string]any, at string) {
	t.Helper()
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch typ.Kind() {
	default: // a leaf
	case reflect.Slice:
		hasFields(t, typ.Elem(), schema["items"].(map[string]any), at+"[]")
	case reflect.Struct:
		properties := schema["properties"].(map[string]any)
		if len(properties) != typ.NumField() {
			t.Errorf("%s: %d properties, %d fields", at, len(properties), typ.NumField())
		}
		for f := range typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			sub, ok := properties[name].(map[string]any)
			if !ok || name == "" {
				t.Errorf("%s.%s is not in the schema", at, f.Name)
				continue
			}
			hasFields(t, f.Type, sub, at+"."+name)
		}
	}
}

func conforms(v any, schema map[string]any, at string) error {
	if c, ok := schema["const"]; ok && v != c {
		return fmt.Errorf("%s is %v, want %v", at, v, c)
	}
	if e, ok := schema["enum"].([]any); ok && !slices.Contains(e, v) {
		return fmt.Errorf("%s is %v, want one of %v", at, v, e)
	}
	ok := true
	switch schema["type"] {
	case "string":
		_, ok = v.(string)
	case "boolean":
		_, ok = v.(bool)
	case "number":
		_, ok = v.(float64)
	case "integer":
		f, isNumber := v.(float64)
		ok = isNumber && f == float64(int64(f))
	case "array":
		list, isList := v.([]any)
		ok = isList
		for i, x := range list {
			if err := conforms(x, schema["items"].(map[string]any), fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case "object":
		m, isObject := v.(map[string]any)
		ok = isObject
		for _, r := range schema["required"].([]any) {
			if _, has := m[r.(string)]; isObject && !has {
				return fmt.Errorf("%s lacks %v", at, r)
			}
		}
		for name, x := range m {
			sub, known := schema["properties"].(map[string]any)[name].(map[string]any)
			if !known {
				return fmt.Errorf("%s.%s is not known", at, name)
			}
			if err := conforms(x, sub, at+"."+name); err != nil {
				return err
			}
		}
	}
	if !ok {
		return fmt.Errorf("%s is %v, want %v", at, v, schema["type"])
	}
	return nil
}

func FuzzRecommendation(f *testing.F) {
	b, err := encodeJSON(recommendation())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"schema":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRecommendation(b)
		if err != nil {
			return
		}
		again, err := encodeJSON(r)
		if err != nil {
			t.Fatalf("read but not writable: %v", err)
		}
		if _, err := parseRecommendation(again); err != nil {
			t.Fatalf("written but not readable: %v", err)
		}
	})
}

func TestRunRoundTrip(t *testing.T) {
	dir := t.TempDir()
	want := Run{
		Schema: 1, Program: "plimsoll", Version: "v0", Inputs: Inputs{"--isl": "3000"}, Seed: 1, Provenance: profile.Simulated,
		SLA: profile.SLA{TTFT: time.Second, ITL: time.Millisecond, Stat: profile.P99}, Started: journalStart, Ended: journalStart.Add(time.Minute),
		Engines: []EngineFacts{}, GPUs: []Device{{Name: "h100-sxm", MemoryBytes: 80 << 30, Simulated: true}}, Points: []profile.Point{point("a")},
		Skips: []profile.Skip{}, Warnings: []profile.Warning{}, Cost: Cost{Launches: 3, PromptTokens: 1 << 40},
	}
	in := want
	in.Schema, in.Program, in.Engines, in.Skips, in.Warnings = 0, "", nil, nil, nil
	if err := WriteRun(dir, in); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadRun(dir); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, RunFile), []byte(`{"schema":1,"program":"other"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRun(dir); err == nil || !strings.Contains(err.Error(), `program is "other"`) {
		t.Errorf("error %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, RunFile), []byte(`{"schema":7}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRun(dir); !errors.Is(err, ErrSchema) {
		t.Errorf("error %v", err)
	}
}
