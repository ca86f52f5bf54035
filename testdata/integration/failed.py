"""Reads what `go test -json` prints. Prints the output of the tests that failed, or how
many passed, and ends with status 1 if any failed or none ran.

usage: go test -json PACKAGE | failed.py
"""
import collections
import json
import re
import sys

output, failed, passed, skipped = collections.defaultdict(list), [], 0, 0
begun = {}  # tests that have not ended, as where they hang
for line in sys.stdin:
    try:
        event = json.loads(line)
    except ValueError:  # of the compiler
        event = {"Action": "output", "Output": line}
    test, action = event.get("Test", ""), event["Action"]
    if action in ("output", "build-output"):
        output[test].append(event["Output"])
    elif action == "run":
        begun[test] = True
    elif action in ("fail", "build-fail"):
        begun.pop(test, None)
        failed.append(test)
    elif action in ("pass", "skip"):
        begun.pop(test, None)
    if test and "/" not in test:
        passed += action == "pass"
        skipped += action == "skip"

# What the test says is wrong comes last: the logs of its servers are long.
said = re.compile(r"^ {4,}\w+\.go:\d+: (?!.*log ends with)")
for test in failed:
    lines = output[test]
    sys.stdout.writelines([f"{test}:\n"] + lines[-30:] + [line for line in lines if said.match(line)][-20:])
for test in begun:
    sys.stdout.writelines([f"{test} did not end:\n"] + output[test][:200])
if failed or not passed:
    sys.exit(f"failed: {', '.join(filter(None, failed + list(begun))) or 'no test ran'}")
print(f"{passed} tests" + (f", {skipped} skipped" if skipped else ""))
