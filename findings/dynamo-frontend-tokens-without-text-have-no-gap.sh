#!/usr/bin/env bash
# Dynamo 1.6.1 (ai-dynamo, ai-dynamo-runtime of PyPI), frontend and two mockers on one machine, Linux.
#
# The frontend sends no event for a token without text. dynamo_frontend_inter_token_latency_seconds
# has a value for each event after the first, and dynamo_frontend_output_tokens_total rises by one
# with each event; dynamo_frontend_output_sequence_tokens has all tokens. So where half of the
# tokens have no text, the mean ITL is twice the engine's, and an ITL limit that holds is taken
# for missed; a rate of output tokens by output_tokens_total is half of what the engine makes.
# Time over tokens, inter_token_latency_seconds_sum / (output_sequence_tokens_sum -
# output_sequence_tokens_count), is near the engine's.
#
# Two models differ in their tokenizers alone: in one each second token is a special one, which
# has no text (skip_special_tokens is on by default). Mockers make random tokens of 5 ms each.
#
# Seen, 8 requests of 50 tokens to each model (half's counts vary, as tokens are random):
#   model whole: 400 events, 400 in output_sequence_tokens, 400 in output_tokens_total; 392 values of ITL, mean 5.0 ms, by token 5.0 ms
#   model half: 220 events, 400 in output_sequence_tokens, 220 in output_tokens_total; 212 values of ITL, mean 8.9 ms, by token 4.8 ms
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

# Model folders: a tokenizer of 5000 words, no weights, which the mocker does not read.
"$python" - "$dir" <<'PY'
import json, os, sys
words = ["w%d" % i for i in range(5000)]
for name, special in ("whole", []), ("half", range(3, 5000, 2)):
    d = os.path.join(sys.argv[1], name)
    os.makedirs(d)
    added = [{"id": i, "content": words[i], "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False} for i in special]
    json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
               "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
               "model": {"type": "WordLevel", "vocab": {w: i for i, w in enumerate(words)}, "unk_token": words[0]}},
              open(os.path.join(d, "tokenizer.json"), "w"))
    json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 4096, "unk_token": words[0], "eos_token": words[1],
               "chat_template": "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"}, open(os.path.join(d, "tokenizer_config.json"), "w"))
    json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 5000, "hidden_size": 64, "intermediate_size": 128,
               "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 4096,
               "bos_token_id": 0, "eos_token_id": 1, "torch_dtype": "bfloat16"}, open(os.path.join(d, "config.json"), "w"))
PY
echo '{"engine": {"timing_model": {"type": "fixed", "prefill_ms": 19, "decode_ms": 5}, "num_gpu_blocks": 4096, "max_num_seqs": 8}}' >"$dir/engine.json"

# Below 32768: DYN_SYSTEM_PORT takes no higher one.
free_port() { "$python" -c '
import random, socket
while True:
    try:
        s = socket.socket(); s.bind(("127.0.0.1", random.randrange(20000, 32000))); print(s.getsockname()[1]); break
    except OSError: pass'; }
port=$(free_port)
export DYN_DISCOVERY_BACKEND=file DYN_FILE_KV=$dir/kv DYN_REQUEST_PLANE=tcp DYN_EVENT_PLANE=zmq HF_HUB_OFFLINE=1
"$python" -m dynamo.frontend --http-host 127.0.0.1 --http-port "$port" >"$dir/frontend.log" 2>&1 &
pids+=($!)
for name in whole half; do
	DYN_SYSTEM_PORT=$(free_port) "$python" -m dynamo.mocker --model-path "$dir/$name" --model-name "$name" --endpoint "dyn://$name.backend.generate" \
		--extra-engine-args "$dir/engine.json" >"$dir/$name.log" 2>&1 &
	pids+=($!)
done

status=0
"$python" - "$port" <<'PY' || status=$?
import json, re, sys, time, urllib.error, urllib.request

url = "http://127.0.0.1:" + sys.argv[1]


def metric(model, name):
    page = urllib.request.urlopen(url + "/metrics", timeout=10).read().decode()
    found = re.search(r'^dynamo_frontend_%s\{model="%s"\} (\S+)$' % (name, model), page, re.M)
    return float(found.group(1)) if found else 0.0


def events(model):
    """The events with text of one answer of 50 tokens."""
    body = {"model": model, "prompt": "w4 w6 w8", "max_tokens": 50, "ignore_eos": True, "stream": True}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    lines = [line[6:] for line in urllib.request.urlopen(request, timeout=30) if line.startswith(b"data: {")]
    return sum(bool(c["text"]) for line in lines for c in json.loads(line)["choices"])


NAMES = ["output_sequence_tokens_sum", "output_sequence_tokens_count", "output_tokens_total",
         "inter_token_latency_seconds_count", "inter_token_latency_seconds_sum"]
still = True
for model in "whole", "half":
    for _ in range(240):  # until frontend and mocker know each other
        try:
            events(model)
            break
        except OSError:
            time.sleep(0.5)
    else:
        print("the frontend did not answer", file=sys.stderr)
        sys.exit(2)
    time.sleep(1)  # what is counted comes after an answer's end
    before = [metric(model, n) for n in NAMES]
    sent = sum(events(model) for _ in range(8))
    time.sleep(1)
    tokens, requests, total, gaps, seconds = (metric(model, n) - b for n, b in zip(NAMES, before))
    mean, by_token = 1000 * seconds / gaps, 1000 * seconds / (tokens - requests)
    if model == "whole":
        print("Dynamo 1.6.1")
        still = (sent, tokens, total, gaps) == (400, 400, 400, 392)
        engine = mean
    else:
        still &= sent < 280 and tokens == 400 and total < 280 and gaps < 280 and mean > 1.5 * engine and 0.8 * engine < by_token < 1.2 * engine
    print("model %s: %d events, %d in output_sequence_tokens, %d in output_tokens_total; %d values of ITL, mean %.1f ms, by token %.1f ms" % (model, sent, tokens, total, gaps, mean, by_token))
sys.exit(0 if still else 1)
PY
[[ $status != 2 ]] || cannot
exit "$status"
