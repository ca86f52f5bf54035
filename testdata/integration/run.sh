#!/usr/bin/env bash
# The product against parts that this project did not write: llama.cpp's server
# on the CPU, numpy and scipy as readers of its files, and, in the Go tests of
# this folder's module, etcd and a Kubernetes control plane.
#
# usage: run.sh BIN CACHE_DIR    as root on Debian, its package registry reachable
#
# Whatever is needed is installed or downloaded here, pinned in CACHE_DIR. Each
# check prints one line, "ok NAME figures" or "FAIL NAME reason"; what could not
# be had fails by name. Ends with status 1 if anything failed, and then keeps the
# outputs; KEEP=1 in the environment keeps them anyway, plots and all.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
bin=$(realpath "$1")
cache=$(realpath -m "$2")
python=/usr/bin/python3
mkdir -p "$cache"
work=$(mktemp -d "${TMPDIR:-/tmp}/plimsoll-integration.XXXXXX")
export PYTHONDONTWRITEBYTECODE=1

# The engine under test: a model of random weights, six slots of 1024 tokens.
# Threads stand in for tensor parallelism. Client and engine share the cores,
# which they would not do with GPUs, and a client that is woken late reads many
# chunks at once. Hence --poll 0, without which two threads spin on both cores
# of a small machine; and the client goes first: it runs at a lower niceness, of
# which the engine is relieved again.
slots=6
context=1024
model=$work/tiny.gguf
server=$cache/llama-server/llama-server
serve="nice -n 5 $server -m $model --alias tiny --host 127.0.0.1 -np $slots -c $((slots * context)) --poll 0 --metrics --offline --no-ui"
template="$serve --port {{.Port}} -t {{.TP}} -tb {{.TP}} {{if not .PrefixCaching}}--no-cache-prompt -cram 0{{end}}"
# Objectives that a slow, busy machine meets too.
ttft=2000 itl=100
target=(--model tiny --isl 256 --osl 64 --ttft "$ttft" --itl "$itl" --max-context-length "$context"
	--prefill-interpolation-granularity 6 --decode-interpolation-granularity 4 --quiet)
command=(profile-sla --engine command --command "$template" --tp "1,2" --gpu-count 2 "${target[@]}")

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

engine_runs() { [[ -n $(processes "*/usr/bin/llama-server -m $model*") ]]; }

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

cleanup() {
	local pid
	for pid in $(ours); do
		kill -9 "$pid" 2>/dev/null || true
	done
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
	("$2") >"$out" 2>"$err" &
	wait $! || status=$?
	if ((status == 0)); then
		ok "$name $(head -n 1 "$out") [$((SECONDS - begin)) s]"
		tail -n +2 "$out"
	else
		fail "$name $(tail -n 1 "$err")"
		sed 's/^/    /' "$err" | tail -n 30
	fi
}

python_packages() {
	if ! "$python" -c 'import jsonschema, numpy, scipy' 2>/dev/null; then
		apt-get -qq update
		DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends python3-numpy python3-scipy python3-jsonschema >&2
	fi
	"$python" -c 'from importlib.metadata import version as v; print(*(f"{p} {v(p)}" for p in ("numpy", "scipy", "jsonschema")))'
}

llama_server() {
	"$here/get-llama-server.sh" "$cache/llama-server" "$here/llama-server.lock" 2>"$work/get.err" || {
		cat "$work/get.err" >&2
		return 1
	}
	local build pinned=pinned
	build=$("$server" --version 2>&1 | head -n 1)
	diff -q <(grep -v '^#' "$here/llama-server.lock") "$cache/llama-server/versions" >/dev/null || pinned="NOT what llama-server.lock pins"
	echo "$build ($(grep llama.cpp-tools "$cache/llama-server/versions"), $pinned); $("$python" "$here/make_gguf.py" "$model" \
		--dtype q8_0 | sed "s,$work/,,")"
	sed -n 's/^get-llama-server: /    /p' "$work/get.err"
	"$bin" schema recommendation >"$work/schema.json"
}

need_server() {
	if [[ ! -s $work/schema.json ]]; then
		echo "not run: there is no llama-server" >&2
		return 1
	fi
}

# judge DIR IN_FLIGHT: files, statistics, plausibility.
judge() {
	"$python" "$here/check_profile.py" "$1" "$work/schema.json" --ttft "$ttft" --itl "$itl" \
		--kv-tokens $((slots * context)) --in-flight "$2"
}

suggested() {
	grep -cE '^Suggested (prefill|decode) TP:[0-9]+ \((TTFT|ITL) [0-9.]+ ms, throughput [0-9.]+ tokens/s/GPU\)$|^Suggested planner upper/lower bound for (prefill queue size|decode kv cache utilization): [0-9.]+/[0-9.]+$' "$1"
}

