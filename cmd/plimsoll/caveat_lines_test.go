package main

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/recommend"
)

// What puts points in doubt is below the table and the picture, and points that
// are not the engine's are in neither.
func TestCaveatsTravel(t *testing.T) {
	point := func(ttft time.Duration, codes ...string) profile.Point {
		p := profile.Point{
			Stage: profile.StageSweep, Phase: profile.Prefill, Requests: 5, Asked: 1, InFlight: 1, ISL: 100, ThroughputPerGPU: 1000,
			TTFT: profile.Distribution{N: 5, Mean: ttft},
		}
		for _, c := range codes {
			p.Warnings = append(p.Warnings, profile.Warnf(c, "a caveat"))
		}
		return p
	}
	bad := point(time.Millisecond, "invalid")
	bad.Invalid = "the client was the bottleneck"
	points := []profile.Point{point(time.Second, "few_samples", "prefix_hit"), point(2*time.Second, "few_samples", "few_samples"), bad}
	sla := profile.SLA{TTFT: time.Minute, ITL: time.Minute, Stat: profile.Mean}
	ch, err := recommend.Choose(profile.Prefill, points, sla, recommend.BySingle, 1)
	if err != nil {
		t.Fatal(err)
	}
	b := &bytes.Buffer{}
	belowTable(b, ch)
	want := "  caveats: few_samples at 2 of 2 points, prefix_hit at 1 of 2 points\n  not compared: TP:1 at 1 in flight: invalid: the client was the bottleneck\n"
	if b.String() != want {
		t.Errorf("below the table:\n%swant:\n%s", b, want)
	}
	note := "caveats: few_samples at 2 of 2 points, prefix_hit at 1 of 2 points; 1 point invalid and not shown"
	if got := caveatNote(points, profile.Prefill); got != note {
		t.Errorf("below the picture: %q, want %q", got, note)
	}
	if cs := plotCandidates(store.Run{Points: points, SLA: sla}, store.Recommendation{}, profile.Prefill); len(cs) != 2 {
		t.Errorf("%d candidates in the picture, want 2", len(cs))
	}
}

// A caveat of many points is one line, which names the worst of them.
func TestCaveatsOfPointsAreGrouped(t *testing.T) {
	var points []profile.Point
	for i := range 60 {
		p := profile.Point{ID: fmt.Sprintf("sweep/decode/tp1/isl500/n%d", i+1)}
		share := float64(10+(i*7)%50) / 100
		p.Warnings = []profile.Warning{profile.Warnf("coalesced", "%.0f %% of chunks came together", 100*share).By(share)}
		points = append(points, p)
	}
	points[3].Warnings = append(points[3].Warnings, profile.Warnf("no_usage", "the server sent no usage"))
	points[5].Warnings = append(points[5].Warnings, profile.Warnf("no_usage", "the server sent no usage"))
	points[9].Warnings = append(points[9].Warnings, profile.Warnf("foreign_load", "9 requests ran"))
	want := []string{
		"sweep/decode/tp1/isl500/n8: 59 % of chunks came together (the worst of 60 points; the others: sweep/decode/tp1/isl500/n1, sweep/decode/tp1/isl500/n2, " +
			"sweep/decode/tp1/isl500/n3, sweep/decode/tp1/isl500/n4 and 55 more)",
		"sweep/decode/tp1/isl500/n4: the server sent no usage (one of 2 points; the others: sweep/decode/tp1/isl500/n6)",
		"sweep/decode/tp1/isl500/n10: 9 requests ran",
	}
	got := pointCaveats(points)
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d: %v", len(got), len(want), got)
	}
	for i, w := range got {
		if w.Message != want[i] {
			t.Errorf("line %d is\n%s\nwant\n%s", i, w.Message, want[i])
		}
	}
}
