package planner

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/profile"
)

func TestShares(t *testing.T) {
	for _, c := range []struct {
		name   string
		budget int
		asks   []Ask
		want   []int
	}{
		{"room for all", 20, []Ask{{Least: 2, Want: 8}, {Least: 2, Want: 6}}, []int{8, 6}},
		{"equal", 10, []Ask{{Least: 1, Want: 9}, {Least: 1, Want: 9}}, []int{5, 5}},
		{"one leaves some", 10, []Ask{{Least: 1, Want: 2}, {Least: 1, Want: 9}}, []int{2, 8}},
		{"weights", 12, []Ask{{Weight: 2, Want: 99}, {Weight: 1, Want: 99}}, []int{8, 4}},
		{"priority", 10, []Ask{{Least: 1, Want: 9}, {Priority: 1, Least: 1, Want: 8}}, []int{2, 8}},
		{"least comes before priority", 10, []Ask{{Least: 4, Want: 9}, {Priority: 1, Least: 1, Want: 9}}, []int{4, 6}},
		{"half a pair serves nobody", 3, []Ask{{Pair: 2, Least: 2, Want: 9}, {Pair: 2, Least: 2, Want: 9}}, []int{3, 0}},
		{"nothing is left over for more", 3, []Ask{{Pair: 2, Least: 2, Want: 2}, {Pair: 2, Least: 2, Want: 9}}, []int{2, 0}},
		{"a pair each before a second", 4, []Ask{{Pair: 2, Want: 9, Priority: 5, Weight: 9}, {Pair: 2, Want: 9}}, []int{2, 2}},
		{"the pair of the first does not fit", 5, []Ask{{Priority: 1, Pair: 8, Want: 16}, {Pair: 2, Want: 9}}, []int{0, 5}},
		{"priority where one pair fits", 3, []Ask{{Pair: 2, Want: 2}, {Priority: 1, Pair: 2, Want: 2}}, []int{0, 2}},
		{"who serves goes on", 3, []Ask{{Pair: 2, Weight: 9, Want: 9}, {Pair: 2, Want: 9, Serves: true}}, []int{0, 3}},
		{"weight where one pair fits", 3, []Ask{{Pair: 2, Weight: 1, Want: 2}, {Pair: 2, Weight: 2, Want: 2}}, []int{0, 2}},
		{"a pair comes before the least of another", 6, []Ask{{Pair: 2, Least: 6, Want: 9}, {Pair: 2, Want: 9}}, []int{4, 2}},
		{"who is idle needs no pair", 3, []Ask{{Pair: 2, Want: 0}, {Pair: 2, Want: 9}}, []int{0, 3}},
		{"nobody", 3, nil, []int{}},
	} {
		if got := Shares(c.budget, c.asks); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestSharesLaws(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		asks := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Ask {
			pair := rapid.IntRange(1, 8).Draw(t, "pair")
			least := pair * rapid.IntRange(0, 2).Draw(t, "least")
			return Ask{
				Priority: rapid.IntRange(0, 2).Draw(t, "priority"), Weight: rapid.IntRange(1, 3).Draw(t, "weight"), Pair: pair, Least: least,
				Want: least + rapid.IntRange(0, 40).Draw(t, "want"), Serves: rapid.Bool().Draw(t, "serves"),
			}
		}), 1, 6).Draw(t, "asks")
		budget := rapid.IntRange(0, 150).Draw(t, "budget")
		shares := Shares(budget, asks)
		sum, firsts := 0, 0
		for i, a := range asks {
			sum += shares[i]
			if shares[i] > 0 && shares[i] < a.first() || shares[i] > a.Want {
				t.Fatalf("%d GPUs of %+v", shares[i], a)
			}
			if shares[i] > 0 {
				firsts += a.first()
			}
		}
		if sum > budget {
			t.Fatalf("%v are %d GPUs of %d", shares, sum, budget)
		}
		for i, a := range asks {
			if shares[i] < a.first() { // it has nothing: there was no room for its pair beside those of the others
				if firsts+a.first() <= budget {
					t.Fatalf("%v: %d has no pair, and those of the others take %d of %d", shares, i, firsts, budget)
				}
				for k, b := range asks { // and no lower priority has a pair in its place
					if b.Priority < a.Priority && shares[k] > 0 && b.first() >= a.first() {
						t.Fatalf("%v: %d has the pair of %d", shares, k, i)
					}
				}
				continue
			}
			if shares[i] < a.Want && sum < budget {
				t.Fatalf("%v: %d lacks what nobody has of %d", shares, i, budget)
			}
			for k, b := range asks { // after the pairs: priority, then weight
				beyond := shares[k] > max(b.first(), b.Least)
				if b.Priority < a.Priority && shares[i] < a.Want && beyond {
					t.Fatalf("%v: %d has what %d lacks", shares, k, i)
				}
				if b.Priority == a.Priority && shares[i] < a.Want && beyond && (shares[k]-1)*a.Weight > shares[i]*b.Weight {
					t.Fatalf("%v: %d has more for its weight than %d", shares, k, i)
				}
			}
		}
	})
}

