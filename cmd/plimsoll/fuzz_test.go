package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	dep "plimsoll/engine/deployment"
	"plimsoll/engine/latency"
)

// scriptFiles are the files that a script brings along.
func scriptFiles(f *testing.F, script string) []txtar.File {
	f.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "script", script))
	if err != nil {
		f.Fatal(err)
	}
	return txtar.Parse(b).Files
}

// Whatever a table holds, it is refused with a reason, or its points are ones
// that a latency model can be asked about.
func FuzzCalibrationTable(f *testing.F) {
	for _, file := range scriptFiles(f, "calibrate.txt") {
		f.Add(string(file.Data))
	}
	f.Add("\ufeffmodel,gpu,tp,isl,osl,loop\nllama-3.1-8b,h100-sxm,1,1,2,open\n")
	f.Add("model,gpu,tp,isl,osl,loop,tpot_ms,concurrency\n\"llama-3.1-8b\",h100-sxm,8,1,2,closed,1e9,9999999\n")
	cat, err := catalog.Default()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, table string) {
		rows, err := readTable("table.csv", strings.NewReader(table), cat)
		var set pointSet
		if err == nil {
			set, err = tablePoints("table.csv", rows)
		}
		obs := set.obs
		if err != nil {
			if !strings.HasPrefix(err.Error(), "table.csv:") {
				t.Fatal(err)
			}
			return
		}
		if len(obs) == 0 {
			t.Fatal("neither points nor a reason")
		}
		for _, o := range obs {
			if !(o.Seconds > 0) || math.IsInf(o.Seconds, 0) || o.ISL < 1 || o.OSL < 1 || o.Config.Model != o.Model.Name || o.Config.GPU != o.GPU.Name {
				t.Fatalf("%+v", o)
			}
			m, err := latency.New(o.Model, o.GPU, o.Config)
			if err != nil {
				continue // it does not fit the GPU
			}
			if s := m.Predict(o); !(s > 0) || math.IsInf(s, 0) {
				t.Fatalf("%+v is predicted as %g s", o, s)
			}
		}
	})
}

// Whatever a file of coefficients holds, it is refused with a reason, or it is
// a fit: written and read again the same, and good for step times and errors.
func FuzzFit(f *testing.F) {
	for _, fit := range latency.Fits() {
		var out bytes.Buffer
		if err := printJSON(&out, fit); err != nil {
			f.Fatal(err)
		}
		b := out.Bytes()
		f.Add(b)
		f.Add(bytes.Replace(b, []byte(`"weights": 1`), []byte(`"weights": -1`), 1))
		f.Add(bytes.Replace(b, []byte(`"p90": 0`), []byte(`"p90": -1e300`), 1))
		f.Add(append(b, b...))
	}
	for _, file := range scriptFiles(f, "estimate.txt") {
		f.Add(file.Data)
	}
	cat, err := catalog.Default()
	if err != nil {
		f.Fatal(err)
	}
	model, err1 := cat.Model(simModel)
	gpu, err2 := cat.GPU(simGPU)
	if err1 != nil || err2 != nil {
		f.Fatal(err1, err2)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fit, err := latency.ParseFit(data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "not a calibration: ") {
				t.Fatal(err)
			}
			return
		}
		var b bytes.Buffer
		if err := printJSON(&b, fit); err != nil {
			t.Fatal(err)
		}
		if again, err := latency.ParseFit(b.Bytes()); err != nil || !reflect.DeepEqual(again, fit) {
			t.Fatalf("%+v\nis read again as\n%+v, %v", fit, again, err)
		}
		m, err := latency.NewWith(model, gpu, engine.Config{Model: model.Name, GPU: gpu.Name, Parallelism: engine.TP(2)}, fit)
		if err != nil {
			t.Fatal(err)
		}
		if s := m.StepTime(engine.Batch{DecodeSeqs: 3, DecodeContext: 3000}); s <= 0 || m.Overhead() < 0 {
			t.Fatalf("a step takes %d ps, overhead %d ps", s, m.Overhead())
		}
		if s := dep.Worth(m); s == "" || strings.Contains(s, "± -") || strings.Contains(s, "Inf") {
			t.Fatalf("%q", s)
		}
	})
}
