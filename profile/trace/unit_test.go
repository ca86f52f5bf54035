package trace_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"plimsoll/profile/trace"
)

// stamped is a trace of n Poisson arrivals at a rate. Its times begin at an offset in seconds
// and are written in a unit, with so many decimals.
func stamped(csv bool, n int, rate float64, unit time.Duration, decimals int, from float64) string {
	var b strings.Builder
	rng, at := rand.New(rand.NewPCG(1, 2)), from
	if csv {
		b.WriteString("timestamp,isl,osl\n")
	}
	for range n {
		text := strconv.FormatFloat(at/unit.Seconds(), 'f', decimals, 64)
		if csv {
			fmt.Fprintf(&b, "%s,700,90\n", text)
		} else {
			fmt.Fprintf(&b, `{"timestamp":%s,"input_length":700,"output_length":90}`+"\n", text)
		}
		at += rng.ExpFloat64() / rate
	}
	return b.String()
}

// The unit is found out, or refused where another is as likely; never a wrong one
// without a word.
func TestUnitOfTimesIsFoundOut(t *testing.T) {
	const epoch = 1.72e9
	s, ms, us, ns := time.Second, time.Millisecond, time.Microsecond, time.Nanosecond
	for _, c := range []struct {
		name string
		text string
		want time.Duration // 0: refused
		sure bool          // no warning
	}{
		{"seconds, 5/s", stamped(false, 600, 5, s, 3, 0), s, true},
		{"seconds, 50/s", stamped(false, 2000, 50, s, 6, 0), s, true},
		{"seconds, one in two", stamped(false, 300, 0.5, s, 3, 0), s, true},
		{"whole seconds, 1.2/s", stamped(false, 3000, 1.2, s, 0, 0), s, false},
		{"five in seconds", stamped(false, 5, 1, s, 2, 0), s, true},
		{"milliseconds, 5/s", stamped(false, 600, 5, ms, 0, 0), ms, true},
		{"milliseconds, 10/s", stamped(false, 2000, 10, ms, 0, 0), ms, true},
		{"milliseconds, 200/s", stamped(false, 12000, 200, ms, 0, 0), ms, false},
		{"milliseconds with decimals, 1/s, long", stamped(false, 9000, 1, ms, 3, 0), ms, false},
		{"five in milliseconds", stamped(false, 5, 1, ms, 0, 0), ms, false},
		{"nanoseconds, 5/s", stamped(false, 2000, 5, ns, 0, 0), ns, false},
		{"seconds since 1970", stamped(false, 600, 5, s, 6, epoch), s, true},
		{"milliseconds since 1970", stamped(false, 600, 5, ms, 0, epoch), ms, true},
		{"microseconds since 1970", stamped(false, 600, 5, us, 0, epoch), us, true},
		{"nanoseconds since 1970", stamped(false, 600, 5, ns, 0, epoch), ns, true},
		{"one a minute since 1970", stamped(false, 600, 1./60, s, 3, epoch), s, true},
		{"one since 1970", stamped(false, 1, 1, ns, 0, epoch), ns, true},
		{"CSV, seconds", stamped(true, 600, 5, s, 3, 0), s, true},
		{"CSV, milliseconds since 1970", stamped(true, 600, 5, ms, 0, epoch), ms, true},
		{"one a minute, seconds with decimals", stamped(false, 600, 1./60, s, 3, 0), s, false},
		{"200/s for three seconds, milliseconds", stamped(false, 600, 200, ms, 0, 0), 0, false},
		{"3/s, milliseconds with decimals, short", stamped(false, 600, 3, ms, 3, 0), 0, false},
		{"CSV, milliseconds, 5/s", stamped(true, 600, 5, ms, 0, 0), 0, false},
	} {
		f, err := trace.Open(strings.NewReader(c.text), "t", trace.Options{})
		switch {
		case err != nil && c.want == 0:
			if !strings.Contains(err.Error(), "nothing in it decides (hint: --time-unit ") {
				t.Errorf("%s: %v", c.name, err)
			}
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case f.Unit != c.want:
			t.Errorf("%s: unit %v, want %v; %v", c.name, f.Unit, c.want, f.Warnings())
		case len(f.Warnings()) == 0 != c.sure:
			t.Errorf("%s: warnings %v", c.name, f.Warnings())
		}
	}
}

