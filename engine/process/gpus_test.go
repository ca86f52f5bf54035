package process_test

import (
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/engine/process"
)

func TestAssign(t *testing.T) {
	eight := []string{"0", "1", "2", "3", "4", "5", "6", "7"}
	for _, c := range []struct {
		name          string
		visible, busy []string
		n             int
		want          []string
	}{
		{"first", eight, nil, 2, []string{"0", "1"}},
		{"all", eight, nil, 8, eight},
		{"next group", eight, []string{"0", "1"}, 2, []string{"2", "3"}},
		{"aligned group before the first free ones", eight, []string{"0"}, 2, []string{"2", "3"}},
		{"other half", eight, []string{"2"}, 4, []string{"4", "5", "6", "7"}},
		{"scattered where no group is free", eight, []string{"1", "3", "5", "7"}, 2, []string{"0", "2"}},
		{"the order is the visible one", []string{"3", "GPU-a", "1"}, nil, 2, []string{"3", "GPU-a"}},
		{"none", eight, nil, 0, []string{}},
		{"none of none", nil, nil, 0, []string{}},
		{"a device named twice is one", []string{"0", "0", "1"}, nil, 2, []string{"0", "1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := process.Assign(c.visible, c.busy, c.n)
			if err != nil || got == nil || !slices.Equal(got, c.want) {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
	for _, n := range []int{-1, 9} {
		if got, err := process.Assign(eight, nil, n); err == nil {
			t.Errorf("%d GPUs: got %v, want an error", n, got)
		}
	}
}

func TestAssignLaws(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 9), strconv.Itoa), 0, 10)
		visible, busy, n := ids.Draw(t, "visible"), ids.Draw(t, "busy"), rapid.IntRange(0, 10).Draw(t, "n")
		free := map[string]bool{}
		for _, id := range visible {
			if !slices.Contains(busy, id) {
				free[id] = true
			}
		}
		before := slices.Clone(visible)
		got, err := process.Assign(visible, busy, n)
		if !slices.Equal(before, visible) {
			t.Fatal("the argument was changed")
		}
		if (err == nil) != (n <= len(free)) {
			t.Fatalf("%d of %d free: %v", n, len(free), err)
		}
		seen := map[string]bool{}
		for _, id := range got {
			if !free[id] || seen[id] {
				t.Fatalf("%v has %s, which is busy, invisible or given twice", got, id)
			}
			seen[id] = true
		}
		if err == nil && len(got) != n {
			t.Fatalf("got %d of %d", len(got), n)
		}
	})
}
