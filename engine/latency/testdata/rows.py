#!/usr/bin/env python3
"""Writes rows.csv from the files that README.md names: rows.py POINTS OPEN_LOOP SPLITWISE NPZ_FOLDER > rows.csv"""
import csv
import statistics
import sys
from collections import defaultdict

import numpy as np

points, open_loop, splitwise, npz = sys.argv[1:]
out = csv.writer(sys.stdout, lineterminator="\n")
out.writerow("family,loop,model,gpu,precision,tp,isl,osl,cached,in_flight,rate_rps,batched_tokens,ttft_ms,tpot_ms".split(","))

FAMILY = {"trtllm": "trtllm-1.0.0rc3", "0.12.0": "vllm-0.12", "": "vllm-fp8"}
for r in csv.DictReader(open(points)):
    if r["source"] != "silicon_sample":
        continue
    isl, osl = int(r["isl"]), int(r["osl"])
    if r["model"].endswith("70B"):  # lengths are uniform in 0.8 to 1.0 of the nominal ones
        isl, osl = round(0.9 * isl), round(0.9 * osl)
    family = FAMILY["trtllm" if r["backend"] == "trtllm" else r["version"]]
    out.writerow([family, "closed", r["model"], "H100-SXM", r["precision"], r["tp"], isl, osl, 0, r["concurrency"], "", "",
                  f'{float(r["ttft_ms"]):.3f}', f'{float(r["tpot_or_itl_ms"]):.4f}'])

# points.csv says the lengths and rates of these rows, the other file the rest.
more = {(r["model"], r["itl_mean"], r["e2e_mean"]): r for r in csv.DictReader(open(open_loop)) if r["stage"] != "-1"}
for r in csv.DictReader(open(points)):
    if r["source"] != "blis_ground_truth":
        continue
    m = next(v for k, v in more.items() if k[0] == r["model"] and float(k[1]) == float(r["tpot_or_itl_ms"]) and float(k[2]) == float(r["e2e_ms"]))
    if m["workload"] == "reasoning":  # two rates one after the other, of which only the mean is known
        continue
    out.writerow(["vllm-0.15.1", "open", r["model"], "H100-SXM", "bf16", r["tp"], r["isl"], r["osl"], 100, "", r["rate_rps"],
                  m["max_num_batched_tokens"], r["ttft_ms"], r["tpot_or_itl_ms"]])

runs = defaultdict(list)
for r in csv.DictReader(open(splitwise)):
    if r["hardware"] in ("a100-80gb", "h100-80gb") and r["token_size"] == "128":
        key = (r["hardware"], int(r["tensor_parallel"]), int(r["batch_size"]), int(r["prompt_size"]))
        runs[key].append((float(r["prompt_time"]), float(r["token_time"])))
MODEL = "meta-llama/Llama-2-70b"
# The vLLM of 2023 computes a prompt in one step, however long.
GPU = {"a100-80gb": "A100-80-SXM", "h100-80gb": "H100-SXM"}
for (gpu, tp, batch, isl), v in sorted(runs.items()):
    ttft, tpot = (statistics.median(x) for x in zip(*v))
    if batch == 1:
        out.writerow(["vllm-2023", "single", MODEL, GPU[gpu], "bf16", tp, isl, 128, 0, 1, "", 8192, f"{ttft:.3f}", f"{tpot:.4f}"])
    elif batch <= 32:  # at 64 the batch waits for memory
        out.writerow(["vllm-2023", "step", MODEL, GPU[gpu], "bf16", tp, isl, 128, 0, batch, "", 8192, "", f"{tpot:.4f}"])

p = np.load(npz + "/h200-8b-fp8-tp1-prefill.npz")
for isl, ttft in zip(p["prefill_isl"], p["prefill_ttft"]):
    out.writerow(["h200-npz", "single", "llama-3.1-8b", "H200-SXM", "fp8", 1, int(isl), "", 0, 1, "", "", f"{ttft:.3f}", ""])
d = np.load(npz + "/h200-8b-fp8-tp1-decode.npz")
for x, context, itl in zip(d["x_kv_usage"], d["y_context_length"], d["z_itl"]):
    n = round(float(x * d["max_kv_tokens"][0] / context))
    if n > 1000:  # mislabelled: the engine ran fewer
        continue
    out.writerow(["h200-npz", "step", "llama-3.1-8b", "H200-SXM", "fp8", 1, int(context), "", 0, n, "", "", "", f"{itl:.4f}"])
