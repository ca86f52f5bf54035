package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/accuracy"
	"plimsoll/engine/catalog"
	"plimsoll/engine/field"
	"plimsoll/engine/latency"
)

func accuracyCommand() *cli.Command {
	return &cli.Command{
		Name: "accuracy", Usage: "how far off the latency model is on a table of measurements", ArgsUsage: "FILE",
		Description: "FILE is CSV, gzip or not, or - for standard input, with the columns " + strings.Join(accuracy.Required, ", ") + ", and where known\n" +
			strings.Join(accuracy.Optional[:9], ", ") + ",\n" + strings.Join(accuracy.Optional[9:], ", ") + ".\n" +
			"loop is closed (so many requests in flight), open (Poisson arrivals), single (one prompt at a time) or step (a\n" +
			"batch that decodes, at a context of isl). Each row's load is simulated. --format csv repeats the rows with the\n" +
			"predictions; factor_90 is the factor that nine of ten TPOTs lie within; left_out says why a row has none.\n\n" +
			"   plimsoll accuracy measured.csv\n" +
			"   plimsoll accuracy --format csv measured.csv.gz > predicted.csv",
		Flags:  stringFlags("", [][3]string{{"catalog", "", catalogUsage}}),
		Action: accuracyAction,
	}
}

func accuracyAction(c *cli.Context) error {
	path := c.Args().First()
	if path == "" {
		return field.Errorf("accuracy needs a table of measurements").Hint("plimsoll accuracy measured.csv")
	}
	cat, err := catalog.Load(c.String("catalog"))
	if err != nil {
		return err
	}
	in := c.App.Reader
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return field.Errorf("accuracy: %v", err)
		}
		defer f.Close() //nolint:errcheck // read only
		in = f
	}
	table, err := accuracy.Read(in, cat)
	if err != nil {
		return field.Errorf("accuracy: %s: %v", path, err)
	}
	if len(table.Rows) == 0 {
		return field.Errorf("accuracy: %s has no rows", path)
	}
	if len(table.Unused) > 0 {
		say(c.App.ErrWriter, "warning", "%s: not used: %s", path, strings.Join(table.Unused, ", "))
	}
	out := evaluate(table)
	switch c.String("format") {
	case "json":
		return printJSON(c.App.Writer, out)
	case "csv":
		return out.csv(c)
	}
	return show(c.App.Writer, out.text())
}

// evaluated is a table with what the model gives for it, as --format json prints it.
type evaluated struct {
	Rows    int               `json:"rows"`
	Groups  []evaluatedGroup  `json:"groups"` // worst first, by the median error of TPOT
	Worst   []evaluatedRow    `json:"worst"`
	LeftOut map[string]int    `json:"left_out"`
	table   accuracy.Table    // by line
	results []accuracy.Result // by line
}

type evaluatedGroup struct {
	Group  string       `json:"group"`
	Rows   int          `json:"rows"`
	Errors latency.Held `json:"errors"`
	Held   float64      `json:"within_factor_90"` // share of TPOTs
}

type evaluatedRow struct {
	Line      int     `json:"row"` // from 1, without the header
	Group     string  `json:"group"`
	Load      string  `json:"load"`
	Latency   string  `json:"latency"`
	Measured  float64 `json:"measured_ms"`
	Predicted float64 `json:"predicted_ms"`
}

// off is by which factor the prediction is wrong.
func (r evaluatedRow) off() float64 { return max(r.Measured/r.Predicted, r.Predicted/r.Measured) }

func evaluate(t accuracy.Table) evaluated {
	out := evaluated{Rows: len(t.Rows), LeftOut: map[string]int{}, table: t, results: make([]accuracy.Result, len(t.Rows))}
	_ = atOnce(len(t.Rows), func(i int) error { // none fails
		out.results[i] = accuracy.Evaluate(t.Rows[i])
		return nil
	})
	groups := map[string]groupSum{}
	for i, r := range t.Rows {
		x := out.results[i]
		if x.Left != "" {
			out.LeftOut[x.Left]++
			continue
		}
		groups[r.Group()] = groups[r.Group()].with(r, x)
		out.Worst = append(out.Worst, worstOf(i+1, r, x)...)
	}
	for _, name := range sortedKeys(groups) {
		g := groups[name]
		out.Groups = append(out.Groups, evaluatedGroup{name, g.rows, accuracy.Summary(name, g.residuals), float64(g.within) / float64(max(1, g.measured))})
	}
	slices.SortStableFunc(out.Groups, func(a, b evaluatedGroup) int { return cmp.Compare(b.Errors.TPOT.Median, a.Errors.TPOT.Median) })
	slices.SortStableFunc(out.Worst, func(a, b evaluatedRow) int { return cmp.Compare(b.off(), a.off()) })
	const most = 10
	out.Worst = out.Worst[:min(most, len(out.Worst))]
	return out
}

