package observe

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The table in docs/operate.md says of each preset which figures it has, by which names,
// and whether they are of requests or of gaps.
func TestPresetsAreDocumented(t *testing.T) {
	rows := presetRows(t)
	var presets []Names
	for _, word := range Words() {
		for _, n := range Presets(word) {
			if !slices.ContainsFunc(presets, func(o Names) bool { return o.Preset == n.Preset }) {
				presets = append(presets, n)
			}
		}
	}
	if len(rows) != len(presets) {
		t.Errorf("%d rows for %d presets", len(rows), len(presets))
	}
	for _, n := range presets {
		cells := rows[n.Preset]
		if len(cells) != 6 {
			t.Errorf("%s has %d cells: %q", n.Preset, len(cells), cells)
			continue
		}
		for i, c := range []struct {
			kind  string
			names []string
		}{
			{"per request: ", n.TTFT}, {"per gap: ", n.ITL}, {"per request: ", n.TPOT}, {"per request: ", n.E2E}, {"", slices.Concat(n.Hits[:min(1, len(n.Hits))], n.Lookups[:min(1, len(n.Lookups))])},
		} {
			if missing := strings.HasPrefix(cells[i], "missing"); missing != (len(c.names) == 0) || !missing && !strings.HasPrefix(cells[i], c.kind) {
				t.Errorf("%s: %q of %q", n.Preset, cells[i], c.names)
			}
			for _, name := range c.names {
				if !strings.Contains(cells[i], "`"+name+"`") {
					t.Errorf("%s: %q does not name %s", n.Preset, cells[i], name)
				}
			}
		}
	}
}

// presetRows are the cells of the table's rows, by preset.
func presetRows(t *testing.T) map[string][]string {
	t.Helper()
	b, err := os.ReadFile("../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "| preset |")
	text, _, _ = strings.Cut(text, "\n\n")
	rows := map[string][]string{}
	for _, line := range strings.Split(text, "\n")[2:] {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		rows[strings.Trim(cells[0], "`")] = cells[1:]
	}
	return rows
}
