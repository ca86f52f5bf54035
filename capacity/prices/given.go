package prices

import (
	"fmt"
	"strconv"
	"strings"
)

// Given are prices that somebody says, in USD per GPU and hour: one for every GPU,
// or some by the GPU's name. The zero Given says nothing.
type Given struct {
	all   *float64
	byGPU map[string]float64 // by name
}

// mostUSD bounds a price; more is a mistake in units.
const mostUSD = 1e6

// ParseGiven reads "2.5", or "h100-sxm=2.5,l4=0": 0 is for GPUs that are owned.
// canonical gives a GPU the name by which it is asked for later, or says why there
// is none.
func ParseGiven(text string, canonical func(string) (string, error)) (Given, error) {
	if !strings.Contains(text, "=") {
		usd, err := parseUSD(text)
		return Given{all: &usd}, err
	}
	g := Given{byGPU: map[string]float64{}}
	for part := range strings.SplitSeq(text, ",") {
		name, price, ok := strings.Cut(part, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return Given{}, fmt.Errorf("%q: want GPU=USD, such as h100-sxm=2.5", part)
		}
		name, err := canonical(name)
		if err != nil {
			return Given{}, err
		}
		if _, twice := g.byGPU[name]; twice {
			return Given{}, fmt.Errorf("%q: %s has a price already", part, name)
		}
		usd, err := parseUSD(price)
		if err != nil {
			return Given{}, err
		}
		g.byGPU[name] = usd
	}
	return g, nil
}

func parseUSD(text string) (float64, error) {
	usd, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(usd >= 0 && usd <= mostUSD) {
		return 0, fmt.Errorf("%q: want USD from 0 to %g", text, mostUSD)
	}
	return usd, nil
}

// Of is the price of a GPU by its name, and whether there is one.
func (g Given) Of(gpu string) (usd float64, ok bool) {
	if g.all != nil {
		return *g.all, true
	}
	usd, ok = g.byGPU[gpu]
	return usd, ok
}

// ForAll reports whether every GPU has a price.
func (g Given) ForAll() bool { return g.all != nil }

// Any reports whether some GPU has one.
func (g Given) Any() bool { return g.all != nil || len(g.byGPU) > 0 }
