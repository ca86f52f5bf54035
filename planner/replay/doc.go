// Package replay shows beforehand what a planner would do: the core of planner
// serve drives a simulated fleet through the requests of a trace, in virtual time.
// It takes a Scenario (a fleet, how it is watched and scaled, for how long),
// requests in order of arrival, and a planner.Core, or a Schedule that somebody
// else made; it gives which requests met the SLA, and what that took. It reads no
// clock, and its randomness is that of Scenario.Seed: the same calls give the same
// answers.
//
// # The same planner
//
// When a decision is due, what an observation says of the target's pools and how it
// becomes a decision is planner.Cadence, planner.Watch and planner.Core, as in
// serve. What differs is who looks: serve's source asks servers, source here looks
// at the fleet. The figures are those of planner/observe's Live, where a frontend
// counts requests as they come and engines speak for themselves: the same are
// missing (what a prefix cache held; all of a pool in which no engine serves), and
// gauges are means over samples. Two things are better than there: percentiles are
// of the values, within fleet.SketchError, not of a histogram's buckets, and
// counters are read at the interval's ends, not extrapolated to them.
//
// # What counts
//
// Requests count by their arrival. One meets the SLA by its own TTFT and its own
// mean ITL (TPOT); those that were rejected, refused or lost, and those that had
// not finished when the drain ended, miss all of it. A GPU counts from the decision
// to start its replica until the process is gone, or until Scenario.Length: what is
// in flight then is served to its end by the fleet as it stands, on nobody's bill.
//
// # Hindsight
//
// LookBack makes a Schedule of somebody who knows all requests: a reference against
// which a policy's GPU-hours are measured. A better one may exist: the tests try all
// schedules of small scenarios, and come near the best of them.
package replay
