package pages_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"plimsoll/plots"
	"plimsoll/plots/pages"
	"plimsoll/profile"
)

const hostile = `</script><script>alert("1")</script><img src=x onerror='alert(2)'>`

func policy(name string, attained, gpuHours float64) pages.Policy {
	return pages.Policy{
		Name: name, About: "about " + name, Replicas: "1–3 + 1",
		Both: pages.Figure{Mean: attained}, TTFT: pages.Figure{Mean: attained}, ITL: pages.Figure{Mean: 1}, UnderSLO: pages.Figure{Mean: .5},
		GoodRequests: pages.Figure{Mean: 12.5}, GoodTokens: pages.Figure{Mean: 1250}, GPUHours: pages.Figure{Mean: gpuHours}, Scalings: pages.Figure{Mean: 7},
		Timeline: pages.Timeline{Width: time.Minute, Panels: []plots.Panel{
			{Title: "Requests", Unit: "per second", Lines: []plots.Line{{Values: []float64{1, 2.5, 3.25}, Step: true, Filled: true}}},
			{Title: "Met the SLA", Unit: "%", Lines: []plots.Line{{Name: "TTFT", Values: []float64{100, math.NaN(), 97.5609756}}}, Limits: []plots.Limit{{Name: "99 %", Value: 99}}},
		}},
	}
}

func replay(policies ...pages.Policy) pages.Replay {
	return pages.Replay{
		Origin: pages.Origin{
			Title: "Policies on a load", Provenance: profile.Estimated, Virtual: true, Version: "v0", Command: "plimsoll planner replay --rate 5",
			Facts: []pages.Fact{{Name: "Load", Text: "poisson arrivals"}},
		},
		Seeds: 1, Target: .99, Policies: policies,
	}
}

func made(t *testing.T, r pages.Replay) string {
	t.Helper()
	b, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func between(t *testing.T, s, from, to string) string {
	t.Helper()
	_, rest, ok := strings.Cut(s, from)
	inner, _, ended := strings.Cut(rest, to)
	if !ok || !ended {
		t.Fatalf("nothing between %q and %q", from, to)
	}
	return inner
}

// Texts of others stay texts, wherever they are shown.
func TestTextsAreEscaped(t *testing.T) {
	t.Parallel()
	p := policy(hostile, .5, 2)
	p.About, p.Replicas = hostile, hostile
	p.Timeline.Panels[0].Title, p.Timeline.Panels[0].Unit = hostile, hostile
	p.Timeline.Panels[0].Lines[0].Name, p.Timeline.Panels[1].Limits[0].Name = hostile, hostile
	p.Against = &pages.Difference{Policy: hostile}
	r := replay(p)
	r.Title, r.Version, r.Command, r.Facts[0] = hostile, hostile, hostile, pages.Fact{Name: hostile, Text: hostile}
	r.Warnings = []pages.Warning{{Warning: profile.Warning{Code: "x", Message: hostile}, Of: hostile}, {Warning: profile.Warning{Code: "x", Message: hostile}, Of: hostile}}
	r.Terms, r.NotModelled = r.Facts, []string{hostile}
	page := made(t, r)
	for _, s := range []string{"<img", "alert(\"1\")"} {
		if strings.Contains(page, s) {
			t.Errorf("the page has %q as it was given", s)
		}
	}
	if n := strings.Count(page, "<script"); n != 2 {
		t.Errorf("%d scripts, want the data and the page's own", n)
	}
	var data struct{ Policies []struct{ Name string } }
	if err := json.Unmarshal([]byte(between(t, page, `id="data">`, "</script>")), &data); err != nil || data.Policies[0].Name != hostile {
		t.Errorf("the data has %q: %v", data.Policies, err)
	}
	if !strings.Contains(page, html.EscapeString("</script><script>alert(")) {
		t.Error("the title is lost")
	}
}

// A page asks for nothing: its policy allows its own style and script alone, and
// nothing in it would need more.
func TestPageIsSelfContained(t *testing.T) {
	t.Parallel()
	page := made(t, replay(policy("a", .5, 2)))
	allowed := html.UnescapeString(between(t, page, `http-equiv="Content-Security-Policy" content="`, `"`))
	for _, part := range []struct{ directive, source string }{
		{"style-src", between(t, page, "<style>", "</style>")},
		{"script-src", between(t, page, "<script>", "</script>")},
	} {
		sum := sha256.Sum256([]byte(part.source))
		if want := part.directive + " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"; !strings.Contains(allowed, want) {
			t.Errorf("policy %q, want %q", allowed, want)
		}
	}
	if !strings.HasPrefix(allowed, "default-src 'none';") || strings.Contains(allowed, "unsafe") {
		t.Errorf("policy %q", allowed)
	}
	outside := strings.ReplaceAll(page, "http://www.w3.org/2000/svg", "")
	for _, no := range []string{`https?://`, `//[a-z0-9]+\.[a-z]`, `\bsrc=`, `@import`, `url\(`, ` style=`, ` on[a-z]+="`, `\bfetch\(`, `innerHTML`, `\beval\(`} {
		if found := regexp.MustCompile(no).FindString(outside); found != "" {
			t.Errorf("the page has %q", found)
		}
	}
}

// Every figure of a policy is on the page, in its unit; columns that nobody has
// anything in are not.
func TestComparison(t *testing.T) {
	t.Parallel()
	half := .004
	p := policy("default", .75, 21.68)
	p.Both.Half = &half
	page := html.UnescapeString(made(t, replay(p, policy("hpa", .8, 1234.75))))
	for _, want := range []string{
		`data-name="Attained" data-unit="%" data-value="75">75.00 ± 0.4<`, `data-name="Time under SLO" data-unit="%" data-value="50">50.00<`,
		`data-name="GPU-hours" data-unit="total" data-value="1234.75">1,235<`, `data-name="Goodput" data-unit="tokens/s" data-value="1250">1,250<`,
		`<strong>estimated</strong> – computed by a latency model, not measured; in virtual time`, "poisson arrivals", "plimsoll planner replay --rate 5", "about hpa", "1–3 + 1",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has not %q", want)
		}
	}
	for _, no := range []string{"over plan", "seed by seed", "warnings"} {
		if strings.Contains(between(t, page, "<body>", "<script>"), no) {
			t.Errorf("the page has %q", no)
		}
	}
	over := pages.Figure{Mean: 1.25}
	r := replay(p, policy("hpa", .8, 20))
	r.Policies[1].OverPlan = &over
	page = made(t, r)
	for _, want := range []string{`data-unit="over plan&#39;s">–<`, `data-unit="over plan&#39;s" data-value="1.25">1.25<`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has not %q", want)
		}
	}
}

