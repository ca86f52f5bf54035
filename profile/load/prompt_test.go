package load

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/profile"
)

// prompts are what the server was streamed for, as text.
func (f *fake) prompts() []string {
	var out []string
	for _, q := range f.streams() {
		if q.ids != nil {
			out = append(out, fmt.Sprint(q.ids))
		} else {
			out = append(out, q.text)
		}
	}
	slices.Sort(out)
	return out
}

func sent(t *testing.T, o Options, w profile.Workload) []string {
	t.Helper()
	f := &fake{}
	o.BaseURL = f.start(t).URL
	for _, r := range measure(t, client(t, o), w) {
		if !r.OK() {
			t.Fatal(r.Error)
		}
	}
	return f.prompts()
}

func TestPromptsOfIDsAreExact(t *testing.T) {
	for _, extra := range []int{0, 1} { // a server that puts a first token before ids
		f := &fake{extra: extra}
		c := client(t, Options{BaseURL: f.start(t).URL})
		for _, isl := range []int{2, 5, 33, 3000} {
			w := closed(2, 1)
			w.ISL = isl
			for _, r := range measure(t, c, w) {
				if !r.OK() || r.PromptTokens != isl {
					t.Errorf("extra %d, isl %d: server counted %d: %s", extra, isl, r.PromptTokens, r.Error)
				}
			}
		}
	}
}

func TestPromptsOfWordsAreExact(t *testing.T) {
	for name, f := range map[string]*fake{
		"plain":                {noIDs: true},
		"template":             {noIDs: true, extra: 37},
		"common words cost":    {noIDs: true, extra: 2, cost: func(w string) int { return (len(w) + 1) / 2 }},
		"some words cost more": {noIDs: true, extra: 3, cost: func(w string) int { return 1 + int(w[0])%2 }},
		"letters cost two all": {noIDs: true, cost: func(w string) int { return 2 * len(w) }},
	} {
		for _, e := range []Endpoint{Completions, Chat} {
			c := client(t, Options{BaseURL: f.start(t).URL, Endpoint: e})
			for _, isl := range []int{100, 1000} {
				w := closed(2, 2)
				w.ISL = isl
				for _, r := range measure(t, c, w) {
					if !r.OK() || r.PromptTokens != isl {
						t.Errorf("%s, %s, isl %d: server counted %d: %s", name, e, isl, r.PromptTokens, r.Error)
					}
				}
			}
		}
	}
}

// Where hardly two words cost the same, prompts cannot be exact; the count that was reached
// is in the record, and too far off is a failure.
func TestPromptsThatMissTheirLengthSaySo(t *testing.T) {
	f := &fake{noIDs: true, cost: func(w string) int {
		n := 0
		for i, c := range w {
			n += (i + 1) * int(c)
		}
		return 5 + n%31
	}}
	c := client(t, Options{BaseURL: f.start(t).URL})
	w := closed(4, 1)
	w.ISL = 500
	for _, r := range measure(t, c, w) {
		if d := abs(r.PromptTokens - w.ISL); r.PromptTokens == 0 || r.OK() != (d <= 50) {
			t.Errorf("%d tokens instead of %d: ok %v", r.PromptTokens, w.ISL, r.OK())
		}
	}
	p, err := c.Probe(t.Context())
	if err != nil || p.ExactPrompts || !hasWarning(p.Warnings, "inexact_prompts") {
		t.Errorf("probe: %v, exact %v, warnings %v", err, p.ExactPrompts, p.Warnings)
	}
}

func TestPromptBelowTheTemplateIsRefused(t *testing.T) {
	f := &fake{extra: 37}
	c := client(t, Options{BaseURL: f.start(t).URL, Endpoint: Chat})
	w := closed(1, 1)
	w.ISL = 20
	if _, _, err := c.Measure(t.Context(), w); err == nil || !strings.Contains(err.Error(), "isl 20") {
		t.Errorf("got %v, want a refusal of isl 20", err)
	}
}

