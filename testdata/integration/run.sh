#!/usr/bin/env bash
# The product against parts that this project did not write: llama.cpp's server
# on the CPU, llm-d's vLLM simulator, numpy and scipy as readers of its files,
# Prometheus, and, in the Go tests of this folder's module, etcd and a Kubernetes
# control plane.
#
# usage: run.sh BIN CACHE_DIR    as root on Debian, its package registry reachable
#
# Whatever is needed is installed or downloaded here, pinned in CACHE_DIR. Each
# check prints one line, "ok NAME figures" or "FAIL NAME reason"; what could not
# be had fails by name. Ends with status 1 if anything failed, and then keeps the
# outputs; KEEP=1 in the environment keeps them anyway, plots and all.
# ONLY='@(python-packages|simulator*)' runs the checks of such names alone, LONG=1
# those too that take a quarter of an hour.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
bin=$(realpath "$1")
cache=$(realpath -m "$2")
python=/usr/bin/python3
mkdir -p "$cache"
work=$(mktemp -d "${TMPDIR:-/tmp}/plimsoll-integration.XXXXXX")
export PYTHONDONTWRITEBYTECODE=1
"$bin" schema recommendation >"$work/schema.json"

# In front of the client.
first=(nice -n -5)

passed=0 failed=0
ok() { passed=$((passed + 1)) && echo "ok $*"; }
fail() { failed=$((failed + 1)) && echo "FAIL $*"; }

# processes PATTERN lists those with such a command line. (Not pgrep, which
# comes with a package of its own.)
processes() {
	local p
	for p in /proc/[0-9]*; do
		# shellcheck disable=SC2053 # a pattern is wanted
		if [[ $(tr '\0' ' ' 2>/dev/null <"$p/cmdline") == $1 ]]; then
			echo "${p#/proc/}"
		fi
	done 2>/dev/null
}

# ours lists the engines and the programs that run on this run's files.
ours() { processes "*$work*"; }

none_left() { wait_for 10 "processes left: $(ours | tr '\n' ' ')" test_none_left; }
test_none_left() { [[ -z $(ours) ]]; }

# wait_for SECONDS WHAT COMMAND… polls until COMMAND succeeds.
wait_for() {
	local end=$((SECONDS + $1)) what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		if ((SECONDS >= end)); then
			echo "timed out: $what" >&2
			return 1
		fi
		sleep 0.1
	done
}

end_ours() {
	local pid
	for pid in $(ours); do
		kill -9 "$pid" 2>/dev/null || true
	done
}

cleanup() {
	end_ours
	if ((failed > 0)) || [[ -n ${KEEP:-} ]]; then
		echo "outputs are in $work" >&2
	else
		rm -rf "$work"
	fi
}
trap cleanup EXIT

# check NAME FUNCTION runs FUNCTION in a shell of its own, in which every
# command must succeed (in the background, because errexit does not hold in what
# stands left of ||). Its output is the figures: the first line goes beside the
# name, the rest below.
check() {
	local name=$1 begin=$SECONDS out=$work/$1.out err=$work/$1.err status=0
	# shellcheck disable=SC2053 # a pattern is wanted
	if [[ $name != ${ONLY:-*} ]]; then
		return
	fi
	("$2") >"$out" 2>"$err" &
	wait $! || status=$?
	if ((status == 124)); then
		echo "timed out" >>"$err"
	fi
	if ((status == 0)); then
		ok "$name $(head -n 1 "$out") [$((SECONDS - begin)) s]"
		tail -n +2 "$out"
	else
		fail "$name $(tail -n 1 "$err")"
		sed 's/^/    /' "$err" | tail -n 30
		end_ours # what a check that failed left is not the next one's fault
	fi
}

python_packages() {
	if ! "$python" -c 'import jsonschema, numpy, scipy' 2>/dev/null; then
		apt-get -qq update
		DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends python3-numpy python3-scipy python3-jsonschema >&2
	fi
	"$python" -c 'from importlib.metadata import version as v; print(*(f"{p} {v(p)}" for p in ("numpy", "scipy", "jsonschema")))'
}

