// Package kube starts an engine.Spec on a Kubernetes cluster: a Deployment and a
// Service for each engine, or a LeaderWorkerSet where one engine spans nodes,
// from a template that can be replaced.
//
// It takes a connection and Options, which make a Run; Run.Start takes a Launch
// and gives an Engine that answers, or says why it never will: no node has the
// GPUs, the image cannot be pulled, the program crashed with this exit code and
// these last lines, it ran out of memory, a quota has no room. Weights that take
// long to load are no failure.
//
// Everything that a run makes carries its label and is owned by its Lease, which
// is renewed while the run lives. A run deletes what it made when it ends; what a
// run that was killed left behind is found by its Lease, and Cleanup deletes it.
// Nothing that was not made by the run is ever adopted or changed.
package kube
