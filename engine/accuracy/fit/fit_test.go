package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/accuracy"
	"plimsoll/engine/catalog"
	"plimsoll/engine/latency"
)

func at(version string, concurrency, osl int, tpot float64) accuracy.Row {
	return accuracy.Row{
		Model: catalog.Model{Name: "m"}, Version: version, Config: engine.Config{Kind: "trtllm", Parallelism: engine.TP(8)},
		Loop: accuracy.Closed, ISL: 921, OSL: osl, Concurrency: concurrency, TTFT: 0.1, TPOT: tpot,
	}
}

// TPOT that falls with longer answers, or that is a tenth below another row's of the same
// load, is speculation; what prompts of others add to short answers is not.
func TestSpeculation(t *testing.T) {
	for name, tt := range map[string]struct {
		rows []accuracy.Row
		want []bool
	}{
		"falls":       {[]accuracy.Row{at("1", 4, 921, 0.010), at("1", 4, 7372, 0.008)}, []bool{true, true}},
		"does not":    {[]accuracy.Row{at("2", 4, 921, 0.010), at("2", 4, 7372, 0.0099)}, []bool{false, false}},
		"twins":       {[]accuracy.Row{at("3", 64, 921, 0.010), at("3", 64, 921, 0.006)}, []bool{false, true}},
		"interrupted": {[]accuracy.Row{interrupted(at("4", 8, 921, 0.0115)), interrupted(at("4", 8, 7372, 0.0105))}, []bool{false, false}},
	} {
		rows := tt.rows
		speculation(rows)
		for i, want := range tt.want {
			if got := rows[i].Left != ""; got != want {
				t.Errorf("%s: row %d left out: %v", name, i+1, got)
			}
		}
	}
}

// interrupted is a row whose prompts hold decoding up for 300 ms each.
func interrupted(r accuracy.Row) accuracy.Row {
	r.TTFT = 0.3
	return r
}

// The same row twice counts once, and rows that wait for room do not count.
func TestLeaveOut(t *testing.T) {
	slow := at("1", 9, 100, 0.01)
	slow.TTFT = 6
	rows := []accuracy.Row{at("1", 4, 100, 0.01), at("1", 4, 100, 0.010000001), slow}
	leaveOut(rows)
	if rows[0].Left != "" || rows[1].Left != "repeat" || rows[2].Left == "" {
		t.Errorf("%q, %q, %q", rows[0].Left, rows[1].Left, rows[2].Left)
	}
}

// A group's halves differ in layout or length, and each has about half of the shapes.
func TestPart(t *testing.T) {
	n := [2]int{}
	for _, tp := range []int{1, 2, 4, 8} {
		for _, isl := range []int{128, 512, 1024, 4096, 8192} {
			n[part(accuracy.Row{Config: engine.Config{Parallelism: engine.TP(tp)}, ISL: isl})]++
		}
	}
	if n[0] != n[1] {
		t.Errorf("halves of %d and %d", n[0], n[1])
	}
}

// A log's TTFTs begin where the request came; the engine's clock is not the wall's.
func TestReadRequests(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for _, line := range []string{
		`{"input_toks":200,"output_toks":3,"arrival_time":1002,"queued_ts":52.5,"first_token_ts":53,"last_token_ts":55}`,
		`{"input_toks":100,"output_toks":1,"arrival_time":1000,"queued_ts":50,"first_token_ts":50.25,"last_token_ts":50.25}`,
	} {
		if _, err := z.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "log.jsonl.gz")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := readRequests(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []accuracy.Request{{At: 0, ISL: 100, OSL: 1}, {At: 2, ISL: 200, OSL: 3}}
	if !slices.Equal(r.row.Requests, want) || r.ttft50 != 0.25 || r.ttft90 != 1 || r.tpot != 1 {
		t.Errorf("%+v", r)
	}
	if _, err := readRequests(path + "x"); err == nil {
		t.Error("a log that is not there is read")
	}
}

// The model comes close to the profile of testdata/gpu, which no fit has seen.
func TestEngineThatNobodyFitted(t *testing.T) {
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{cat: cat}
	rows := r.torch("../../../testdata/npz")
	if r.err != nil {
		t.Fatal(r.err)
	}
	e, err := off(rows, latency.FitFor("torch", ""))
	if err != nil {
		t.Fatal(err)
	}
	if e.TTFT.N != 8 || e.TPOT.N != 36 || rows[8].Concurrency != 1 || rows[43].Concurrency != 64 {
		t.Errorf("%d TTFTs, %d ITLs of %d to %d in flight", e.TTFT.N, e.TPOT.N, rows[8].Concurrency, rows[43].Concurrency)
	}
	if e.TTFT.Median > 0.15 || e.TPOT.Median > 0.2 {
		t.Errorf("TTFT off by %.3g, ITL by %.3g", e.TTFT.Median, e.TPOT.Median)
	}
}
