package forecast

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

func testdata(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// fixture reads a file that a script in testdata wrote.
func fixture[T any](t testing.TB, name string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(testdata(t, name), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// near fails unless got is within tolerance of want, relative to the larger of
// want and size.
func near(t testing.TB, what string, got, want, size, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*max(math.Abs(want), size)) {
		t.Errorf("%s: %.10g, want %.10g within %g", what, got, want, tolerance)
	}
}
