#!/usr/bin/python3
"""Read profiles as numpy and upstream's planner do.

usage: check_npz.py FIXTURES ANSWERS DIR…

FIXTURES holds upstream's own H200 profile: its published answers prove that
upstream.py is upstream's interpolation before it is applied to the profiles in
DIR…. ANSWERS is the program of folder answers, which says what this program's
planner reads. Each profile: exactly the documented keys, types and shapes;
finite; stored, not deflated; the same numbers in *_raw_data.json; one context
to a row, the one that was asked for; little load at the shortest and the longest;
upstream's interpolation gives finite numbers, and inside the measured hull, and
between the measured ISLs, it never gives one at or below 0 or 1.5 times above every
sample, its ITL does not fall with KV use, and at five operating points it agrees with
this program's. Ends with status 1 and the reason at the first thing that is wrong;
otherwise prints figures, one line a profile. An import is somebody else's: of its rows
and cells only figures are printed.
"""

import json
import os
import subprocess
import sys
import warnings
import zipfile

import numpy as np
from scipy.interpolate import griddata

sys.dont_write_bytecode = True
import upstream  # noqa: E402

warnings.simplefilter("error")

PREFILL = {"prefill_isl": "<i8", "prefill_ttft": "<f8", "prefill_thpt_per_gpu": "<f8", "provenance": "|i1"}
DECODE = {"x_kv_usage": "<f8", "y_context_length": "<f8", "z_itl": "<f8", "z_thpt_per_gpu": "<f8",
          "max_kv_tokens": "<i8", "provenance": "|i1"}
# Dynamo's own plan of points has rows so far apart that its reader falls below 0
# near idle, in its published H200 profile too (0.05 % of cells). What has that plan
# (--search grid), or is measured with noise, may do so in this share of cells; ours
# in none.
UPSTREAMS_PLAN = 0.01
# How far a reader may be above the largest sample.
ABOVE = 1.5
# How far ITL may fall, and upstream's answers be from this program's, relative,
# beyond how far samples are off this program's fit, which is their noise.
FALL = 0.03
AGREE = 0.10
# A real engine is measured on processors that it shares with the other lanes: its
# samples differ by chance, which a fit through them does not show.
MEASURED = 0.25
# Rows nearer to each other than this ratio would be one context labelled as two.
ROW = 1.1

PROVENANCES = ["measured", "simulated", "estimated", "published"]


def need(ok, what):
    if not ok:
        sys.exit("check_npz.py: " + what)


def close(got, want, tolerance, what):
    need(abs(got - want) <= tolerance, "%s is %.4f, published as %.4f" % (what, got, want))


def check_upstream(folder):
    """The formulas give what upstream's README says of the same file."""
    prefill = upstream.Prefill(np.load(os.path.join(folder, "h200-8b-fp8-tp1-prefill.npz")))
    decode = upstream.Decode(np.load(os.path.join(folder, "h200-8b-fp8-tp1-decode.npz")))
    ttft, throughput = prefill.at(3000)
    close(ttft, 60.4587, 1e-4, "TTFT at ISL 3000")
    close(throughput, 49481.09, 1e-2, "prefill throughput at ISL 3000")
    throughput, itl, usage = decode.best(10, 3150)
    close(itl, 9.70, 0.05, "ITL at context 3150")
    close(usage, 0.1616, 1e-4, "KV usage at context 3150")
    close(throughput, 4555.68, 40, "decode throughput at context 3150")


def load(path, types):
    """The arrays of one file, checked against what the format promises."""
    for entry in zipfile.ZipFile(path).infolist():
        need(entry.compress_type == zipfile.ZIP_STORED, "%s: %s is compressed" % (path, entry.filename))
    with np.load(path, allow_pickle=False) as npz:
        arrays = {k: npz[k] for k in npz.files}
    need(set(arrays) == set(types), "%s: keys %s, want %s" % (path, sorted(arrays), sorted(types)))
    lengths = set()
    for name, want in types.items():
        a = arrays[name]
        need(a.dtype.str == want, "%s: %s is %s, want %s" % (path, name, a.dtype.str, want))
        need(a.flags.c_contiguous, "%s: %s is not in C order" % (path, name))
        need(np.all(np.isfinite(a)), "%s: %s is not finite: %s" % (path, name, a))
        if name == "max_kv_tokens":
            need(a.shape == (1,) and a[0] > 0, "%s: max_kv_tokens %s of shape %s" % (path, a, a.shape))
        elif name == "provenance":
            need(a.size == 1, "%s: provenance of shape %s" % (path, a.shape))
        else:
            need(a.ndim == 1, "%s: %s of shape %s" % (path, name, a.shape))
            lengths.add(len(a))
            need(np.all(a > 0), "%s: %s is not positive: %s" % (path, name, a))
    need(len(lengths) == 1, "%s: arrays of different lengths: %s" % (path, lengths))
    return arrays


def provenance(arrays):
    return PROVENANCES[int(arrays["provenance"].ravel()[0])]


