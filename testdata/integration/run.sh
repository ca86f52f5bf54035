#!/usr/bin/env bash
# The product against parts that this project did not write: llama.cpp's server
# on the CPU, numpy and scipy as readers of its files,
# Prometheus, and, in the Go tests of this folder's module, etcd and a Kubernetes
# control plane.
#
# usage: run.sh BIN CACHE_DIR    as root on Debian, its package registry reachable
#
# Whatever is needed is installed or downloaded here, pinned in CACHE_DIR. Each
# check prints one line, "ok NAME figures" or "FAIL NAME reason"; what could not
# be had fails by name. Ends with status 1 if anything failed, and then keeps the
# outputs; KEEP=1 in the environment keeps them anyway, plots and all.
# ONLY='@(python-packages|llama*)' runs the checks of such names alone.
#
# What compares latencies of a real engine runs first, alone. Then checks run in three
# lanes at the same time, each in a folder of its own: those that keep the processors
# busy, those of a cluster, and the others, which mostly wait. The Go tests that fail there
# are printed, and run again at the end, alone: a limit of time says little on a machine
# that three lanes share.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
bin=$(realpath "$1")
cache=$(realpath -m "$2")
python=/usr/bin/python3
mkdir -p "$cache"
root=$(mktemp -d "${TMPDIR:-/tmp}/plimsoll-integration.XXXXXX")
work=$root
export PYTHONDONTWRITEBYTECODE=1
"$bin" schema recommendation >"$root/schema.json"

# In front of the client.
first=(nice -n -5)

