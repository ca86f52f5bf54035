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
		{Name: "TTFT", Points: []FleetPoint{{0.5, 80, "11 GPUs", false}, {1, 48, "7 GPUs", true}, {2, 41, "6 GPUs", false}}},
		{Name: "ITL", Points: []FleetPoint{{1, 48, "7 GPUs", true}, {3, 41, "6 GPUs", false}}},
	}
}

func TestFleetPictures(t *testing.T) {
	c := Caption{Model: "llama", Provenance: profile.Estimated, Feasible: true, Note: "ITL at 0.5 times: no fleet holds it"}
	for name, of := range map[string]func(Caption, []FleetLine) (*Picture, error){"cost": CostAgainstSLO, "gpus": GPUsAgainstQPS} {
		for _, lines := range [][]FleetLine{fleetLines(), nil, {{Name: "none"}}} {
			pic, err := of(c, lines)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var svg, png bytes.Buffer
			if err := pic.WriteSVG(&svg); err != nil {
				t.Fatal(err)
			}
			if err := pic.WritePNG(&png); err != nil {
				t.Fatal(err)
			}
			want := []string{"ESTIMATED", "no fleet holds it"}
			if len(lines) == 2 {
				want = append(want, "7 GPUs", ">TTFT<", ">ITL<", ">0<") // the axis begins at 0
			}
			for _, w := range want {
				if !strings.Contains(svg.String(), w) {
					t.Errorf("%s of %d lines lacks %q", name, len(lines), w)
				}
			}
		}
	}
}

func TestFleetPicturesRefuseWhatCannotBeDrawn(t *testing.T) {
	lines := fleetLines()
	lines[1].Points[0].Size = math.Inf(1)
	if _, err := CostAgainstSLO(Caption{}, lines); err == nil || !strings.Contains(err.Error(), `series "ITL": size is +Inf`) {
		t.Errorf("error %v", err)
	}
	if _, err := GPUsAgainstQPS(Caption{ISL: -1}, nil); err == nil {
		t.Error("a negative ISL is drawn")
	}
}
