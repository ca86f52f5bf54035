# Part of run.sh: capacity review --prometheus against Debian's Prometheus, which
# scrapes two of the product's own engines under a load whose lengths and instants
# are known (send_load.py).

install_prometheus() {
	if [[ ! -x /usr/bin/prometheus || ! -x /usr/bin/victoria-metrics ]]; then # which go-prometheus has too
		install_packages prometheus victoria-metrics
	fi
	/usr/bin/prometheus --version 2>&1 | head -n 1
}

prometheus_review() {
	local version dir=$work/prometheus ports=() port url i engines=() server
	version=$(install_prometheus)
	mkdir -p "$dir"
	for i in 0 1; do
		ports+=("$(free_port)")
		"$bin" engine serve --model llama-3.1-8b --gpu h100-sxm --tp 1 --port "${ports[$i]}" >"$dir/engine$i.log" 2>&1 &
		engines+=($!)
	done
	port=$(free_port)
	url=http://127.0.0.1:$port
	cat >"$dir/prometheus.yml" <<-YAML
		global: {scrape_interval: 1s}
		scrape_configs:
		  - job_name: engines
		    static_configs: [{targets: ["127.0.0.1:${ports[0]}", "127.0.0.1:${ports[1]}"]}]
	YAML
	/usr/bin/prometheus --config.file "$dir/prometheus.yml" --storage.tsdb.path "$dir/data" \
		--web.listen-address "127.0.0.1:$port" >"$dir/server.log" 2>&1 &
	server=$! # ended by the script's own cleanup if this fails
	for i in 0 1; do wait_for 30 "engine $i is ready" get "http://127.0.0.1:${ports[$i]}/health"; done
	wait_for 30 "Prometheus is ready" get "$url/-/ready"
	# A counter's first sample has to be there before the load, or it is not known
	# to have risen.
	wait_for 30 "Prometheus has scraped both engines" scraped "$url"
	sleep 3

	"$bin" capacity plan --model llama-3.1-8b --gpu h100-sxm --tp 1 --strategy aggregated --rate 10 --peak-window 10s \
		--isl 512 --osl 16 --ttft-p99 500 --itl-p99 50 --format json --quiet >"$dir/plan.json"
	"$python" "$here/send_load.py" 12 40 "http://127.0.0.1:${ports[0]}" "http://127.0.0.1:${ports[1]}" >"$dir/sent.json"
	sleep 3
	"$bin" capacity review --prometheus "$url" --since 80s --format json "$dir/plan.json" >"$dir/review.json"
	"$bin" capacity review --prometheus "$url" --since 80s "$dir/plan.json" >"$dir/review.txt"
	"$python" "$here/check_review.py" "$dir/sent.json" "$dir/review.json" >"$dir/figures"

	# What it says where it cannot answer.
	refused "$dir" 'models there: "meta-llama/' --prometheus "$url" --served-model-name no-such-model
	refused "$dir" 'no series of requests' --prometheus "$url" --prometheus-namespace elsewhere
	refused "$dir" 'is Prometheus running there' --prometheus http://127.0.0.1:9
	kill "${engines[@]}" "$server"
	none_left
	echo "$version; $(cat "$dir/figures")"
}

scraped() { [[ $(get "$1/api/v1/query?query=count(vllm:request_success_total)") == *'"6"]'* ]]; }

# refused DIR WORDS FLAGS…: the review fails, and says WORDS.
refused() {
	local dir=$1 words=$2
	shift 2
	if "$bin" capacity review "$@" "$dir/plan.json" >"$dir/refused.out" 2>"$dir/refused.err"; then
		echo "review $* did not fail" >&2
		return 1
	fi
	if ! grep -qF "$words" "$dir/refused.err"; then
		cat "$dir/refused.err" >&2
		return 1
	fi
}

check prometheus-review prometheus_review
