package trace_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	"plimsoll/profile/trace"
)

// fuzz reads anything as a format: what comes out is in order and in range, or
// an error, never a panic.
func fuzz(f *testing.F, format trace.Format, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s), int64(0), false)
		f.Add([]byte(s), int64(time.Minute), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, sort int64, zeroAsOne bool) {
		o := trace.Options{Format: format, SortWithin: time.Duration(sort), ZeroAsOne: zeroAsOne, Windows: trace.WindowOptions{Scale: 1e-3}}
		file, err := trace.Open(bytes.NewReader(data), "fuzz", o)
		if err != nil {
			return
		}
		var last time.Duration
		for a, err := range trace.Limit(file.Arrivals(), 10_000) {
			if err != nil {
				break
			}
			if a.At < last || a.ISL < 1 || a.ISL > trace.MaxTokens || a.OSL < 1 || a.OSL > trace.MaxTokens || a.Line < 0 {
				t.Fatalf("%+v after %v", a, last)
			}
			if len(a.Blocks) > 0 && (len(a.Blocks)-1)*a.BlockTokens >= a.ISL {
				t.Fatalf("%d tokens in %d blocks of %d", a.ISL, len(a.Blocks), a.BlockTokens)
			}
			trace.Reblock(a, 16)
			last = a.At
		}
	})
}

// head is the first bytes of a file of testdata, as a seed.
func head(f *testing.F, name string) string {
	f.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		f.Fatal(err)
	}
	return string(data[:min(len(data), 1000)])
}

func FuzzAuto(f *testing.F) {
	fuzz(f, trace.FormatAuto, head(f, "azure-2023.csv"), head(f, "mooncake.jsonl"), head(f, "request-trace.jsonl.gz"), head(f, "servegen.csv"), "\ufeff\n{}")
}

func FuzzAzure(f *testing.F) {
	fuzz(f, trace.FormatAzure, head(f, "azure-2023.csv"), "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-12 00:00:00+00:00,1,2")
}

func FuzzMooncake(f *testing.F) { fuzz(f, trace.FormatMooncake, head(f, "mooncake.jsonl")) }

func FuzzRequestTrace(f *testing.F) {
	fuzz(f, trace.FormatRequestTrace, head(f, "request-trace.jsonl.gz"),
		`{"schema":"dynamo.request.trace.v1","event_type":"request_end","request":{"request_received_ms":5,"output_tokens":1,"replay":{"trace_block_size":16,"input_length":20,"input_sequence_hashes":[1,18446744073709551615]}}}`)
}

func FuzzServeGen(f *testing.F) { fuzz(f, trace.FormatServeGen, head(f, "servegen.csv")) }

func FuzzCSV(f *testing.F) {
	fuzz(f, trace.FormatCSV, "arrival_s,isl,osl\n0,1,2\n1e3,\"3\",4.0", "gap_ms,isl,osl\n1,2,3", "timestamp,isl,osl\n1700000000,1,1")
}