launched() {
	need_server
	"${first[@]}" timeout 300 "$bin" "${command[@]}" --output-dir "$work/launched" >"$work/launched.txt"
	none_left
	[[ $(suggested "$work/launched.txt") == 4 ]]
	judge "$work/launched" "$slots"
}

free_port() { "$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# The server here has six slots, so that more than four at once would show.
endpoint() {
	need_server
	local port url peak=0 n
	port=$(free_port)
	url=http://127.0.0.1:$port
	${serve#nice -n 5 } --port "$port" -t 1 -tb 1 >"$work/server.log" 2>&1 &
	server_pid=$! # ended by the script's own cleanup if this fails
	wait_for 30 "llama-server is ready" get "$url/health"
	"${first[@]}" timeout 300 "$bin" profile-sla --endpoint "$url" --endpoint-gpus 1 --max-in-flight 4 "${target[@]}" \
		--output-dir "$work/endpoint" >"$work/endpoint.txt" &
	while kill -0 $! 2>/dev/null; do
		n=$(get "$url/metrics" | sed -n 's/^llamacpp:requests_processing //p')
		((${n:-0} <= peak)) || peak=$n
		sleep 0.2
	done
	wait $!
	if ((peak < 2 || peak > 4)); then
		echo "the server saw up to $peak requests at once, want 4 at most" >&2
		return 1
	fi
	get "$url/health" >/dev/null
	kill "$server_pid"
	none_left
	[[ $(suggested "$work/endpoint.txt") == 4 ]]
	judge "$work/endpoint" 4 >"$work/endpoint.figures"
	echo "at most $peak requests at once by the server's own count; $(cat "$work/endpoint.figures")"
}

get() { "$python" -c 'import sys, urllib.request as u; sys.stdout.write(u.urlopen(sys.argv[1], timeout=5).read().decode())' "$1"; }

points() { grep -c "\"type\":\"point\".*\"$1/" "$work/killed/journal.jsonl"; }
midway() { (($(points "$1") >= 3)) && engine_runs; }

# Killed twice, in the sweep and in the surfaces; the second time while it
# resumes. The points that were finished stay as they were.
killed() {
	need_server
	local pid stage kept twice extra=()
	for stage in sweep surface; do
		"${first[@]}" "$bin" "${command[@]}" --output-dir "$work/killed" "${extra[@]}" >"$work/killed.txt" 2>&1 &
		pid=$!
		wait_for 200 "3 points of the $stage" midway "$stage"
		kill -9 "$pid"
		wait "$pid" 2>/dev/null || true
		none_left
		extra=(--resume)
	done
	grep '"type":"point"' "$work/killed/journal.jsonl" >"$work/before.jsonl"
	kept=$(wc -l <"$work/before.jsonl")
	"${first[@]}" timeout 300 "$bin" "${command[@]}" --output-dir "$work/killed" --resume >"$work/killed.txt"
	none_left
	grep '"type":"point"' "$work/killed/journal.jsonl" >"$work/after.jsonl"
	if ! head -n "$kept" "$work/after.jsonl" | diff -q - "$work/before.jsonl" >&2; then
		echo "finished points changed" >&2
		return 1
	fi
	twice=$(grep -o '"point":{"id":"[^"]*"' "$work/after.jsonl" | sort | uniq -d)
	if [[ -n $twice ]]; then
		echo "measured twice: $twice" >&2
		return 1
	fi
	judge "$work/killed" "$slots" >"$work/killed.figures"
	echo "$kept points kept of $(wc -l <"$work/after.jsonl"), no engine left; $(head -n 1 "$work/killed.figures")"
}

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

elapsed() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1f", b - a }'; }

numpy_reads() {
	"$python" "$here/check_npz.py" "$repo/testdata/npz" "$work/launched" "$work/profiling_results" >"$work/npz.figures"
	paste -sd ';' "$work/npz.figures"
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
	PLIMSOLL=$bin PLIMSOLL_SERVERS=$(cat "$work/servers") go -C "$here" test -count=1 -timeout 10m -v "$1" >"$out" 2>&1 || {
		grep -v '^=== \|^--- PASS' "$out" >&2
		return 1
	}
	passed=$(grep -c '^--- PASS' "$out")
	echo "$passed tests"
}

check python-packages python_packages
check llama-server llama_server
check llama-launched launched
check llama-endpoint endpoint
check llama-killed-and-resumed killed
check first-run first_run
check numpy-reads numpy_reads
. "$here/prometheus.sh"
check servers servers
for package in $(go -C "$here" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' ./...); do
	tests_of() { go_test "$package"; }
	check "go-$(basename "$package")" tests_of
done
echo "$passed passed, $failed failed"
((failed == 0))
