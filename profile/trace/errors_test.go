package trace_test

import (
	"strings"
	"testing"
	"time"

	"plimsoll/profile/trace"
)

func TestErrorsNameFileLineAndRemedy(t *testing.T) {
	const (
		azure    = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
		plain    = "arrival_s,isl,osl\n"
		rates    = "t_s,rate_rps,rate_weighted_cv,mean_input_tokens,mean_output_tokens\n"
		mooncake = `{"timestamp":1,"input_length":10,"output_length":5,"hash_ids":[1]}` + "\n"
		end      = `{"schema":"dynamo.request.trace.v1","event_type":"request_end","request":`
	)
	seconds := func(n int) string { return strings.Repeat("0,1,1\n", n) }
	for _, c := range []struct {
		name, text string
		opts       trace.Options
		want       string
	}{
		{"empty", "", trace.Options{}, "t: empty (hint: a trace has at least one request)"},
		{"blank", "\n \r\n", trace.Options{}, "t: empty (hint: a trace has at least one request)"},
		{"header only", plain, trace.Options{}, "t: no requests in it (hint: a trace has at least one)"},
		{"not gzip", "\x1f\x8bxx", trace.Options{}, "reading t: unexpected EOF (hint: begins like gzip, and is none)"},
		{"unknown text", "hello", trace.Options{}, "t:1: no trace begins like this: the header names no time (hint: arrival_s, timestamp, interval_s, …)"},
		{"unknown JSON", `{"a":1}`, trace.Options{}, "t:1: a JSON line with neither timestamp and input_length nor schema (hint: name the format)"},
		{"JSON array", "[1]", trace.Options{Format: trace.FormatMooncake}, "t:1: the line: got a list, want an object"},
		{"unknown format", "x", trace.Options{Format: "xml"}, `reading t: format "xml" is unknown: want auto, azure, mooncake, request-trace, servegen, csv`},
		{"negative sort", "x", trace.Options{SortWithin: -1}, "reading t: sort within -1ns is out of range: want 0 or more"},

		{"no input", "t,osl\n1,1", trace.Options{Format: trace.FormatCSV}, "t:1: the header names no input length (hint: isl, input_tokens, prompt_tokens, …)"},
		{"no output", "t,isl\n1,1", trace.Options{Format: trace.FormatCSV}, "t:1: the header names no output length (hint: osl, output_tokens, completion_tokens, …)"},
		{"header not Azure's", plain, trace.Options{Format: trace.FormatAzure}, `t:1: header "arrival_s,isl,osl": want TIMESTAMP,ContextTokens,GeneratedTokens`},
		{"two times", "arrival_s,arrival_ms,isl,osl\n1,1,1,1", trace.Options{}, "t:1: no trace begins like this: the header names the time more than once: arrival_s, arrival_ms (hint: leave all but one out, or name them otherwise)"},
		{"time and interval", "interval_s,t,isl,osl\n1,1,1,1", trace.Options{Format: trace.FormatCSV}, "t:1: the header names the time more than once: interval_s, t (hint: leave all but one out, or name them otherwise)"},
		{"two inputs", "t,isl,input_tokens,osl\n1,1,1,1", trace.Options{Format: trace.FormatCSV}, "t:1: the header names the input length more than once: isl, input_tokens (hint: leave all but one out, or name them otherwise)"},
		{"one output twice", "t,isl,osl,osl\n1,1,1,1", trace.Options{Format: trace.FormatCSV}, "t:1: the header names the output length more than once: osl, osl (hint: leave all but one out, or name them otherwise)"},
		{"cells", plain + "1,2", trace.Options{}, "t:2: 2 cells, and the header has 3 (hint: a row cut short, or a comma in a cell without quotes)"},
		{"quote", plain + `1,"2,3`, trace.Options{}, `t:2: bad CSV: extraneous or missing " in quoted-field`},
		{"nan time", plain + "NaN,1,1", trace.Options{}, "t:2: time NaN is out of range: want seconds from 0"},
		{"infinite time", plain + "+Inf,1,1", trace.Options{}, "t:2: time +Inf is out of range: want seconds from 0"},
		{"negative time", plain + "-1,1,1", trace.Options{}, "t:2: time -1 is out of range: want seconds from 0"},
		{"no time", plain + "x,1,1", trace.Options{}, `t:2: time "x" is neither a number nor a date (hint: 2024-05-12 00:00:00.001163+00:00)`},
		{"no date", azure + "2024-13-01 00:00:00,1,1", trace.Options{}, `t:2: time "2024-13-01 00:00:00" is neither a number nor a date (hint: 2024-05-12 00:00:00.001163+00:00)`},
		{"far date", azure + "9999-01-01 00:00:00,1,1", trace.Options{}, `t:2: date "9999-01-01 00:00:00" is out of range: want the years 1975 to 2200`},
		{"negative interval", "gap_s,isl,osl\n-1,1,1", trace.Options{}, "t:2: interval -1 is out of range: want 0 or more"},
		{"intervals overflow", "gap_s,isl,osl\n9e9,1,1\n9e9,1,1", trace.Options{}, "t:3: time 1.8e+10 is out of range: want seconds from 0"},
		{"zero", plain + "0,1,0", trace.Options{}, "t:2: output length 0 (hint: such requests often failed: leave them out, or count 0 as 1)"},
		{"negative", plain + "0,-1,5", trace.Options{ZeroAsOne: true}, "t:2: input length -1 is out of range: want 1 to 16777216 tokens"},
		{"huge", plain + "0,1e9,5", trace.Options{}, "t:2: input length 1000000000 is out of range: want 1 to 16777216 tokens"},
		{"fraction", plain + "0,1.5,5", trace.Options{}, `t:2: input length "1.5": want a whole number of tokens`},
		{"disorder", plain + "5,1,1\n7,1,1\n6.5,1,1", trace.Options{}, "t:4: arrives 500ms before line 3 (hint: sort within 500ms or more)"},
		{"too much disorder", plain + "5,1,1\n7,1,1\n4,1,1", trace.Options{SortWithin: time.Second}, "t:4: arrives 3s before line 3, and sorting holds 1s back (hint: sort within 3s or more)"},
		{"long line", plain + seconds(2) + strings.Repeat("9", 5<<20), trace.Options{}, "t:4: longer than 4194304 bytes (hint: a trace has one request a line)"},

		{"bad JSON", mooncake + `{"timestamp":1,`, trace.Options{}, "t:2: bad JSON: the line ends within a value: it may be cut off (hint: a trace has one JSON object a line)"},
		{"text for a number", mooncake + `{"timestamp":1,"input_length":"x"}`, trace.Options{}, "t:2: input_length: got a string, want a whole number"},
		{"negative id", mooncake + `{"timestamp":1,"input_length":9,"output_length":1,"hash_ids":[-1]}`, trace.Options{}, "t:2: hash_ids: got number -1, want a whole number from 0"},
		{"no timestamp", `{"input_length":1}`, trace.Options{}, "t:1: timestamp is missing (hint: each line needs its arrival time)"},
		{"no input_length", `{"timestamp":1}`, trace.Options{}, "t:1: input_length is missing"},
		{"no output_length", `{"timestamp":1,"input_length":1}`, trace.Options{}, "t:1: output_length is missing"},
		{"early", `{"timestamp":-1,"input_length":1,"output_length":1}`, trace.Options{}, "t:1: time -1 is out of range: want seconds from 0"},
		{"too many ids", `{"timestamp":1,"input_length":655,"output_length":52,"hash_ids":[0,1,2]}`, trace.Options{}, "t:1: 3 block ids for 655 tokens: blocks of 512 give at most 2 (hint: a request-trace says its own block size)"},

		{"too few ids", `{"timestamp":1,"input_length":1200,"output_length":52,"hash_ids":[0]}`, trace.Options{}, "t:1: 1 block ids for 1200 tokens: blocks of 512 give at least 2 (hint: a request-trace says its own block size)"},

		{"schema", `{"schema":"dynamo.request.trace.v2"}`, trace.Options{}, `t:1: schema "dynamo.request.trace.v2" is unknown: want "dynamo.request.trace.v1"`},
		{"tools only", `{"schema":"dynamo.request.trace.v1","event_type":"tool_end"}`, trace.Options{}, "t: no requests in it (hint: a trace has at least one)"},
		{"no request", end + "null}", trace.Options{}, "t:1: request is missing from a request_end record"},
		{"no arrival", end + "{}}", trace.Options{}, "t:1: request_received_ms is missing (hint: it is the arrival time)"},
		{"early arrival", end + `{"request_received_ms":-5,"input_tokens":1,"output_tokens":1}}`, trace.Options{}, "t:1: time -5 is out of range: want milliseconds from 0"},
		{"no output tokens", end + `{"request_received_ms":5}}`, trace.Options{}, "t:1: output_tokens is missing (hint: requests that were cut off have none: leave them out)"},
		{"no input tokens", end + `{"request_received_ms":5,"output_tokens":1}}`, trace.Options{}, "t:1: input_tokens and replay are missing"},
		{"block size 0", end + `{"request_received_ms":5,"output_tokens":1,"replay":{"input_length":1}}}`, trace.Options{}, "t:1: trace_block_size 0 is out of range: want 1 to 16777216"},

		{"rates: no rate", "t_s,cv\n", trace.Options{Format: trace.FormatServeGen}, "t:1: the header names no rate_rps (hint: t_s,rate_rps,rate_weighted_cv,mean_input_tokens,mean_output_tokens)"},
		{"rates: one row", rates + "0,1,1,1,1", trace.Options{}, "t: 1 windows in it (hint: a table of rates has at least two)"},
		{"rates: cells", rates + "0,1", trace.Options{}, "t:2: 2 cells, and the header has 5"},
		{"rates: nan", rates + "0,nan,1,1,1", trace.Options{}, "t:2: t_s, rate or cv is nan: want a number (hint: a gap has rate 0)"},
		{"rates: negative", rates + "0,-1,1,1,1", trace.Options{}, "t:2: rate_rps -1 is out of range: want 0 to 1000000"},
		{"rates: no number", rates + "0,1,x,1,1", trace.Options{}, `t:2: cv "x" is no number`},
		{"rates: order", rates + "600,1,1,1,1\n0,1,1,1,1", trace.Options{}, "t:3: begins at 0s, not after the window of line 2, at 10m0s"},
		{"rates: missing row", rates + "0,0,0,nan,nan\n600,0,0,nan,nan\n1800,0,0,nan,nan", trace.Options{}, "t:4: begins 20m0s after the window of line 3, and others last 10m0s (hint: write missing windows with rate 0)"},
		{"rates: no lengths", rates + "0,1,1,0,5\n600,1,1,0,5", trace.Options{}, "t:2: the window at 0s has mean lengths 0 and 5: want at least 1 token (hint: give the lengths: isl and osl)"},
	} {
		_, err := readText(c.text, c.opts)
		if err == nil {
			t.Errorf("%s: no error, want %s", c.name, c.want)
		} else if err.Error() != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, err, c.want)
		}
	}
}
