package trace_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/profile/trace"
)

// open reads a file whole.
func open(t *testing.T, path string, o trace.Options) (trace.Format, []trace.Arrival) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := trace.Open(bytes.NewReader(data), filepath.Base(path), o)
	if err != nil {
		t.Fatal(err)
	}
	all, err := trace.Collect(file.Arrivals())
	if err != nil {
		t.Fatal(err)
	}
	return file.Format, all
}

// readText reads a trace given as text.
func readText(text string, o trace.Options) ([]trace.Arrival, error) {
	file, err := trace.Open(strings.NewReader(text), "t", o)
	if err != nil {
		return nil, err
	}
	return trace.Collect(file.Arrivals())
}

// summaryOracle is what numpy makes of a trace.
type summaryOracle struct {
	Requests   int
	DurationNS int64 `json:"duration_ns"`
	Rate, CV   float64
	Peaks      [3]float64
	ISL, OSL   [4]float64 // mean, p50, p99, max
	Blocks     int
	Repeated   float64
}

type oracles struct {
	Azure, Mooncake summaryOracle
	RequestTrace    summaryOracle `json:"request_trace"`
	LogNormal       []struct{ Mean, P99, Mu, Sigma float64 }
	Sine            []struct {
		Mean, Amplitude, Phase, N float64
		Period                    float64 `json:"period_s"`
		T                         float64 `json:"t_s"`
	}
}

