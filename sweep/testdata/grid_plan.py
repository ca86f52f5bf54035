#!/usr/bin/python3
"""Upstream's plan of a profile, by its own arithmetic, as a list of loads.

usage: grid_plan.py > grid_plan.json

A transcription of what ai-dynamo/dynamo does in
components/src/dynamo/profiler (main, 2026-08, its thorough sweep):
  get_num_request_range      utils/profile_decode.py
  prefill and decode ranges  utils/profile_prefill.py, utils/profile_decode.py
  requests of each aiperf    utils/aiperf.py, utils/defaults.py
Formulas and constants alone; no code is copied. The step of the request list is
that of 2026-06-17 on (pull request 10125): per rank, not times the ranks.
A load is [ISL, OSL, requests, in flight]; aiperf's warm-up requests, of which it
sends --warmup-request-count at the concurrency asked for, are loads of their own.
"""

import json

WARMUPS = 3          # requests for each attention rank
PREFILL_OSL = 5
BURST = 4            # requests for each attention rank, with more than one
DECODE_MOST = 2000   # at once
SURFACE_OSL = 500
RESERVED = 512       # of the context, by prefill


def counts(dp, most, granularity):
    per_rank = min(most, DECODE_MOST) // dp
    if per_rank < granularity:
        return list(range(dp, per_rank * dp + 1, dp))
    step = (per_rank - 1) / (granularity - 1)
    return [dp + int(i * step) * dp for i in range(granularity)]


def prefill(dp, isl):
    if dp > 1:
        return [[isl, PREFILL_OSL, WARMUPS * dp, WARMUPS * dp], [isl, PREFILL_OSL, BURST * dp, BURST * dp]]
    return [[isl, PREFILL_OSL, WARMUPS, 1], [isl, PREFILL_OSL, 1, 1]]


def decode(dp, isl, osl, n):
    warm = [isl, osl, WARMUPS * dp, min(n, WARMUPS * dp)]
    return [warm, [isl, osl, n, n]] * 2


def plan(engines, isl, osl, max_context, prefill_granularity, decode_granularity, picks):
    """engines: label -> (ranks, KV tokens); picks: label of prefill, of decode."""
    out = []
    for label, (dp, kv) in engines.items():
        out.append({"launch": label, "cache": False, "loads": prefill(dp, isl)})
    for label, (dp, kv) in engines.items():
        loads = []
        for n in counts(dp, kv // (isl + osl), decode_granularity):
            loads += decode(dp, isl, osl, n)
        out.append({"launch": label, "cache": True, "loads": loads})
    dp, kv = engines[picks[0]]
    hi, loads = max_context - RESERVED, []
    for x in range(100, hi, (hi - 100) // prefill_granularity):
        loads += prefill(dp, x)
    out.append({"launch": picks[0], "cache": False, "loads": loads})
    dp, kv = engines[picks[1]]
    hi, loads = max_context - SURFACE_OSL, []
    for x in range(100, hi, hi // decode_granularity):
        most = kv // (x + SURFACE_OSL)
        if most == 0:
            break
        for n in counts(dp, most, decode_granularity):
            loads += decode(dp, x, SURFACE_OSL, n)
    out.append({"launch": picks[1], "cache": True, "loads": loads})
    return out


# The engines, the target and the picks of TestGridAgainstUpstream. One KV cache
# ends before the context does.
ENGINES = {"TP:1": (1, 9_500), "TP:2": (1, 400_000), "DEP:4": (4, 130_000)}
print(json.dumps({
    "counts": [[dp, most, g, counts(dp, most, g)] for dp in (1, 2, 4, 8) for most in (0, 1, 3, 5, 6, 7, 23, 100, 1200, 1999, 5000) for g in (2, 6, 16)],
    "plans": {
        "TP:2": plan({k: ENGINES[k] for k in ("TP:1", "TP:2")}, 3000, 150, 16384, 16, 6, ("TP:1", "TP:2")),
        "TP:1": plan({"TP:1": ENGINES["TP:1"]}, 3000, 150, 16384, 5, 4, ("TP:1", "TP:1")),
        "DEP:4": plan({"DEP:4": ENGINES["DEP:4"]}, 3000, 150, 9000, 4, 3, ("DEP:4", "DEP:4")),
    },
}, indent=None, separators=(",", ":")).replace('{"launch', '\n{"launch').replace(']],"', ']],\n"'))