def same(arrays, path):
    """The JSON beside it has the same numbers, to the last bit."""
    with open(path) as f:
        doc = json.load(f)
    need(set(doc) == set(arrays), "%s: keys %s" % (path, sorted(doc)))
    for name, a in arrays.items():
        if name == "provenance":
            ok = doc[name] == provenance(arrays)
        elif name == "max_kv_tokens":
            ok = doc[name] == int(a[0])
        else:
            ok = np.array_equal(np.asarray(doc[name], a.dtype), a)
        need(ok, "%s: %s differs from the NPZ" % (path, name))


def inside(decode, d):
    """The cells of upstream's grid that lie within the samples' convex hull."""
    at = tuple(np.meshgrid(decode.xi, decode.yi))
    return ~np.isnan(griddata((d["x_kv_usage"], d["y_context_length"]), d["z_itl"], at, method="linear"))


def own(answers, folder, at, best):
    """What this program's planner reads."""
    ask = json.dumps({"at": at, "best": best})
    return json.loads(subprocess.run([answers, folder], input=ask, capture_output=True, text=True, check=True).stdout)


def check_rows(folder, d, run):
    """Samples are rows of one context each, as asked for, and the hull has its corners."""
    x, y = d["x_kv_usage"], d["y_context_length"]
    contexts = np.unique(y)
    need(np.all(contexts[1:] >= ROW * contexts[:-1]), "%s: contexts of one row differ: %s" % (folder, contexts))
    asked = [p for p in run["points"] if p["phase"] == "decode"]
    if provenance(d) != "measured":  # an engine that counts tokens of its own has the contexts seen
        meant = {p["isl"] + p["osl"] / 2 for p in asked}
        need(set(contexts) <= meant, "%s: contexts that no point was asked at: %s" % (folder, sorted(set(contexts) - meant)))
    ranks = max(max(p["config"]["parallelism"]["dp"], 1) for p in asked)
    for context in (contexts[0], contexts[-1]):
        least = x[y == context].min() * d["max_kv_tokens"][0] / context
        need(least <= 1.05 * ranks, "%s: the least load at context %g is %.1f requests on %d ranks" % (folder, context, least, ranks))


def figures(p, d, prefill, decode, hull):
    """Shares of upstream's answers within the measured range that are at or below 0 and
    far above every sample, and by how much its ITL falls with KV use."""
    itl, throughput = decode.itl[hull], decode.throughput[hull]
    low = np.mean((itl <= 0) | (throughput <= 0))
    high = np.mean((itl > ABOVE * d["z_itl"].max()) | (throughput > ABOVE * d["z_thpt_per_gpu"].max()))
    lowest, highest = [], []
    for curve, samples in ((prefill.ttft, p["prefill_ttft"]), (prefill.throughput, p["prefill_thpt_per_gpu"])):
        values = curve(np.linspace(prefill.isl[0], prefill.isl[-1], 1000))
        lowest.append(np.mean(values <= 0))
        highest.append(np.mean(values > ABOVE * samples.max()))
    falls = max(fall(row[measured]) for row, measured in zip(decode.itl, hull))
    return low, high, max(lowest), max(highest), falls


def check_cells(folder, figures, allowed, noise):
    """No answer within the measured range is absurd."""
    low, high, lowest, highest, falls = figures
    need(low <= allowed, "%s: %.1f %% of upstream's cells within the hull are at or below 0" % (folder, 100 * low))
    need(high == 0, "%s: %.1f %% of upstream's cells are above %g times the largest sample" % (folder, 100 * high, ABOVE))
    need(lowest == 0, "%s: %.1f %% of upstream's prefill curves are at or below 0" % (folder, 100 * lowest))
    need(highest == 0, "%s: %.1f %% of upstream's prefill curves are above %g times the largest sample" % (folder, 100 * highest, ABOVE))
    need(falls <= FALL + noise, "%s: upstream's ITL falls with KV use by %.1f %%, noise is %.1f %%" % (folder, 100 * falls, 100 * noise))


def fall(itl):
    """By how much values in order fall below the highest before them, relative."""
    return float(np.max(1 - itl / np.maximum.accumulate(itl))) if len(itl) else 0.0


def scatter(folder, d, answers):
    """By how much samples are off this program's fit at most, relative."""
    fitted = own(answers, folder, list(zip(d["x_kv_usage"], d["y_context_length"])), [])["at"]
    return max(max(abs(itl / f[0] - 1), abs(rate / f[1] - 1)) for itl, rate, f in zip(d["z_itl"], d["z_thpt_per_gpu"], fitted))


