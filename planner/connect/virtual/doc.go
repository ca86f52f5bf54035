// Package virtual connects a planner to a deployment that somebody else scales,
// over four keys in etcd. The protocol is that of NVIDIA Dynamo's virtual
// connector, so that either side may be Dynamo's: a Planner writes how many
// replicas it wants and a decision's ID, all in one transaction; a Client waits
// for a decision, carries it out, and acknowledges it.
//
// A planner's decisions are bound to a lease, and end with it, as do a Client's
// acknowledgements of them; a decision that is made where there is none begins a new life
// of the planner. An acknowledgement counts for the life in which it was given.
//
// Both sides read all keys at one revision and write only on condition that
// nothing changed since, so a second planner is an error and not a mixture.
package virtual
