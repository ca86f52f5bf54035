package profile

import (
	"encoding/json"
	"testing"
	"time"
)

// An ITL is each request's mean unless a file or a flag says gap. A file of before there
// was a word for it meant gaps, unless it said otherwise.
func TestITLOf(t *testing.T) {
	for file, want := range map[string]SLA{
		`{"stat":"p99"}`:                                     {Stat: P99, ITLOf: OfGap},
		`{"stat":"p99","itl_per_request":true}`:              {Stat: P99, ITLOf: OfRequest},
		`{"stat":"p99","itl_of":"request"}`:                  {Stat: P99, ITLOf: OfRequest},
		`{"stat":"p99","itl_of":"gap"}`:                      {Stat: P99, ITLOf: OfGap},
		`{"stat":"mean"}`:                                    {Stat: Mean},
		`{"stat":"mean","itl_per_request":false,"itl_ns":5}`: {Stat: Mean, ITL: 5},
	} {
		var got SLA
		if err := json.Unmarshal([]byte(file), &got); err != nil || got != want {
			t.Errorf("%s: %+v, %v", file, got, err)
		}
	}
	written, err := json.Marshal(SLA{Stat: P99})
	var read SLA
	if err == nil {
		err = json.Unmarshal(written, &read)
	}
	if err != nil || read.ITLOf != OfRequest {
		t.Errorf("%s is read as %+v, %v", written, read, err)
	}
}

func TestITLIsJudgedByWhatItIsOf(t *testing.T) {
	p := Point{Phase: Decode, ITL: Distribution{N: 1000, P99: 90 * time.Millisecond}, TPOT: Distribution{N: 400, P99: 30 * time.Millisecond}}
	for of, want := range map[ITLOf]time.Duration{"": 30 * time.Millisecond, OfRequest: 30 * time.Millisecond, OfGap: 90 * time.Millisecond} {
		sla := SLA{Stat: P99, ITLOf: of}
		if got := p.Latency(sla); got != want {
			t.Errorf("%s: %v, want %v", sla.By(), got, want)
		}
	}
	for want, sla := range map[string]SLA{"mean": {}, "p99 of requests' means": {Stat: P99}, "p95 of single gaps": {Stat: P95, ITLOf: OfGap}} {
		if got := sla.By(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