// Whatever several deployments want, and whatever they have, none is brought to half of a
// pair, and together they never hold more than the budget.
func TestNoShareIsHalfAPair(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		n, budget := rapid.IntRange(1, 4).Draw(t, "deployments"), rapid.IntRange(0, 24).Draw(t, "budget")
		var deps []Deployment
		var wants []Replicas
		var asks []Ask
		for range n {
			least := rapid.IntRange(0, 2).Draw(t, "least")
			pool := func(r Role) Pool { return Pool{Role: r, GPUs: rapid.IntRange(1, 4).Draw(t, "gpus"), Min: least} }
			d := Deployment{SLA: profile.SLA{TTFT: 1, ITL: 1}, Budget: Budget{Max: -1, Min: rapid.IntRange(-1, 3).Draw(t, "keep")}}
			d.Pools = []Pool{pool(engine.RolePrefill), pool(engine.RoleDecode)}
			want := Replicas{Prefill: max(least, rapid.IntRange(1, 6).Draw(t, "prefill")), Decode: max(least, rapid.IntRange(1, 6).Draw(t, "decode"))}
			if least == 0 && rapid.Bool().Draw(t, "idle") {
				want = Replicas{}
			}
			deps, wants = append(deps, d), append(wants, want)
			asks = append(asks, Ask{
				Priority: rapid.IntRange(0, 1).Draw(t, "priority"), Weight: rapid.IntRange(1, 3).Draw(t, "weight"),
				Pair: d.GPUs(d.Pair()), Least: d.GPUs(d.Least()), Want: d.GPUs(want),
			})
		}
		held := 0
		shares := Shares(budget, asks)
		for i, d := range deps {
			c, err := New(Options{Deployment: d, Policy: &scripted{want: wants[i]}, OnLoss: Hold})
			if err != nil {
				t.Fatal(err)
			}
			got := c.StepWithin(seen(Replicas{}), Share{Max: shares[i], Free: budget - held}).Want
			held += d.GPUs(got)
			if d.half(got) {
				t.Fatalf("%d of %v GPUs: %s of %s", i, shares, got, wants[i])
			}
			if shares[i] >= asks[i].Pair && asks[i].Want > 0 && got == (Replicas{}) {
				t.Fatalf("%d of %v GPUs: none of %s", i, shares, wants[i])
			}
		}
		if held > budget {
			t.Fatalf("%d GPUs are held of %d", held, budget)
		}
	})
}

// One deployment's own budget leaves no half of a pair, either.
func TestNoBudgetIsHalfAPair(t *testing.T) {
	two := func(budget Budget) Deployment {
		return Deployment{Budget: budget, Pools: []Pool{{Role: engine.RolePrefill, GPUs: 1}, {Role: engine.RoleDecode, GPUs: 1}}}
	}
	for _, c := range []struct {
		budget     Budget
		want, have Replicas
	}{
		{Budget{Max: 3, Min: -1}, Replicas{Prefill: 1, Decode: 8}, Replicas{Prefill: 1, Decode: 2}},
		{Budget{Max: 1, Min: -1}, Replicas{Prefill: 1, Decode: 8}, Replicas{}},
		{Budget{Max: 3, Min: 1}, Replicas{}, Replicas{Prefill: 1, Decode: 1}},
		{Budget{Max: 1, Min: 1}, Replicas{}, Replicas{}},
	} {
		if got := two(c.budget).Within(c.want); got != c.have {
			t.Errorf("%+v: %s of %s, want %s", c.budget, got, c.want, c.have)
		}
	}
}
