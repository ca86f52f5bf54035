package main

import (
	"testing"

	"plimsoll/engine/simserver"
	"plimsoll/profile/load"
)

// The client and the embedded engine each name their headers, since neither may
// import the other: a warm-up that is not recognised would be prefilled, and a
// provenance that is not recognised would look measured.
func TestClientAndEngineShareHeaders(t *testing.T) {
	if load.WarmupHeader != simserver.WarmUpHeader {
		t.Errorf("warm-up: %q and %q", load.WarmupHeader, simserver.WarmUpHeader)
	}
	if load.ProvenanceHeader != simserver.ProvenanceHeader {
		t.Errorf("provenance: %q and %q", load.ProvenanceHeader, simserver.ProvenanceHeader)
	}
}
