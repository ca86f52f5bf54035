#!/usr/bin/env python3
"""Judge a profile of serve.py by what the engine wrote of its own steps.

usage: check.py PROFILE STEPS

PROFILE is the folder that profile-sla left, STEPS the one with the steps of each
engine (CSV). Loads and prompts that come together are left to the program. Every prompt and answer has the tokens asked for; prefill found nothing
in the prefix cache and decode all but one token of each prompt; latencies follow
from the request records; TTFT rises with ISL, ITL with load; and the client's ITL
and TTFT are the engine's own step times and a little more, which is printed.
Ends with status 1 and what is wrong, all of it.
"""

import collections
import csv
import gzip
import json
import math
import os
import statistics
import sys

MS = 1e6  # nanoseconds
wrong = []


def need(ok, what):
    if not ok:
        wrong.append(what)


def records(folder, point):
    with gzip.open(os.path.join(folder, "requests", point["id"].replace("/", "_") + ".jsonl.gz"), "rt") as f:
        return [json.loads(line) for line in f]


def steps(folder, kind):
    out = []
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), newline="") as f:
            out += [{k: v if k == "kind" else float(v) for k, v in row.items()} for row in csv.DictReader(f) if row["kind"] == kind]
    return out


def check_tokens(point, rs):
    for r in rs:
        need(not r.get("failure"), f"{point['id']}: {r.get('failure')}: {r.get('error')}")
        if not r["prompt_tokens"]:
            continue  # a stream that was ended while it ran has no usage
        need((r["prompt_tokens"], r["output_tokens"]) == (point["isl"], point["osl"]),
             f"{point['id']}: the engine counted {r['prompt_tokens']} + {r['output_tokens']} tokens")
        need(len(r["chunks"]) == point["osl"], f"{point['id']}: {len(r['chunks'])} chunks")
        want = 0 if point["phase"] == "prefill" else point["isl"] - 1
        need(r.get("cached_tokens", 0) == want, f"{point['id']}: {r.get('cached_tokens')} prompt tokens were cached, want {want}")


def check_mean(point, rs):
    if point["phase"] == "decode":
        return  # its window is the program's choice
    got, want = point["ttft"]["mean_ns"], statistics.mean(r["first_ns"] - r["sent_ns"] for r in rs)
    need(abs(got - want) <= 1000, f"{point['id']}: mean {got / MS:.4f} ms, by the records {want / MS:.4f} ms")


def engine_ms(point, own):
    """What the engine's steps of the point took: the median of all prompts of its
    length, or the mean of the last decode measurement, because one that was disturbed
    is made again."""
    if point["phase"] == "prefill":
        like = [s["seconds"] for s in own if s["requests"] == 1 and s["tokens"] == point["isl"]]
        return 1000 * statistics.median(like) if like else math.nan
    n, isl, osl = point["asked_in_flight"], point["isl"], point["osl"]
    every = [s for s in own if s["requests"] == n and isl <= s["context"] < isl + osl]
    # As many for a while, on the way to more or fewer, is no measurement.
    like = next((run for run in reversed(runs(every)) if len(run) >= 24), [])
    return 1000 * statistics.mean(s["seconds"] for s in like) if like else math.nan


def runs(decodes):
    """Steps, cut where the context does not grow."""
    out = []
    for s in decodes:
        if not out or s["context"] <= out[-1][-1]["context"]:
            out.append([])
        out[-1].append(s)
    return out


def rises(name, points, latency, by):
    """Over the whole range, not from point to point: a busy machine has noise."""
    points = sorted(points, key=by)
    first, last = points[0][latency]["p50_ns"] / MS, points[-1][latency]["p50_ns"] / MS
    need(last > first, f"{name}: {first:.2f} ms at {by(points[0])}, {last:.2f} ms at {by(points[-1])}")


def check_shapes(points):
    prefill = [p for p in points if p["phase"] == "prefill"]
    decode = collections.defaultdict(list)
    for p in points:
        if p["phase"] == "decode":
            decode[p["isl"]].append(p)
    rises("TTFT by ISL", prefill, "ttft", lambda p: p["isl"])
    isl = max(decode)  # at short contexts a request more costs next to nothing
    rises(f"ITL by in-flight at ISL {isl}", decode[isl], "itl", lambda p: p["asked_in_flight"])


def check_point(folder, own, p):
    """One line of the table; how much longer the client waited than the engine worked."""
    need(p["provenance"] == "measured", f"{p['id']}: provenance {p['provenance']}")
    rs = records(folder, p)
    check_tokens(p, rs)
    check_mean(p, rs)
    client, step = p["ttft" if p["phase"] == "prefill" else "itl"]["mean_ns"] / MS, engine_ms(p, own[p["phase"]])
    print(f"{p['phase']:8} {p['isl']:6} {p['asked_in_flight']:9} {client:14.3f} {step:14.3f} {100 * (client / step - 1):11.1f} %")
    # Not the very same steps: where the host decides, they take one time or twice it.
    need(client > 0.8 * step, f"{p['id']}: {client:.3f} ms, the engine says {step:.3f} ms")
    return client / step - 1


def main():
    folder, step_folder = sys.argv[1:]
    with open(os.path.join(folder, "run.json")) as f:
        run = json.load(f)
    need(run["complete"], "the run is not complete")
    own = {kind: steps(step_folder, kind) for kind in ("prefill", "decode")}
    points = [p for p in run["points"] if not p.get("load") and (p["phase"] != "prefill" or p["asked_in_flight"] == 1)]
    points.sort(key=lambda p: (p["phase"] != "prefill", p["isl"], p["asked_in_flight"]))
    print("phase       isl in flight  client ms mean engine ms mean    difference")
    more = statistics.median([check_point(folder, own, p) for p in points])
    print(f"median difference {100 * more:.1f} %")
    need(-0.02 < more < 0.1, "the client sees other latencies than the engine")
    check_shapes(points)
    warnings = collections.Counter(w["code"] for p in points for w in p.get("warnings") or [])
    print("warnings of points:", dict(warnings) or "none")
    print("warnings of the run:", [w["code"] for w in run.get("warnings") or []] or "none")
    for what in wrong:
        print("WRONG", what)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
