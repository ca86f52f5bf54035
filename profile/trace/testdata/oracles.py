"""Writes oracles.json: what numpy and scipy make of the excerpts, and of what
the package solves for. Written with numpy 1.24, scipy 1.10.

usage: oracles.py
"""
import csv
import datetime
import gzip
import json
from pathlib import Path

import numpy as np
from scipy import integrate, optimize, stats

here = Path(__file__).parent


def summary(ns, isl, osl, blocks=()):
    ns = np.asarray(ns, dtype=np.int64) - ns[0]
    gaps = np.diff(ns) / 1e9
    span = ns[-1] / 1e9
    rate = len(ns) / span
    seen, repeated, total = set(), 0, 0
    for ids in blocks:
        for i in ids:
            repeated += i in seen
            total += 1
            seen.add(i)
    return {
        "requests": len(ns), "duration_ns": int(ns[-1]), "rate": rate,
        "cv": gaps.std(ddof=1) / gaps.mean(),
        "peaks": [int(np.bincount(ns // (w * 10**9)).max()) / (rate * w) for w in (1, 10, 60)],
        "isl": [np.mean(isl), *np.percentile(isl, [50, 99]), float(max(isl))],
        "osl": [np.mean(osl), *np.percentile(osl, [50, 99]), float(max(osl))],
        "blocks": total, "repeated": repeated / total if total else 0.0,
    }


def azure(name):
    ns, isl, osl = [], [], []
    for row in csv.DictReader(open(here / name)):
        when, decimals = row["TIMESTAMP"].split(".")
        second = datetime.datetime.fromisoformat(when + "+00:00").timestamp()
        ns.append(int(second) * 10**9 + int(decimals) * 100)
        isl.append(int(row["ContextTokens"]))
        osl.append(int(row["GeneratedTokens"]))
    return summary(ns, isl, osl)


def mooncake(name):
    rows = [json.loads(line) for line in open(here / name)]
    return summary([r["timestamp"] * 10**6 for r in rows], [r["input_length"] for r in rows],
                   [r["output_length"] for r in rows], [r["hash_ids"] for r in rows])


def request_trace(name):
    rows = [json.loads(line)["event"] for line in gzip.open(here / name, "rt")]
    rows = [r["request"] for r in rows if r["event_type"] == "request_end"]
    rows.sort(key=lambda r: r["request_received_ms"])
    return summary([r["request_received_ms"] * 10**6 for r in rows],
                   [r["replay"]["input_length"] for r in rows], [r["output_tokens"] for r in rows],
                   [r["replay"]["input_sequence_hashes"] for r in rows])


def lognormal(mean, p99):
    def miss(s):
        return stats.lognorm(s, scale=np.exp(np.log(mean) - s * s / 2)).ppf(0.99) - p99
    s = optimize.brentq(miss, 1e-6, stats.norm.ppf(0.99), xtol=1e-14)
    return {"mean": mean, "p99": p99, "mu": np.log(mean) - s * s / 2, "sigma": s}


def sine(mean, amplitude, period, phase, n):
    def rate(t):
        return mean * (1 + amplitude * np.sin(2 * np.pi * t / period + phase))

    def missing(t):
        cuts = np.append(np.arange(0, t, period / 2), t)
        return sum(integrate.quad(rate, a, b, epsabs=1e-12)[0] for a, b in zip(cuts, cuts[1:])) - n
    t = optimize.brentq(missing, 0, n / mean + period, xtol=1e-12)
    return {"mean": mean, "amplitude": amplitude, "period_s": period, "phase": phase, "n": n, "t_s": t}


json.dump({
    "azure": azure("azure-2023.csv"),
    "mooncake": mooncake("mooncake.jsonl"),
    "request_trace": request_trace("request-trace.jsonl.gz"),
    "lognormal": [lognormal(1155, 4142), lognormal(211, 601), lognormal(3000, 3300), lognormal(100, 1490)],
    "sine": [sine(5, 0.8, 60, 0, 1), sine(5, 0.8, 60, -np.pi / 2, 100), sine(2, 1, 30, -np.pi / 2, 3), sine(0.1, 0.5, 600, 1, 777)],
}, open(here / "oracles.json", "w"), indent=1)