// groupSum adds up the rows of one group.
type groupSum struct {
	rows, measured, within int
	residuals              accuracy.Residuals
}

func (g groupSum) with(r accuracy.Row, x accuracy.Result) groupSum {
	g.rows++
	g.residuals = g.residuals.Of(x.Prediction, r)
	if r.TPOT > 0 {
		g.measured++
		if off := accuracy.Off(x.TPOT, r.TPOT); math.Abs(off) <= math.Log(x.TPOTFactor) {
			g.within++
		}
	}
	return g
}

// worstOf are the latencies of a row that were measured.
func worstOf(line int, r accuracy.Row, x accuracy.Result) (out []evaluatedRow) {
	load := fmt.Sprintf("%s, TP %d, ISL %d", r.Loop, r.Config.Parallelism.TP, r.ISL)
	if r.OSL > 0 {
		load += fmt.Sprintf(", OSL %d", r.OSL)
	}
	if r.Concurrency > 0 {
		load += fmt.Sprintf(", %d in flight", r.Concurrency)
	}
	if r.Rate > 0 {
		load += fmt.Sprintf(", %.3g/s", r.Rate)
	}
	for _, l := range []struct {
		name                string
		measured, predicted float64
	}{{"TPOT", r.TPOT, x.TPOT}, {"TTFT", r.TTFT, x.TTFT}} {
		if l.measured > 0 && l.predicted > 0 {
			out = append(out, evaluatedRow{Line: line, Group: r.Group(), Load: load, Latency: l.name, Measured: 1e3 * l.measured, Predicted: 1e3 * l.predicted})
		}
	}
	return out
}

func (e evaluated) text() []byte {
	var b bytes.Buffer
	predicted := 0
	for _, g := range e.Groups {
		predicted += g.Rows
	}
	fmt.Fprintf(&b, "%d of %d rows predicted, in %s; errors are |predicted/measured − 1|, median and p90\n\n", predicted, e.Rows, engine.Count(len(e.Groups), "group"))
	t := newTable("group", "rows", "TPOT", "in factor", "TTFT", "TTFT, closed")
	for _, g := range e.Groups {
		within := "–"
		if g.Errors.TPOT.N > 0 {
			within = fmt.Sprintf("%.0f %%", 100*g.Held)
		}
		t.row(g.Group, itoa(g.Rows), errorCell(g.Errors.TPOT), within, errorCell(g.Errors.TTFT), errorCell(g.Errors.Closed))
	}
	b.WriteString(t.text("  "))
	if len(e.Worst) > 0 {
		b.WriteString("\nWorst\n")
		t := newTable("row", "group", "load", "latency", "measured ms", "predicted ms")
		for _, r := range e.Worst {
			t.row(itoa(r.Line), r.Group, r.Load, r.Latency, fmt.Sprintf("%.4g", r.Measured), fmt.Sprintf("%.4g", r.Predicted))
		}
		b.WriteString(t.text("  "))
	}
	if len(e.LeftOut) > 0 {
		b.WriteString("\nLeft out\n")
		reasons := slices.SortedFunc(maps.Keys(e.LeftOut), func(x, y string) int {
			return cmp.Or(cmp.Compare(e.LeftOut[y], e.LeftOut[x]), cmp.Compare(x, y))
		})
		for _, why := range reasons {
			fmt.Fprintf(&b, "  %d  %s\n", e.LeftOut[why], why)
		}
	}
	return b.Bytes()
}

// csv repeats the rows with what the model gives.
func (e evaluated) csv(c *cli.Context) error {
	own := []string{"predicted_ttft_ms", "predicted_tpot_ms", "predicted_output_tokens_per_s", "factor_90", "left_out", "predicted_ttft_p50_ms", "predicted_ttft_p90_ms", "ttft_factor_90"}
	var kept []int // columns that are not from an earlier run
	for i, name := range e.table.Header {
		if !slices.Contains(own, name) {
			kept = append(kept, i)
		}
	}
	given := func(line []string) (cells []string) {
		for _, i := range kept {
			cells = append(cells, line[i])
		}
		return cells
	}
	rows := [][]string{append(given(e.table.Header), own...)}
	number := func(x float64) string {
		if x == 0 {
			return ""
		}
		return strconv.FormatFloat(x, 'g', 6, 64)
	}
	for i, line := range e.table.Lines {
		x := e.results[i]
		rows = append(rows, append(given(line), number(1e3*x.TTFT), number(1e3*x.TPOT), number(x.Throughput), number(x.TPOTFactor), x.Left, number(1e3*x.TTFT50), number(1e3*x.TTFT90), number(x.TTFTFactor)))
	}
	return showCSV(c, rows)
}
