package frontend

import (
	"testing"

	"plimsoll/engine"
)

func TestParseLease(t *testing.T) {
	w, err := parseLease("w-1", []byte(`{"role":"prefill","url":"http://10.0.0.1:8000/","more":1}`))
	if want := (Worker{"w-1", engine.RolePrefill, "http://10.0.0.1:8000", Ready}); err != nil || w != want {
		t.Errorf("%+v, %v", w, err)
	}
	if w, err := parseLease("w", []byte(`{"role":"decode","url":"http://a","state":"draining"}`)); err != nil || w.State != Draining {
		t.Errorf("%+v, %v", w, err)
	}
	for _, bad := range []string{``, `null`, `[]`, `{}`, `{"role":"decode"}`, `{"url":"http://a"}`, `{"role":"decode","url":"http://a","state":"asleep"}`, `{"role":"decode","url":5}`} {
		if w, err := parseLease("w", []byte(bad)); err == nil {
			t.Errorf("%s gives %+v", bad, w)
		}
	}
	if _, err := parseLease("", []byte(`{"role":"decode","url":"http://a"}`)); err == nil {
		t.Error("a worker without a name")
	}
}

func FuzzParseLease(f *testing.F) {
	f.Add("w", `{"role":"prefill","url":"http://10.0.0.1:8000/"}`)
	f.Add("", `{"role":1}`)
	f.Fuzz(func(t *testing.T, name, value string) {
		if w, err := parseLease(name, []byte(value)); err == nil && w.Check() != nil {
			t.Errorf("%q: %+v", value, w)
		}
	})
}
