package planner

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
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
		{"not even the least", 3, []Ask{{Least: 2, Want: 9}, {Least: 2, Want: 9}}, []int{2, 2}},
		{"nobody", 3, nil, []int{}},
	} {
		if got := Shares(c.budget, c.asks); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestSharesLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		asks := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Ask {
			least := rapid.IntRange(0, 8).Draw(t, "least")
			return Ask{rapid.IntRange(0, 2).Draw(t, "priority"), rapid.IntRange(0, 3).Draw(t, "weight"), least, least + rapid.IntRange(0, 40).Draw(t, "want")}
		}), 1, 6).Draw(t, "asks")
		budget := rapid.IntRange(0, 150).Draw(t, "budget")
		shares := Shares(budget, asks)
		sum, least, want := 0, 0, 0
		for i, a := range asks {
			sum, least, want = sum+shares[i], least+a.Least, want+a.Want
			if shares[i] < a.Least || shares[i] > a.Want {
				t.Fatalf("%v of %+v", shares[i], a)
			}
			for k, b := range asks { // whoever lacks something keeps those below it at their least
				if b.Priority < a.Priority && shares[i] < a.Want && shares[k] > b.Least {
					t.Fatalf("%v: %d has what %d lacks", shares, k, i)
				}
			}
		}
		if sum != min(want, max(least, budget)) {
			t.Fatalf("%v are %d GPUs of %d", shares, sum, budget)
		}
	})
}
