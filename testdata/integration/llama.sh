# Part of run.sh: profiles of llama.cpp's server on the CPU.
# shellcheck shell=bash disable=SC2154

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
serve="$server -m $model --alias tiny --host 127.0.0.1 -np $slots --poll 0 --metrics --offline --no-ui"
template="nice -n 5 $serve -c $((slots * context)) --port {{.Port}} -t {{.TP}} -tb {{.TP}} {{if not .PrefixCaching}}--no-cache-prompt -cram 0{{end}}"
# Objectives that a slow, busy machine meets too.
ttft=5000 itl=250
target=(--isl 256 --osl 64 --ttft "$ttft" --itl "$itl" --max-context-length "$context"
	--prefill-interpolation-granularity 5 --decode-interpolation-granularity 3 --verify never --quiet)
# By its name, as users start it; and as a command, of which all is told.
llamacpp=(profile-sla --engine llamacpp --model "$model" --tp "1,2" --gpu-count 2 --max-num-seqs "$slots" "${target[@]}")
command=(profile-sla --engine command --model tiny --command "$template" --tp "1,2" --gpu-count 2 "${target[@]}")

engine_runs() { [[ -n $(processes "*/usr/bin/llama-server -m $model*") ]]; }

llama_server() {
	"$here/get-llama-server.sh" "$cache/llama-server" "$here/llama-server.lock" 2>"$work/get.err" || {
		cat "$work/get.err" >&2
		return 1
	}
	local build pinned=pinned
	mkdir "$work/bin"
	printf '#!/bin/sh\nexec nice -n 5 %q "$@"\n' "$server" >"$work/bin/llama-server"
	chmod +x "$work/bin/llama-server"
	build=$("$server" --version 2>&1 | head -n 1)
	diff -q <(grep -v '^#' "$here/llama-server.lock") "$cache/llama-server/versions" >/dev/null || pinned="NOT what llama-server.lock pins"
	echo "$build ($(grep llama.cpp-tools "$cache/llama-server/versions"), $pinned); $("$python" "$here/make_gguf.py" "$model" \
		--dtype q8_0 | sed "s,$work/,,")"
	sed -n 's/^get-llama-server: /    /p' "$work/get.err"
}

need_server() {
	if [[ ! -s $model ]]; then
		echo "not run: there is no llama-server" >&2
		return 1
	fi
}

# judge DIR IN_FLIGHT: files, statistics, plausibility.
judge() {
	"$python" "$here/check_profile.py" "$1" "$root/schema.json" --ttft "$ttft" --itl "$itl" \
		--version "llama.cpp b" --kv-tokens $((slots * context)) --kv-source log,props --in-flight "$2"
}

launched() {
	need_server
	PATH=$work/bin:$PATH "${first[@]}" timeout 600 "$bin" "${llamacpp[@]}" --output-dir "$work/launched" -- --poll 0 >"$work/launched.txt"
	none_left
	[[ $(suggested "$work/launched.txt") == 4 ]]
	judge "$work/launched" "$slots"
}

# Upstream's plan with few points, beside what the adaptive search found before. Other
# checks disturb this machine: where the two differ, both measure again, twice at most.
searches() {
	need_server
	if [[ ! -s $work/launched/run.json ]]; then
		echo "not run: there is no profile by the adaptive search" >&2
		return 1
	fi
	local adaptive=$work/launched try
	for try in 1 2 3; do
		PATH=$work/bin:$PATH "${first[@]}" timeout 600 "$bin" "${llamacpp[@]}" --search grid \
			--prefill-interpolation-granularity 3 --decode-interpolation-granularity 2 --max-context-length 448 \
			--output-dir "$work/grid-$try" -- --poll 0 >"$work/grid.txt"
		none_left
		[[ $(suggested "$work/grid.txt") == 4 ]]
		if "$python" "$here/check_searches.py" "$work/grid-$try" "$adaptive"; then
			return
		fi
		adaptive=$work/adaptive-$try
		PATH=$work/bin:$PATH "${first[@]}" timeout 600 "$bin" "${llamacpp[@]}" --output-dir "$adaptive" -- --poll 0 >"$work/adaptive.txt"
		none_left
	done
	echo "three times they found different answers" >&2
	return 1
}

# start_llama PORT CONTEXT starts the server with slots of CONTEXT tokens.
start_llama() {
	$serve -c $((slots * $2)) --port "$1" -t 1 -tb 1 >>"$work/llama.log" 2>&1 &
	server_pid=$! # ended by the script's own cleanup if a check fails
	wait_for 30 "llama-server is ready" get "http://127.0.0.1:$1/health"
}

# The server here has six slots, so that more than four at once would show.
endpoint() {
	need_server
	local port url peak=0 n
	port=$(free_port)
	url=http://127.0.0.1:$port
	start_llama "$port" "$context"
	"${first[@]}" timeout 600 "$bin" profile-sla --endpoint "$url" --endpoint-gpus 1 --max-in-flight 4 --model tiny "${target[@]}" \
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

points() { grep -c "\"type\":\"point\".*\"$1/" "$work/killed/journal.jsonl"; }
midway() { (($(points "$1") >= 2)) && engine_runs; }

# Killed twice, in the first sweep and in the surfaces, which begin as soon as an
# engine may be the pick; the second time while it
# resumes. The points that were finished stay as they were.
killed() {
	need_server
	local pid stage kept twice extra=()
	for stage in sweep surface; do
		"${first[@]}" "$bin" "${command[@]}" --output-dir "$work/killed" "${extra[@]}" >"$work/killed.txt" 2>&1 &
		pid=$!
		wait_for 200 "points of the $stage" midway "$stage"
		kill -9 "$pid"
		wait "$pid" 2>/dev/null || true
		none_left
		extra=(--resume)
	done
	grep '"type":"point"' "$work/killed/journal.jsonl" >"$work/before.jsonl"
	kept=$(wc -l <"$work/before.jsonl")
	"${first[@]}" timeout 600 "$bin" "${command[@]}" --output-dir "$work/killed" --resume >"$work/killed.txt"
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

# Enough output tokens that the server is killed amid the sweep.
llama_faults() {
	need_server
	faults start_llama 600
}
