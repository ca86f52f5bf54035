// Package kubernetes is the planner.Target on a Kubernetes cluster. It takes the
// name of an NVIDIA DynamoGraphDeployment, or for each role an object with a
// scale subresource (Deployment, StatefulSet, LeaderWorkerSet), and gives their
// replicas as the API server and the pods have them at that moment; it changes
// nothing but numbers of replicas, and writes an Event for each change.
//
// It refuses objects whose roles it cannot tell apart. It never waits for pods:
// pods that find no GPUs are counted as pending and keep nobody from scaling
// down (upstream's planner waited for them for ever, dynamo#14251).
//
// Lead is the election of one among several planners, Manifest the objects that
// a planner needs on the cluster, Rules the permissions among them.
package kubernetes
