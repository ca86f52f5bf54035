package plots

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"plimsoll/profile"
)

func fleetLines() []FleetLine {
	return []FleetLine{
		{Name: "half the SLO", Points: []FleetPoint{{5, 80, "2 and 6", false}, {10, 150, "4 and 11", false}}},
		{Name: "the SLO", Points: []FleetPoint{{5, 50, "", false}, {10, 90, "3 and 6", true}}},
	}
}

func TestFleets(t *testing.T) {
	c := Caption{Model: "llama", Provenance: profile.Estimated, Feasible: true, Note: "no fleet holds a quarter"}
	for _, lines := range [][]FleetLine{fleetLines(), nil, {{Name: "none"}}} {
		pic, err := Fleets(c, lines)
		if err != nil {
			t.Fatal(err)
		}
		var svg, png bytes.Buffer
		if err := pic.WriteSVG(&svg); err != nil {
			t.Fatal(err)
		}
		if err := pic.WritePNG(&png); err != nil {
			t.Fatal(err)
		}
		want := []string{"ESTIMATED", "no fleet holds a quarter"}
		if len(lines) == 2 {
			want = append(want, "3 and 6", ">the SLO<", ">half the SLO<", ">0<") // the axis begins at 0
		}
		for _, w := range want {
			if !strings.Contains(svg.String(), w) {
				t.Errorf("the picture of %d lines lacks %q", len(lines), w)
			}
		}
	}
}

func TestFleetsRefusesWhatCannotBeDrawn(t *testing.T) {
	lines := fleetLines()
	lines[1].Points[0].RPS = math.Inf(1)
	if _, err := Fleets(Caption{}, lines); err == nil || !strings.Contains(err.Error(), `series "the SLO": rate is +Inf`) {
		t.Errorf("error %v", err)
	}
	if _, err := Fleets(Caption{ISL: -1}, nil); err == nil {
		t.Error("a negative ISL is drawn")
	}
}
