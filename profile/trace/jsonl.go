package trace

import (
	"encoding/json"
	"errors"
	"fmt"
)

// mooncakeBlock is the tokens of a block of Mooncake's traces (Qin et al.,
// FAST'25, and the traces' own description at kvcache-ai/Mooncake).
const mooncakeBlock = 512

// mooncake parses lines of FormatMooncake. Some writers give an id to the part
// of a block at a prompt's end and some do not: both are read.
type mooncake struct{ zeroAsOne bool }

func (m mooncake) parse(line []byte) (row, bool, error) {
	var v struct {
		Timestamp    *float64 `json:"timestamp"`
		InputLength  *int     `json:"input_length"`
		OutputLength *int     `json:"output_length"`
		HashIDs      []uint64 `json:"hash_ids"`
	}
	if err := json.Unmarshal(line, &v); err != nil {
		return row{}, false, plainJSON(err)
	}
	switch {
	case v.Timestamp == nil:
		return row{}, false, errors.New("timestamp is missing (hint: each line needs its arrival time)")
	case v.InputLength == nil:
		return row{}, false, errors.New("input_length is missing")
	case v.OutputLength == nil:
		return row{}, false, errors.New("output_length is missing")
	}
	a, ok, err := withBlocks(Arrival{ISL: *v.InputLength, OSL: *v.OutputLength}, v.HashIDs, mooncakeBlock, m.zeroAsOne)
	return row{Arrival: a, number: *v.Timestamp}, ok, err
}

// withBlocks is a with the ids of its blocks, checked.
func withBlocks(a Arrival, ids []uint64, blockTokens int, zeroAsOne bool) (Arrival, bool, error) {
	a, ok, err := checked(a, zeroAsOne)
	if err != nil || len(ids) == 0 {
		return a, ok, err
	}
	if most := (a.ISL + blockTokens - 1) / blockTokens; len(ids) > most {
		return a, false, fmt.Errorf("%d block ids for %d tokens: blocks of %d give at most %d (hint: a request-trace says its own block size)", len(ids), a.ISL, blockTokens, most)
	}
	if least := a.ISL / blockTokens; len(ids) < least {
		return a, false, fmt.Errorf("%d block ids for %d tokens: blocks of %d give at least %d (hint: a request-trace says its own block size)", len(ids), a.ISL, blockTokens, least)
	}
	a.Blocks, a.BlockTokens = ids, blockTokens
	return a, true, nil
}

// requestSchema is the only schema of request traces so far (NVIDIA Dynamo,
// reference of request traces, v1.6).
const requestSchema = "dynamo.request.trace.v1"

// requestTrace parses lines of FormatRequestTrace: records as they are, or
// wrapped as {"timestamp": …, "event": …}. Records other than request_end are
// passed over.
type requestTrace struct{ zeroAsOne bool }

type requestRecord struct {
	Schema    string `json:"schema"`
	EventType string `json:"event_type"`
	Request   *struct {
		ReceivedMS   *float64 `json:"request_received_ms"`
		InputTokens  *int     `json:"input_tokens"`
		OutputTokens *int     `json:"output_tokens"`
		Replay       *struct {
			BlockTokens int      `json:"trace_block_size"`
			InputLength int      `json:"input_length"`
			Hashes      []uint64 `json:"input_sequence_hashes"`
		} `json:"replay"`
	} `json:"request"`
}

func (t requestTrace) parse(line []byte) (row, bool, error) {
	var v struct {
		Event *requestRecord `json:"event"`
		requestRecord
	}
	if err := json.Unmarshal(line, &v); err != nil {
		return row{}, false, plainJSON(err)
	}
	record := &v.requestRecord
	if v.Event != nil {
		record = v.Event
	}
	if record.Schema != requestSchema {
		return row{}, false, fmt.Errorf("schema %q is unknown: want %q", record.Schema, requestSchema)
	}
	if record.EventType != "request_end" {
		return row{}, false, nil
	}
	return record.arrival(t.zeroAsOne)
}

func (v *requestRecord) arrival(zeroAsOne bool) (row, bool, error) {
	r := v.Request
	if r == nil {
		return row{}, false, errors.New("request is missing from a request_end record")
	}
	if r.ReceivedMS == nil {
		return row{}, false, errors.New("request_received_ms is missing (hint: it is the arrival time)")
	}
	a, block, ids := Arrival{}, 0, []uint64(nil)
	switch {
	case r.OutputTokens == nil:
		return row{}, false, errors.New("output_tokens is missing (hint: requests that were cut off have none: leave them out)")
	case r.Replay == nil && r.InputTokens == nil:
		return row{}, false, errors.New("input_tokens and replay are missing")
	case r.Replay == nil:
		a.ISL = *r.InputTokens
	default:
		if err := within("trace_block_size", float64(r.Replay.BlockTokens), 1, MaxTokens); err != nil {
			return row{}, false, err
		}
		a.ISL, block, ids = r.Replay.InputLength, r.Replay.BlockTokens, r.Replay.Hashes
	}
	a.OSL = *r.OutputTokens
	a, ok, err := withBlocks(a, ids, block, zeroAsOne)
	return row{Arrival: a, number: *r.ReceivedMS}, ok, err
}
