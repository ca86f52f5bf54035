#!/usr/bin/python3
"""Judge a profile of a real engine from its files alone.

usage: check_profile.py DIR SCHEMA --ttft MS --itl MS --kv-tokens N --kv-source log,metrics,props --in-flight N --version PREFIX [--provenance simulated]

SCHEMA is what `plimsoll schema recommendation` prints. What is checked: every
number's provenance, and where the KV capacity came from; the engine's version;
the statistics follow from the request records; llama.cpp's own timings, from its
log, agree with the client's; TTFT rises with ISL and ITL with load; the
recommendation is valid and its thresholds are upstream's formulas; six pictures
are there. Ends with status 1 and the reason at the first thing that is wrong;
otherwise prints one line of figures, and the engine and the surfaces as a table.
"""

import argparse
import glob
import gzip
import json
import os
import re
import statistics
import struct
import sys
import xml.etree.ElementTree as ET

import jsonschema
from scipy.stats import kendalltau

PICTURES = ["prefill_performance", "decode_performance", "prefill_ttft_interpolation",
            "prefill_throughput_interpolation", "decode_itl_interpolation", "decode_throughput_interpolation"]
MS = 1e6  # nanoseconds


def need(ok, what):
    if not ok:
        sys.exit(os.path.basename(sys.argv[0]) + ": " + what)


def read(*path):
    with open(os.path.join(*path)) as f:
        return json.load(f)


def streamed(point):
    """A busy machine may wake the client so late that chunks come together and the
    point has no ITL. The run says so, and must not make a habit of it."""
    return point["itl"]["n"] > 0


def alone(point):
    """One prompt at a time, or so many streams all the time; no burst, no open load,
    and nothing that the run itself takes for invalid."""
    return not point.get("batch") and point["stage"] != "verify" and not point.get("invalid")


def on_stairs(point, records):
    """Streams that were canceled as levels went down: no usage, and tokens before the window."""
    return point["phase"] == "decode" and not all(r["usage_seen"] for r in records)


def records(folder, point):
    with gzip.open(os.path.join(folder, "requests", point["id"].replace("/", "_") + ".jsonl.gz"), "rt") as f:
        return [json.loads(line) for line in f]


def check_run(folder, run, args):
    need(run["complete"], "run.json says that the run is not complete")
    need(run["provenance"] == args.provenance, "provenance %s" % run["provenance"])
    for p in run["points"]:
        need(p["provenance"] == args.provenance, "%s: provenance %s" % (p["id"], p["provenance"]))
        if p["stage"] == "verify":
            continue  # open load, some of which may be too much
        need(p["failures"] == 0, "%s: %d of %d requests failed" % (p["id"], p["failures"], p["requests"]))
        need(p["asked_in_flight"] <= args.in_flight, "%s: %d in flight" % (p["id"], p["asked_in_flight"]))
    for e in run["engines"]:
        need(e["kv_tokens"] == args.kv_tokens, "%s: KV capacity %d, want %d" % (e["key"], e["kv_tokens"], args.kv_tokens))
        need(e["kv_source"] in args.kv_source.split(","), "%s: KV capacity from %s" % (e["key"], e["kv_source"]))
        need(e["version"].startswith(args.version), "%s: version %s" % (e["key"], e["version"]))


def check_records(folder, points):
    """The points' means follow from one record per request or stream."""
    for p in filter(alone, points):
        rs = records(folder, p)
        need(len(rs) == p["requests"], "%s: %d records, %d requests" % (p["id"], len(rs), p["requests"]))
        if on_stairs(p, rs):
            check_stream_lengths(p, rs)
        else:
            for r in rs:
                need(r["prompt_tokens"] == p["isl"], "%s: the engine counted %d prompt tokens" % (p["id"], r["prompt_tokens"]))
                need(r["output_tokens"] == p["osl"], "%s: the engine counted %d output tokens" % (p["id"], r["output_tokens"]))
        if p["phase"] == "prefill":
            want = statistics.mean(r["first_ns"] - r["sent_ns"] for r in rs)
            got = p["ttft"]["mean_ns"]
            need(all(r.get("cached_tokens", 0) <= 1 for r in rs), "%s: prompts came from the prefix cache" % p["id"])
        else:
            got = p["itl"]["mean_ns"]
            want = statistics.mean(gaps(p, rs)) if streamed(p) else got
        slack = 0.02 * got if on_stairs(p, rs) else 1000  # the ends of a window are between chunks
        need(abs(got - want) <= slack, "%s: mean %.4f ms, by the records %.4f ms" % (p["id"], got / MS, want / MS))


