package vllm

import "testing"

// Only a version that is known to take the flag gets it: an older one ends with it.
func TestBuckets(t *testing.T) {
	for version, want := range map[string]bool{
		"0.32.0": true, "v0.33.1": true, "1.0.0": true, "0.32.0rc1": true, "0.31.2": false, "0.9.0": false, "": false, "unknown": false, "dev": false,
	} {
		words, takes := Buckets(version, []float64{0.1, 0.5}, []float64{0.01})
		if takes != want || len(words) != 2 || words[0] != "--custom-histogram-buckets" || words[1] != `{"inter_token_latency":[0.01],"time_to_first_token":[0.1,0.5]}` {
			t.Errorf("%q: %v, %q", version, takes, words)
		}
	}
}
