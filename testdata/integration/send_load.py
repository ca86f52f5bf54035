"""Sends an open load to OpenAI-compatible servers, and says what it sent.

usage: send_load.py RATE SECONDS URL…

Poisson arrivals of a fixed seed, one after the other to each URL. Prompts are of
100 to 900 words, of which the engines make as many tokens; outputs of 8 to 24.
Prints JSON: the number of requests, seconds, means, 99th percentiles, the most
arrivals in windows of ten seconds.
"""

import json
import random
import sys
import threading
import time
import urllib.request

rate, seconds, urls = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
rng = random.Random(7)
model = json.load(urllib.request.urlopen(urls[0] + "/v1/models"))["data"][0]["id"]
usages, failures, lock = [], [], threading.Lock()


def send(url, isl, osl):
    body = {"model": model, "prompt": "w " * isl, "max_tokens": osl, "ignore_eos": True}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        usage = json.load(urllib.request.urlopen(request, timeout=60))["usage"]
        with lock:
            usages.append((usage["prompt_tokens"], usage["completion_tokens"]))
    except OSError as e:
        failures.append(str(e))


begin, due, instants, threads = time.monotonic(), 0.0, [], []
while True:
    due += rng.expovariate(rate)
    if due > seconds:
        break
    time.sleep(max(0, begin + due - time.monotonic()))
    instants.append(time.monotonic() - begin)
    t = threading.Thread(target=send, args=(urls[len(instants) % len(urls)], rng.randint(100, 900), rng.randint(8, 24)))
    t.start()
    threads.append(t)
for t in threads:
    t.join()
if failures:
    sys.exit(f"{len(failures)} requests failed: {failures[0]}")


def p99(values):
    return sorted(values)[int(0.99 * len(values))]


isl, osl = [u[0] for u in usages], [u[1] for u in usages]
peak = max(sum(1 for t in instants if at <= t < at + 10) for at in instants) / 10
print(json.dumps({
    "requests": len(usages), "seconds": seconds, "isl_mean": sum(isl) / len(isl), "osl_mean": sum(osl) / len(osl),
    "isl_p99": p99(isl), "osl_p99": p99(osl), "peak": peak,
}))
