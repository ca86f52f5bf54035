#!/usr/bin/env python3
"""Loads the files in written/ (which the Go writer wrote; a test compares them
byte for byte) with numpy, applies the formulas of upstream's planner to them
(interp1d cubic; griddata cubic on 100x100, nearest outside the hull; the scan
for the best throughput), and writes upstream.json. Made with numpy 1.24.2 and
scipy 1.10.1; run in this folder."""
import json
import zipfile
import numpy as np
from scipy.interpolate import griddata, interp1d

P, D = "written/selected_prefill_interpolation/raw_data.npz", "written/selected_decode_interpolation/raw_data.npz"
p, d = np.load(P), np.load(D)
out = {"arrays": {}, "stored": True}
for path, f in (("prefill", p), ("decode", d)):
    for k in f:
        a = f[k]
        out["arrays"][path + "/" + k] = {"dtype": a.dtype.str, "shape": list(a.shape), "c_order": bool(a.flags.c_contiguous),
                                         "sum": float(a.astype(float).sum())}
for path in (P, D):
    out["stored"] &= all(i.compress_type == zipfile.ZIP_STORED for i in zipfile.ZipFile(path).infolist())
    assert zipfile.ZipFile(path).testzip() is None

lo, hi = p["prefill_isl"].min(), p["prefill_isl"].max()
ttft = interp1d(p["prefill_isl"], p["prefill_ttft"], kind="cubic")
thpt = interp1d(p["prefill_isl"], p["prefill_thpt_per_gpu"], kind="cubic")
out["prefill"] = {str(i): [float(ttft(np.clip(i, lo, hi))), float(thpt(np.clip(i, lo, hi)))] for i in (50, 100, 1000, 3000, 16000, 20000)}

x, y = d["x_kv_usage"], d["y_context_length"]
xi, yi = np.linspace(0, 1, 100), np.linspace(0, max(y), 100)
X, Y = np.meshgrid(xi, yi)


def fill(z):
    g = griddata((x, y), z, (X, Y), method="cubic")
    return np.where(np.isnan(g), griddata((x, y), z, (X, Y), method="nearest"), g)


itl, rate = fill(d["z_itl"]), fill(d["z_thpt_per_gpu"])
out["grid"] = {"finite": bool(np.isfinite(itl).all() and np.isfinite(rate).all()), "cells": int(itl.size)}
iy = int(np.clip(round(3150 / (yi[1] - yi[0])), 0, 99))
for ix in range(99, -1, -1):
    if itl[iy, ix] <= 10:
        out["best"] = {"itl": float(itl[iy, ix]), "kv": float(xi[ix]), "thpt": float(rate[iy, ix])}
        break
json.dump(out, open("upstream.json", "w"), indent=1)
print(json.dumps(out["prefill"]), out["best"], out["grid"])
