#!/usr/bin/env bash
# A real Dynamo, its frontend and its mocker, in a virtual environment of its own: seconds
# and 270 MB. The engines that it can run and their torch are left out.
#
# usage: get-dynamo.sh DIR    makes DIR/bin/python
set -euo pipefail

version=1.6.1
dir=$(realpath -m "$1")
done=$dir/.complete-$version

[[ ! -e $done ]] || exit 0
rm -rf "$dir"
python3 -m venv "$dir"
"$dir/bin/pip" install -q --no-deps "ai-dynamo==$version" "ai-dynamo-runtime==$version"
"$dir/bin/pip" install -q uvloop packaging typing_extensions pyyaml msgspec 'pydantic<=2.13.5'
touch "$done"
