package virtual

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// The keys below a namespace's prefix, their values ASCII decimal: Dynamo's
// lib/bindings/python/rust/planner.rs, read on 2026-08-21.
const (
	keyPrefill = "num_prefill_workers"
	keyDecode  = "num_decode_workers"
	keyID      = "decision_id"
	keyScaled  = "scaled_decision_id"
)

// prefix is where a namespace's keys are.
func prefix(namespace string) string { return "v1/" + namespace + "/planner/" }

// None stands for a number that nobody has set yet.
const None = -1

// Bounds of what is believed. A count is a planner's; JSON holds an ID exactly.
const (
	maxCount = 1_000_000
	maxID    = 1 << 53
)

// Decision is the replicas that a planner last asked for. Its names in JSON are
// those of the keys.
type Decision struct {
	Prefill int   `json:"num_prefill_workers"` // None: not asked for
	Decode  int   `json:"num_decode_workers"`  // None: not asked for
	ID      int64 `json:"decision_id"`         // grows with each decision, from 0; None: there is none
}

// String is decision 4 (prefill=2, decode=3), or decision 4 (decode=3).
func (d Decision) String() string {
	var counts []string
	if d.Prefill != None {
		counts = append(counts, fmt.Sprintf("prefill=%d", d.Prefill))
	}
	if d.Decode != None {
		counts = append(counts, fmt.Sprintf("decode=%d", d.Decode))
	}
	switch {
	case d.ID == None:
		return "no decision"
	case counts == nil:
		return fmt.Sprintf("decision %d", d.ID)
	default:
		return fmt.Sprintf("decision %d (%s)", d.ID, strings.Join(counts, ", "))
	}
}

// Status is a decision and how far the deployment has followed.
type Status struct {
	Decision
	Scaled int64 `json:"scaled_decision_id"` // the newest decision that was carried out; None: none was
}

// String is decision 4 (prefill=2, decode=3), not acknowledged.
func (s Status) String() string {
	switch {
	case s.ID == None:
		return s.Decision.String()
	case s.Pending():
		return s.Decision.String() + ", not acknowledged"
	default:
		return s.Decision.String() + ", acknowledged"
	}
}

// Pending reports whether the decision is still to be carried out.
func (s Status) Pending() bool { return s.ID > s.Scaled }

// entry is a key below the prefix, as etcd holds it.
type entry struct {
	key, value string
	revision   int64 // of its last change
}

// record is all that etcd holds of one planner, read at one revision.
type record struct {
	Status
	// Revisions of the last change of each key; 0 where there is none.
	prefill, decode, id, scaled int64
	// unreadable is an acknowledgement that makes no sense, which counts as none.
	unreadable string
	floor      int64            // below the next ID: what an earlier life's acknowledgement reached
	lease      clientv3.LeaseID // of the decision; 0: none
}

// readRecord makes sense of the keys. Numbers that make none are an error, but
// for the acknowledgement: a planner must not act on a guess of what it asked
// for last (Dynamo's takes 0), but may wait in vain.
func readRecord(entries []entry) (record, error) {
	r := record{Status: Status{Decision: Decision{Prefill: None, Decode: None, ID: None}, Scaled: None}}
	var errs []error
	number := func(e entry, most int64) int64 {
		n, err := parse(e.value, most)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s is %w", e.key, err))
		}
		return n
	}
	for _, e := range entries {
		switch e.key {
		case keyPrefill:
			r.Prefill, r.prefill = int(number(e, maxCount)), e.revision
		case keyDecode:
			r.Decode, r.decode = int(number(e, maxCount)), e.revision
		case keyID:
			r.ID, r.id = number(e, maxID), e.revision
		case keyScaled:
			r.scaled = e.revision
			n, err := parse(e.value, maxID)
			if err != nil {
				n, r.unreadable = None, fmt.Sprintf("%s is %v", e.key, err)
			}
			r.Scaled = n
		}
	}
	return r, errors.Join(errs...)
}

// parse reads a number of 0 to most, or the -1 that early planners wrote for
// none.
func parse(value string, most int64) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < None || n > most {
		return None, fmt.Errorf("%.40q: want a number of 0 to %d", value, most)
	}
	return n, nil
}

// since drops an acknowledgement that is older than this life of the planner, which began
// with its first decision: the last one's keys went with its lease, and its IDs may begin
// again at 0 (Dynamo's do) while the acknowledgement stays.
func (r record) since(began int64) record {
	if r.scaled < began {
		r.floor, r.Scaled = r.Scaled+1, None
	}
	return r
}

// torn reports whether a planner died between its writes: Dynamo's writes the
// numbers first and the decision's ID last, each by itself. (A number changed by
// hand looks the same.) Nobody has been told of such numbers.
func (r record) torn() bool { return r.id > 0 && max(r.prefill, r.decode) > r.id }

// sameDecision reports whether no decision was written between r and o.
func (r record) sameDecision(o record) bool {
	return r.prefill == o.prefill && r.decode == o.decode && r.id == o.id
}

// vanished reports whether a key of a decision that was there in r is not in now: its
// lease ended, etcd lost it, or somebody removed it.
func (r record) vanished(now record) bool {
	gone := func(was, is int64) bool { return was > 0 && is == 0 }
	return gone(r.prefill, now.prefill) || gone(r.decode, now.decode) || gone(r.id, now.id)
}

// next is the decision that asks for these counts, None for what is not to be
// touched; needed is false where the last one does already.
//
// IDs grow from whatever was ever acknowledged too: Dynamo's client takes a decision for
// carried out by any acknowledgement that is not below it, however old.
func (r record) next(prefill, decode int) (d Decision, needed bool) {
	d = r.Decision
	if prefill != None {
		d.Prefill = prefill
	}
	if decode != None {
		d.Decode = decode
	}
	if d == r.Decision && r.ID != None && !r.torn() {
		return d, false
	}
	d.ID = max(r.ID+1, r.Scaled+1, r.floor)
	return d, true
}

// written is the record after d was written over r in one transaction.
func (r record) written(d Decision, revision int64) *record {
	if d.Prefill != None {
		r.prefill = revision
	}
	if d.Decode != None {
		r.decode = revision
	}
	r.Decision, r.id = d, revision
	return &r
}
