"""Numbers that the statistics of package profile are held against.

Made with numpy 1.24.2, scipy 1.10.1 and statsmodels 0.13.5 (Debian 12):

    python3 statistics.py > statistics.json
"""
import json

import numpy as np
from scipy import stats
from statsmodels.tsa.stattools import acf

out = {"ranks": [], "samples": {}, "series": []}

# Order-statistic ranks of 95 % intervals of quantiles, tails of at most 2.5 %
# each: P(B <= lo-1) <= 0.025, P(B <= hi-1) >= 0.975 for B ~ Bin(n, q).
for n in (5, 6, 20, 35, 36, 72, 100, 367, 368, 500, 2000):
    for q in (0.5, 0.9, 0.95, 0.99):
        b = stats.binom(n, q)
        ks = np.arange(0, n + 1)
        lo = int((b.cdf(ks - 1) <= 0.025).sum()) - 1
        hi = int(np.argmax(b.cdf(ks - 1) >= 0.975)) if (b.cdf(ks - 1) >= 0.975).any() else n + 1
        out["ranks"].append({"n": n, "q": q, "lo": lo, "hi": hi, "ok": bool(lo >= 1 and hi <= n)})

for name, q in {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}.items():
    out["samples"][name] = int(np.ceil(np.log(0.025) / np.log(q)))

# A series with drift: residuals of a line, their lag-1 autocorrelation, and the
# interval of the mean where the values count as independent.
rng = np.random.default_rng(7)
for n, slope in ((40, 0.0), (150, 0.01), (150, 0.0)):
    y = 10 + slope * np.arange(n) + rng.standard_normal(n)
    line = stats.linregress(np.arange(n), y)
    r = y - line.intercept - line.slope * np.arange(n)
    half = stats.t.ppf(0.975, n - 2) * np.sqrt((r @ r) / (n - 2) / n)
    out["series"].append({"y": list(y), "lag1": float(acf(r, nlags=1, fft=False)[1]), "half": float(half)})

print(json.dumps(out, indent=1))
