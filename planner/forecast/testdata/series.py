"""Cuts m-mid.csv, mm-image.csv and azure-conv.csv from published traces: one row
per interval with requests per second, mean ISL and mean OSL. No number is no
measurement: ServeGen's windows below 20 % of the mean rate are gaps of unknown cause.

usage: series.py FOLDER  (with servegen-m-mid-10min.csv, servegen-mm-image-10min.csv, azure-2023-conv.csv)
"""
import csv
import datetime
import sys
from pathlib import Path

source, here = Path(sys.argv[1]), Path(__file__).parent


def write(name, rows):
    with open(here / name, "w") as f:
        f.write("t_s,rate_rps,isl,osl\n")
        f.writelines(",".join(r) + "\n" for r in rows)


def number(text, digits):
    return f"{float(text):.{digits}f}" if float(text) > 0 else ""


def servegen(name, out):
    rows = list(csv.DictReader(open(source / name)))
    rates = [float(r["rate_rps"]) for r in rows if float(r["rate_rps"]) > 0]
    least = 0.2 * sum(rates) / len(rates)
    write(out, [[r["t_s"], number(r["rate_rps"], 3), number(r["mean_input_tokens"], 2), number(r["mean_output_tokens"], 2)]
                if float(r["rate_rps"]) >= least else [r["t_s"], "", "", ""] for r in rows])


def azure(name, out, seconds):
    windows, start = {}, None
    for row in csv.DictReader(open(source / name)):
        when = datetime.datetime.fromisoformat(row["TIMESTAMP"][:26])
        start = start or when
        windows.setdefault(int((when - start).total_seconds() // seconds), []).append(
            (int(row["ContextTokens"]), int(row["GeneratedTokens"])))
    rows = []
    for w in range(max(windows)):  # the last window is cut short
        rs = windows.get(w, [])
        means = [f"{sum(r[i] for r in rs) / len(rs):.2f}" if rs else "" for i in (0, 1)]
        rows.append([str(w * seconds), f"{len(rs) / seconds:.4f}", *means])
    write(out, rows)


servegen("servegen-m-mid-10min.csv", "m-mid.csv")
servegen("servegen-mm-image-10min.csv", "mm-image.csv")
azure("azure-2023-conv.csv", "azure-conv.csv", 30)
