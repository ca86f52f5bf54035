// Package kube runs a profile inside a Kubernetes cluster, as one Job in the engine's
// own image. It takes a Manifest and gives its objects as YAML; asks nothing of a
// cluster for that. Inside the Job it copies the program (CopyProgram), and puts a
// profile's files into a ConfigMap (WriteResults).
package kube
