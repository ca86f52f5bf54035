// Package cluster is what everything of this module that speaks with Kubernetes
// shares: where the cluster is (Connection), a request to its API server that is
// made again where that can help and whose error says what to do (Request), the
// permissions of a Role (Rule), and what a pod's status says of the engine in it.
package cluster
