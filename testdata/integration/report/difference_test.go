package report_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/testdata/integration/browser"
	"plimsoll/testdata/integration/program"
)

// estimates is the folder of the profiles that several tests read.
var estimates string

func TestMain(m *testing.M) {
	var err error
	if estimates, err = os.MkdirTemp("", "estimates"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := os.RemoveAll(estimates); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// estimated is an estimate of 8B in a folder of the test's own.
func estimated(t *testing.T, gpu, mode string) string {
	t.Helper()
	made := filepath.Join(estimates, gpu+"-"+mode)
	if _, err := os.Stat(made); err != nil {
		r := program.Run(t.Context(), t, nil, "profile-sla", "--engine", "estimate", "--model", "llama-3.1-8b", "--gpu", gpu, "--isl", "3000", "--osl", "150", "--ttft", "300", "--itl", "25",
			"--mode", mode, "--quiet", "--output-dir", made)
		if r.Code != 0 {
			t.Fatalf("%d: %s", r.Code, r.Stderr)
		}
	}
	dir := filepath.Join(t.TempDir(), gpu)
	if err := exec.CommandContext(t.Context(), "cp", "-a", made, dir).Run(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Two profiles beside each other, of two GPUs: all lines are drawn, can be read and
// hidden; each chart has a table; nothing is complained of.
func TestDifferencePage(t *testing.T) {
	b := browser.Start(t)
	for _, mode := range []string{"disaggregated", "aggregated"} {
		t.Run(mode, func(t *testing.T) {
			dirs := []string{estimated(t, "h100-sxm", mode), estimated(t, "h200-sxm", mode)}
			r := program.Run(t.Context(), t, nil, append([]string{"report", "--cost-per-gpu-hour", "2.5,4"}, dirs...)...)
			if r.Code != 0 {
				t.Fatalf("%d: %s", r.Code, r.Stderr)
			}
			b.Size(1280, 900)
			b.Open(filepath.Join(dirs[1], "difference.html"))
			b.Until("document.querySelector('#curves .point')")
			overlaid(t, b)
			printed(t, b)
			looks(t, b, "difference_"+mode)
			named(t, b)
			if n := b.Noted(); len(n.Complaints) > 0 || len(n.Requests) != 1 {
				t.Errorf("complaints %q, requests %q: want none but the page", n.Complaints, n.Requests)
			}
		})
	}
}

// printed opens what is folded of warnings for paper, and folds it again; a bar that
// the axis cuts is marked.
func printed(t *testing.T, b *browser.Browser) {
	t.Helper()
	var got struct{ Folded, Paper, After, Cut, Marked int }
	b.Eval(`(() => {
	  const closed = () => document.querySelectorAll('.warnings details:not([open])').length, folded = closed();
	  dispatchEvent(new Event('beforeprint'));
	  const paper = closed();
	  dispatchEvent(new Event('afterprint'));
	  const tops = [...document.querySelectorAll('#curves line.bar')].filter(l => Number(l.getAttribute('y2')) <= 14);
	  return { folded, paper, after: closed(), cut: tops.length, marked: tops.filter(l => l.parentElement.querySelector('.cut')).length };
	})()`, &got)
	if got.Folded == 0 || got.Paper > 0 || got.After != got.Folded {
		t.Errorf("folded, on paper and after: %+v; want all open on paper", got)
	}
	if got.Cut != got.Marked {
		t.Errorf("%d bars are cut, %d marked so", got.Cut, got.Marked)
	}
}

// overlaid reads the charts: both sides are in each, a name hides its marks, a mark
// says its values, and the table has as many rows as there are marks.
func overlaid(t *testing.T, b *browser.Browser) {
	t.Helper()
	var charts []struct {
		Title      string
		Marks      int
		A, B, Rows int
		Hidden     int
	}
	b.Eval(`(async () => {
	  const out = [];
	  for (const f of document.querySelectorAll('#curves figure')) {
	    const marks = () => [...f.querySelectorAll('.point')], of = letter => marks().filter(m => m.getAttribute('aria-label').startsWith(letter)).length;
	    const x = { title: f.querySelector('figcaption').textContent, marks: marks().length, a: of('A '), b: of('B ') + of('B,') , rows: 0, hidden: 0 };
	    x.a += of('A,');
	    f.querySelector('details').open = true;
	    await new Promise(r => setTimeout(r, 50));
	    x.rows = f.querySelectorAll('details tbody tr').length;
	    f.querySelector('details').open = false;
	    const button = f.querySelector('.legend button');
	    button.click();
	    x.hidden = x.marks - marks().length;
	    button.click();
	    out.push(x);
	  }
	  return out;
	})()`, &charts)
	if len(charts) < 2 {
		t.Errorf("%d charts", len(charts))
	}
	for _, c := range charts {
		if c.A == 0 || c.B == 0 || c.A+c.B != c.Marks || c.Rows != c.Marks || c.Hidden <= 0 || c.Hidden >= c.Marks {
			t.Errorf("%+v", c)
		}
	}
	b.Eval("document.querySelector('#curves .point').focus()", nil)
	if tip := text(b, "#curves .tip:not([hidden])"); !strings.HasPrefix(tip, "A ") {
		t.Errorf("a mark has the focus, and its tip is %q", tip)
	}
	b.Eval("document.activeElement.blur()", nil)
}
