package kube

import (
	"plimsoll/engine/enginetest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
)

func TestNames(t *testing.T) {
	for want, what := range map[string]string{
		"plimsoll-k3f9x2aa-7-decode-tp2":               "decode tp2",
		"plimsoll-k3f9x2aa-7":                          "",
		"plimsoll-k3f9x2aa-7-a-b":                      "  A__B! ",
		"plimsoll-k3f9x2aa-7-prefill-tp16dp16ep16pp16": "prefill tp16dp16ep16pp16 with a name that has no end",
	} {
		if got := nameOf("k3f9x2aa", 7, what); got != want {
			t.Errorf("%q: got %s, want %s", what, got, want)
		}
	}
}

// Whatever an engine is called, its name is a Service's, and no two attempts share it.
func TestLawsOfNames(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		id, what := newID(), rapid.String().Draw(t, "what")
		n := rapid.IntRange(1, 100_000).Draw(t, "attempt")
		a, b := nameOf(id, n, what), nameOf(id, n+1, what)
		if wrong := validation.IsDNS1035Label(a); len(wrong) > 0 || len(a) > longestName {
			t.Fatalf("%q: %v", a, wrong)
		}
		if a == b || nameOf(newID(), n, what) == a {
			t.Fatalf("%q twice", a)
		}
		if wrong := validation.IsValidLabelValue(id); len(wrong) > 0 {
			t.Fatalf("%q: %v", id, wrong)
		}
	})
}

func TestParse(t *testing.T) {
	for text, ok := range map[string]bool{"a": true, "a=b": true, "a=b:NoSchedule": true, "a:NoExecute": true, "a=": true, "": false, ":NoSchedule": false, "a:Never": false, "=b": false} {
		if _, err := ParseToleration(text); (err == nil) != ok {
			t.Errorf("toleration %q: %v", text, err)
		}
	}
	for text, ok := range map[string]bool{"A=": true, "A=b=c": true, "A": false, "=b": false, "": false} {
		if _, err := ParseEnv(text); (err == nil) != ok {
			t.Errorf("environment %q: %v", text, err)
		}
	}
	for text, ok := range map[string]bool{"A=s/k": true, "A=s/k/l": true, "A=s": false, "A=/k": false, "A=s/": false, "=s/k": false} {
		if _, err := ParseSecretEnv(text); (err == nil) != ok {
			t.Errorf("secret %q: %v", text, err)
		}
	}
	for text, n := range map[string]int{"a=b": 1, "a=b, c=": 2, "a=b,a=c": 0, "a": 0, "=b": 0, "": 0} {
		if got, err := ParseLabels(text); (err == nil) != (n > 0) || len(got) != n {
			t.Errorf("labels %q: %v, %v", text, got, err)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add(DefaultTemplate(), 1)
	f.Add(DefaultTemplate(), 16)
	f.Add(`{{range .Args}}{{json .}}{{end}}{{indent 3 .Name}}`, 2)
	f.Add("a: &a [*a]\n---\n{{.Name}}: {{include \"x\" .}}", 2)
	f.Fuzz(func(t *testing.T, text string, gpus int) {
		o := full()
		o.Template = text
		if text != DefaultTemplate() && strings.Contains(text, "range") {
			return // a loop over a number takes its time, as it would for its author
		}
		fields, err := o.fields("ns", "run", "plimsoll-run-1-e", vllm(min(max(gpus, 0), 64)))
		if err != nil {
			return
		}
		list, err := o.render(fields)
		if err != nil {
			return
		}
		r := &Run{api: &api{namespace: "ns"}, id: "run"}
		for _, object := range list {
			r.own(object, fields)
			if object.GetLabels()[labelRun] != "run" || object.GetNamespace() != "ns" || len(object.GetOwnerReferences()) == 0 {
				t.Errorf("%v is not the run's", object)
			}
		}
	})
}
