#!/usr/bin/python3
"""Hold a CycloneDX document against the program that it is of.

usage: check_sbom.py DOCUMENT PROGRAM LICENCES

Its modules are those that `go version -m` reads in the program, each with its
licence in LICENCES. Ends with status 1 and the reason at the first thing that is
wrong; otherwise prints one line of figures.
"""

import json
import re
import subprocess
import sys


def main(document, program, licences):
    with open(document) as f:
        bom = json.load(f)
    carried = re.findall(r"^\tdep\t(\S+)\t(\S+)", subprocess.check_output(["go", "version", "-m", program], text=True), re.M)
    listed = [(c["name"], c["version"]) for c in bom["components"] if c["name"] != "std"]
    if bom["bomFormat"] != "CycloneDX" or sorted(listed) != sorted(carried):
        sys.exit("%s lists %s, the program carries %s" % (document, sorted(listed), sorted(carried)))
    if not all(c.get("hashes") for c in bom["components"] if c["name"] != "std"):
        sys.exit("%s has modules without a checksum" % document)
    with open(licences) as f:
        text = f.read()
    missing = [m for m, v in carried if "== %s %s\n" % (m, v) not in text]
    if missing:
        sys.exit("%s has no licence of %s" % (licences, missing))
    print("%d modules" % len(carried))


if __name__ == "__main__":
    main(*sys.argv[1:])
