package observe

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

const fleetSize = 200

// BenchmarkEngines is one sample of 200 engines over HTTP, each of which says what
// vLLM does of its histograms.
func BenchmarkEngines(b *testing.B) {
	w := startWorker(b, engine.RoleAggregated)
	w.says(vllmText(state{model: "m", running: 3, kv: 0.5, began: 1}, some(100)))
	var list []Endpoint
	for i := range fleetSize {
		list = append(list, Endpoint{engine.RoleAggregated, w.endpoint.URL + "?" + strconv.Itoa(i)})
	}
	// They are one host here, and each has a connection that is kept.
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: fleetSize}}
	e := engines(b, EnginesOptions{Client: client}, list...)
	b.ReportAllocs()
	for b.Loop() {
		sampled(b, e, planner.State{})
	}
	if o := observed(b, e, time.Minute, time.Minute); !o.Arrivals.Known {
		b.Errorf("observation %+v", o)
	}
}

// BenchmarkReading is what one engine's text costs.
func BenchmarkReading(b *testing.B) {
	text := []byte(vllmText(state{model: "m", running: 3, kv: 0.5, began: 1}, some(100)))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	w := wish{presets: Presets("auto")}
	for b.Loop() {
		x, err := parse(text)
		if err != nil {
			b.Fatal(err)
		}
		c, err := w.engines(x.series(), Names{})
		if err != nil || c.read(x, "").running != 3 {
			b.Fatal(c, err)
		}
	}
}

// BenchmarkLive is one interval's questions over HTTP and what becomes of the
// answers, which are as long for one engine as for 200: Prometheus adds up. What
// that takes it is not in here.
func BenchmarkLive(b *testing.B) {
	f := &fake{t: b}
	const until = 2 * time.Minute
	for i := range fleetSize {
		f.engine("m", strconv.Itoa(i), until, 1, 100)
	}
	said := map[string][]byte{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			b.Error(err)
		}
		q := r.Form.Get("query")
		if said[q] == nil {
			answer := httptest.NewRecorder()
			f.ServeHTTP(answer, r)
			said[q] = answer.Body.Bytes()
		}
		_, _ = w.Write(said[q])
	}))
	b.Cleanup(server.Close)
	l, err := NewLive(dial(b, Options{URL: server.URL}), LiveOptions{Presets: Presets("auto")})
	if err != nil {
		b.Fatal(err)
	}
	observed(b, l, until, thirty)
	b.ReportAllocs()
	for b.Loop() {
		if o := observed(b, l, until, thirty); !o.Arrivals.Known {
			b.Fatal(o)
		}
	}
}
