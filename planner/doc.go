// Package planner is the core of the autoscaler: Step turns one Observation of a
// deployment into a Decision, which says how many replicas each pool should have
// and by which steps it came to that.
//
// It holds state but reads no clock and does no I/O: whoever runs it (serve in
// real time, replay in virtual time) observes through a Source and acts through
// a Target. The rules themselves are policies (planner/policy); the core keeps
// what must hold whatever the policy: bounds, the GPU budget also while replicas
// come and go, and no step on missing data.
package planner
