// Package policy holds scaling rules. Each planner.Policy takes an interval of a
// deployment and gives the replicas wanted with the steps that led there:
//
//   - Default, the project's own;
//   - Upstream and Load, NVIDIA Dynamo's planners by profile and by load;
//   - HPA, KEDA, WVA, Article and Static, the rules of others and of nobody, to compare with.
//
// What a policy remembers is its own; those that serve save and restore it as JSON.
// Everything is pure: time comes with what was seen.
package policy
