# Part of run.sh: what the program says of a real server that fails it.
# shellcheck shell=bash disable=SC2154

# attached URL DIR OSL FLAGS… is a small profile of a server.
attached() {
	"${first[@]}" timeout 600 "$bin" profile-sla --endpoint "$1" --endpoint-gpus 1 --max-in-flight 4 --isl 256 --osl "$3" \
		--ttft 5000 --itl 250 --max-context-length 1024 --prefill-interpolation-granularity 2 --decode-interpolation-granularity 2 \
		--output-dir "$2" "${@:4}" >"$2.txt" 2>"$2.err"
}

# says FILE STATUS WORDS…: a run ended with status 1, and FILE, its stderr, has
# each of the WORDS.
says() {
	local file=$1 status=$2 words
	shift 2
	for words in "$@"; do
		if [[ $status != 1 ]] || ! grep -qF -- "$words" "$file"; then
			echo "exit status $status, want 1 and: $words; it says:" >&2
			cat "$file" >&2
			return 1
		fi
	done
}

# fails DIR WORDS COMMAND…: it ends with status 1 and says WORDS.
fails() {
	local dir=$1 words=$2 status=0
	shift 2
	"$@" || status=$?
	says "$dir.err" "$status" "$words"
}

# amid DIR OSL URL WHAT WORDS…: a profile in whose decode sweep WHAT happens fails,
# and says WORDS.
amid() {
	local dir=$1 osl=$2 url=$3 what=$4 pid status=0
	attached "$url" "$dir" "$osl" &
	pid=$!
	wait_for 240 "a point of the decode sweep" grep -q '"id":"sweep/decode/' "$dir/journal.jsonl"
	"$what"
	wait "$pid" || status=$?
	says "$dir.err" "$status" "${@:5}"
}

kill_server() {
	kill -9 "$server_pid"
	wait "$server_pid" 2>/dev/null || true
}

# faults START OSL: START PORT CONTEXT starts the server. A context too small, a
# model that it does not have, and kill -9 amid the sweep, after which a new one
# at the same address lets the run go on.
faults() {
	local start=$1 osl=$2 dir=$work/faults-$1 port url kept
	port=$(free_port)
	url=http://127.0.0.1:$port
	"$start" "$port" 256
	fails "$dir-context" "ISL 256 + OSL $osl is $((256 + osl)) tokens, above the engine's context of 256" attached "$url" "$dir-context" "$osl"
	kill_server
	"$start" "$port" 1024
	fails "$dir-model" 'the server does not have this model: "nosuch"' attached "$url" "$dir-model" "$osl" --model nosuch
	amid "$dir" "$osl" "$url" kill_server 'nothing listens at the endpoint' 'with --resume ('
	kept=$(grep -c '"type":"point"' "$dir/journal.jsonl")
	"$start" "$port" 1024
	attached "$url" "$dir" "$osl" --resume
	kill_server
	none_left
	[[ $(suggested "$dir.txt") == 4 ]]
	grep -qF "resuming: $kept points known" "$dir.err"
	echo "context of 256 tokens, unknown model, kill -9 amid the sweep: said; $kept points kept, ended with $(grep -c '"type":"point"' "$dir/journal.jsonl")"
}
