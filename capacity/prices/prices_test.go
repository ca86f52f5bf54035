package prices

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine/catalog"
)

func table(t *testing.T) Table {
	t.Helper()
	tab, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestEveryDefaultHasASourceADateAndAGPUOfTheCatalog(t *testing.T) {
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	all := table(t).All()
	count := map[string]int{}
	for _, p := range all {
		count[fmt.Sprintf("%s, beside: %v", p.Kind, p.Beside)]++
	}
	if want := map[string]int{"on_demand, beside: false": 28, "spot, beside: false": 7, "on_demand, beside: true": 27, "reserved, beside: true": 7}; !maps.Equal(count, want) {
		t.Errorf("%v, want %v", count, want)
	}
	for _, p := range all {
		g, err := c.GPU(p.GPU)
		if err != nil || g.Name != p.GPU {
			t.Errorf("%s %s: GPU %q is not the catalog's: %v", p.Cloud, p.Instance, p.GPU, err)
		}
		if p.Source == "" || p.Source == "same" || p.Date.Year() != 2026 {
			t.Errorf("%s %s: source %q, date %v", p.Cloud, p.Instance, p.Source, p.Date)
		}
	}
}

// Instance price over GPUs, as the clouds list them.
func TestCheapest(t *testing.T) {
	for _, c := range []struct {
		cloud, gpu string
		kind       Kind
		gpus       int
		instance   string
		usd        float64
	}{
		{"AWS", "H100-SXM", OnDemand, 8, "p5.48xlarge", 55.04 / 8},
		{"azure", "h100-sxm", OnDemand, 4, "ND96isr_H100_v5", 98.32 / 8},
		{"GCP", "H100-SXM", Spot, 1, "a3-megagpu-8g", 2.9094},
		{"AWS", "L40S", OnDemand, 1, "g6e.xlarge", 1.861},
		{"AWS", "L40S", OnDemand, 4, "g6e.48xlarge", 3.766398}, // 30.13118 / 8, to 1e-6
		{"AWS", "H200-SXM", Spot, 8, "p5en.48xlarge", 27.1988 / 8},
		{"", "H100-SXM", OnDemand, 1, "p5.4xlarge", 6.88},
	} {
		p, err := table(t).Cheapest(c.cloud, c.gpu, c.kind, c.gpus)
		if err != nil {
			t.Fatal(err)
		}
		if d := p.USDPerGPUHour - c.usd; p.Instance != c.instance || d > 1e-9 || d < -1e-9 {
			t.Errorf("%s %s %s of %d: %s at %v, want %s at %v", c.cloud, c.gpu, c.kind, c.gpus, p.Instance, p.USDPerGPUHour, c.instance, c.usd)
		}
	}
}

// A price beside is no plan's unless its cloud is asked for, and is shown; a user's row of
// the same instance is a price like any other.
func TestPricesBesideRankNothing(t *testing.T) {
	tab := table(t)
	for _, p := range tab.All() {
		best, err := tab.Cheapest("", p.GPU, OnDemand, 1)
		if err == nil && best.Beside {
			t.Errorf("%s is ranked by %+v", p.GPU, best)
		}
		if p.Beside && !slices.ContainsFunc(tab.Others(p.GPU), func(o Price) bool { return o.Kind == p.Kind && o.USDPerGPUHour <= p.USDPerGPUHour }) {
			t.Errorf("%+v is not shown, and nothing cheaper", p)
		}
	}
	if p, err := tab.Cheapest("lambda", "H100-SXM", OnDemand, 8); err != nil || !p.Beside || p.Cloud != "Lambda" {
		t.Errorf("Lambda's: %+v, %v", p, err)
	}
	own, err := tab.With("m.csv", strings.NewReader(header+"Lambda,any,8x H100 SXM,H100-SXM,8,on_demand,1.5,contract,2026-11-01\nours,here,rack,H100-SXM,8,reserved,1,contract,2026-11-01\n"))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := own.Cheapest("", "H100-SXM", OnDemand, 8); err != nil || p.USDPerGPUHour != 1.5 {
		t.Errorf("the contract's: %+v, %v", p, err)
	}
	if p := own.Others("h100-sxm")[0]; p.Kind != Reserved || p.Cloud != "ours" {
		t.Errorf("the reserved one: %+v", p)
	}
}

func TestCheapestSaysWhatThereIs(t *testing.T) {
	_, err := table(t).Cheapest("AWS", "MI300X", Spot, 1)
	for _, want := range []string{"no spot price of AWS", "MI300X", "Give the cost per GPU-hour", "Azure on_demand (instances of 8)"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
	if _, err := table(t).Cheapest("", "TPU", OnDemand, 1); err == nil || strings.Contains(err.Error(), "take one") {
		t.Errorf("unknown GPU: %v", err)
	}
}

const header = "cloud,region,instance,gpu,gpus,kind,usd_per_gpu_hour,source,date\n"

func TestUserRowsReplaceAndAdd(t *testing.T) {
	before := table(t)
	after, err := before.With("mine.csv", strings.NewReader("date,"+strings.TrimSuffix(header, ",date\n")+"\n"+
		"2026-11-01,aws,us-east-1,p5.48xlarge,H100-SXM,8,on_demand,4.5,our contract\n"+
		"# a comment\n"+
		"2026-11-01,cellar,here,rack,H100-SXM,8,on_demand,1.2,our accounts\n"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(after.All()) - len(before.All()); n != 1 {
		t.Errorf("%d rows more, want 1", n)
	}
	p, err := after.Cheapest("AWS", "H100-SXM", OnDemand, 8)
	if err != nil || p.USDPerGPUHour != 4.5 || !p.Date.Equal(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("after replacing: %+v, %v", p, err)
	}
	if p, _ := after.Cheapest("", "H100-SXM", OnDemand, 8); p.Cloud != "cellar" {
		t.Errorf("the cheapest is %s's", p.Cloud)
	}
	if p, _ := before.Cheapest("AWS", "H100-SXM", OnDemand, 8); p.USDPerGPUHour != 6.88 {
		t.Errorf("the table before has changed: %v", p.USDPerGPUHour)
	}
}

func TestBadRowsAreNamed(t *testing.T) {
	for _, c := range []struct{ csv, want string }{
		{"", "m.csv: reading the header: EOF: want cloud,region"},
		{"cloud,gpu\n", `m.csv:1: column "region" is missing`},
		{strings.Replace(header, "\n", ",mood\n", 1), `unknown column "mood"`},
		{strings.Replace(header, "\n", ",gpu\n", 1), `column "gpu" is listed twice`},
		{header + "a,b,c,g,8,on_demand,-1,s,2026-01-01\n", `m.csv:2: usd_per_gpu_hour is "-1": want 0 to 10000`},
		{header + "a,b,c,g,8,on_demand,NaN,s,2026-01-01\n", `usd_per_gpu_hour is "NaN"`},
		{header + "a,b,c,g,0,on_demand,1,s,2026-01-01\n", `gpus is "0": want 1 to 1024`},
		{header + "a,b,c,g,8,cheap,1,s,2026-01-01\n", `kind is "cheap": want on_demand, spot or reserved`},
		{header + "a,b,c,g,8,spot,1,s,yesterday\n", `date is "yesterday"`},
		{header + "a,b,c,g,8,spot,1,,2026-01-01\n", "source is empty"},
		{header + "a,b\na,b,c,g,8,spot,1,,2026-01-01\n", "m.csv:3: source is empty"},
		{header + "\"a,b\n", "m.csv: "},
	} {
		before := table(t)
		after, err := before.With("m.csv", strings.NewReader(c.csv))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v lacks %q", c.csv, err, c.want)
		}
		if len(after.All()) != len(before.All()) {
			t.Errorf("%q: rows were taken", c.csv)
		}
	}
}

func FuzzWith(f *testing.F) {
	f.Add(pricesCSV)
	f.Add(header + "a,b,c,g,8,on_demand,1e3,s,2026-01-01\n")
	f.Add("\ufeff" + header)
	f.Fuzz(func(t *testing.T, text string) {
		tab, err := Table{}.With("f.csv", strings.NewReader(text))
		if err != nil {
			return
		}
		for _, p := range tab.All() {
			if !(p.USDPerGPUHour >= 0 && p.USDPerGPUHour <= 1e4) || p.GPUs < 1 || p.Source == "" || p.GPU == "" {
				t.Errorf("accepted %+v", p)
			}
		}
	})
}

// A byte order mark may stand before a comment and before a quoted header.
func TestByteOrderMark(t *testing.T) {
	row := "c,r,i,H100-SXM,8,spot,2.5,somebody,2026-01-02\n"
	for _, head := range []string{strings.Join(columns(), ",") + "\n", "# ours\n" + strings.Join(columns(), ",") + "\n", `"cloud",` + strings.Join(columns()[1:], ",") + "\n"} {
		table, err := Table{}.With("x.csv", strings.NewReader("\ufeff"+head+row))
		if err != nil || len(table.All()) != 1 {
			t.Errorf("%q: %v, %d rows", head, err, len(table.All()))
		}
	}
}

// Of equal prices per GPU the smaller instance leaves fewer GPUs unused.
func TestSmallestInstanceOfEquals(t *testing.T) {
	head := strings.Join(columns(), ",") + "\n"
	table, err := Table{}.With("x.csv", strings.NewReader(head+"c,r,eight,H100-SXM,8,on_demand,2,s,2026-01-02\nc,r,one,H100-SXM,1,on_demand,2,s,2026-01-02\n"))
	if err != nil {
		t.Fatal(err)
	}
	for gpus, want := range map[int]string{1: "one", 2: "eight"} {
		if p, err := table.Cheapest("", "H100-SXM", OnDemand, gpus); err != nil || p.Instance != want {
			t.Errorf("%d GPUs: %s, %v, want %s", gpus, p.Instance, err, want)
		}
	}
}
