package observe

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"plimsoll/planner"
)

// hostile are names that would end a string of PromQL, or a regular expression.
func hostile() []string {
	return []string{`a"}) or vector(1) or ({b="`, "a\\", "a\nb", "a.*", `a\"b`, "ä€\u2028", "`", "{}[]()"}
}

func TestNamesAreCompared(t *testing.T) {
	for _, model := range append(hostile(), "meta-llama/Llama-3.1-8B") {
		f := &fake{t: t}
		f.engine(model, "a", hour, 1, 100)
		f.engine("axb", "b", hour, 5, 100)
		src, err := f.serve().Find(t.Context(), wanted(model))
		if err != nil {
			t.Errorf("%q: %v", model, err)
			continue
		}
		got, err := src.Traffic(t.Context(), minutes())
		if err != nil {
			t.Errorf("%q: %v", model, err)
		}
		near(t, "rate of "+model, got.Rate, 1, 0.02)
	}
}

func FuzzSelector(f *testing.F) {
	for _, v := range hostile() {
		f.Add("vllm:x", v)
	}
	f.Fuzz(func(t *testing.T, metric, value string) {
		l := labels{"model_name": value}
		if !matching(t, l.selector(metric))(map[string]string{"__name__": metric, "model_name": value}) {
			t.Errorf("%q and %q make %s", metric, value, l.selector(metric))
		}
		if matching(t, l.selector(metric))(map[string]string{"__name__": metric, "model_name": value + "x"}) {
			t.Errorf("%s takes another model", l.selector(metric))
		}
	})
}

func TestFindRefuses(t *testing.T) {
	f := &fake{t: t}
	f.engine("Llama", "a", hour, 1, 100)
	f.engine("Qwen", "b", hour, 1, 100)
	s := f.serve()
	var no *NotFoundError
	if _, err := s.Find(t.Context(), wanted("llama")); !errors.As(err, &no) || !strings.Contains(err.Error(), `models there: "Llama", "Qwen"`) {
		t.Errorf("another spelling gives %v", err)
	}
	var several *AmbiguousError
	if _, err := s.Find(t.Context(), wanted("")); !errors.As(err, &several) || !slices.Equal(several.Models, []string{"Llama", "Qwen"}) || errors.Is(err, planner.ErrNothingSeen) {
		t.Errorf("no model gives %v", err)
	}
	w := wanted("Llama")
	w.Namespace = "elsewhere"
	if _, err := s.Find(t.Context(), w); !errors.As(err, &no) || !strings.Contains(err.Error(), `in the namespace "elsewhere"`) {
		t.Errorf("another namespace gives %v", err)
	}
	w = wanted("Llama")
	w.Presets = Presets("sglang")
	if _, err := s.Find(t.Context(), w); !errors.As(err, &no) || !strings.Contains(err.Error(), "by the names of [sglang]") {
		t.Errorf("another preset gives %v", err)
	}
}

// A server with thousands of models and series answers too, and an error does not
// list them all.
func TestManySeries(t *testing.T) {
	f := &fake{t: t}
	for i := range 3000 {
		f.add("vllm:request_success_total", hour/4, hour, rising(0.001), "model_name", fmt.Sprintf("m%d", i), "instance", strconv.Itoa(i))
		f.add("vllm:request_success_total", hour/4, hour, rising(0.001), "model_name", "m", "instance", strconv.Itoa(i))
	}
	s := f.serve()
	_, err := s.Find(t.Context(), wanted("x"))
	if err == nil || !strings.Contains(err.Error(), "and 2981 more") || len(err.Error()) > 500 {
		t.Errorf("error %v", err)
	}
	src, err := s.Find(t.Context(), wanted("m"))
	if err != nil {
		t.Fatal(err)
	}
	r := minutes()
	r.Window = hour
	got, err := src.Traffic(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if got.Windows[0].Series != 3000 {
		t.Errorf("%d series, want 3000", got.Windows[0].Series)
	}
}

// What sees a request once comes before the engines behind it; arrivals before ends.
func TestFrontendFirst(t *testing.T) {
	f := &fake{t: t}
	f.engine("Llama", "a", hour, 1, 100)
	f.add("dynamo_frontend_requests_total", scrape, hour, rising(1), "model", "llama", "dynamo_namespace", "x")
	f.add("dynamo_frontend_requests_started_total", scrape, hour, rising(3), "model", "llama", "dynamo_namespace", "x")
	f.add("dynamo_frontend_requests_started_total", scrape, hour, rising(4), "model", "llama", "dynamo_namespace", "y")
	s := f.serve()
	src, err := s.Find(t.Context(), wanted(""))
	if err != nil {
		t.Fatal(err)
	}
	if src.Names.Preset != "dynamo" || src.Model != "llama" || !src.CountsArrivals() || !slices.Equal(codes(src.Warnings), []string{"several_namespaces"}) {
		t.Errorf("found %s of %q, arrivals %v, warnings %v", src.Names.Preset, src.Model, src.CountsArrivals(), src.Warnings)
	}
	got, err := src.Traffic(t.Context(), minutes())
	if err != nil {
		t.Fatal(err)
	}
	near(t, "rate of both namespaces", got.Rate, 7, 0.05)
	w := wanted("llama")
	w.Namespace = "y"
	if src, err = s.Find(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if got, err = src.Traffic(t.Context(), minutes()); err != nil {
		t.Fatal(err)
	}
	near(t, "rate of one", got.Rate, 4, 0.05)
	if src, err = s.Find(t.Context(), wanted("Llama")); err != nil || src.Names.Preset != "vllm" {
		t.Errorf("the engines' spelling finds %s, %v", src.Names.Preset, err)
	}
	f.add("sglang:num_requests_total", scrape, hour, rising(1), "model_name", "Qwen")
	if src, err = s.Find(t.Context(), wanted("")); err != nil || !slices.Contains(codes(src.Warnings), "other_models") {
		t.Errorf("warnings %v lack other_models, %v", src.Warnings, err)
	}
}

func TestRouterHasNoModel(t *testing.T) {
	f := &fake{t: t}
	f.add("dynamo_component_router_requests_total", scrape, hour, rising(3), "dynamo_namespace", "x")
	src, err := f.serve().Find(t.Context(), wanted("llama"))
	if err != nil {
		t.Fatal(err)
	}
	if src.Names.Preset != "dynamo-router" || !slices.Equal(codes(src.Warnings), []string{"no_model_label"}) {
		t.Errorf("found %s with %v", src.Names.Preset, src.Warnings)
	}
}

func TestWordsAreKnown(t *testing.T) {
	for _, word := range Words() {
		for _, n := range Presets(word) {
			if len(n.Finished) == 0 || n.Preset == "" || n.Namespace == "" || len(n.all()) < 4 {
				t.Errorf("%s: %+v", word, n)
			}
		}
	}
	if Presets("x") != nil || len(Presets("auto")) != 7 {
		t.Error("an unknown word is known, or auto is not all")
	}
}
