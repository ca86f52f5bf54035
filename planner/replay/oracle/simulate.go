package oracle

import (
	"fmt"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
)

// Simulate is the Evaluate of a case: its requests in its fleet.
func (c Case) Simulate(s Schedule) (Outcome, error) {
	m := misses{of: c, ttft: engine.FromDuration(c.Fleet.SLA.TTFT), tpot: engine.FromDuration(c.Fleet.SLA.ITL)}
	for range c.Fleet.Pools {
		m.missed = append(m.missed, make([]int, c.Bins))
	}
	config := c.Fleet
	config.Bins, config.Done = 2, m.count
	f, err := fleet.New(config)
	if err != nil {
		return Outcome{}, fmt.Errorf("simulating a schedule: %w", err)
	}
	next := 0
	for b := range c.Bins {
		if err := c.scale(f, s, b); err != nil {
			return Outcome{}, fmt.Errorf("simulating a schedule: %w", err)
		}
		for edge := c.Every * engine.Picoseconds(b+1); next < len(c.Requests) && c.Requests[next].At < edge; next++ {
			if err := f.Offer(c.Requests[next]); err != nil {
				return Outcome{}, fmt.Errorf("simulating a schedule: %w", err)
			}
		}
	}
	if err := f.Advance(c.end()); err != nil {
		return Outcome{}, fmt.Errorf("simulating a schedule: %w", err)
	}
	gpuSeconds := f.Report().GPUSeconds
	if err := f.Finish(c.end() + c.Drain); err != nil {
		return Outcome{}, fmt.Errorf("simulating a schedule: %w", err)
	}
	return Outcome{
		Attainment: float64(m.met) / float64(len(c.Requests)),
		GPUHours:   gpuSeconds / 3600, Missed: m.missed,
	}, nil
}

// scale asks for a bin's replicas where they are others than before.
func (c Case) scale(f *fleet.Fleet, s Schedule, b int) error {
	for i, p := range c.Fleet.Pools {
		if b > 0 && s[i][b] == s[i][b-1] {
			continue
		}
		role := p.Engine.Role
		if role == "" {
			role = engine.RoleAggregated
		}
		if err := f.Scale(role, s[i][b], c.Every*engine.Picoseconds(b)); err != nil {
			return err
		}
	}
	return nil
}

// misses counts requests that met both bounds, and those that did not.
type misses struct {
	of         Case
	ttft, tpot engine.Picoseconds // 0 = no bound
	met        int64
	missed     [][]int
}

func (m *misses) count(o fleet.Outcome) {
	late := m.ttft > 0 && o.TTFT() > m.ttft
	slow := m.tpot > 0 && o.TPOT() > m.tpot
	if o.Status == fleet.Finished && !late && !slow {
		m.met++
		return
	}
	m.missed[m.blame(o, slow)][o.At/m.of.Every]++
}

// blame is the pool that a miss is the fault of: of two, the one that decodes
// where tokens came too slowly, or the request lost more of its time to the first
// token there than before it.
func (m *misses) blame(o fleet.Outcome, slow bool) int {
	if len(m.missed) == 1 || o.Moved == 0 {
		return 0
	}
	if slow || o.First == 0 || o.First-o.Moved > o.Moved-o.At {
		return 1
	}
	return 0
}
