#!/usr/bin/python3
"""Read profiles as numpy and upstream's planner do.

usage: check_npz.py FIXTURES DIR…

FIXTURES holds upstream's own H200 profile: its published answers prove that
upstream.py is upstream's interpolation before it is applied to the profiles in
DIR…. Each profile: exactly the documented keys, types and shapes; finite;
stored, not deflated; the same numbers in *_raw_data.json; upstream's
interpolation gives finite numbers. Ends with status 1 and the reason at the
first thing that is wrong; otherwise prints figures, one line a profile.
"""

import json
import os
import sys
import warnings
import zipfile

import numpy as np

sys.dont_write_bytecode = True
import upstream  # noqa: E402

warnings.simplefilter("error")

PREFILL = {"prefill_isl": "<i8", "prefill_ttft": "<f8", "prefill_thpt_per_gpu": "<f8", "provenance": "|i1"}
DECODE = {"x_kv_usage": "<f8", "y_context_length": "<f8", "z_itl": "<f8", "z_thpt_per_gpu": "<f8",
          "max_kv_tokens": "<i8", "provenance": "|i1"}
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


def check(folder):
    raw = lambda phase: os.path.join(folder, "selected_%s_interpolation" % phase, "raw_data.npz")
    p, d = load(raw("prefill"), PREFILL), load(raw("decode"), DECODE)
    same(p, os.path.join(folder, "prefill_raw_data.json"))
    same(d, os.path.join(folder, "decode_raw_data.json"))
    isl, x, y = p["prefill_isl"], d["x_kv_usage"], d["y_context_length"]
    need(len(isl) >= 4 and np.all(np.diff(isl) > 0), "%s: a cubic spline needs 4 rising ISLs: %s" % (folder, isl))
    need(np.all(x <= 1), "%s: KV usage above 1: %s" % (folder, x))
    need(len(np.unique(y)) >= 2, "%s: one context row is no surface: %s" % (folder, y))

    prefill, decode = upstream.Prefill(p), upstream.Decode(d)
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
    print("%s: %s, %d + %d points; upstream's planner reads TTFT %.1f ms at ISL %d, %.0f tokens/s/GPU at ITL %.2f ms (KV %.2f)"
          % (os.path.basename(folder), provenance(p), len(isl), len(x), ttft, mid, throughput, itl, usage))


def main():
    fixtures, *folders = sys.argv[1:]
    need(folders, "no profile given")
    check_upstream(fixtures)
    for folder in folders:
        check(folder)


if __name__ == "__main__":
    main()