def check_stream_lengths(p, rs):
    """Streams of a level are one for each in flight, and at the mean context that is meant."""
    need(len(rs) == p["asked_in_flight"], "%s: %d streams" % (p["id"], len(rs)))
    meant = p["isl"] + p["osl"] / 2
    near = max(0.021 * meant, 17)  # a slice of 32 tokens may lie on one side of it
    need(not streamed(p) or abs(p["context_tokens"] - meant) <= near, "%s: a mean context of %.0f tokens, %.0f are meant" % (p["id"], p["context_tokens"], meant))


def gaps(p, rs):
    """Nanoseconds between chunks while all requests were running."""
    begin, end = 0, float("inf")
    if not on_stairs(p, rs):  # whose records begin and end with the window
        begin, end = max(r["first_ns"] for r in rs), min(r["last_ns"] for r in rs)
    at = [[c["at_ns"] for c in r["chunks"] if begin <= c["at_ns"] <= end] for r in rs]
    return [b - a for one in at for a, b in zip(one, one[1:])]


def engine_timings(folder, key, kind, tokens):
    """Milliseconds a request, as the engine logged them for so many tokens."""
    line = re.compile(r"\| +" + kind + r" time = +([0-9.]+) ms / +%d tokens" % tokens)
    with open(os.path.join(folder, "engines", key.replace("/", "_") + ".log")) as f:
        return [float(m.group(1)) for m in map(line.search, f) if m]


def nearest_batch(times, n, want):
    """The mean nearest to want of any n timings in a row: a point may be measured
    more than once, and the log does not say which time was kept."""
    need(len(times) >= n, "the engine's log has %d timings, want %d" % (len(times), n))
    return min((statistics.mean(times[i:i + n]) for i in range(len(times) - n + 1)), key=lambda m: abs(m - want))


def check_prefill_timings(folder, point):
    """Client and engine agree where TTFT is long enough to compare."""
    ttft = point["ttft"]["mean_ns"] / MS
    own = nearest_batch(engine_timings(folder, engine_key(folder, point), "prompt eval", point["isl"]), point["requests"], ttft)
    need(abs(ttft - own) <= 0.1 * own + 10, "%s: TTFT %.1f ms, the engine says %.1f ms" % (point["id"], ttft, own))
    return "TTFT %.1f ms (engine: %.1f)" % (ttft, own)


def check_decode_timings(folder, point):
    """The same of TPOT, of requests that ran to their end: the log has no others."""
    tpot = point["tpot"]["mean_ns"] / MS
    times = [t / (point["osl"] - 1) for t in engine_timings(folder, engine_key(folder, point), "eval", point["osl"])]
    own = nearest_batch(times, point["requests"], tpot)
    need(abs(tpot - own) <= 0.1 * own + 0.2, "%s: TPOT %.2f ms, the engine says %.2f ms" % (point["id"], tpot, own))
    return "TPOT %.2f ms (engine: %.2f)" % (tpot, own)


def engine_key(folder, point):
    """The adaptive search has one engine for both phases, the grid one for each."""
    key = "tp%d" % point["config"]["parallelism"]["tp"]
    both = os.path.exists(os.path.join(folder, "engines", key + ".log"))
    return key if both else point["phase"] + "/" + key


def rises(what, xs, ys):
    """Kendall's rank correlation: a trend that chance makes once in a hundred times
    at most, whatever the curve's shape, and that one slow request does not hide."""
    tau, p = kendalltau(xs, ys)
    need(tau > 0 and p < 0.01, "%s does not rise: Kendall's tau %.2f, p %.3f" % (what, tau, p))
    return tau


