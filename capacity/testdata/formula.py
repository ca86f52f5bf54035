"""Writes formula.csv: random plans by the closed formulas, in exact fractions.

A second implementation to hold Formula and Minimum against. Python 3, standard
library alone: python3 formula.py > formula.csv
"""
import csv
import random
import sys
from fractions import Fraction as F


def up(x):
    """x rounded to 1e-9 and then up."""
    x = F(round(x * 10**9), 10**9)
    return max(1, -(-x.numerator // x.denominator))


def main():
    r = random.Random(20261121)
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow("qps,isl,osl,isl99,osl99,ratio,ttft_ms,itl_ms,availability,prefill_tps,decode_tps,tp,kv,"
                 "prefill,decode,total,burst,final,minimum,aggregated,aggregated_final".split(","))
    for _ in range(400):
        qps = r.choice([1, 2, 5, 10, 50, 100, 200, 1000, 5000])
        isl, osl = r.choice([1, 128, 256, 1000, 4096, 8192]), r.choice([1, 128, 256, 512, 1024])
        isl99, osl99 = isl * r.choice([1, 2, 4, 10]), osl * r.choice([1, 2, 4, 10])
        ratio = F(r.choice([10, 13, 15, 16, 20, 25, 80]), 10)
        ttft, itl = r.choice([50, 100, 500, 2000]), r.choice([5, 10, 50, 200])
        availability = r.choice(["0", "0.9", "0.99", "0.995", "0.999", "0.9999"])
        prefill_tps, decode_tps = r.choice([20000, 50000, 120000]), r.choice([3000, 8000, 25000])
        tp, kv = r.choice([1, 2, 4, 8]), r.choice([512, 2560, 327680, 5160960])
        u = F(7, 10)
        p = up(F(qps * isl) / (prefill_tps * u))
        d = up(F(qps * osl) / (decode_tps * u))
        ttft_est = F(isl99, prefill_tps) * 1000 + 5
        itl_est = 1000 / F(decode_tps, qps)
        if ttft_est > ttft:
            p = up(p * ttft_est / ttft)
        if itl_est > itl:
            d = up(d * itl_est / itl)
        factor = 1 + max(F(0), (ratio - F(3, 2)) / 2)
        level = 2 if F(availability) >= F("0.999") else 1 if F(availability) >= F("0.99") else 0
        total = (p + d) * tp
        burst = up(total * factor)
        final = burst + [0, tp + 1, 2 * tp + 2][level]
        room = F(55, 100) * tp * 80 * 2**30
        need = F(qps * osl, decode_tps) * (isl + osl) * kv
        fits = up(need / room) if need / d > room else d
        a = up(F((isl + osl) * qps) / (min(prefill_tps * F(6, 10), decode_tps * F(8, 10)) * u))
        out.writerow([qps, isl, osl, isl99, osl99, float(ratio), ttft, itl, availability, prefill_tps, decode_tps, tp, kv,
                      p, d, total, burst, final, (p + fits) * tp, a, up(a * tp * factor) + level])


main()
