#!/usr/bin/env bash
# Profiles serve.py on a machine with one NVIDIA GPU, and leaves what is worth
# keeping in a folder.
#
# usage: run.sh PLIMSOLL OUT [8b|3b|1b|tiny]    default: 8b; tiny is for a CPU
#
# PLIMSOLL is the program, or the program packed by gzip. It must be built with
# cgo, because NVML is loaded at run time, and where glibc is no newer than there:
#
#   go build -trimpath -ldflags '-s -w' -o plimsoll ./cmd/plimsoll    # CGO_ENABLED=1, the default where there is a C compiler
#   gzip plimsoll                                                     # 59 MB become 21 MB
#
# Built on Debian 12 it needs glibc 2.34 of 2021 (objdump -T plimsoll | grep -o
# 'GLIBC_[0-9.]*' | sort -Vu), libc.so.6 alone, and no NVIDIA library to start.
# The machine needs python3 with torch; no network, no Go.
#
# The profile is told to end so that all of it takes LIMIT seconds (in the
# environment; 540), and what was measured until then is kept. OUT gets six files:
#   profile.tar.gz     the profile's folder
#   steps.tar.gz       each step of each engine, as the engine timed it (CSV)
#   gpus.json          plimsoll gpus --format json
#   nvidia-smi.txt     nvidia-smi -q, before and after
#   versions.txt       machine, driver, torch, plimsoll
#   log.txt            everything printed
# Ends with status 1 if anything failed; what was there until then is kept. After a
# failed self-test nothing is measured.
# shellcheck disable=SC2317 # the functions are called through part
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
plimsoll=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
preset=${3:-8b}
python=${PYTHON:-python3}
work=$(mktemp -d "${TMPDIR:-/tmp}/plimsoll-gpu.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/steps"
export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1

case $preset in
tiny) model=tiny ;;
8b) model=meta-llama/Meta-Llama-3.1-8B ;;
3b) model=meta-llama/Llama-3.2-3B ;;
1b) model=meta-llama/Llama-3.2-1B ;;
*)
	echo "run.sh: $preset: want 8b, 3b, 1b or tiny" >&2
	exit 2
	;;
esac
if [[ $preset == tiny ]]; then # objectives that a busy CPU meets
	rows=6 context=1024
	target=(--isl 256 --osl 64 --ttft 2000 --itl 200 --gpu-count 1 --prefill-interpolation-granularity 5 --decode-interpolation-granularity 3)
else # of an H100's 80 GB, 8b takes 16 for weights and 34 for the cache
	rows=64 context=4096
	target=(--isl 2048 --osl 128 --ttft 300 --itl 40 --prefill-interpolation-granularity 10 --decode-interpolation-granularity 6)
fi

serve=("$python" "$here/serve.py" --preset "$preset")
template="${serve[*]} --port {{.Port}} --tensor-parallel-size {{.TP}} --served-model-name {{.Model}} --max-num-seqs $rows --max-model-len $context
	{{if .PrefixCaching}}--prefix-caching{{end}} --steps $work/steps/{{if .PrefixCaching}}cached{{else}}plain{{end}}.csv"

failed=0
# part NAME COMMAND… says what runs, how it ended and what it took; its status is the command's.
part() {
	local name=$1 begin=$SECONDS status=0
	shift
	echo "== $name"
	"$@" || status=$?
	echo "== $name: status $status, $((SECONDS - begin)) s"
	((status == 0)) || failed=1
	return $status
}

unpack() {
	if [[ $plimsoll == *.gz ]]; then
		gzip -dc "$plimsoll" >"$work/plimsoll" && chmod +x "$work/plimsoll" && plimsoll=$work/plimsoll
	fi
	"$plimsoll" --version
}

versions() {
	{
		date -u +%FT%TZ
		uname -srm
		grep -h PRETTY_NAME /etc/os-release
		ldd --version | head -n 1
		lscpu | grep -E '^(Model name|CPU\(s\)):'
		"$plimsoll" --version
		sha256sum "$plimsoll" | cut -d ' ' -f 1
		"$python" -c 'import platform, torch; print("python", platform.python_version(), "torch", torch.__version__, "CUDA", torch.version.cuda)'
		nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,power.limit --format=csv 2>/dev/null
	} >"$out/versions.txt"
	cat "$out/versions.txt"
}

smi() {
	if [[ $preset != tiny ]]; then
		nvidia-smi -q >>"$out/nvidia-smi.txt"
	fi
}

# Containers get the driver's libraries mounted where no linker looks.
gpus() {
	if ! "$plimsoll" gpus; then
		export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64:/usr/local/nvidia/lib
		echo "again, with LD_LIBRARY_PATH=$LD_LIBRARY_PATH"
		"$plimsoll" gpus || target+=(--gpu-count 1)
	fi
	"$plimsoll" gpus --format json | tee "$out/gpus.json"
}

profile() {
	local left=$((${LIMIT:-540} - SECONDS))
	timeout $((left - 10)) "$plimsoll" profile-sla --engine command --command "$template" --model "$model" --tp 1 "${target[@]}" \
		--max-num-seqs "$rows" --max-context-length "$context" --max-time $((left - 60))s --quiet --output-dir "$work/profile"
}

pack() {
	tar -C "$work" -czf "$out/profile.tar.gz" profile
	tar -C "$work" -czf "$out/steps.tar.gz" steps
	ls -l "$out"
}

everything() {
	part unpack unpack
	part versions versions
	part nvidia-smi smi
	if [[ $preset != tiny ]]; then
		part gpus gpus
		part selftest-float32 timeout 60 "${serve[@]}" --selftest --preset tiny --dtype float32 || return 1
		part selftest-bfloat16 timeout 60 "${serve[@]}" --selftest --preset tiny || return 1
		part bench timeout 90 "${serve[@]}" --bench --max-num-seqs "$rows" --max-model-len "$context"
	fi
	part profile profile
	part check "$python" "$here/check.py" "$work/profile" "$work/steps"
	if [[ $preset == 8b ]]; then # the catalog's
		part calibrate "$plimsoll" calibrate --output "$work/calibration.json" "$work/profile"
	fi
	part nvidia-smi smi
	part pack pack
	return $failed
}

everything > >(tee "$out/log.txt") 2>&1
status=$?
wait
exit $status
