package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plimsoll/engine/latency"
)

// The fits must never have seen the H200 profile.
func TestNothingIsFittedToTheProfile(t *testing.T) {
	for _, f := range families() {
		for _, name := range append(append([]string{}, f.rows...), f.priors...) {
			if name == "h200-npz" {
				t.Errorf("%s is fitted to it", f.fit.Name)
			}
			for _, own := range f.rows {
				for _, prior := range f.priors {
					if own == prior {
						t.Errorf("the prior of %s has seen its rows", f.fit.Name)
					}
				}
			}
		}
	}
}

// What a family may start from does not change with what was measured of it.
func TestUnseenFitsHaveNotSeenTheRows(t *testing.T) {
	rows, err := readRows("..")
	if err != nil {
		t.Fatal(err)
	}
	f := families()[2]
	prior := latency.Physical()
	before, err := unseen(rows, f, prior)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if rows[i].family == f.rows[0] {
			rows[i].tpot *= 2
		}
	}
	after, err := unseen(rows, f, prior)
	if err != nil {
		t.Fatal(err)
	}
	if len(before) != 5 {
		t.Errorf("%d fits, want its prior and those of four families", len(before))
	}
	for i := range before {
		if before[i].Coefficients != after[i].Coefficients {
			t.Errorf("%s has seen rows of %s", before[i].Name, f.fit.Name)
		}
	}
}

// The best pick of a table under caps, worked out by hand.
func TestJudge(t *testing.T) {
	point := func(gpus, n, ttft, tpot, seen float64) choice {
		return choice{measured: latency.Means{TTFT: ttft, TPOT: tpot}, formula: latency.Means{TTFT: ttft, TPOT: seen}, gpus: gpus, inFlight: n, osl: 101}
	}
	table := []choice{point(1, 8, 0.1, 0.010, 0.011), point(1, 16, 0.1, 0.015, 0.0151), point(2, 16, 0.1, 0.009, 0.009)}
	if got, want := table[0].throughput(table[0].measured), 8*101/1.1; math.Abs(got-want) > 1e-9 {
		t.Errorf("throughput %g, want %g", got, want)
	}
	// Tokens/s/GPU: 735 at one GPU and 8, 1010 at one GPU and 16, 808 at two and 16.
	for tpot, want := range map[float64]int{0.0089: -1, 0.0095: 2, 0.012: 2, 0.0151: 1} {
		if got := pick(table, latency.Means{TTFT: 1, TPOT: tpot}, measured); got != want {
			t.Errorf("under %g s the best is %d, want %d", tpot, got, want)
		}
	}
	if got := pick(table, latency.Means{TTFT: 0.05, TPOT: 1}, measured); got != -1 {
		t.Errorf("no choice has such a TTFT, picked %d", got)
	}
	// The caps are 5 ms by steps of 5 %, to 98 ms: 62, of which 13 lie below 9 ms and
	// 23 below 15 ms. Each row moves the prediction of one choice so that the pick
	// under some caps is another.
	for _, tc := range []struct {
		what string
		seen []float64 // predicted TPOT
		want verdicts
	}{
		{"as measured", []float64{0.010, 0.015, 0.009}, verdicts{caps: 49, equal: 49}},
		{"the best is thought to be slower than any cap", []float64{0.010, 1, 0.009}, verdicts{caps: 49, equal: 10, poor: 39}},
		{"nothing is thought to meet any", []float64{1, 1, 1}, verdicts{caps: 49, poor: 49}},
		{"the best is thought to be faster", []float64{0.010, 0.005, 0.009}, verdicts{caps: 49, equal: 39, over: 10}},
	} {
		moved := slices.Clone(table)
		for i, x := range tc.seen {
			moved[i].formula.TPOT = x
		}
		if got := judge(moved, ways[byFormula], anyTTFT); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.what, got, tc.want)
		}
	}
	near := []choice{point(1, 100, 0, 0.010, 0.010), point(1, 98, 0, 0.010, 0.005)}
	if got := judge(near, ways[byFormula], anyTTFT); got.close != got.caps || got.caps == 0 {
		t.Errorf("98 %% of the best throughput: %+v", got)
	}
}

func TestRowsThatCannotBe(t *testing.T) {
	head := strings.Join(columns, ",") + "\n"
	for text, want := range map[string]string{
		"":                    "want the columns",
		"a,b\n1,2\n":          "want the columns",
		head:                  "want the columns",
		head + "f,closed,m\n": "wrong number of fields",
		head + "f,closed,no-such-model,H100-SXM,bf16,1,1,1,0,1,,,,1\n":   "rows.csv:2: unknown model",
		head + "f,closed,llama-3.1-8b,no-such-gpu,bf16,1,1,1,0,1,,,,1\n": "rows.csv:2: unknown GPU",
		head + "f,closed,llama-3.1-8b,H100-SXM,bf16,1,x,1,0,1,,,,1\n":    `rows.csv:2: isl is "x"`,
		head + "f,closed,llama-3.1-8b,H100-SXM,bf16,1,1,1,0,1,,,,NaN\n":  `rows.csv:2: tpot_ms is "NaN"`,
		head + "f,closed,llama-3.1-8b,H100-SXM,bf16,1,1,1,0,1,,,,-3\n":   `rows.csv:2: tpot_ms is "-3"`,
	} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "testdata"), 0o755); err != nil {
			t.Fatal(err)
		}
		models, err := os.ReadFile("../testdata/models.csv")
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string][]byte{"models.csv": models, "rows.csv": []byte(text)} {
			if err := os.WriteFile(filepath.Join(dir, "testdata", name), content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := readRows(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
