#!/usr/bin/python3
"""Judge a profile of llm-d's vLLM simulator by the formula that it was given.

usage: check_formula.py DIR

The simulator waits for as long as its flags say, which run.json has: with n
requests running it takes, in whole milliseconds rounded down,
    TTFT = prefill-overhead + ISL · prefill-time-per-token        (alone)
    ITL  = inter-token-latency · (1 + (time-factor-under-load − 1)(n − 1)/(max-num-seqs − 1))
(pkg/llm-d-inference-sim/latencies.go and pkg/common/utils.go of v0.10.2). It
sleeps, so it is never faster; what it takes longer is its own work, the timers'
and the network's. The median of each point must be within SLACK of the formula,
but for FEW that a busy machine may have kept waiting, which must be within LOOSE;
and the pick must be the one that the formula says. Ends with status 1 and the
reason at the first thing that is wrong; otherwise prints figures and a table.

TTFT has the factor under load too. The simulator counts a request as running only
some time after it computed its TTFT, or before (v0.10.2), so that the factor at one
in flight may be that of none, which is below 1.

Bursts of prompts (prefill_batched.json) and verifications are left out: the
formula is of one prompt alone, and of a number in flight that does not change.
"""

import re
import statistics
import sys

from check_profile import MS, alone, need, read

SLACK_MS, SLACK = 1.5, 0.05
FEW, LOOSE = 2, 0.3
UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


class Formula:
    """What one engine was told to do, from its command line. Times in ms."""

    def __init__(self, argv):
        flags = dict(zip(argv, argv[1:]))
        self.overhead, self.per_token, self.gap = (milliseconds(flags["--" + name]) for name in (
            "prefill-overhead", "prefill-time-per-token", "inter-token-latency"))
        self.load, self.slots = float(flags.get("--time-factor-under-load", 1)), int(flags["--max-num-seqs"])

    def ttft(self, isl):
        return whole(self.overhead + isl * self.per_token)

    def least_ttft(self, isl):
        """With the factor of none in flight; its two parts are rounded apart."""
        none = 1 - (self.load - 1) / (self.slots - 1)
        return whole(self.overhead * none) + whole(isl * self.per_token * none)

    def itl(self, n, off=0):
        return whole(self.gap * (1 + (self.load - 1) * (n - 1) / (self.slots - 1)) + off)

    def least_itl(self, n):
        """What is whole already may be a hair below it in the simulator's own floats: 26 ms at 4 in flight is 25.999… there."""
        return self.itl(n, -2e-6)


def milliseconds(duration):
    number, unit = re.fullmatch(r"([0-9.]+)(us|ms|s)", duration).groups()
    return float(number) * UNITS[unit]


def whole(ms):
    return int(ms + 1e-6)


def check_points(points, formulas):
    """Every point's median; gives what the tight ones were longer at most, by metric."""
    worst, off = {"TTFT": 0.0, "ITL": 0.0}, []
    for p in points:
        f = formulas[p["config"]["parallelism"]["tp"]]
        if p["phase"] == "prefill":
            metric, got, least, want = "TTFT", p["ttft"]["p50_ns"] / MS, f.least_ttft(p["isl"]), f.ttft(p["isl"])
        else:
            least, want = f.least_itl(p["asked_in_flight"]), f.itl(p["asked_in_flight"])
            metric, got = "ITL", p["itl"]["p50_ns"] / MS
        what = "%s: %s %.2f ms, by the formula %d ms" % (p["id"], metric, got, want)
        need((1 - LOOSE) * least <= got <= (1 + LOOSE) * want + SLACK_MS, what)
        if not least - 0.05 <= got <= want + SLACK_MS + SLACK * want:
            off.append(what)
        else:
            worst[metric] = max(worst[metric], got - want)
    need(len(off) <= FEW, "; ".join(off))
    return worst, off


def check_picks(rec, formulas):
    """The pick is the formula's: of what meets the SLA, most tokens per second and GPU."""
    sla, isl = rec["sla"], rec["workload"]["isl"]
    prefill = {(isl / f.ttft(isl) / tp, tp) for tp, f in formulas.items() if f.ttft(isl) <= sla["ttft_ms"]}
    decode = {(n / f.itl(n) / tp, tp, n) for tp, f in formulas.items()
              for n in range(1, f.slots + 1) if f.itl(n) <= sla["itl_ms"]}
    got = rec["prefill"]["tp"], rec["decode"]["tp"], rec["decode"]["in_flight"]
    want = max(prefill)[1], max(decode)[1], max(decode)[2]
    need(round(got[2]) == want[2] and got[:2] == want[:2],
         "picked prefill TP:%d, decode TP:%d at %.1f in flight; by the formula TP:%d, TP:%d at %d" % (*got, *want))
    return want


def table(points, phase, tp, metric, x, formula):
    """Medians at one configuration, the formula in brackets."""
    at = {}
    for p in points:
        if p["phase"] == phase and p["config"]["parallelism"]["tp"] == tp:
            at.setdefault(p[x], []).append(p[metric.lower()]["p50_ns"] / MS)
    print("    %s ms by %s at TP:%d (formula): " % (metric, "ISL" if x == "isl" else "in-flight", tp)
          + "  ".join("%d: %.1f (%d)" % (v, statistics.mean(ms), formula(v)) for v, ms in sorted(at.items())))


def main():
    run, rec = read(sys.argv[1], "run.json"), read(sys.argv[1], "recommendation.json")
    formulas = {}
    for e in run["engines"]:
        formulas[int(re.fullmatch(r"tp([0-9]+)", e["key"]).group(1))] = Formula(e["command"])
    points = [p for p in run["points"] if alone(p)]
    worst, off = check_points(points, formulas)
    tp, decode_tp, n = check_picks(rec, formulas)
    print("%d of %d points within %g ms + %g %% of the formula (longer by %.1f ms of TTFT, %.1f ms of ITL at most), the others within %g %%; picks are the formula's: prefill TP:%d, decode TP:%d at %d in flight" % (
        len(points) - len(off), len(points), SLACK_MS, 100 * SLACK, worst["TTFT"], worst["ITL"], 100 * LOOSE, tp, decode_tp, n))
    table(points, "prefill", tp, "TTFT", "isl", formulas[tp].ttft)
    table(points, "decode", decode_tp, "ITL", "asked_in_flight", formulas[decode_tp].itl)


if __name__ == "__main__":
    main()