def check_operating_points(folder, decode, hull, theirs, noise, answers):
    """At the target, a half and twice its context, and the SLA, within AGREE and the noise; returns the worst difference."""
    with open(os.path.join(folder, "recommendation.json")) as f:
        doc = json.load(f)
    target = doc["workload"]["isl"] + doc["workload"]["osl"] / 2
    limit = doc["sla"]["itl_ms"]
    points = []
    places = [(target, 0.25), (target, 0.75)]
    if not theirs:  # whose contexts are too far apart for what lies between them
        places += [(target / 2, 0.5), (2 * target, 0.5)]
    for context, share in places:
        rows = np.flatnonzero(hull.any(axis=1))
        iy = rows[np.argmin(np.abs(decode.yi[rows] - context))]
        columns = np.flatnonzero(hull[iy])
        ix = columns[int(round(share * (len(columns) - 1)))]
        points.append((iy, ix))
    throughput, itl, usage = decode.best(limit, target)
    edge = decode.xi[np.flatnonzero(hull[decode._row(target)])[-1]]
    usage = min(usage, edge)  # beyond it is the nearest sample, again and again
    asked = [(decode.xi[ix], decode.yi[iy]) for iy, ix in points] + [(usage, target)]
    got = [(decode.itl[iy, ix], decode.throughput[iy, ix]) for iy, ix in points] + [(itl, throughput)]
    said = own(answers, folder, asked, [(limit, target)])
    best = said["best"][0]
    if best is None:  # upstream takes an idle engine for the answer then
        asked, got = asked[:-1], got[:-1]
    else:
        need(abs(usage - best) <= (AGREE + noise) * best + decode.xi[1],
             "%s: ITL %g ms at context %g: KV use %.3f by upstream, %.3f by this program" % (folder, limit, target, usage, best))
    worst = 0.0
    for (x, y), theirs, ours in zip(asked, got, said["at"]):
        off = max(abs(a / b - 1) for a, b in zip(theirs, ours))
        need(off <= AGREE + noise, "%s: at KV use %.2f and context %.0f upstream's planner reads ITL %.2f ms, %.1f tokens/s/GPU, this program's %.2f, %.1f" % (
            folder, x, y, *theirs, *ours))
        worst = max(worst, off)
    return worst


def check(folder, answers):
    raw = lambda phase: os.path.join(folder, "selected_%s_interpolation" % phase, "raw_data.npz")
    p, d = load(raw("prefill"), PREFILL), load(raw("decode"), DECODE)
    same(p, os.path.join(folder, "prefill_raw_data.json"))
    same(d, os.path.join(folder, "decode_raw_data.json"))
    isl, x, y = p["prefill_isl"], d["x_kv_usage"], d["y_context_length"]
    need(len(isl) >= 4 and np.all(np.diff(isl) > 0), "%s: a cubic spline needs 4 rising ISLs: %s" % (folder, isl))
    need(np.all(x <= 1), "%s: KV usage above 1: %s" % (folder, x))
    need(len(np.unique(y)) >= 2, "%s: one context row is no surface: %s" % (folder, y))

    with open(os.path.join(folder, "run.json")) as f:
        run = json.load(f)
    search = run["inputs"].get("--search", "import")
    theirs, imported = search != "adaptive", search == "import"

    prefill, decode = upstream.Prefill(p), upstream.Decode(d)
    hull = inside(decode, d)
    if not imported:
        check_rows(folder, d, run)
    noise = scatter(folder, d, answers)
    need(provenance(d) != "estimated" or noise <= 0.05, "%s: samples without noise are off the fit by %.1f %%" % (folder, 100 * noise))
    if provenance(d) == "measured":
        noise = max(noise, MEASURED)
    seen = figures(p, d, prefill, decode, hull)
    low, high, lowest, highest, falls = seen
    if not imported:
        check_cells(folder, seen, UPSTREAMS_PLAN if theirs or provenance(d) == "measured" else 0, noise)
    worst = check_operating_points(folder, decode, hull, theirs, float("inf") if imported else noise, answers)
    numbers = []
    for q in (isl[0] // 2, isl[0], (isl[0] + isl[-1]) // 2, isl[-1], 2 * isl[-1]):
        numbers += prefill.at(q)
    for context in (y.min() / 2, y.mean(), y.max()):
        for in_flight in (1, 3):
            numbers += decode.at(in_flight, context)
        for itl in (d["z_itl"].min() / 2, d["z_itl"].mean(), d["z_itl"].max()):
            numbers += decode.best(itl, context)
    need(np.all(np.isfinite(numbers)), "%s: upstream's interpolation gives %s" % (folder, numbers))
    mid = int((isl[0] + isl[-1]) // 2)
    ttft, _ = prefill.at(mid)
    throughput, itl, usage = decode.best(d["z_itl"].mean(), y.mean())
    print("%s: %s, %d + %d points; upstream's planner reads TTFT %.1f ms at ISL %d, %.0f tokens/s/GPU at ITL %.2f ms (KV %.2f); "
          "%.2f %% of cells in the hull at or below 0, %.2f %% far above the samples, of the prefill curves %.2f %% and %.2f %%, ITL falls by %.1f %%, off this program's answers by %.1f %% at most, samples by %.1f %%"
          % (os.path.basename(folder), provenance(p), len(isl), len(x), ttft, mid, throughput, itl, usage, 100 * low, 100 * high, 100 * lowest, 100 * highest, 100 * falls, 100 * worst, 100 * noise))


def main():
    fixtures, answers, *folders = sys.argv[1:]
    need(folders, "no profile given")
    check_upstream(fixtures)
    for folder in folders:
        check(folder, answers)


if __name__ == "__main__":
    main()