def check_shapes(folder, prefill, rows):
    """What any engine does: longer prompts and more load take longer."""
    first, last = prefill[0], prefill[-1]
    growth = last["ttft"]["mean_ns"] / first["ttft"]["mean_ns"]
    need(growth > 3, "TTFT grows only %.1f× from ISL %d to %d" % (growth, first["isl"], last["isl"]))
    one = [(p["isl"], r["first_ns"] - r["sent_ns"]) for p in prefill for r in records(folder, p)]
    ttft_tau = rises("TTFT with ISL", *zip(*one))
    for row in rows[len(rows) // 2:]:
        slowdown = row[-1]["itl"]["p50_ns"] / row[0]["itl"]["p50_ns"]  # of a busy machine's stalls it has none
        need(row[0]["asked_in_flight"] == 1 and slowdown > 1.2,
             "ITL at ISL %d is %.2f× with %d in flight what it is alone" % (row[0]["isl"], slowdown, row[-1]["asked_in_flight"]))
        each = [(p["asked_in_flight"], pace(r)) for p in row for r in records(folder, p)]
        # Streams of a level share their steps: a stall is all of theirs, and no
        # probability follows from how many they are.
        itl_tau = kendalltau(*zip(*each))[0]
        need(itl_tau > 0, "TPOT does not rise with in-flight at ISL %d: Kendall's tau %.2f" % (row[0]["isl"], itl_tau))
    return "TTFT ×%.0f from ISL %d to %d (tau %.2f), ITL ×%.1f from 1 to %d in flight (tau %.2f)" % (
        growth, first["isl"], last["isl"], ttft_tau, slowdown, row[-1]["asked_in_flight"], itl_tau)


def pace(record):
    """Nanoseconds between one request's chunks, their median."""
    at = [c["at_ns"] for c in record["chunks"]]
    return statistics.median(b - a for a, b in zip(at, at[1:]))


def check_kv_bounds(kv, decode, seats):
    """Upstream's ±0.2 around the KV use at the recommended rate, at which no more
    requests are decoded than the engine has seats for."""
    use = kv["upper"] - 0.2 if kv["upper"] < 1 else kv["lower"] + 0.2
    most = decode["kv_usage"] * seats / decode["in_flight"]
    need(0 < use <= most + 1e-6, "KV bounds %r are around %.6f, all %d seats use %.6f" % (kv, use, seats, most))
    for got, want, what in [(kv["upper"], min(1, use + 0.2), "upper"), (kv["lower"], max(0.1, use - 0.2), "lower")]:
        need(abs(got - want) < 1e-6, "%s KV utilization is %.6f, by upstream's formula %.6f" % (what, got, want))


def check_recommendation(folder, rec, schema, seats, points, args):
    try:
        jsonschema.validate(rec, schema)
    except jsonschema.ValidationError as e:
        need(False, "recommendation.json: %s: %s" % (e.json_path, e.message))
    need(rec["feasible"] and rec["provenance"] == args.provenance, "feasible %s, %s" % (rec["feasible"], rec["provenance"]))
    p, d = rec["prefill"], rec["decode"]
    need(0 < p["ttft_ms"] <= args.ttft, "picked TTFT %.2f ms" % p["ttft_ms"])
    need(0 < d["itl_ms"] <= args.itl, "picked ITL %.2f ms" % d["itl_ms"])
    queue = rec["thresholds"]["prefill_queue_size"]
    for got, want, what in [
        (queue["upper"], max(0.1, 1.2 * args.ttft / p["ttft_ms"] - 1), "upper queue size"),
        (queue["lower"], max(0.1, 0.8 * args.ttft / p["ttft_ms"] - 1), "lower queue size"),
    ]:
        need(abs(got - want) < 1e-6, "%s is %.6f, by upstream's formula %.6f" % (what, got, want))
    kv = rec["thresholds"]["decode_kv_utilization"]
    pick = [x for x in points if x["phase"] == "decode" and x["in_flight"] == d["in_flight"] and x["throughput_per_gpu"] == d["throughput_per_gpu"]][0]
    use = d["in_flight"] * (rec["workload"]["isl"] + rec["workload"]["osl"] / 2) / pick["max_kv_tokens"]
    for got, want, what in [(kv["upper"], min(1, use + 0.2), "upper"), (kv["lower"], max(0.1, use - 0.2), "lower")]:
        need(abs(got - want) < 1e-6, "%s KV utilization at the pick is %.6f, by upstream's formula %.6f" % (what, got, want))
    check_kv_bounds(rec["thresholds"]["decode_kv_utilization_at_rate"], d, seats)
    for phase in "prefill", "decode":
        surface = rec["surfaces"][phase]
        need(os.path.getsize(os.path.join(folder, surface["file"])) > 0, "no %s" % surface["file"])


def check_pictures(folder, provenance):
    for name in PICTURES:
        with open(os.path.join(folder, name + ".png"), "rb") as f:
            png = f.read()
        need(png[:8] == b"\x89PNG\r\n\x1a\n" and png[-8:-4] == b"IEND", "%s.png is no whole PNG" % name)
        width, height = struct.unpack(">II", png[16:24])
        need(width >= 600 and height >= 400 and len(png) > 10000, "%s.png: %d×%d, %d bytes" % (name, width, height, len(png)))
        text = " ".join(t.strip() for t in ET.parse(os.path.join(folder, name + ".svg")).getroot().itertext())
        need(provenance in text.lower(), "%s.svg does not say %s" % (name, provenance))


def table(engine, prefill, rows):
    print("    engine: %s; KV capacity %d tokens, from its %s" % (engine["version"], engine["kv_tokens"], engine["kv_source"]))
    print("    TTFT ms by ISL: " + "  ".join("%d: %.1f" % (p["isl"], p["ttft"]["mean_ns"] / MS) for p in prefill))
    for row in rows:
        print("    ITL ms at ISL %-4d by in-flight: " % row[0]["isl"]
              + "  ".join("%d: %.2f" % (p["asked_in_flight"], p["itl"]["mean_ns"] / MS) for p in row))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("dir")
    ap.add_argument("schema")
    ap.add_argument("--ttft", type=float, required=True)
    ap.add_argument("--itl", type=float, required=True)
    ap.add_argument("--kv-tokens", type=int, required=True)
    ap.add_argument("--kv-source", required=True)
    ap.add_argument("--in-flight", type=int, required=True)
    ap.add_argument("--version", required=True)
    ap.add_argument("--provenance", default="measured")
    args = ap.parse_args()

    run, rec = read(args.dir, "run.json"), read(args.dir, "recommendation.json")
    check_run(args.dir, run, args)
    check_recommendation(args.dir, rec, read(args.schema), run["engines"][0]["max_num_seqs"], run["points"], args)
    check_records(args.dir, run["points"])
    check_pictures(args.dir, args.provenance)

    at = lambda phase: [p for p in filter(alone, run["points"]) if p["phase"] == phase and p["config"]["parallelism"]["tp"] == rec[phase]["tp"]]
    prefill = sorted(at("prefill"), key=lambda p: p["isl"])
    by_isl = {}
    for p in filter(streamed, at("decode")):
        by_isl.setdefault(p["isl"], []).append(p)
    rows = [sorted(by_isl[isl], key=lambda p: p["asked_in_flight"]) for isl in sorted(by_isl)]
    rows = [row for row in rows if len(row) > 2]  # a point may have been added where the fit was unsure
    blank = [p["id"] for p in at("decode") if not streamed(p)]
    need(len(blank) <= 2, "points without an ITL: " + ", ".join(blank))
    shapes = check_shapes(args.dir, prefill, rows)
    timings = ""
    if args.version.startswith("llama.cpp") and glob.glob(os.path.join(args.dir, "engines", "*.log")):
        timings = "; " + check_prefill_timings(args.dir, prefill[-1])
    print("prefill %s, decode %s at %.0f in flight; %s%s" % (
        rec["prefill"]["label"], rec["decode"]["label"], rec["decode"]["in_flight"], shapes, timings))
    table(run["engines"][0], prefill, rows)


if __name__ == "__main__":
    main()
