package serve

import (
	"os"
	"regexp"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// The dashboard shows no metric that the planner does not have.
func TestGrafanaDashboard(t *testing.T) {
	b, err := os.ReadFile("../../deploy/grafana-planner.json")
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{"plimsoll_planner_events_total": true}
	m := NewMetrics()
	g := newRig(t, nil)
	descs := make(chan *prometheus.Desc, 100)
	for _, x := range m.gauges {
		descs <- x.desc
	}
	metrics := make(chan prometheus.Metric, 100)
	statusMetrics{[]*Runner{g.Runner}}.Collect(metrics)
	close(metrics)
	for x := range metrics {
		descs <- x.Desc()
	}
	close(descs)
	name := regexp.MustCompile(`fqName: "([^"]+)"`)
	for d := range descs {
		has[name.FindStringSubmatch(d.String())[1]] = true
	}
	used := regexp.MustCompile(`(?:dynamo|plimsoll)_planner_[a-z_]+`).FindAllString(string(b), -1)
	if len(used) < 20 {
		t.Fatalf("the dashboard uses %d metrics", len(used))
	}
	for _, u := range used {
		if !has[u] {
			t.Errorf("the dashboard shows %s, which the planner does not have", u)
		}
	}
}