// Fault 13 of load generators: a prefix cache hit by accident.
func TestFault13PrefixCacheHit(t *testing.T) {
	for _, words := range []bool{false, true} {
		f := &fake{noIDs: words}
		o := Options{BaseURL: f.start(t).URL}
		w := closed(40, 4)
		for range 2 { // two runs of a program, two calls in each
			c := client(t, o)
			measure(t, c, w)
			measure(t, c, w)
		}
		blocks := map[string]int{}
		for _, q := range f.streams() {
			if q.ids != nil {
				blocks[fmt.Sprint(q.ids[:8])]++
			} else {
				blocks[strings.Join(strings.Fields(q.text)[:8], " ")]++
			}
		}
		if len(blocks) != 160 {
			t.Errorf("words %v: %d different first blocks among 160 prompts", words, len(blocks))
		}
	}
}

// A prefix cache that holds a prompt holds the beginning of a longer one.
func TestLongerSharedPromptsBeginWithShorter(t *testing.T) {
	short := sequence(1000, 40, 7)
	if long := sequence(1000, 90, 7); !slices.Equal(long[:40], short) {
		t.Error("a longer sequence begins otherwise")
	}
	c, err := New(Options{BaseURL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	a, b := closed(6, 2), closed(6, 2)
	a.SharedPrompts, b.SharedPrompts = true, true
	b.ISL *= 3
	if c.serials(a)(4) != c.serials(b)(4) {
		t.Error("the length decides which prompt is shared")
	}
}

func TestSharedPromptsDependOnSeedAndIndexOnly(t *testing.T) {
	w := closed(6, 2)
	w.SharedPrompts = true
	a := sent(t, Options{}, w)
	more := w
	more.Requests, more.InFlight, more.OSL, more.Warmup = 9, 3, 2, true
	b := sent(t, Options{}, more)
	for _, p := range a {
		if !slices.Contains(b, p) {
			t.Fatalf("prompt %s of one call is not in another", p)
		}
	}
	if len(slices.Compact(a)) != 6 {
		t.Error("prompts of different indices are equal")
	}
	w.Seed++
	for _, p := range sent(t, Options{}, w) {
		if slices.Contains(b, p) {
			t.Error("another seed has the same prompt")
		}
	}
}

func TestPromptsAreDeterministicForANonce(t *testing.T) {
	w := closed(5, 2)
	if a, b := sent(t, Options{Nonce: 9}, w), sent(t, Options{Nonce: 9}, w); !slices.Equal(a, b) {
		t.Error("equal calls with equal nonces have different prompts")
	}
	if a, b := sent(t, Options{}, w), sent(t, Options{}, w); slices.Equal(a, b) {
		t.Error("two clients without a nonce have the same prompts")
	}
}

func TestSequence(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(2, 200_000).Draw(t, "size")
		n := rapid.IntRange(1, 100).Draw(t, "n")
		serial := rapid.Uint64().Draw(t, "serial")
		a, b := sequence(size, n, serial), sequence(size, n, serial+1)
		if len(a) != n || slices.Min(a) < 0 || slices.Max(a) >= size {
			t.Fatalf("sequence %v is not %d symbols below %d", a, n, size)
		}
		if serial != math.MaxUint64 && a[0] == b[0] {
			t.Fatalf("neighbours begin alike: %v, %v", a, b)
		}
	})
}

func TestIDsStayInTheVocabulary(t *testing.T) {
	for _, c := range []struct{ server, option int }{{0, 0}, {32000, 0}, {3303, 0}, {3303, 3303}, {128256, 128256}, {100, 100}} {
		f := &fake{vocab: c.server}
		o := Options{BaseURL: f.start(t).URL, Vocab: c.option}
		w := closed(3, 1)
		w.ISL = 2000
		for _, r := range measure(t, client(t, o), w) {
			if !r.OK() {
				t.Errorf("vocabulary %d, told %d: %s", c.server, c.option, r.Error)
			}
		}
		for _, q := range f.streams() {
			if q.ids == nil || c.option > 0 && slices.Max(q.ids) >= c.option {
				t.Errorf("vocabulary %d, told %d: prompt %.60v", c.server, c.option, q.ids)
			}
		}
	}
}

