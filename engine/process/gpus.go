package process

import (
	"fmt"
	"slices"
)

// Assign chooses n of the visible devices for one engine, none of them busy.
// Devices are indices or UUIDs, in the order that they are visible in. A run of
// n neighbours that begins at a multiple of n is preferred, as machines wire
// their GPUs in such groups (two or four to a switch or a socket); where there
// is none, the first n that are free. For n = 0 the answer is an empty list, not
// nil: an engine that is to see no device.
func Assign(visible, busy []string, n int) ([]string, error) {
	if n < 0 {
		return nil, fmt.Errorf("an engine cannot have %d GPUs", n)
	}
	free := func(id string) bool { return !slices.Contains(busy, id) }
	chosen := []string{}
	for _, id := range visible {
		if free(id) && !slices.Contains(chosen, id) {
			chosen = append(chosen, id)
		}
	}
	if len(chosen) < n {
		return nil, fmt.Errorf("the engine needs %d GPUs, but %d of %d visible ones are free", n, len(chosen), len(visible))
	}
	for i := 0; n > 0 && i+n <= len(visible); i += n {
		group := visible[i : i+n]
		if !slices.ContainsFunc(group, func(id string) bool { return !free(id) }) && !repeats(group) {
			return slices.Clone(group), nil
		}
	}
	return chosen[:n:n], nil
}

// repeats reports whether an id occurs twice.
func repeats(ids []string) bool {
	seen := map[string]bool{}
	for _, id := range ids {
		if seen[id] {
			return true
		}
		seen[id] = true
	}
	return false
}
