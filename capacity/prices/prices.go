// Package prices says what a GPU costs per hour, by cloud and kind, each price
// with its source and date. It takes an embedded table and a user's CSV rows on
// top of it; it refuses rows that miss a field or hold an absurd number, each
// with file and line. Pure: whoever has a file opens it.
package prices

import (
	"cmp"
	_ "embed" // the table
	"fmt"
	"slices"
	"strings"
	"time"
)

//go:embed prices.csv
var pricesCSV string

//go:embed beside.csv
var besideCSV string

// Kind is how a GPU is rented.
type Kind string

// The kinds. A cloud takes a Spot instance back when it wants to; a Reserved one is paid
// for a term, used or not.
const (
	OnDemand Kind = "on_demand"
	Spot     Kind = "spot"
	Reserved Kind = "reserved"
)

// Words are the kind in words.
func (k Kind) Words() string { return strings.ReplaceAll(string(k), "_", " ") }

// Price is one offer. A cloud's price is the instance's over its GPUs, so that
// host CPU and memory are in it: the same GPU can cost twice as much in another
// instance of the same cloud.
type Price struct {
	Cloud         string    `json:"cloud"`
	Region        string    `json:"region"`
	Instance      string    `json:"instance"`
	GPU           string    `json:"gpu"`  // name in engine/catalog
	GPUs          int       `json:"gpus"` // of the instance
	Kind          Kind      `json:"kind"`
	USDPerGPUHour float64   `json:"usd_per_gpu_hour"`
	Source        string    `json:"source"`
	Date          time.Time `json:"date"` // of the price, or of the source where it says no more
	// Beside is a price that is shown beside those that plans rank by, and is itself one
	// only where its cloud is asked for.
	Beside bool `json:"beside,omitempty"`
}

// Table is a set of prices. It is immutable: With returns a new one.
type Table struct{ prices []Price }

// Default is the table that comes with the program.
func Default() (Table, error) {
	t, err := Table{}.With("prices.csv", strings.NewReader(pricesCSV))
	if err != nil {
		return t, err
	}
	beside, err := Table{}.With("beside.csv", strings.NewReader(besideCSV))
	for _, p := range beside.prices {
		p.Beside = true
		t.put(p)
	}
	return t, err
}

// All are all prices, in the order of the tables.
func (t Table) All() []Price { return slices.Clone(t.prices) }

// Clouds are those with a price, in the order of the tables.
func (t Table) Clouds() []string {
	var out []string
	for _, p := range t.prices {
		if !slices.Contains(out, p.Cloud) {
			out = append(out, p.Cloud)
		}
	}
	return out
}

// Offers are the prices of a GPU in instances of at least minGPUs, the cheapest
// first, of equal ones the smallest instance; any cloud's where cloud is empty, but for
// those Beside. Letter case does not matter.
func (t Table) Offers(cloud, gpu string, kind Kind, minGPUs int) []Price {
	var out []Price
	for _, p := range t.prices {
		if (cloud == "" && !p.Beside || strings.EqualFold(p.Cloud, cloud)) && strings.EqualFold(p.GPU, gpu) && p.Kind == kind && p.GPUs >= minGPUs {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b Price) int {
		return cmp.Or(cmp.Compare(a.USDPerGPUHour, b.USDPerGPUHour), cmp.Compare(a.GPUs, b.GPUs))
	})
	return out
}

// Others are the cheapest reserved price of a GPU, and the cheapest on demand of those
// Beside, as far as there are any.
func (t Table) Others(gpu string) []Price {
	var out []Price
	for _, kind := range []Kind{Reserved, OnDemand} {
		var of []Price
		for _, p := range t.prices {
			if strings.EqualFold(p.GPU, gpu) && p.Kind == kind && (p.Beside || kind == Reserved) {
				of = append(of, p)
			}
		}
		if len(of) > 0 {
			out = append(out, slices.MinFunc(of, func(a, b Price) int { return cmp.Compare(a.USDPerGPUHour, b.USDPerGPUHour) }))
		}
	}
	return out
}

// Cheapest is the first of Offers; where there is none, the error says which
// clouds have that GPU.
func (t Table) Cheapest(cloud, gpu string, kind Kind, minGPUs int) (Price, error) {
	if offers := t.Offers(cloud, gpu, kind, minGPUs); len(offers) > 0 {
		return offers[0], nil
	}
	var known []string
	for _, p := range t.prices {
		if s := fmt.Sprintf("%s %s (instances of %d)", p.Cloud, p.Kind, p.GPUs); strings.EqualFold(p.GPU, gpu) && !slices.Contains(known, s) {
			known = append(known, s)
		}
	}
	where := "of " + cloud
	if cloud == "" {
		where = "of any cloud"
	}
	err := fmt.Errorf("no %s price %s is known for %s in instances of at least %d GPUs. Give the cost per GPU-hour", kind, where, gpu, minGPUs)
	if len(known) > 0 {
		err = fmt.Errorf("%w, or take one of %s", err, strings.Join(known, ", "))
	}
	return Price{}, err
}
