#!/usr/bin/env python3
"""Writes upstream.csv: the relative error of upstream's interpolation formulas
(scipy interp1d cubic; griddata cubic on a 100x100 grid, nearest outside the
hull) at each sample of surfaces.csv when it is left out, against the truth; nan
where scipy refuses. Prefill's first and last sample are not asked for: interp1d
does not extrapolate. Made with numpy 1.24.2 and scipy 1.10.1; run in this folder."""
import csv
import time
import numpy as np
from scipy.interpolate import griddata, interp1d


def itl(x, y, z, at_x, at_y):
    xi, yi = np.linspace(0, 1, 100), np.linspace(0, max(y), 100)
    X, Y = np.meshgrid(xi, yi)
    grid = griddata((x, y), z, (X, Y), method="cubic")
    near = griddata((x, y), z, (X, Y), method="nearest")
    grid = np.where(np.isnan(grid), near, grid)
    ix = int(np.clip(round(at_x / (xi[1] - xi[0])), 0, 99))
    iy = int(np.clip(round(at_y / (yi[1] - yi[0])), 0, 99))
    return float(grid[iy, ix])


sets = {}
for row in csv.DictReader(open("surfaces.csv")):
    sets.setdefault((row["kind"], row["set"]), []).append([float(row[k]) for k in ("x", "context", "ms", "truth_ms")])

out = csv.writer(open("upstream.csv", "w"), lineterminator="\n")
out.writerow(["kind", "set", "index", "error"])
for (kind, name), rows in sets.items():
    x, c, y, truth = np.array(rows).T
    errors, begin = [], time.process_time()
    for i in range(len(x)) if kind == "decode" else range(1, len(x) - 1):
        kx, kc, ky = np.delete(x, i), np.delete(c, i), np.delete(y, i)
        try:
            got = itl(kx, kc, ky, x[i], c[i]) if kind == "decode" else float(interp1d(kx, ky, kind="cubic")(x[i]))
        except Exception:  # too few points; Qhull on points of one line
            got = np.nan
        errors.append(abs(got - truth[i]) / truth[i])
        out.writerow([kind, name, i, "%.6g" % errors[-1]])
    e, seconds = 100 * np.array(errors), time.process_time() - begin
    print(kind, name, "mean %.1f p90 %.1f worst %.1f, %.4f s" % (e.mean(), np.percentile(e, 90), e.max(), seconds))
