"""Writes oracle.json: random fleets and intervals, and what the planners of
NVIDIA Dynamo (ai-dynamo/dynamo, planner_core.py of 2026-01-28 and
examples/llm/components/planner.py of 2025-05) decide on them, by formulas
written down here a second time, as plainly as possible. Python 3, no packages.

    python3 oracle.py > oracle.json
"""

import json
import math
import random

rng = random.Random(20260128)

# Mean prompt and output tokens that a profile was measured at: contexts are far
# enough apart to be rows of their own, and surfaces are read at their points only.
LENGTHS = [(500, 100), (1000, 300), (3000, 150), (9000, 1000)]


def profile():
    """TTFT and throughput per prompt length; per context ITL and throughput with
    one request in flight and with 200: between two points all is a straight line.
    Times follow a law, for a fit gives little weight to those that do not."""
    base, per_token = rng.randint(10, 300) * 1_000_000, rng.randint(1_000, 200_000)
    step, per_seq, per_pair = rng.randint(2_000_000, 20_000_000), rng.randint(20_000, 100_000), rng.randint(0, 20)
    rows = []
    for isl, osl in LENGTHS:
        context = isl + osl / 2
        rows.append(
            {
                "isl": isl,
                "osl": osl,
                "ttft_ns": base + per_token * isl,
                "prefill": float(rng.choice([1000, 8000, 40000, rng.uniform(500, 60000)])),
                "itl_one_ns": round(step + per_seq + per_pair * context),
                "itl_ns": round(step + (per_seq + per_pair * context) * 200),
                "one": rng.uniform(5, 20),
                "most": float(rng.choice([1000, 5000, 10000, rng.uniform(200, 20000)])),
            }
        )
    rows.sort(key=lambda r: r["isl"])
    return rows


MOST = 200  # requests in flight


def line(n, at_one, at_most):
    return at_one + (at_most - at_one) * (n - 1) / (MOST - 1)


def itl(row, n):
    return line(max(n, 1), row["itl_one_ns"], row["itl_ns"])


def best_throughput(row, limit, gpus):
    """Tokens/s/GPU at the most requests that keep the limit, at one if none do."""
    a, b = row["itl_one_ns"], row["itl_ns"]
    n = 1 if limit < a else min(MOST, 1 + (limit - a) / (b - a) * (MOST - 1))
    # Measured throughput over n / ITL / GPUs, which a steady state makes 1.
    efficiency = line(n, row["one"] * gpus * a / 1e9, row["most"] * gpus * b / 1e9 / MOST)
    return efficiency * n / (itl(row, n) / 1e9) / gpus


class Upstream:
    def __init__(self, c):
        self.c = c
        self.p_corr = self.d_corr = 1.0
        self.last = {"requests": 0.0, "isl": 0.0, "osl": 0.0}

    def row(self, isl):
        return [r for r in self.c["profile"] if r["isl"] == isl][0]

    def decide(self, o):
        c = self.c
        for k in self.last:
            if o.get(k) is not None:
                self.last[k] = o[k]
        if o.get("requests") is None:
            return None
        if o["requests"] > 0:
            need = ["isl", "osl"] + ([] if c["no_correction"] else ["ttft_ns", "itl_ns", "duration_ns"])
            if any(o.get(k) is None for k in need):
                return None
            if not c["no_correction"]:
                r = self.row(o["isl"])
                self.p_corr = o["ttft_ns"] / r["ttft_ns"]
                if o["ready_d"] > 0:
                    concurrency = o["requests"] / o["ready_d"] * (o["duration_ns"] / 1e9) / c["interval"]
                    self.d_corr = o["itl_ns"] / itl(r, concurrency)
        n, isl, osl = self.last["requests"], self.last["isl"], self.last["osl"]
        prefill = decode = 0.0
        if n > 0:
            if isl == 0:
                return None
            r = self.row(isl)
            prefill = n * isl / c["interval"] * min(1, self.p_corr) / r["prefill"]
            limit = c["itl_ns"] if self.d_corr <= 0 else c["itl_ns"] / self.d_corr
            decode = n * osl / c["interval"] / best_throughput(r, limit, c["gpus_p"] if c["aggregated"] else c["gpus_d"])
        if c["aggregated"]:
            num = math.ceil((prefill + decode) / c["gpus_p"])
            return [max(num, c["min_p"])]
        num_p = math.ceil(prefill / c["gpus_p"])
        num_d = math.ceil(decode / c["gpus_d"])
        return [max(num_p, c["min_p"]), max(num_d, c["min_d"])]

    def budget(self, num):
        c, B = self.c, self.c["budget"]
        g = [c["gpus_p"]] if c["aggregated"] else [c["gpus_p"], c["gpus_d"]]
        least = [c["min_p"]] if c["aggregated"] else [c["min_p"], c["min_d"]]
        total = sum(a * b for a, b in zip(num, g))
        if B < 0 or total <= B:
            return num
        if B < sum(a * b for a, b in zip(least, g)):
            return None
        scale = B / total
        if c["aggregated"]:
            return [max(least[0], math.floor(num[0] * scale))]
        max_p = math.floor((B - least[1] * g[1]) / g[0])
        num_p = max(least[0], min(max_p, math.floor(num[0] * scale)))
        num_d = max(least[1], math.floor((B - num_p * g[0]) / g[1]))
        return [num_p, num_d]


