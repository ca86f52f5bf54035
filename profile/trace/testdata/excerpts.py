"""Cuts the excerpts in this folder out of the published traces.

usage: excerpts.py FOLDER-WITH-THE-TRACES
"""
import gzip
import json
import sys
from pathlib import Path

src = Path(sys.argv[1])
out = Path(__file__).parent


def head(name, lines, to):
    data = (src / name).read_bytes().splitlines(keepends=True)
    (out / to).write_bytes(b"".join(data[:lines]))


head("azure-2023-conv.csv", 401, "azure-2023.csv")
head("mooncake-arxiv-1000.jsonl", 300, "mooncake.jsonl")
head("servegen-m-mid-10min.csv", 577, "servegen.csv")  # four days, with 11 gaps

# Without the requests of 400 blocks and more, which are most of its bytes.
kept = []
for line in gzip.open(src / "dynamo-request-trace-v1.jsonl.gz", "rt"):
    request = json.loads(line)["event"].get("request", {})
    if len(request.get("replay", {}).get("input_sequence_hashes", [])) < 400:
        kept.append(line)
(out / "request-trace.jsonl.gz").write_bytes(gzip.compress("".join(kept).encode(), mtime=0))
