// Package oracle says what somebody who knows all arrivals could do with a fleet:
// two references against which a policy's GPU-hours are measured. It takes a Case (a
// simulated fleet, its requests, the attainment to reach); it gives a Floor below
// which no schedule of replicas can go (Bound), a schedule that reaches the
// attainment with as few GPU-hours as were found (Plan), and for small cases the
// best of all schedules (Exhaustive), which lies between them. It refuses noise and
// engines that take less time for more work, for which the floor is not proved. It
// is pure: the same arguments give the same answers.
//
// # Why no schedule goes below the floor
//
// A request is kept if it meets its TTFT T and its TPOT I. Let a schedule keep a set
// K of requests, at least Case.Attainment of all.
//
// Prices. For a multiplier λ ≥ 0 let α, κ and a concave function π be such that every
// step that an engine can do, with n prompt tokens, P query-key pairs and s decoding
// sequences of contexts c₁ … cₛ, takes a time D with
//
//	αn + κ(P − n) + Σ π(cᵢ) ≤ (1 + λs)·D.
//
// By concavity Σ π(cᵢ) ≤ s·π(C/s), C = Σ cᵢ, so that it is enough to look at n, s and
// the mean context: κ is no more than what a pair adds, α no more than D/n where s is
// 0, and π(c) the least of ((1 + λs)·D(n, s, s·c) − αn)/s over the n ≥ 0 and s ≥ 1 that
// the limits of tokens and sequences allow, and the blocks of KV (s·c tokens fill as
// many at least). It is found by branch and bound, as D never falls with n or s, at some
// contexts, and made a concave function below all of these; between them D must not be
// below the straight line. What is left out of a step (requests not in K, or whose
// price would be negative) only makes D less: the inequality holds for the rest.
//
// One request. The steps of k ∈ K compute all of its L prompt tokens, with L(L+1)/2
// pairs however they are cut (of a prefix cache: the blocks that no other request has,
// and the last token's), and give it G = OSL − 1 further tokens, each in a step of its
// own between its first and its last token, at contexts L+1 … L+G; so that these steps
// last G·I at most. A token after a preemption comes out of computing again the prompt
// and all tokens so far, at their prices in addition: the lesser of both prices is
// counted. Summed over steps, with λ of each such step on both sides,
//
//	engine time ≥ Σ_K (αL + κ(L(L+1)/2 − L) + Σ π(c) − λ·G·I) = Σ_K cost(k),
//
// and GPU time is the sum over pools of engine time times GPUs. Whatever K is, that is
// no less than the sum of the least costs of as many requests. This holds for every λ
// and α: those that give the most are used.
//
// Time. Give an instant t of a replica's service, from ready until gone, the worth
// w(t) = 1 − v′(t) ≥ 0, for a potential v from 0 to the start-up time σ (the shortest
// that is possible, where replicas start in times of their own). The service from p to
// q is worth q − p + v(p) − v(q), at most q − p + σ: what the replica costs with its
// start-up; one of the R that are ready at the start costs only q, and is
// worth q + v(0) at most. Steps of k happen between its arrival and T + G·I later.
// With prices weighted by the least w in that time, and λ·G·I by the most,
//
//	GPU time ≥ Σ_K (w_least·work(k) − w_most·λ·G·I) − R·v(0).
//
// Where at least m replicas must be, as many are in service if they were at the start
// (a pool scales down by those that start first): w may be less by any z(t) ≥ 0, and
// m·∫z is added. From the end of the schedule on, where no GPU counts, w is 0. This
// holds for every v and z: those of a small dynamic program are used, or v = z = 0.
//
// Whole engines. Cut time into tiles of X, and let L be how long a request may stay
// (those that may longer are left out). The kept work W of a tile is done within it
// and L after, so that ⌈W/(X + L)⌉ replicas serve at some instant of these. Count level
// by level: level k is on while k replicas serve; it must be on once in each of some
// tiles, and between two such instants at a distance d it stays on or a start is paid:
// min(d, σ) at least. With d = gX + e′ − e for tiles g apart, 0 ≤ e ≤ X + L, that is no
// less than min(gX, σ − X − L) + e′ − e, whose sum telescopes. To drop requests until a
// tile needs a level less saves its term at most: the best that may be dropped so is
// taken off (a knapsack, its last item in part). For each pool the greater of this and
// the pool's part of the above may be taken: both hold for any K.
//
// Failures, retries, overheads, transfers, evicted or loaded blocks only add to what a
// schedule takes; failures void the part of the least replicas, and noise all of it.
//
// # What is assumed of step times
//
// That a step takes no less for more tokens, sequences, context, past or pairs, which
// is tried at some batches of all sizes; that a pair adds no less than it does at
// these; and that between two of the contexts priced, 24 from the shortest to the
// longest, the time is on or above the straight line. engine/latency says all of this
// of itself but for data-parallel attention, and a profile's Steps are measured: these
// fall here and there. By as much as they do at the batches tried, all times are
// lowered, and where that is more than 15 % the case is refused. Between those batches
// it is assumed, and the tests try it at random.
//
// # What the floor leaves out
//
// Replicas are whole only where starting takes several times as long as a request may
// stay; else they are fractions, and a fleet of few engines takes up to one more of
// each pool. Prompts are spread over steps as is best, while real engines take them
// as they come, so that an aggregated engine's prompts hide less behind the reading of
// weights. Queues are left out, and with them the headroom that
// 99 % of random arrivals need above their mean.
package oracle