func TestBodyIsJSON(t *testing.T) {
	for _, a := range []ask{
		{model: `a"b\c`, alphabet: alphabet{lo: 5, ids: 10, cost: 1}, osl: 3, stream: true},
		{model: "m", alphabet: alphabet{words: letters, cost: 1}, osl: 3},
		{model: "m", endpoint: Chat, alphabet: alphabet{words: common, cost: 1}, osl: 3, stream: true},
	} {
		var v map[string]any
		b := a.body([]int{0, 1, 2})
		if err := json.Unmarshal(b, &v); err != nil {
			t.Errorf("%s: %v", b, err)
		}
		if v["model"] != a.model || v["max_tokens"] != 3.0 || v["min_tokens"] != 3.0 || v["ignore_eos"] != true ||
			v["stream"] != a.stream || v["temperature"] != 0.0 || (v["stream_options"] != nil) != a.stream {
			t.Errorf("body %s", b)
		}
	}
}

func TestWarmUpHeaderMarksWarmUpsOnly(t *testing.T) {
	f := &fake{}
	c := client(t, Options{BaseURL: f.start(t).URL})
	measure(t, c, closed(1, 1))
	w := closed(1, 1)
	w.Warmup = true
	measure(t, c, w)
	for i, q := range f.queries {
		want := ""
		if q.Stream && i == len(f.queries)-1 {
			want = "true"
		}
		if got := f.headers[i].Get(WarmupHeader); got != want {
			t.Errorf("request %d has %s %q, want %q", i, WarmupHeader, got, want)
		}
	}
}

func TestMeasureRefusesMoreThanItCanHold(t *testing.T) {
	f := &fake{}
	w := closed(1_000_000, 1)
	w.ISL = 1 << 20
	if _, _, err := client(t, Options{BaseURL: f.start(t).URL}).Measure(t.Context(), w); err == nil || !strings.Contains(err.Error(), "GiB") {
		t.Errorf("got %v, want a refusal", err)
	}
	if n := len(f.streams()); n > 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func hasWarning(ws []profile.Warning, code string) bool {
	return slices.ContainsFunc(ws, func(w profile.Warning) bool { return w.Code == code })
}

// A server that is not ready says nothing about what it takes: what is learned
// from it must not last.
func TestBusyServerDoesNotLookLikeOneWithoutIDs(t *testing.T) {
	f := &fake{}
	f.handle = func(w http.ResponseWriter, _ *http.Request, q query) bool {
		if q.n < 2 {
			fail(w, 503, "loading model")
		}
		return q.n < 2
	}
	c := client(t, Options{BaseURL: f.start(t).URL})
	if r := measure(t, c, closed(1, 1))[0]; r.Failure != profile.FailStatus || r.Status != 503 {
		t.Errorf("record %+v", r)
	}
	if r := measure(t, c, closed(1, 1))[0]; !r.OK() {
		t.Errorf("record %+v", r)
	}
	if qs := f.streams(); len(qs) != 2 || qs[0].ids == nil || qs[1].ids == nil {
		t.Errorf("prompts %.200v", qs)
	}
}

func TestOneErrorDoesNotLookLikeAServerWithoutIDs(t *testing.T) {
	f := &fake{}
	f.handle = func(w http.ResponseWriter, _ *http.Request, q query) bool {
		if q.n == 1 {
			fail(w, 500, "out of luck")
		}
		return q.n == 1
	}
	measure(t, client(t, Options{BaseURL: f.start(t).URL}), closed(1, 1))
	if qs := f.streams(); len(qs) != 1 || slices.Max(qs[0].ids) < smallHigh {
		t.Errorf("prompts %.200v", qs)
	}
}
