package fleet_test

import (
	"fmt"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
)

// tenMilliseconds is a step timer.
type tenMilliseconds struct{}

func (tenMilliseconds) StepTime(engine.Batch) engine.Picoseconds { return 10 * engine.Millisecond }

func Example() {
	f, err := fleet.New(fleet.Config{
		Pools: []fleet.Pool{{
			Engine: sim.Config{KVBlocks: 1000}, Timer: tenMilliseconds{},
			Replicas: 2, Router: fleet.LeastLoaded, StartUp: 30 * engine.Second,
		}},
		SLA:        profile.SLA{TTFT: 15 * time.Millisecond, ITL: 20 * time.Millisecond},
		Provenance: profile.Estimated,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 100 {
		at := engine.Picoseconds(i) * 30 * engine.Millisecond
		if err := f.Offer(fleet.Request{At: at, ISL: 1000, OSL: 50}); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := f.Finish(fleet.Forever); err != nil {
		fmt.Println(err)
		return
	}
	r := f.Report()
	fmt.Println(r.Finished, "finished,", r.TTFT.Distribution().P99, "TTFT at p99,", r.Attainment.Both, "within the SLA")
	// Output: 100 finished, 10ms TTFT at p99, 1 within the SLA
}
