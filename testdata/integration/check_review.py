"""Compares what capacity review --prometheus saw with what was sent.

usage: check_review.py SENT.json REVIEW.json
"""

import json
import re
import sys

sent, review = (json.load(open(f)) for f in sys.argv[1:3])
figures = {f["name"]: f for f in review["figures"]}
measured = review["measured"]
failed = []


def want(what, got, wanted, within):
    if not abs(got - wanted) <= within * wanted:
        failed.append(f"{what} is {got:.6g}, sent were {wanted:.6g}: want within {within:.0%}")


# A sample every second: increase() over ten seconds takes nine of them, and
# stretches what they saw.
want("peak", measured["rate"], sent["peak"], 0.25)
want("mean ISL", measured["isl"], sent["isl_mean"], 0.03)
want("mean OSL", measured["osl"], sent["osl_mean"], 0.03)
# vLLM's buckets end at 1, 2, 5, 10, …: a percentile is known to 2.5 times.
for name, p99 in ("ISL, p99", sent["isl_p99"]), ("OSL, p99", sent["osl_p99"]):
    if not p99 / 2.5 <= figures[name]["measured"] <= p99 * 2.5:
        failed.append(f"{name} is {figures[name]['measured']:.6g}, sent were {p99}")
seen = int(re.search(r"(\d+) requests of ", review["source"])[1])
want("requests", seen, sent["requests"], 0.08)
if failed:
    sys.exit("\n".join(failed))
print(f"{seen} requests seen of {sent['requests']} sent, peak {measured['rate']:.1f}/s of {sent['peak']:.1f}, "
      f"ISL {measured['isl']:.0f} of {sent['isl_mean']:.0f}, OSL {measured['osl']:.1f} of {sent['osl_mean']:.1f}; {review['answer']}")