// What is drawn is what was given: gaps stay gaps, six digits are kept.
func TestTimelineData(t *testing.T) {
	t.Parallel()
	got := between(t, made(t, replay(policy("a", .5, 2))), `"timeline":`, `}],"open"`)
	want := `{"start":0,"width":60,"bins":3,"panels":[{"title":"Requests","unit":"per second","lines":[{"name":"","step":true,"filled":true,"values":[1,2.5,3.25]}],"limits":[]},` +
		`{"title":"Met the SLA","unit":"%","lines":[{"name":"TTFT","step":false,"filled":false,"values":[100,null,97.561]}],"limits":[{"name":"99 %","value":99}]}]}`
	if got != want {
		t.Errorf("data\n%s\nwant\n%s", got, want)
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	plan := policy("plan", .999, 1)
	plan.Clairvoyant = true
	for _, c := range []struct {
		name     string
		policies []pages.Policy
		want     string
		open     string
	}{
		{"the cheapest that holds", []pages.Policy{policy("a", .995, 20), policy("b", .991, 12), policy("c", .5, 3)}, "met by 2 of 3 policies. b takes the least GPU-hours of those that meet them, 12.", `["b","c"]`},
		{"two as cheap", []pages.Policy{policy("a", .995, 12), policy("b", .991, 12), policy("c", .99, 20)}, "met by 3 of 3 policies. a and b take the least GPU-hours of those that meet them, 12.", `["a","c"]`},
		{"exactly the target", []pages.Policy{policy("a", .99, 20)}, "met by 1 of 1 policies. a takes", `["a"]`},
		{"nobody", []pages.Policy{policy("a", .2, 20), policy("b", .9, 30), policy("c", .5, 1)}, "No policy here meets both promises of 99 % of the requests: b comes closest, with 90.00 % and 30 GPU-hours.", `["b","c"]`},
		{"hindsight is no policy", []pages.Policy{plan, policy("a", .5, 9)}, "a comes closest", `["a"]`},
		{"all miss all", []pages.Policy{policy("a", 0, 9), policy("b", 0, 3)}, "a comes closest, with 0.00 %", `["a","b"]`},
		{"hindsight alone", []pages.Policy{plan}, "", `["plan"]`},
	} {
		page := made(t, replay(c.policies...))
		if c.want == "" == strings.Contains(page, `class="lead"`) || !strings.Contains(page, c.want) {
			t.Errorf("%s: want %q", c.name, c.want)
		}
		if got := between(t, page, `"open":`, "}"); got != c.open {
			t.Errorf("%s: %s are open, want %s", c.name, got, c.open)
		}
	}
}

// Warnings of all are there one by one, those of several policies once, with all
// their words.
func TestWarnings(t *testing.T) {
	t.Parallel()
	r := replay(policy("a", .5, 2))
	for i, w := range []pages.Warning{{Of: ""}, {Of: ""}, {Of: "a"}, {Of: "b"}} {
		w.Warning = profile.Warnf("few", "message %d", i)
		r.Warnings = append(r.Warnings, w)
	}
	page := made(t, r)
	list := strings.Join(strings.Fields(between(t, page, `<section class="warnings"`, "</section>")), " ")
	want := `<ul> <li>message 0</li> <li>message 1</li> <li><b>a</b>: message 2 <details><summary>likewise of b</summary><ul> <li><b>b</b>: message 3</li> </ul></details></li> </ul>`
	if !strings.Contains(list, "4 warnings") || !strings.HasSuffix(list, want) {
		t.Errorf("warnings\n%s\nwant\n%s", list, want)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*pages.Replay)
		want   string
	}{
		{"nobody", func(r *pages.Replay) { r.Policies = nil }, "no policies"},
		{"target", func(r *pages.Replay) { r.Target = 1 }, "a target of 1"},
		{"provenance", func(r *pages.Replay) { r.Provenance = 9 }, "provenance"},
		{"not a number", func(r *pages.Replay) { r.Policies[0].TTFT.Mean = math.NaN() }, "a: TTFT met is NaN"},
		{"interval", func(r *pages.Replay) { x := math.Inf(1); r.Policies[0].GPUHours.Half = &x }, "a: GPU-hours's interval is +Inf"},
		{"difference", func(r *pages.Replay) {
			r.Policies[0].Against = &pages.Difference{Policy: "b", Both: pages.Figure{Mean: math.NaN()}}
		}, "a less b is NaN"},
		{"width", func(r *pages.Replay) { r.Policies[0].Timeline.Width = 0 }, "a: bins of 0s from 0s on"},
		{"lengths", func(r *pages.Replay) { r.Policies[0].Timeline.Panels[1].Lines[0].Values = []float64{1} }, `a: Met the SLA: "TTFT" has 1 values: want 3`},
		{"infinite", func(r *pages.Replay) { r.Policies[0].Timeline.Panels[0].Lines[0].Values[2] = math.Inf(1) }, "+Inf in bin 2"},
		{"limit", func(r *pages.Replay) { r.Policies[0].Timeline.Panels[1].Limits[0].Value = math.NaN() }, "99 % is NaN"},
	} {
		r := replay(policy("a", .5, 2))
		c.change(&r)
		if b, err := r.HTML(); err == nil || b != nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `page "Policies on a load"`) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	half := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		f    pages.Figure
		want string
	}{
		{pages.Figure{}, "0"},
		{pages.Figure{Mean: 18}, "18"},
		{pages.Figure{Mean: 1234567}, "1,234,567"},
		{pages.Figure{Mean: 1234.567}, "1,235"},
		{pages.Figure{Mean: 0.012345}, "0.01235"}, // half to even of the nearest float
		{pages.Figure{Mean: 5.0327, Half: half(.00079)}, "5.033 ± 0.001"},
		{pages.Figure{Mean: 1849, Half: half(1420.4)}, "1,849 ± 1,420"},
		{pages.Figure{Mean: 21.684, Half: half(6.66)}, "21.68 ± 6.7"},
		{pages.Figure{Mean: 100, Half: half(0)}, "100 ± 0"},
		{pages.Figure{Mean: 0.00001234}, "1.234e−05"},
	} {
		p := policy("a", .5, 1)
		p.GPUHours = c.f
		if want := fmt.Sprintf(">%s</td>", c.want); !strings.Contains(made(t, replay(p)), want) {
			t.Errorf("%+v: want %q", c.f, c.want)
		}
	}
	p := policy("a", .5, 1)
	p.Against = &pages.Difference{Policy: "b", Both: pages.Figure{Mean: -.8143, Half: half(.0038)}, GPUHours: pages.Figure{Mean: 14.216}}
	page := made(t, replay(p))
	for _, want := range []string{"Less b, seed by seed", ">−81.43 ± 0.38<", ">&#43;14.22<"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has not %q", want)
		}
	}
}
