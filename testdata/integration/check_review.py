"""Compares what capacity review --prometheus saw with what was sent.

usage: check_review.py SENT.json REVIEW.json
"""

import json
import sys

sent, review = (json.load(open(f)) for f in sys.argv[1:3])
source = review["source"]
figures = {f["name"]: f for f in review["figures"]}
measured = review["measured"]
failed = []


def want(what, got, wanted, within):
    if not abs(got - wanted) <= within * wanted:
        failed.append(f"{what} is {got:.6g}, sent were {wanted:.6g}: want within {within:.0%}")


# A sample every second: increase() over ten seconds takes nine of them, and
# stretches what they saw.
want("requests", source["requests"], sent["requests"], 0.08)
want("peak", measured["peak_qps"], sent["peak"], 0.25)
want("mean ISL", measured["avg_isl"], sent["isl_mean"], 0.03)
want("mean OSL", measured["avg_osl"], sent["osl_mean"], 0.03)
for name, p99 in ("ISL, p99", sent["isl_p99"]), ("OSL, p99", sent["osl_p99"]):
    between = figures[name]["measured_between"]
    if not between["low"] <= p99 <= between["high"]:
        failed.append(f"{name} is said to be in {between}, sent were {p99}")
if source["provenance"] != "simulated":
    failed.append(f"latencies of the simulated engine are said to be {source['provenance']}")
if source["engines"] != 2:
    failed.append(f"{source['engines']} engines, want 2")
if not 0.8 <= source["scrape_s"] <= 1.3:
    failed.append(f"a sample every {source['scrape_s']} s, want 1")
for latency in review["latencies"]:
    if not latency.get("measured_p99_ms", 0) > 0:
        failed.append(f"{latency['name']} was not measured")
    # The engine is the simulator itself: it agrees, but for a busy machine.
    elif latency["verdict"] == "faster":
        failed.append(f"{latency['name']} is {latency}")
if failed:
    sys.exit("\n".join(failed))
verdicts = ", ".join(f"{l['name']} {l['verdict']}" for l in review["latencies"])
print(f"{source['requests']:.0f} requests seen of {sent['requests']} sent, peak {measured['peak_qps']:.1f}/s of {sent['peak']:.1f}, "
      f"ISL {measured['avg_isl']:.0f} of {sent['isl_mean']:.0f}, OSL {measured['avg_osl']:.1f} of {sent['osl_mean']:.1f}; {verdicts}")
