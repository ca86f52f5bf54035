# Part of run.sh: profiles of llm-d's vLLM simulator, built by build.sh.
# shellcheck shell=bash disable=SC2154

# It waits for as long as it is told, so that every number is known beforehand
# (check_formula.py). It has no flag for tensor parallelism: each size gets
# latencies of its own. TP:1 misses the TTFT and TP:2 meets it; both meet the ITL,
# TP:1 at 4 in flight with more tokens per second and GPU. Medians, because stalls
# of a busy machine leave them as they are. Its KV cache needs POD_IP; /metrics
# tells what it holds with and without. One engine serves both phases, and TTFT may
# be that of a factor under load of no request: a factor so small that TP:1 misses
# the TTFT then too. It looks for no tokenizer on the net and sends its cache's
# events nowhere.
export POD_IP=127.0.0.1
sim_slots=8
sim_kv=8192
simulate="$work/llm-d-inference-sim --force-dummy-tokenizer --zmq-endpoint= --max-num-seqs $sim_slots --block-size 16 --kv-cache-size $((sim_kv / 16)) --latency-calculator per-token --prefill-overhead 10ms"
sim_template="$simulate --model {{.Model}} --port {{.Port}} --max-model-len 1024
	{{if eq .TP 1}}--prefill-time-per-token 200us --inter-token-latency 20ms{{else}}--prefill-time-per-token 120us --inter-token-latency 18ms{{end}}
	--time-factor-under-load 1.7 {{if .PrefixCaching}}--enable-kvcache{{end}}"
simulated=(profile-sla --engine command --provenance simulated --tp "1,2" --gpu-count 2 --model llm-d-sim --isl 256 --osl 32 --ttft 50 --itl 27.5 --sla-stat p50
	--max-context-length 1024 --max-num-seqs "$sim_slots" --prefill-interpolation-granularity 5 --decode-interpolation-granularity 3 --verify never --quiet)

build_simulator() {
	local built
	built=$("$here/build.sh" "$cache" simulator)
	# By a name of this run's, which tells its processes from others'.
	ln -s "$built/simulator" "$work/llm-d-inference-sim"
	echo "llm-d's, $(go -C "$here/simulator" list -m github.com/llm-d/llm-d-inference-sim), on 127.0.0.1 alone"
}

need_simulator() {
	if [[ ! -x $work/llm-d-inference-sim ]]; then
		echo "not run: there is no simulator" >&2
		return 1
	fi
}

simulator_launched() {
	need_simulator
	"${first[@]}" timeout 600 "$bin" "${simulated[@]}" --command "$sim_template" --output-dir "$work/simulated" >"$work/simulated.txt"
	none_left
	[[ $(suggested "$work/simulated.txt") == 4 ]]
	"$python" "$here/check_profile.py" "$work/simulated" "$root/schema.json" --ttft 50 --itl 27.5 \
		--provenance simulated --version fasthttp --kv-tokens "$sim_kv" --kv-source metrics --in-flight "$sim_slots" >"$work/simulated.figures"
	"$python" "$here/check_formula.py" "$work/simulated" >"$work/formula.figures"
	echo "$(head -n 1 "$work/simulated.figures"); $(head -n 1 "$work/formula.figures")"
	sed -n 2p "$work/simulated.figures"
	tail -n +2 "$work/formula.figures"
}

# start_simulator PORT CONTEXT
start_simulator() {
	$simulate --model llm-d-sim --prefill-time-per-token 200us --inter-token-latency 8ms --time-factor-under-load 3 \
		--enable-kvcache --port "$1" --max-model-len "$2" >>"$work/simulator.log" 2>&1 &
	server_pid=$! # ended by the script's own cleanup if a check fails
	wait_for 30 "the simulator is ready" get "http://127.0.0.1:$1/health"
}

# inject RATE TYPE: so many of a hundred requests fail from now on.
inject() {
	"$python" -c 'import sys, urllib.request as u; u.urlopen(u.Request(sys.argv[1], sys.argv[2].encode()), timeout=5)' \
		"$sim_url/admin/config" "{\"failure-injection-rate\": $1, \"failure-types\": [\"$2\"]}"
}
overloaded() { inject 100 server_error; }

# Besides what any server may do: failures that the simulator makes up, of all
# requests from the first one on, and of a server that worked until then.
simulator_faults() {
	need_simulator
	local dir=$work/injected port
	faults start_simulator 64 >"$work/simulator-faults.figures"
	port=$(free_port)
	sim_url=http://127.0.0.1:$port
	start_simulator "$port" 1024
	inject 100 invalid_api_key
	fails "$dir-key" 'the server wants credentials: give an API key (status 401' attached "$sim_url" "$dir-key" 64
	inject 100 rate_limit
	fails "$dir-rate" 'it is busy or not ready: status 429' attached "$sim_url" "$dir-rate" 64
	inject 100 model_not_found
	fails "$dir-model" 'status 404' attached "$sim_url" "$dir-model" 64
	inject 0 server_error
	amid "$dir" 64 "$sim_url" overloaded 'status 503: {"error":{"message":"The server is overloaded or not ready yet."' \
		'if the server was overloaded, lower --max-in-flight'
	kill_server
	none_left
	echo "$(cat "$work/simulator-faults.figures"); 401, 429 and 404 from the first request on, 503 amid the sweep: said"
}

check simulator build_simulator
check simulator-launched simulator_launched
check simulator-faults simulator_faults
