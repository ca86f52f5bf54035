// Package autoscale lets a rule scale a simulated fleet while requests come: it
// takes a fleet, its requests and a rule for each pool, and gives GPU-hours, the
// shares of requests and gaps that kept an SLO, and how both went over time, to
// be held against the same fleet left at the size of its peak. It decides
// nothing itself. It is pure: time is virtual, and randomness is in what it is
// given.
package autoscale