func readOracles(t *testing.T) oracles {
	t.Helper()
	data, err := os.ReadFile("testdata/oracles.json")
	if err != nil {
		t.Fatal(err)
	}
	var o oracles
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func near(a, b, tolerance float64) bool {
	return math.Abs(a-b) <= tolerance*math.Max(1, math.Max(math.Abs(a), math.Abs(b)))
}

func TestSummariesOfExcerptsAreNumpys(t *testing.T) {
	o := readOracles(t)
	for _, c := range []struct {
		path   string
		format trace.Format
		want   summaryOracle
	}{
		{"testdata/azure-2023.csv", trace.FormatAzure, o.Azure},
		{"testdata/mooncake.jsonl", trace.FormatMooncake, o.Mooncake},
		{"testdata/request-trace.jsonl.gz", trace.FormatRequestTrace, o.RequestTrace},
	} {
		format, all := open(t, c.path, trace.Options{})
		if format != c.format {
			t.Errorf("%s: detected %s", c.path, format)
		}
		s, err := trace.Summarize(trace.Of(all...), time.Second, 10*time.Second, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		lengths := func(l trace.LengthStats) [4]float64 { return [4]float64{l.Mean, l.P50, l.P99, float64(l.Max)} }
		isl, osl := lengths(s.ISL), lengths(s.OSL)
		got := []float64{float64(s.Requests), float64(s.Duration), s.Rate, s.CV, s.Peaks[0].Ratio, s.Peaks[1].Ratio, s.Peaks[2].Ratio, float64(s.Blocks.Blocks), s.Blocks.Repeated}
		w := c.want
		want := []float64{float64(w.Requests), float64(w.DurationNS), w.Rate, w.CV, w.Peaks[0], w.Peaks[1], w.Peaks[2], float64(w.Blocks), w.Repeated}
		got, want = append(append(got, isl[:]...), osl[:]...), append(append(want, w.ISL[:]...), w.OSL[:]...)
		for i := range want {
			if !near(got[i], want[i], 1e-9) {
				t.Errorf("%s: figure %d is %v, numpy's %v", c.path, i, got[i], want[i])
			}
		}
		if !s.Blocks.Exact {
			t.Errorf("%s: blocks are an estimate", c.path)
		}
	}
}

// A file read in every disguise gives the same arrivals, lines aside.
func TestTextFormDoesNotMatter(t *testing.T) {
	for _, name := range []string{"azure-2023.csv", "mooncake.jsonl", "servegen.csv"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		o := trace.Options{Windows: trace.WindowOptions{Scale: 1e-4, Seed: 1}}
		plain := strings.ReplaceAll(string(data), "\r", "")
		want, err := readText(plain, o)
		if err != nil {
			t.Fatal(err)
		}
		for disguise, text := range map[string]string{
			"as it is":    string(data),
			"CRLF":        strings.ReplaceAll(plain, "\n", "\r\n"),
			"BOM":         "\ufeff" + plain,
			"blank lines": "\n\n" + strings.ReplaceAll(plain, "\n", "\n\n"),
			"no last end": strings.TrimRight(plain, "\n"),
			"gzip":        zipped(t, plain),
		} {
			got, err := readText(text, o)
			if err != nil {
				t.Errorf("%s, %s: %v", name, disguise, err)
				continue
			}
			if !slices.EqualFunc(got, want, sameButLine) {
				t.Errorf("%s, %s: %d arrivals differ from the %d of the plain file", name, disguise, len(got), len(want))
			}
		}
	}
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func sameButLine(a, b trace.Arrival) bool {
	return a.At == b.At && a.ISL == b.ISL && a.OSL == b.OSL && a.BlockTokens == b.BlockTokens && slices.Equal(a.Blocks, b.Blocks)
}

func TestRowsOfEachFormat(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		name, text string
		opts       trace.Options
		want       []trace.Arrival
	}{
		{
			"azure 2023", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109",
			trace.Options{},
			[]trace.Arrival{{ISL: 374, OSL: 44, Line: 2}, {At: 4314579 * time.Microsecond, ISL: 396, OSL: 109, Line: 3}},
		},
		{
			"azure 2024, with and without decimals", "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-12 00:00:00.001000+00:00,2,3\n2024-05-12 00:00:01+00:00,4,5",
			trace.Options{},
			[]trace.Arrival{{ISL: 2, OSL: 3, Line: 2}, {At: 999 * ms, ISL: 4, OSL: 5, Line: 3}},
		},
		{
			"mooncake, ids for full blocks only, and none", `{"timestamp": 27.5, "input_length": 600, "output_length": 5, "hash_ids": [7]}` + "\n" + `{"timestamp":28,"input_length":9,"output_length":1}`,
			trace.Options{Unit: ms},
			[]trace.Arrival{{At: 27500 * time.Microsecond, ISL: 600, OSL: 5, Blocks: []uint64{7}, BlockTokens: 512, Line: 1}, {At: 28 * ms, ISL: 9, OSL: 1, Line: 2}},
		},
		{
			"request trace without a wrapper, tools passed over",
			`{"schema":"dynamo.request.trace.v1","event_type":"tool_start"}` + "\n" + `{"schema":"dynamo.request.trace.v1","event_type":"request_end","request":{"request_received_ms":1779163048815,"input_tokens":15,"output_tokens":3}}`,
			trace.Options{},
			[]trace.Arrival{{ISL: 15, OSL: 3, Line: 2}},
		},
		{
			"csv in seconds keeps its start", "arrival_s,note,isl,osl\n1.5,\"a, b\",10,20\n2,c,11.0,21",
			trace.Options{},
			[]trace.Arrival{{At: 1500 * ms, ISL: 10, OSL: 20, Line: 2}, {At: 2 * time.Second, ISL: 11, OSL: 21, Line: 3}},
		},
		{
			"BurstGPT's header, failures counted as one token", "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,0,1087,API log",
			trace.Options{ZeroAsOne: true},
			[]trace.Arrival{{At: 5 * time.Second, ISL: 472, OSL: 18, Line: 2}, {At: 45 * time.Second, ISL: 1087, OSL: 1, Line: 3}},
		},
		{
			"unix seconds count from the first", "timestamp,prompt_tokens,completion_tokens\n1700000000,1,1\n1700000002,1,1",
			trace.Options{},
			[]trace.Arrival{{ISL: 1, OSL: 1, Line: 2}, {At: 2 * time.Second, ISL: 1, OSL: 1, Line: 3}},
		},
		{
			"intervals", "interval_ms,input_tokens,output_tokens\n500,1,2\n0,3,4\n250,5,6",
			trace.Options{},
			[]trace.Arrival{{At: 500 * ms, ISL: 1, OSL: 2, Line: 2}, {At: 500 * ms, ISL: 3, OSL: 4, Line: 3}, {At: 750 * ms, ISL: 5, OSL: 6, Line: 4}},
		},
		{
			"disorder, sorted; equal times keep their order", "t,isl,osl\n1,1,1\n3,2,1\n2,3,1\n2,4,1\n9,5,1",
			trace.Options{SortWithin: time.Second},
			[]trace.Arrival{{At: time.Second, ISL: 1, OSL: 1, Line: 2}, {At: 2 * time.Second, ISL: 3, OSL: 1, Line: 4}, {At: 2 * time.Second, ISL: 4, OSL: 1, Line: 5}, {At: 3 * time.Second, ISL: 2, OSL: 1, Line: 3}, {At: 9 * time.Second, ISL: 5, OSL: 1, Line: 6}},
		},
	} {
		got, err := readText(c.text, c.opts)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if !slices.EqualFunc(got, c.want, func(a, b trace.Arrival) bool { return sameButLine(a, b) && a.Line == b.Line }) {
			t.Errorf("%s:\n got %v\nwant %v", c.name, got, c.want)
		}
	}
}

func TestFileIsReadOnce(t *testing.T) {
	file, err := trace.Open(strings.NewReader("t,isl,osl\n1,1,1\n"), "x.csv", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	arrivals := file.Arrivals()
	if _, err := trace.Collect(arrivals); err != nil {
		t.Fatal(err)
	}
	for name, again := range map[string]trace.Trace{"the same arrivals": arrivals, "other arrivals": file.Arrivals()} {
		if _, err := trace.Collect(again); err == nil || !strings.Contains(err.Error(), "x.csv: was read already") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// broken fails after some bytes.
type broken struct{ before *strings.Reader }

var errDisk = errors.New("disk on fire")

func (b broken) Read(p []byte) (int, error) {
	if b.before.Len() > 0 {
		return b.before.Read(p)
	}
	return 0, errDisk
}

func TestReadErrorsArePassedOn(t *testing.T) {
	file, err := trace.Open(broken{strings.NewReader("t,isl,osl\n1,1,1\n2,")}, "x.csv", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = trace.Collect(file.Arrivals())
	if !errors.Is(err, errDisk) {
		t.Errorf("got %v", err)
	}

	whole := zipped(t, "t,isl,osl\n1,1,1\n2,2,2\n")
	if _, err := readText(whole[:len(whole)-9], trace.Options{}); err == nil || !strings.Contains(err.Error(), "unexpected EOF") {
		t.Errorf("gzip cut short: %v", err)
	}
}
