// Package oracle says what somebody who knows all arrivals could do with a fleet: a
// reference against which a policy's GPU-hours are measured. It takes a Case (a
// simulated fleet, its requests, the attainment to reach); Plan gives a schedule of
// replicas that reaches the attainment with the fewest GPU-hours that it found. A better
// one may exist: the tests try all schedules of small cases, and the plan comes near the
// best of them. It refuses noise, and engines that take much less time for more work. It
// is pure: the same arguments give the same answers.
//
// # Where a plan begins
//
// It begins with how many engines each bin needs by prices of work. For a multiplier
// λ ≥ 0 let α, κ and a concave function π be such that every step that an engine can
// do, with n prompt tokens, P query-key pairs and s decoding sequences of contexts
// c₁ … cₛ, takes a time D with
//
//	αn + κ(P − n) + Σ π(cᵢ) ≤ (1 + λs)·D.
//
// By concavity Σ π(cᵢ) ≤ s·π(C/s), C = Σ cᵢ, so that it is enough to look at n, s and
// the mean context: κ is no more than what a pair adds, α no more than D/n where s is
// 0, and π(c) the least of ((1 + λs)·D(n, s, s·c) − αn)/s over the n ≥ 0 and s ≥ 1 that
// the limits of tokens and sequences allow, and the blocks of KV (s·c tokens fill as
// many at least). It is found by branch and bound, as D never falls with n or s, at some
// contexts, and made a concave function below all of these.
//
// A request's steps compute all of its L prompt tokens, with L(L+1)/2 pairs however
// they are cut (of a prefix cache: the blocks that no other request has, and the last
// token's), and give it G = OSL − 1 further tokens, each in a step of its own between
// its first and its last token, at contexts L+1 … L+G; so that these steps last G·I at
// most, I being the promised TPOT. A token after a preemption comes out of computing
// again the prompt and all tokens so far: the lesser of both prices is counted. So it
// costs αL + κ(L(L+1)/2 − L) + Σ π(c) − λ·G·I of an engine's time at least. The λ and α
// at which requests cost the most are used.
//
// # What is assumed of step times
//
// That a step takes no less for more tokens, sequences, context, past or pairs, which
// is tried at some batches of all sizes; that a pair adds no less than it does at
// these; and that between two of the contexts priced, 24 from the shortest to the
// longest, the time is on or above the straight line. engine/latency says all of this
// of itself but for data-parallel attention, and a profile's Steps are measured: these
// fall here and there. By as much as they do at the batches tried, all times are
// lowered, and where that is more than 15 % the case is refused.
package oracle
