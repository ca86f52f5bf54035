"""Writes kalman.json: forecasts of a local linear trend by statsmodels, begun as
NVIDIA Dynamo's predictor is (first value exactly, covariance 1000·I after it).
Written with statsmodels 0.13.5.

usage: kalman.py   (in this folder)
"""
import csv
import json

import numpy as np
from statsmodels.tsa.statespace.structural import UnobservedComponents


def column(name, key, n):
    return [float(r[key]) if r[key] else np.nan for r in csv.DictReader(open(name))][:n]


def case(values, level, trend, noise):
    y = np.array(values)
    m = UnobservedComponents(y[1:], "lltrend")
    f = np.array([[1.0, 1.0], [0.0, 1.0]])
    m.ssm.initialize_known(f @ [y[0], 0], f @ (1000 * np.eye(2)) @ f.T + np.diag([level, trend]))
    m.loglikelihood_burn = 0
    # every one-step forecast, and five steps after the last value
    r = m.smooth([noise, level, trend])
    p = r.get_forecast(5)
    return {"values": [None if np.isnan(v) else v for v in y], "level": level, "trend": trend, "noise": noise,
            "one_step": list(r.filter_results.forecasts[0]), "forecast": list(p.predicted_mean)}


mid = column("m-mid.csv", "rate_rps", 60)
gaps = column("azure-conv.csv", "isl", 60)
gaps[10] = gaps[11] = gaps[40] = np.nan
json.dump([case(mid, 1, 0.1, 10), case(mid, 10, 1, 5), case(gaps, 1, 0.1, 10), case(gaps, 100, 0.5, 3000)], open("kalman.json", "w"))