func TestUnitThatIsSaid(t *testing.T) {
	const line = `{"timestamp":1.5,"input_length":7,"output_length":9}`
	got, err := readText(line, trace.Options{Unit: time.Microsecond})
	if err != nil || got[0].At != 1500*time.Nanosecond {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{
		"arrival_ms,isl,osl\n1,1,1": "t: it says itself that its times are milliseconds (hint: leave out --time-unit)",
		"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,374,44": "t: its times are dates, which have no unit (hint: leave out --time-unit)",
	} {
		if _, err := readText(text, trace.Options{Unit: time.Second}); err == nil || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	got, err = readText("gap_us,isl,osl\n5,1,1\n5,1,1", trace.Options{})
	if err != nil || got[1].At != 10*time.Microsecond {
		t.Errorf("%v, %v", got, err)
	}
}

// ticking is a trace of whole milliseconds whose clock ticks about every three seconds,
// with the instants moved by up to jitter.
func ticking(jitter int) string {
	var b strings.Builder
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 40 {
		at := 3000*i + rng.IntN(jitter+1)
		for range 1 + rng.IntN(9) {
			fmt.Fprintf(&b, `{"timestamp":%d,"input_length":700,"output_length":90}`+"\n", at)
		}
	}
	return b.String()
}

func TestTicksAreFoundAndSpread(t *testing.T) {
	for _, jitter := range []int{0, 40} {
		text := ticking(jitter)
		f, err := trace.Open(strings.NewReader(text), "t", trace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if d := f.Tick - 3*time.Second; d < -40*time.Millisecond || d > 40*time.Millisecond || len(f.Warnings()) != 1 || f.Warnings()[0].Code != "ticks" {
			t.Errorf("tick %v, %v", f.Tick, f.Warnings())
		}
		was, err := trace.Collect(f.Arrivals())
		if err != nil {
			t.Fatal(err)
		}
		got, err := readText(text, trace.Options{SpreadTicks: true})
		again, _ := readText(text, trace.Options{SpreadTicks: true})
		other, _ := readText(text, trace.Options{SpreadTicks: true, Windows: trace.WindowOptions{Seed: 7}})
		if err != nil || len(got) != len(was) || !slices.EqualFunc(got, again, sameButLine) || slices.EqualFunc(got, other, sameButLine) {
			t.Fatalf("%d of %d arrivals, %v", len(got), len(was), err)
		}
		instants := map[time.Duration]bool{}
		for i, a := range got {
			if later := a.At - was[i].At; later < 0 || later > f.Tick || a.Line != was[i].Line || i > 0 && a.At < got[i-1].At {
				t.Fatalf("arrival %d moved from %v to %v", i, was[i].At, a.At)
			}
			instants[a.At] = true
		}
		if len(instants) < len(got) {
			t.Errorf("%d arrivals at %d instants", len(got), len(instants))
		}
	}
}

// Bursts at random times are none of a clock's, and neither are requests that now and
// then share an instant.
func TestBurstsAreNoTicks(t *testing.T) {
	var b strings.Builder
	rng, at := rand.New(rand.NewPCG(5, 6)), 0.0
	for range 60 {
		for range 5 {
			fmt.Fprintf(&b, `{"timestamp":%.0f,"input_length":700,"output_length":90}`+"\n", at)
		}
		at += 3000 * rng.ExpFloat64()
	}
	for name, text := range map[string]string{"bursts": b.String(), "a fast clock": stamped(false, 3000, 50, time.Millisecond, 0, 0)} {
		if f, err := trace.Open(strings.NewReader(text), "t", trace.Options{}); err != nil || f.Tick != 0 {
			t.Errorf("%s: tick %v, %v", name, f.Tick, err)
		}
		_, err := trace.Open(strings.NewReader(text), "t", trace.Options{SpreadTicks: true})
		if err == nil || err.Error() != "t: its arrivals are in no ticks that could be spread (hint: leave out --spread-ticks)" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
