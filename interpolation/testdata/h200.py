#!/usr/bin/env python3
"""Writes h200.json from ../../testdata/npz: the surfaces as JSON, and what
upstream's interpolation formulas (scipy interp1d cubic; griddata cubic on a
100x100 grid, nearest outside the hull) predict for each point when it is left
out. Made with numpy 1.24.2 and scipy 1.10.1; run in this folder."""
import json
import numpy as np
from scipy.interpolate import griddata, interp1d

p = np.load("../../testdata/npz/h200-8b-fp8-tp1-prefill.npz")
d = np.load("../../testdata/npz/h200-8b-fp8-tp1-decode.npz")


def upstream_itl(x, y, z, at_x, at_y):
    xi, yi = np.linspace(0, 1, 100), np.linspace(0, max(y), 100)
    X, Y = np.meshgrid(xi, yi)
    grid = griddata((x, y), z, (X, Y), method="cubic")
    near = griddata((x, y), z, (X, Y), method="nearest")
    grid = np.where(np.isnan(grid), near, grid)
    ix = int(np.clip(round(at_x / (xi[1] - xi[0])), 0, 99))
    iy = int(np.clip(round(at_y / (yi[1] - yi[0])), 0, 99))
    return float(grid[iy, ix])


isl, ttft = p["prefill_isl"], p["prefill_ttft"]
keep = lambda a, i: np.delete(a, i)
left_ttft = [float(interp1d(keep(isl, i), keep(ttft, i), kind="cubic")(isl[i])) for i in range(1, len(isl) - 1)]
x, y, z = d["x_kv_usage"], d["y_context_length"], d["z_itl"]
left_itl = [upstream_itl(keep(x, i), keep(y, i), keep(z, i), x[i], y[i]) for i in range(len(x))]

json.dump(
    {
        "prefill": {k: p[k].tolist() for k in p},
        "decode": {k: d[k].tolist() for k in d},
        "upstream_leave_one_out": {"prefill_ttft": left_ttft, "z_itl": left_itl},
    },
    open("h200.json", "w"), indent=1,
)
for name, got, want in (("prefill", left_ttft, ttft[1:-1]), ("decode", left_itl, z)):
    e = 100 * np.abs(np.array(got) - want) / want
    print(name, "mean %.1f median %.1f p90 %.1f max %.1f" % (e.mean(), np.median(e), np.percentile(e, 90), e.max()))