ok() { echo "ok $*"; }
# fail says what failed. Where other lanes run beside it, as go_checks says, it fails for
# good only if it fails again, alone.
fail() {
	if [[ -n ${beside:-} ]]; then
		echo "AGAIN $*"
		echo "$folder $(sed -n 's/^failed: //p' "$work/$name.err" | head -n 1)" >>"$root/again.list"
	else
		echo "FAIL $*"
	fi
}
counted() { cat "$root"/*.lane | grep -c "^$1 " || true; }

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

# ours lists the engines and the programs that run on this lane's files.
ours() { processes "*$work/*"; }

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
	work=$root
	end_ours
	if (($(counted FAIL) > 0)) || [[ -n ${KEEP:-} ]]; then
		echo "outputs are in $root" >&2
	else
		rm -rf "$root"
	fi
}
trap cleanup EXIT

# lane NAME FUNCTION runs the checks of FUNCTION in the background, in a folder
# NAME; what they print is in NAME.lane.
lane() {
	mkdir -p "$root/$1"
	(
		trap - EXIT
		work=$root/$1
		"$2"
	) 2>&1 | tee -a "$root/$1.lane" &
}

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
		sed 's/^/    /' "$err" | tail -n 60
		end_ours # what a check that failed left is not the next one's fault
	fi
}

# install_packages NAME… installs Debian's packages, one lane after the other. Where
# a package is a server, Debian starts one at installation, which RUNLEVEL=1 prevents.
install_packages() {
	flock "$cache/apt.lock" sh -c 'apt-get -qq update && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends "$@"' sh "$@" >&2
}

python_packages() {
	if ! "$python" -c 'import jsonschema, numpy, scipy' 2>/dev/null; then
		install_packages python3-numpy python3-scipy python3-jsonschema
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
	(cd "$work" && timeout 180 ./plimsoll profile-sla --isl 3000 --osl 150 --ttft 200 --itl 20 >first.txt)
	ended=$EPOCHREALTIME
	grep -q SIMULATED "$work/first.txt"
	[[ $(suggested "$work/first.txt") == 4 ]]
	echo "build $(elapsed "$begin" "$built") s, profile $(elapsed "$built" "$ended") s beside the other lanes, of 180; $(grep '^Suggested decode' "$work/first.txt")"
}

# The embedded engine over HTTP: picks under open load, at the rates that are
# recommended.
verified() {
	timeout 300 "$bin" profile-sla --engine sim --gpu l40s --gpu-count 1 --tp 1 --isl 500 --osl 30 --ttft 1000 --itl 100 --max-num-seqs 64 --quiet --details \
		--prefill-interpolation-granularity 3 --decode-interpolation-granularity 2 --max-context-length 700 --verify always --load-time 40s \
		--output-dir "$work/verified" >"$work/verified.txt"
	[[ $(suggested "$work/verified.txt") == 4 ]]
	[[ $(grep -cE '^Verified under load: (prefill|decode) TP:1 at ' "$work/verified.txt") == 2 ]]
	none_left
	grep '^Verified under load' "$work/verified.txt" | paste -sd ';'
}

elapsed() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1f", b - a }'; }

# Profiles of every kind: measured and simulated ones of the checks above, estimates
# of dense models and of mixtures of experts, Dynamo's plan of points, an import.
numpy_reads() {
	local upstream=$work/upstream
	estimate llama-3.1-8b h100-sxm TP:2
	estimate llama-3.1-8b h100-sxm TP:2 --search grid
	estimate llama-3.1-70b h200-sxm TP:4
	estimate deepseek-r1 h200-sxm DEP:8
	estimate mixtral-8x7b h100-sxm TP:2
	for phase in prefill decode; do
		mkdir -p "$upstream/selected_${phase}_interpolation"
		cp "$repo/testdata/npz/h200-8b-fp8-tp1-$phase.npz" "$upstream/selected_${phase}_interpolation/raw_data.npz"
	done
	"$bin" profile-sla import --tp 1 --isl 3000 --osl 300 --ttft 200 --itl 10 --output-dir "$work/import" "$upstream" >/dev/null
	go -C "$here" build -o "$work/answers" ./answers
	"$python" "$here/check_npz.py" "$repo/testdata/npz" "$work/answers" "$work/launched" "$work/profiling_results" \
		"$work"/estimate-* "$work/import" >"$work/npz.figures"
	paste -sd ';' "$work/npz.figures"
}

# estimate MODEL GPU LAYOUT FLAGS… is a profile in virtual time, in a folder of that
# name.
estimate() {
	local dir=$work/estimate-$1${5:+-$5}
	"$bin" profile-sla --engine estimate --model "$1" --gpu "$2" --parallelism "$3" "${@:4}" --isl 3000 --osl 150 \
		--ttft 1000 --itl 30 --verify never --quiet --output-dir "$dir" >/dev/null
}

chromium() {
	if [[ ! -x /usr/bin/chromium ]]; then
		install_packages chromium
	fi
	/usr/bin/chromium --version
}

servers() {
	"$here/build.sh" "$cache" >"$root/servers" 2>"$work/build.err" || {
		cat "$work/build.err" >&2
		return 1
	}
	cd "$(cat "$root/servers")"
	echo "$(du -sh . | cut -f 1): $(find . -maxdepth 1 -type f -printf '%f\n' | sort | paste -sd ' ')"
	sed 's/^/    /' "$work/build.err"
}

# go_test runs the Go tests of one package, as $1 says; it fails too where it
# ran none.
go_test() {
	if [[ ! -s $root/servers ]]; then
		echo "not run: there are no servers" >&2
		return 1
	fi
	PLIMSOLL=$bin PLIMSOLL_SERVERS=$(cat "$root/servers") go -C "$here" test -count=1 -timeout 15m -json ${tests:+-run "^($tests)\$"} "$1" 2>&1 |
		"$python" "$here/failed.py" >"$work/go-test.out" || {
		cat "$work/go-test.out" >&2
		return 1
	}
	cat "$work/go-test.out"
}

# alone are checks that compare latencies of a real engine: nothing else runs.
alone() {
	check python-packages python_packages
	. "$here/llama.sh"
	check llama-server llama_server
	check llama-launched launched
	check llama-searches searches
	check llama-endpoint endpoint
	check llama-killed-and-resumed killed
}

# busy checks share what the first ones, and those that ran alone, profile, so they run
# one after the other.
busy() {
	. "$here/faults.sh"
	. "$here/llama.sh"
	check llama-faults llama_faults
	check first-run first_run
	check numpy-reads numpy_reads
	check verified verified
	. "$here/release.sh"
}

build_checks() { check servers servers; }
browser_checks() { check chromium chromium; }

# go_checks FOLDER… are checks of Go tests.
go_checks() {
	local folder beside=${beside-yes}
	for folder in "$@"; do
		tests_of() { go_test "./$folder"; }
		check "go-$folder" tests_of
	done
}

# again runs the tests that failed, all of the folder where none is named.
again() {
	local beside='' folder names tests
	while read -r folder names; do
		[[ $names != 'no test ran' ]] || names=
		tests=$(tr ',' '\n' <<<"$names" | sed 's/^ *//; s|/.*||' | sort -u | paste -sd '|')
		go_checks "$folder"
	done <"$root/again.list"
}

clusters() { go_checks cluster kube profile; }

# All other folders with tests are here, new ones too.
waiting() {
	local folder others=()
	for folder in $(go -C "$here" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' ./...); do
		folder=$(basename "$folder")
		[[ $folder == @(cluster|kube|profile) ]] || others+=("$folder")
	done
	. "$here/prometheus.sh"
	go_checks "${others[@]}"
}

lane build build_checks
lane browser browser_checks
wait # for what the others start
lane busy alone
wait
lane busy busy
lane clusters clusters
lane waiting waiting
wait
if [[ -s $root/again.list ]]; then
	lane again again
	wait
fi
echo "$(counted ok) passed, $(counted FAIL) failed"
(($(counted FAIL) == 0 && $(counted ok) > 0))
