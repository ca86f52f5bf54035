package capacity

import (
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/fleet"
)

// engines is a pool of a catalog's model on its GPU, by the latency model.
func engines(t testing.TB, model, gpu string, tp int, role engine.Role) EnginePool {
	t.Helper()
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	m, err := cat.Model(model)
	if err != nil {
		t.Fatal(err)
	}
	g, err := cat.GPU(gpu)
	if err != nil {
		t.Fatal(err)
	}
	config := engine.Config{Parallelism: engine.TP(tp)}
	l, err := latency.New(m, g, config)
	if err != nil {
		t.Fatal(err)
	}
	return EnginePool{
		Label: config.Parallelism.Label(), GPU: g.Name, USDPerGPUHour: 3,
		Pool: fleet.Pool{
			Engine: sim.Config{Role: role, Limits: l.Limits(), KVBlocks: l.KVTokens() / l.Limits().BlockSize, AsyncScheduling: l.AsyncScheduling()},
			Timer:  l, GPUs: tp, Router: fleet.LeastLoaded,
		},
	}
}

func chatbot() Workload {
	return Workload{Rate: 100, ISL: 256, OSL: 512, ISLP99: 1024, OSLP99: 2048, PeakToAverage: 2.5, PeakWindow: time.Minute, Pattern: "flat"}
}
