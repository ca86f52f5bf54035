#!/usr/bin/python3
"""Compare what two searches found on the same engine, and what they cost.

usage: check_searches.py GRID_DIR ADAPTIVE_DIR [SHARE]

The answer has to be the same, or to carry as much to within the noise of a busy
machine: a third. The adaptive search must not launch more engines, nor take more
than SHARE of the grid's engine-seconds; without SHARE they are printed alone: a
grid of few points costs little. Ends with status 1 and the reason at the first
thing that is wrong; otherwise prints one line of figures.
"""

import json
import os
import sys

from check_profile import alone, check_decode_timings, streamed

NOISE = 2 / 3


def read(*path):
    with open(os.path.join(*path)) as f:
        return json.load(f)


def need(ok, what):
    if not ok:
        sys.exit(os.path.basename(sys.argv[0]) + ": " + what)


def main(grid, adaptive, share="inf"):
    picks = [read(d, "recommendation.json") for d in (grid, adaptive)]
    costs = [read(d, "run.json")["cost"] for d in (grid, adaptive)]
    for rec, cost in zip(picks, costs):
        need(rec["cost"] == cost, "recommendation.json has another cost than run.json")
        need(rec["feasible"], "nothing meets the SLA")
        for what in ("launches", "engine_seconds", "loading_seconds", "gpu_seconds", "requests", "prompt_tokens", "output_tokens"):
            need(cost[what] > 0, "%s is %r" % (what, cost[what]))
        need(cost["loading_seconds"] < cost["engine_seconds"] <= cost["gpu_seconds"], "seconds %r" % cost)
    seconds = [c["engine_seconds"] - c["loading_seconds"] for c in costs]
    for phase in ("prefill", "decode"):
        g, a = (p[phase] for p in picks)
        need(a["label"] == g["label"] or a["throughput_per_gpu"] >= NOISE * g["throughput_per_gpu"],
             "%s: adaptive picks %s at %.0f tokens/s/GPU, the grid %s at %.0f" % (phase, a["label"], a["throughput_per_gpu"], g["label"], g["throughput_per_gpu"]))
    need(costs[1]["launches"] <= costs[0]["launches"], "adaptive takes %d launches, the grid %d" % (costs[1]["launches"], costs[0]["launches"]))
    ratio = seconds[1] / seconds[0]
    need(ratio <= float(share), "adaptive takes %.1f of the grid's %.1f engine-seconds" % (seconds[1], seconds[0]))
    # Requests of the grid run to their end, and the engine logs how long they took.
    decode = [p for p in read(grid, "run.json")["points"] if p["phase"] == "decode" and alone(p) and streamed(p)]
    timings = check_decode_timings(grid, max(decode, key=lambda p: (p["asked_in_flight"], p["isl"])))
    print("%s; adaptive takes %.1f %% of the grid's engine-seconds; " % (timings, 100 * ratio) + "; ".join("%s: %s, %s; %.1f engine-seconds, %d launches, %d requests" % (
        name, p["prefill"]["label"], p["decode"]["label"], s, c["launches"], c["requests"])
        for name, p, c, s in zip(("grid", "adaptive"), picks, costs, seconds)))


if __name__ == "__main__":
    main(*sys.argv[1:])
