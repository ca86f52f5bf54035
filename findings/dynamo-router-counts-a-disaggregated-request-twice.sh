#!/usr/bin/env bash
# Dynamo 1.6.1 (ai-dynamo, ai-dynamo-runtime of PyPI), frontend and mockers on one machine, Linux.
#
# With prefill and decode workers apart, the frontend's router sees each request twice: its
# prefill, of one output token, and its decode. dynamo_component_router_requests_total,
# output_sequence_tokens and time_to_first_token_seconds have both under the same labels, so
# that they cannot be told apart (input_sequence_tokens has a label "phase"). Who scales by them
# takes the rate of requests for double and output lengths for about half. With workers that do
# both, each request is there once, and dynamo_frontend_requests_total and its histograms are
# right in both graphs. It is the same with --router-mode kv.
#
# Seen, 10 requests of 4 tokens in and 20 out:
#   aggregated: frontend 10 requests, mean OSL 20.0; router 10 requests, mean OSL 20.0
#   disaggregated: frontend 10 requests, mean OSL 20.0; router 20 requests, mean OSL 10.5
#
# Exits 0 where it is still so, 1 where it is not, 2 where it could not be tried.
set -euo pipefail
dir=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$dir"' EXIT
cannot() { tail -n 5 "$dir"/*.log >&2; exit 2; }
python3 -m venv "$dir/venv" >"$dir/venv.log" 2>&1 || cannot
pip=("$dir/venv/bin/pip" install -q --disable-pip-version-check)
"${pip[@]}" --no-deps ai-dynamo==1.6.1 ai-dynamo-runtime==1.6.1 2>"$dir/pip.log" || cannot
"${pip[@]}" uvloop packaging typing_extensions pyyaml msgspec 'pydantic<=2.13.5' 2>>"$dir/pip.log" || cannot
python=$dir/venv/bin/python

# A model folder: a tokenizer of 5000 words, no weights, which the mocker does not read.
"$python" - "$dir/model" <<'PY'
import json, os, sys
d = sys.argv[1]
os.makedirs(d)
words = ["w%d" % i for i in range(5000)]
json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
           "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
           "model": {"type": "WordLevel", "vocab": {w: i for i, w in enumerate(words)}, "unk_token": words[0]}},
          open(os.path.join(d, "tokenizer.json"), "w"))
json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 4096, "unk_token": words[0], "eos_token": words[1],
           "chat_template": "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"}, open(os.path.join(d, "tokenizer_config.json"), "w"))
json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 5000, "hidden_size": 64, "intermediate_size": 128,
           "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 4096,
           "bos_token_id": 0, "eos_token_id": 1, "torch_dtype": "bfloat16"}, open(os.path.join(d, "config.json"), "w"))
PY

cat >"$dir/count.py" <<'PY'
import json, re, sys, time, urllib.request

graph, url = sys.argv[1], "http://127.0.0.1:" + sys.argv[2]


def metrics():
    """Each series' value by its name, those of several labels added up."""
    page = urllib.request.urlopen(url + "/metrics", timeout=10).read().decode()
    all = {}
    for name, labels, value in re.findall(r"^dynamo_(?:component_)?(\w+)\{(.*)\} (\S+)$", page, re.M):
        phase = re.search('phase="(.*?)"', labels)
        name += " " + phase.group(1) if phase else ""
        all[name] = all.get(name, 0) + float(value)
    return all


def ask():
    body = {"model": "m", "prompt": "w4 w6 w8 w10", "max_tokens": 20, "ignore_eos": True}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    usage = json.load(urllib.request.urlopen(request, timeout=30))["usage"]
    if (usage["prompt_tokens"], usage["completion_tokens"]) != (4, 20):
        raise OSError("other lengths: %r" % usage)


for _ in range(240):  # until all parts know each other
    try:
        ask()
        if graph == "aggregated" or metrics().get("router_input_sequence_tokens_count prefill"):
            break
    except OSError:
        pass
    time.sleep(0.5)
else:
    sys.exit("the frontend did not answer by way of all workers")
time.sleep(1)  # what is counted comes after an answer's end
before = metrics()
for _ in range(10):
    ask()
time.sleep(1)
rise = {name: value - before.get(name, 0) for name, value in metrics().items()}


def mean(name):
    return rise[name + "_sum"] / rise[name + "_count"]


print("%s: %s" % (graph, "; ".join("%s %d requests, mean OSL %.1f" % (part, rise[part + "_requests_total"], mean(part + "_output_sequence_tokens"))
                                   for part in ("frontend", "router"))))
PY
# Below 32768: DYN_SYSTEM_PORT takes no higher one.
free_port() { "$python" -c '
import random, socket
while True:
    try:
        s = socket.socket(); s.bind(("127.0.0.1", random.randrange(20000, 32000))); print(s.getsockname()[1]); break
    except OSError: pass'; }
# graph NAME MODE…: a frontend and a mocker of each mode; what 10 requests raise.
graph() {
	local port mode
	port=$(free_port)
	export DYN_DISCOVERY_BACKEND=file DYN_FILE_KV=$dir/kv-$1 DYN_REQUEST_PLANE=tcp DYN_EVENT_PLANE=zmq HF_HUB_OFFLINE=1
	"$python" -m dynamo.frontend --http-host 127.0.0.1 --http-port "$port" >"$dir/frontend.log" 2>&1 &
	pids+=($!)
	for mode in "${@:2}"; do
		DYN_SYSTEM_PORT=$(free_port) "$python" -m dynamo.mocker --model-path "$dir/model" --model-name m --disaggregation-mode "$mode" >"$dir/$mode.log" 2>&1 &
		pids+=($!)
	done
	"$python" "$dir/count.py" "$1" "$port" 2>"$dir/count.log" || cannot
	kill "${pids[@]}"
	wait "${pids[@]}" || true
	pids=()
}
echo "Dynamo 1.6.1"
{ graph aggregated agg; graph disaggregated prefill decode; } >"$dir/seen"
cat "$dir/seen"
sed -n 's/^#   //p' "$0" | cmp -s - "$dir/seen"
