package trace_test

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"plimsoll/profile/trace"
)

func windows(t *testing.T, path string) []trace.Window {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []trace.Window
	for w, err := range trace.ReadWindows(bytes.NewReader(data), path) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	return all
}

func TestWindowsOfServeGen(t *testing.T) {
	all := windows(t, "testdata/servegen.csv")
	want := trace.Window{Length: 10 * time.Minute, Rate: 986.565, CV: 2.232, ISL: 594.49, OSL: 127.79, File: "testdata/servegen.csv", Line: 2}
	if len(all) != 576 || all[0] != want {
		t.Errorf("%d windows, the first %+v", len(all), all[0])
	}
	gaps := 0
	for i, w := range all {
		if w.Start != time.Duration(i)*10*time.Minute || w.Length != 10*time.Minute {
			t.Fatalf("window %d: %+v", i, w)
		}
		if w.Rate == 0 {
			gaps++
		}
	}
	if gaps != 11 {
		t.Errorf("%d gaps, want 11", gaps)
	}
}

// What a table generates has, window by window, the table's rate and lengths,
// and nothing in its gaps.
func TestGeneratedWindowsKeepTheTable(t *testing.T) {
	table := windows(t, "testdata/servegen.csv")
	const scale = 2e-3
	for _, maxCV := range []float64{1, 3} {
		_, all := open(t, "testdata/servegen.csv", trace.Options{Windows: trace.WindowOptions{Scale: scale, MaxCV: maxCV, LengthCV: 0.5, Seed: 4}})
		count := make([]float64, len(table))
		var isl, wantISL, requests float64
		for _, a := range all {
			i := int(a.At / (10 * time.Minute))
			count[i]++
			isl += float64(a.ISL)
			wantISL += table[i].ISL
		}
		total := 0.0
		for i, w := range table {
			want := w.Rate * scale * 600
			total += want
			requests += count[i]
			if want == 0 && count[i] > 0 {
				t.Errorf("%v arrivals in a gap", count[i])
			}
			// Six standard deviations of a renewal count, and one gap at each end.
			if off := math.Abs(count[i] - want); off > 6*maxCV*math.Sqrt(want)+10*maxCV*maxCV {
				t.Errorf("max cv %v, window %d: %v arrivals, want %v", maxCV, i, count[i], want)
			}
		}
		if off := math.Abs(requests - total); off > 5*maxCV*math.Sqrt(total) {
			t.Errorf("max cv %v: %v arrivals, want %v", maxCV, requests, total)
		}
		if ratio := isl / wantISL; math.Abs(ratio-1) > 0.005 {
			t.Errorf("max cv %v: mean ISL is %v of the table's", maxCV, ratio)
		}
	}
}

func TestFixedLengthsOfWindowsKeepTheMean(t *testing.T) {
	const table = "t_s,rate_rps,cv,mean_input_tokens,mean_output_tokens\n0,20,1,100.25,1\n1800,20,1,100.25,1\n"
	opened := must[*trace.File](t)(trace.Open(strings.NewReader(table), "table.csv", trace.Options{Windows: trace.WindowOptions{OSL: trace.Fixed(7)}}))
	all := collect(t, opened.Arrivals())
	sum := 0.0
	for _, a := range all {
		if (a.ISL != 100 && a.ISL != 101) || a.OSL != 7 {
			t.Fatalf("%v", a)
		}
		sum += float64(a.ISL)
	}
	if mean := sum / float64(len(all)); math.Abs(mean-100.25) > 5*0.44/math.Sqrt(float64(len(all))) {
		t.Errorf("mean ISL %v, want 100.25", mean)
	}
	if _, err := trace.Open(strings.NewReader(table), "table.csv", trace.Options{Windows: trace.WindowOptions{Scale: math.NaN()}}); err == nil {
		t.Error("scale NaN: no error")
	}
}

// What comes before the part that is wanted is not made, but for the first arrival,
// from which instants count; the part has the table's rates.
func TestWindowsBeforeThePartArePassedOver(t *testing.T) {
	table := windows(t, "testdata/servegen.csv")
	const scale = 2e-3
	from := 40 * time.Hour
	_, whole := open(t, "testdata/servegen.csv", trace.Options{Windows: trace.WindowOptions{Scale: scale, MaxCV: 1, Seed: 4}})
	_, all := open(t, "testdata/servegen.csv", trace.Options{Windows: trace.WindowOptions{Scale: scale, MaxCV: 1, Seed: 4, From: from}})
	if all[0].At != whole[0].At || all[1].At < from || all[1].At > from+10*time.Minute {
		t.Fatalf("arrivals at %v, %v, …; the first of all is at %v", all[0].At, all[1].At, whole[0].At)
	}
	want := 0.0
	for _, w := range table {
		if w.Start >= from {
			want += w.Rate * scale * w.Length.Seconds()
		}
	}
	if off := math.Abs(float64(len(all)-1) - want); off > 5*math.Sqrt(want) {
		t.Errorf("%d arrivals from %v on, want %v", len(all)-1, from, want)
	}
}
