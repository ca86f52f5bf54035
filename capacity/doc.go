// Package capacity says how many GPUs a workload takes within its SLO, how they
// are split, what they cost and what is left to chance. It takes a Workload, an
// SLO and a Throughput, all plain values, and gives plans; beside every number
// that a well-known formula gets wrong stands the right one and the reason. It
// refuses inputs that no plan can be made from, each by its name and range.
// It is pure: no clock, no I/O.
package capacity
