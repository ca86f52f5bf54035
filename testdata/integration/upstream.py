"""NVIDIA Dynamo's interpolation of a profile, as its planner did it until 2026-04.

Written from its documented behaviour: prefill is a not-a-knot cubic spline over
ISL, clamped to the measured range; decode is a 100 × 100 grid over KV usage and
context length (Clough-Tocher, the nearest point outside the hull), looked up by
the nearest cell.
"""

import numpy as np
from scipy.interpolate import griddata, interp1d

CELLS = 100


class Prefill:
    def __init__(self, npz):
        self.isl = npz["prefill_isl"]
        self.ttft = interp1d(self.isl, npz["prefill_ttft"], kind="cubic")
        self.throughput = interp1d(self.isl, npz["prefill_thpt_per_gpu"], kind="cubic")

    def at(self, isl):
        """TTFT in ms and tokens/s/GPU at a prompt length."""
        isl = min(max(isl, self.isl.min()), self.isl.max())
        return float(self.ttft(isl)), float(self.throughput(isl))


class Decode:
    def __init__(self, npz):
        x, y = npz["x_kv_usage"], npz["y_context_length"]
        self.capacity = int(npz["max_kv_tokens"][0])
        self.xi = np.linspace(0, 1, CELLS)
        self.yi = np.linspace(0, y.max(), CELLS)
        self.itl = self._grid(x, y, npz["z_itl"])
        self.throughput = self._grid(x, y, npz["z_thpt_per_gpu"])

    def _grid(self, x, y, z):
        at = np.meshgrid(self.xi, self.yi)
        inside = griddata((x, y), z, tuple(at), method="cubic")
        outside = griddata((x, y), z, tuple(at), method="nearest")
        return np.where(np.isnan(inside), outside, inside)

    def _row(self, context):
        return int(np.clip(np.round(context / self.yi[1]), 0, CELLS - 1))

    def at(self, in_flight, context):
        """ITL in ms and tokens/s/GPU at a load."""
        usage = in_flight * context / self.capacity
        ix = int(np.clip(np.round(usage / self.xi[1]), 0, CELLS - 1))
        iy = self._row(context)
        return float(self.itl[iy, ix]), float(self.throughput[iy, ix])

    def best(self, itl, context):
        """The most tokens/s/GPU whose ITL is met, that ITL, and the KV usage."""
        iy = self._row(context)
        for ix in range(CELLS - 1, -1, -1):
            if self.itl[iy, ix] <= itl:
                break
        return float(self.throughput[iy, ix]), float(self.itl[iy, ix]), float(self.xi[ix])
