package profile

import (
	"fmt"
	"math"
	"time"
)

// Machine is what was done with the processors of the machine that client and engine share
// while a load ran.
type Machine struct {
	Cores  int           `json:"cores"`
	Time   time.Duration `json:"cpu_time_ns"`         // of all cores together, idle or not
	Others float64       `json:"cpu_taken_by_others"` // share of Time, 0..1: by processes that are neither the client nor the engine, and Steal
	Steal  float64       `json:"cpu_steal"`           // share of Time: by other virtual machines
	Busy   float64       `json:"cpu_busy"`            // share of Time: not idle
}

// Other processes matter only if they leave too little CPU. On 128 cores, half of them idle, a
// busy desktop takes nothing from an engine; on two full cores a tenth is missed.
const (
	// moreWaits is by how much others may raise the chance that whoever wants to run
	// finds all cores taken, by Erlang's formula for as many servers (M/M/c).
	moreWaits = 0.1
	// The kernel samples what ran at each tick, of a hundredth of a second: shares within
	// three standard errors of a sample of so many, at most 0.5/√n each, may be none.
	tick      = time.Second / 100
	tickNoise = 3 * 0.5
)

// Contended reports whether other processes took enough CPU to change the load's latencies. A
// nil Machine is unknown, and never contended.
func (m *Machine) Contended() bool {
	if m == nil || m.Others*math.Sqrt(float64(m.Time)/float64(tick)) <= tickNoise {
		return false
	}
	return ErlangC(m.Cores, m.Busy)-ErlangC(m.Cores, m.Busy-m.Others) > moreWaits
}

// ErlangC is the probability that an arrival has to wait in a queue with c servers at a
// utilization, 0 to 1 (M/M/c; Cooper, Introduction to Queueing Theory, 1981, §3.5).
func ErlangC(c int, use float64) float64 {
	if use >= 1 {
		return 1
	}
	load, blocked := max(0, use)*float64(c), 1.0
	for k := 1; k <= c; k++ { // Erlang B, by its recursion
		blocked = load * blocked / (float64(k) + load*blocked)
	}
	return blocked / (1 - use*(1-blocked))
}

// Taken says in words how much others took: "other processes took 38 % of this machine's
// CPU during the load".
func (m *Machine) Taken() string {
	who := "processes"
	if m.Steal > m.Others/2 {
		who = "virtual machines (steal)"
	}
	return fmt.Sprintf("other %s took %.0f %% of this machine's CPU during the load", who, 100*m.Others)
}

// Warnings are the caveat of a load's figures where others held the machine.
func (m *Machine) Warnings() []Warning {
	if !m.Contended() {
		return nil
	}
	return []Warning{Warnf("machine_taken", "%s; stop them, or measure again on a quiet machine", m.Taken()).By(m.Others)}
}

// With is what is said of two loads together: of the one that others disturbed, otherwise
// of both.
func (m *Machine) With(o *Machine) *Machine {
	switch {
	case m == nil || o.Contended() && !m.Contended():
		return o
	case o == nil || m.Contended() && (!o.Contended() || m.Others > o.Others):
		return m
	case o.Contended():
		return o
	}
	all := *m
	all.Time += o.Time
	part := float64(o.Time) / float64(max(all.Time, 1))
	for sum, more := range map[*float64]float64{&all.Others: o.Others, &all.Steal: o.Steal, &all.Busy: o.Busy} {
		*sum += (more - *sum) * part
	}
	return &all
}