def maybe(x, p=0.04):
    return None if rng.random() < p else x


def upstream_case():
    aggregated = rng.random() < 0.25
    c = {
        "profile": profile(),
        "aggregated": aggregated,
        "no_correction": rng.random() < 0.2,
        "interval": rng.choice([30, 60, 180]),
        "itl_ns": rng.randint(8_000_000, 60_000_000),
        "gpus_p": rng.choice([1, 2, 4, 8]),
        "gpus_d": rng.choice([1, 2, 4, 8]),
        "min_p": rng.choice([0, 1, 1, 2]),
        "min_d": rng.choice([0, 1, 1, 2]),
        "budget": rng.choice([-1, 8, 16, 29, 64, 5000]),
        "steps": [],
    }
    u = Upstream(c)
    have = [2] if aggregated else [2, 2]
    for _ in range(6):
        isl, osl = rng.choice(LENGTHS)
        r = u.row(isl)
        busy = rng.random() < 0.85
        o = {
            "requests": maybe(float(rng.randint(1, 5000)) if busy else 0.0),
            "isl": maybe(float(isl)) if busy else None,
            "osl": maybe(float(osl)) if busy else None,
            "ttft_ns": maybe(int(r["ttft_ns"] * rng.uniform(0.1, 3))) if busy else None,
            "itl_ns": maybe(int(r["itl_ns"] * rng.choice([0, 1, rng.uniform(0.3, 4)]))) if busy else None,
            "duration_ns": maybe(rng.randint(1, 60) * 1_000_000_000) if busy else None,
            "ready_d": rng.choice([0, 1, 2, 5]),
        }
        # One of the two lengths alone is no pair that was profiled.
        if o["isl"] is None or o["osl"] is None:
            o["isl"] = o["osl"] = None
        num = u.decide(o)
        want = have if num is None else u.budget(num)
        held = want is None
        if held:
            want = have
        c["steps"].append({"in": o, "have": have, "want": want, "missing": num is None, "held": held, "pc": u.p_corr, "dc": u.d_corr})
        have = want
    return c


def load_case():
    c = {
        "kv_up": rng.choice([0.9, 0.7]),
        "kv_down": rng.choice([0.5, 0.3]),
        "queue_up": rng.choice([0.5, 5.0]),
        "queue_down": rng.choice([0.2, 0.1]),
        "gpus_p": rng.choice([1, 2, 4]),
        "gpus_d": rng.choice([1, 2, 4]),
        "min_p": 1,
        "min_d": 1,
        "budget": rng.choice([-1, 8, 12, 16]),
        "steps": [],
    }
    p, d, grace = rng.randint(1, 3), rng.randint(1, 3), 0
    for _ in range(10):
        o = {
            "queue": rng.choice([0.0, 0.15, 0.3, 0.6, 6.0]),
            "first": rng.choice([0.0, 1.0, 6.0]),
            "last": rng.choice([0.0, 1.0, 6.0]),
            "kv": rng.uniform(0, 1),
            "kv_waiting": rng.choice([0.0, 0.0, 3.0]),
            "changed": rng.random() < 0.1,
            "scaling": rng.random() < 0.1,
        }
        have = [p, d]
        if not o["changed"] and not o["scaling"]:
            kv = o["kv"] + 0.02 * o["kv_waiting"]
            gpus = p * c["gpus_p"] + d * c["gpus_d"]
            limit = math.inf if c["budget"] < 0 else c["budget"]
            if o["queue"] < c["queue_down"] and have[0] > c["min_p"]:
                p, gpus = p - 1, gpus - c["gpus_p"]
            if kv < c["kv_down"] and have[1] > c["min_d"] and grace == 0:
                d, gpus = d - 1, gpus - c["gpus_d"]
            if o["queue"] > c["queue_up"] and gpus + c["gpus_p"] <= limit:
                if o["last"] + (o["last"] - o["first"]) * 3 > c["queue_up"]:
                    p, gpus = p + 1, gpus + c["gpus_p"]
            if kv > c["kv_up"] and gpus + c["gpus_d"] <= limit:
                d, gpus, grace = d + 1, gpus + c["gpus_d"], 3
            if grace > 0:
                grace -= 1
        c["steps"].append({"in": o, "have": have, "want": [p, d]})
    return c


print(json.dumps({"upstream": [upstream_case() for _ in range(40)], "load": [load_case() for _ in range(20)]}, separators=(",", ":")))
