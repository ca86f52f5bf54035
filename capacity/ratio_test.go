package capacity

import (
	"strings"
	"testing"

	"plimsoll/engine/enginetest"

	"pgregory.net/rapid"
)

func ratioOf(t *testing.T, s Shape, th Throughput) PhaseRatio {
	t.Helper()
	r, err := Ratio(s, th)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// On the 70B row: ISL/50,000 over OSL/8,000.
func TestClassicShapes(t *testing.T) {
	want := []struct {
		name   string
		ratio  float64
		text   string
		saving float64 // 1 − (1 + r)/(2·max(1, r))
		apart  bool
	}{
		{"chatbot", 0.04, "1:25", 0.48, false},
		{"summarization", 2.56, "2.56:1", 1 - 3.56/5.12, true},
		{"code", 0.16, "1:6.25", 0.42, true},
		{"rag", 10.24, "10.2:1", 1 - 11.24/20.48, true},
		{"agent", 1.28, "1.28:1", 1 - 2.28/2.56, true},
	}
	shapes := ClassicShapes()
	if len(shapes) != len(want) {
		t.Fatalf("%d shapes", len(shapes))
	}
	for i, c := range want {
		r := ratioOf(t, shapes[i], llama(t, "70B"))
		if r.Name != c.name || r.Text != c.text || r.Disaggregate != c.apart || r.Why == "" {
			t.Errorf("%+v, want %+v", r, c)
		}
		near(t, c.name, r.Ratio, c.ratio, 1e-12)
		near(t, c.name+"'s saving", r.SavingOver1To1, c.saving, 1e-12)
	}
}

func TestRatioText(t *testing.T) {
	for _, c := range []struct {
		r    float64
		want string
	}{
		{1, "1:1"},
		{1 + 1e-12, "1:1"}, // rounding
		{1.0004, "1.0004:1"},
		{1 / 1.0004, "1:1.0004"},
		{1.000001, "1.000001:1"},
		{0.5, "1:2"},
		{1.0 / 3, "1:3"},
		{0.7, "1:1.43"},
		{999.6, "1000:1"},
		{1e-5, "1:100000"},
		{1 / 123.4, "1:123"},
	} {
		if got := ratioText(c.r); got != c.want {
			t.Errorf("%v is %s, want %s", c.r, got, c.want)
		}
	}
}

// A ratio that is not 1 never prints as 1:1, however near.
func TestRatioTextIsNever1To1(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		r := 1 + rapid.Float64Range(1.1e-9, 1).Draw(t, "off")
		if a, b := ratioText(r), ratioText(1/r); a == "1:1" || b == "1:1" {
			t.Fatalf("%v is %s, its inverse %s", r, a, b)
		}
	})
}

func TestRatioRefuses(t *testing.T) {
	_, err := Ratio(Shape{ISL: 0, OSL: 1e9}, Throughput{})
	for _, want := range []string{"--isl is 0", "osl is 1e+09", "prefill_tokens_s is 0", "tp is 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
}