suggested() {
	grep -cE '^Suggested (prefill|decode) TP:[0-9]+ \((TTFT|ITL) [0-9.]+ ms, throughput [0-9.]+ tokens/s/GPU\)$|^Suggested planner upper/lower bound for (prefill queue size|decode kv cache utilization): [0-9.]+/[0-9.]+$' "$1"
}

free_port() { "$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

get() { "$python" -c 'import sys, urllib.request as u; sys.stdout.write(u.urlopen(sys.argv[1], timeout=5).read().decode())' "$1"; }

# README's two commands, with the seconds that they take.
first_run() {
	local begin=$EPOCHREALTIME built ended
	(cd "$repo" && go build -o "$work/plimsoll" ./cmd/plimsoll)
	built=$EPOCHREALTIME
	(cd "$work" && timeout 90 ./plimsoll profile-sla --isl 3000 --osl 150 --ttft 200 --itl 20 >first.txt)
	ended=$EPOCHREALTIME
	grep -q simulated "$work/first.txt"
	[[ $(suggested "$work/first.txt") == 4 ]]
	echo "build $(elapsed "$begin" "$built") s, profile $(elapsed "$built" "$ended") s of 90; $(grep '^Suggested decode' "$work/first.txt")"
}

# The embedded engine over HTTP: picks under open load, at the rates that are
# recommended.
verified() {
	timeout 150 "$bin" profile-sla --engine sim --gpu l40s --gpu-count 1 --tp 1 --isl 500 --osl 30 --ttft 1000 --itl 100 --quiet \
		--prefill-interpolation-granularity 3 --decode-interpolation-granularity 2 --max-context-length 2000 --verify always --load-time 40s \
		--output-dir "$work/verified" >"$work/verified.txt"
	[[ $(suggested "$work/verified.txt") == 4 ]]
	[[ $(grep -cE '^Verified under load: (prefill|decode) TP:1 at ' "$work/verified.txt") == 2 ]]
	none_left
	grep '^Verified under load' "$work/verified.txt" | paste -sd ';'
}

elapsed() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1f", b - a }'; }

numpy_reads() {
	"$python" "$here/check_npz.py" "$repo/testdata/npz" "$work/launched" "$work/simulated" "$work/profiling_results" >"$work/npz.figures"
	paste -sd ';' "$work/npz.figures"
}

chromium() {
	if [[ ! -x /usr/bin/chromium ]]; then
		apt-get -qq update
		DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends chromium >&2
	fi
	/usr/bin/chromium --version
}

servers() {
	"$here/build.sh" "$cache" >"$work/servers" 2>"$work/build.err" || {
		cat "$work/build.err" >&2
		return 1
	}
	cd "$(cat "$work/servers")"
	echo "$(du -sh . | cut -f 1): $(find . -maxdepth 1 -type f -printf '%f\n' | sort | paste -sd ' ')"
	sed 's/^/    /' "$work/build.err"
}

# go_test runs the Go tests of one package, as $1 says; it fails too where it
# ran none.
go_test() {
	local out=$work/go-test.out passed
	if [[ ! -s $work/servers ]]; then
		echo "not run: there are no servers" >&2
		return 1
	fi
	PLIMSOLL=$bin PLIMSOLL_SERVERS=$(cat "$work/servers") go -C "$here" test -count=1 -timeout 15m -v "$1" >"$out" 2>&1 || {
		grep -v '^=== \|^--- PASS' "$out" >&2
		grep -E -A 3 '^ +[a-z_]+_test\.go:[0-9]+: |^panic: ' "$out" | tail -n 20 >&2 # what is wrong, last
		return 1
	}
	passed=$(grep -c '^--- PASS' "$out")
	echo "$passed tests"
}

check python-packages python_packages
. "$here/faults.sh"
. "$here/llama.sh"
. "$here/simulator.sh"
check first-run first_run
check verified verified
check numpy-reads numpy_reads
. "$here/prometheus.sh"
. "$here/release.sh"
check chromium chromium
check servers servers
for package in $(go -C "$here" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' ./...); do
	tests_of() { go_test "$package"; }
	check "go-$(basename "$package")" tests_of
done
echo "$passed passed, $failed failed"
((failed == 0))
