package serve

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

var update = flag.Bool("update", false, "write docs/reference/metrics.md")

const referenceFile = "../../docs/reference/metrics.md"

// described reads a description, which has no other way to its words.
var described = regexp.MustCompile(`fqName: "([^"]+)", help: "([^"]*)".*variableLabels: \{([^}]*)\}`)

// TestReference holds the reference of the planner's metrics against what it has.
// -update writes it.
func TestReference(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	descs := make(chan *prometheus.Desc, 200)
	m.events.Describe(descs)
	statusMetrics{}.Describe(descs)
	for _, g := range m.gauges {
		descs <- g.desc
	}
	close(descs)
	var rows []string
	for d := range descs {
		w := described.FindStringSubmatch(d.String())
		if w == nil {
			t.Fatalf("not understood: %s", d)
		}
		kind := "gauge"
		if strings.HasSuffix(w[1], "_total") {
			kind = "counter"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | `%s` | %s |", w[1], kind, strings.ReplaceAll(w[3], ",", "`, `"), w[2]))
	}
	slices.Sort(rows)
	want := "# Metrics of the planner\n\n" +
		"What `plimsoll planner serve` shows at `/metrics`, made from the program and held against it by its tests. Those that begin with `dynamo_planner_` are NVIDIA Dynamo's planner's, under the same names. A figure that is not known has no sample: it is not 0. A dashboard of them is `deploy/grafana-planner.json`.\n\n" +
		"| metric | type | labels | meaning |\n|---|---|---|---|\n" + strings.Join(rows, "\n") + "\n"
	if *update {
		if err := os.WriteFile(referenceFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/reference/metrics.md is not what the planner shows: go test ./planner/serve -run TestReference -update")
	}
}
