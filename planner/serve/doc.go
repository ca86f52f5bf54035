// Package serve runs planners in real time: it samples a Source, steps a Core at
// every adjustment interval and asks a Target for what was decided. It is the
// only place of the planner with a clock.
//
// It takes the parts ready made (cmd wires them) and gives Events, a Status, and
// an HTTP handler over both. Nothing is decided here: what is done, how often and
// in which order is all.
package serve
