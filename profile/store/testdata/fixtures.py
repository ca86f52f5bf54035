#!/usr/bin/env python3
"""Writes testdata/numpy/*.npz with numpy, for the reader's tests. Made with
numpy 1.24.2; run in this folder. The swept files are built the way upstream's
pre_swept_results_utils builds its own: every array gets a leading dimension,
rows are stacked with vstack, the result is saved compressed."""
import numpy as np

OUT = "numpy/"
prefill = {
    "prefill_isl": np.array([100, 1117, 2134], dtype=np.int64),
    "prefill_ttft": np.array([19.5, 38.25, 50.125]),
    "prefill_thpt_per_gpu": np.array([5128.2, 29202.6, 42573.5]),
}
decode = {
    "x_kv_usage": np.array([0.1, 0.5, 0.2, 0.6]),
    "y_context_length": np.array([350.0, 350.0, 2997.0, 2997.0]),
    "z_itl": np.array([5.5, 20.25, 6.5, 22.75]),
    "z_thpt_per_gpu": np.array([1000.0, 2000.0, 500.0, 900.0]),
    "max_kv_tokens": np.array([945029]),
}


def but(d, **kw):
    return {k: v for k, v in {**d, **kw}.items() if v is not None}


np.savez(OUT + "prefill.npz", **prefill)
np.savez(OUT + "decode.npz", **decode)
np.savez_compressed(OUT + "decode_compressed.npz", **decode)
np.savez(OUT + "decode_provenance.npz", provenance=np.array([1], dtype=np.int8), **decode)
np.savez(OUT + "bad_narrow.npz", prefill_isl=prefill["prefill_isl"].astype("i4"),
         prefill_ttft=prefill["prefill_ttft"].astype("f4"), prefill_thpt_per_gpu=prefill["prefill_thpt_per_gpu"].astype("f4"))
np.savez(OUT + "bad_bigendian.npz", **{k: v.astype(v.dtype.newbyteorder(">")) for k, v in prefill.items()})
np.savez(OUT + "prefill_float_isl.npz", **but(prefill, prefill_isl=prefill["prefill_isl"].astype(float)))
np.savez(OUT + "prefill_unsorted.npz", **{k: v[::-1].copy() for k, v in prefill.items()})
np.savez(OUT + "decode_scalar_kv.npz", **but(decode, max_kv_tokens=np.int64(945029)))
np.savez(OUT + "decode_no_max_kv.npz", **but(decode, max_kv_tokens=None))

bad = {
    "missing": but(prefill, prefill_ttft=None, prefill_thpt_per_gpu=None),
    "lengths": but(prefill, prefill_ttft=np.array([1.0, 2.0])),
    "nan": but(prefill, prefill_ttft=np.array([1.0, np.nan, 3.0])),
    "inf": but(prefill, prefill_thpt_per_gpu=np.array([1.0, np.inf, 3.0])),
    "negative": but(prefill, prefill_ttft=np.array([1.0, -2.0, 3.0])),
    "zero": but(prefill, prefill_ttft=np.array([1.0, 0.0, 3.0])),
    "empty": {k: v[:0] for k, v in prefill.items()},
    "fraction": but(prefill, prefill_isl=np.array([1.0, 2.5, 3.0])),
    "twice": but(prefill, prefill_isl=np.array([100, 100, 200])),
    "text": but(prefill, prefill_ttft=np.array(["1", "2", "3"])),
    "object": but(prefill, prefill_ttft=np.array([1.0, None, 3.0], dtype=object)),
    "complex": but(prefill, prefill_ttft=prefill["prefill_ttft"].astype(complex)),
    "structured": but(prefill, prefill_ttft=np.zeros(3, dtype=[("a", "f8")])),
    "huge": but(prefill, prefill_isl=np.array([1, 2, 2**62])),
    "twodims": {k: np.array([v]) for k, v in prefill.items()},
    "provenance": but(prefill, provenance=np.array([9], dtype=np.int8)),
}
for name, d in bad.items():
    np.savez(f"{OUT}bad_{name}.npz", **d)


def config(tp, **kw):
    c = {"gpu_type": "h200_sxm", "model": "nvidia/Llama-3.1-8B-Instruct-FP8", "framework": "vllm",
         "framework_version": "0.10.1.1", "tp": tp, "dp": 1, "pp": 1, "block_size": 128,
         "max_batch_size": 128, "gpu_count": 8, **kw}
    return {k: np.array([v]) for k, v in c.items()}


def merge(rows):
    merged = {k: np.array([v]) for k, v in rows[0].items()}
    for r in rows[1:]:
        merged = {k: np.vstack((merged[k], np.array([r[k]]))) for k in merged}
    return merged


two = but(prefill, prefill_ttft=prefill["prefill_ttft"] / 2)
rows = [{**prefill, **config(1)}, {**two, **config(2, framework_version="0.11.0")}]
np.savez_compressed(OUT + "swept_prefill.npz", **merge(rows))
np.savez_compressed(OUT + "bad_swept_fortran.npz", **{k: np.asfortranarray(v) for k, v in merge(rows).items()})
np.savez_compressed(OUT + "swept_prefill_flat_config.npz",
                    **{k: v[:, 0] if v.shape[1] == 1 else v for k, v in merge(rows).items()})
np.savez_compressed(OUT + "swept_decode.npz",
                    **merge([{**decode, **config(1)}, {**decode, "max_kv_tokens": np.array([1900000]), **config(2)}]))
np.savez_compressed(OUT + "swept_one.npz", **rows[0])
np.savez_compressed(OUT + "bad_swept_config.npz", **but(merge(rows), tp=None, model=np.array([[1], [2]])))
np.savez_compressed(OUT + "bad_swept_object.npz", **but(merge(rows), gpu_type=np.full((2, 1), None, dtype=object)))
np.savez_compressed(OUT + "bad_swept_rows.npz", **but(merge(rows), gpu_type=np.array([["a"], ["b"], ["c"]])))
