package main

import (
	"testing"

	"plimsoll/profile"
	"plimsoll/profile/store"
)

// promise changes what a profile says was promised.
func promise(t *testing.T, dir string, stat profile.Statistic) {
	t.Helper()
	rec, err := store.ReadRecommendation(dir)
	if err != nil {
		t.Fatal(err)
	}
	rec.SLA.Stat = stat
	if err := store.WriteRecommendation(dir, rec); err != nil {
		t.Fatal(err)
	}
}
