#!/usr/bin/env bash
# Dynamo 1.6.1 (ai-dynamo, ai-dynamo-runtime of PyPI), frontend and mocker on one machine, Linux.
#
# A client that sends one request after another on one kept-alive connection gets the first
# token some 20 ms later than the engine had it. The frontend sends an answer's headers
# first and does not set TCP_NODELAY; Linux delays the acknowledgement of a connection in
# busy use by 40 ms, and the frontend keeps the first event back until it comes. With
# TCP_QUICKACK set by the client after each read, or on a new connection for each request,
# the same answer is there when the engine has it. So a load generator with kept-alive
# connections measures a TTFT that is the network stack's, and too low a prefill rate.
#
# Seen, with a mocker of 19 ms for each prompt, medians of 20: 44 ms kept alive, 24 ms with
# quick acknowledgements, 24 ms on new connections.
#
# Exits 0 where it is still so, 1 where it is not, 2 where it could not be tried.
set -euo pipefail
dir=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
pip=("$dir/venv/bin/pip" install -q --disable-pip-version-check)
"${pip[@]}" --no-deps ai-dynamo==1.6.1 ai-dynamo-runtime==1.6.1 2>"$dir/pip.log" || { cat "$dir/pip.log" >&2; exit 2; }
"${pip[@]}" uvloop packaging typing_extensions pyyaml msgspec 'pydantic<=2.13.5' 2>>"$dir/pip.log" || { cat "$dir/pip.log" >&2; exit 2; }
python=$dir/venv/bin/python

# A model folder: a tokenizer of 500 words, no weights, which the mocker does not read.
"$python" - "$dir/model" <<'PY'
import json, os, sys
d = sys.argv[1]
os.makedirs(d)
words = [a + b + c + d2 for a in "bdfgk" for b in "aeiou" for c in "lmnpr" for d2 in "aeio"]
json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
           "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
           "model": {"type": "WordLevel", "vocab": {w: i for i, w in enumerate(words)}, "unk_token": words[0]}},
          open(os.path.join(d, "tokenizer.json"), "w"))
json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 4096, "unk_token": words[0], "eos_token": words[1],
           "chat_template": "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"}, open(os.path.join(d, "tokenizer_config.json"), "w"))
json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 500, "hidden_size": 64, "intermediate_size": 128,
           "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 4096,
           "bos_token_id": 0, "eos_token_id": 1, "torch_dtype": "bfloat16"}, open(os.path.join(d, "config.json"), "w"))
PY
echo '{"engine": {"timing_model": {"type": "fixed", "prefill_ms": 19, "decode_ms": 3}, "num_gpu_blocks": 4096, "max_num_seqs": 8}}' >"$dir/engine.json"

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
DYN_SYSTEM_PORT=$(free_port) "$python" -m dynamo.mocker --model-path "$dir/model" --model-name m --extra-engine-args "$dir/engine.json" >"$dir/mocker.log" 2>&1 &
pids+=($!)

status=0
"$python" - "$port" <<'PY' || status=$?
import json, socket, statistics, sys, time

port = int(sys.argv[1])
body = json.dumps({"model": "m", "prompt": "bala bale bali", "max_tokens": 2, "stream": True, "ignore_eos": True}).encode()
request = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def connect():
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def first_token(s, quick):
    """Seconds from sending to the first event with data; the answer is read to its end."""
    began, got, first = time.monotonic(), b"", None
    s.sendall(request)
    while not got.endswith(b"0\r\n\r\n"):
        part = s.recv(65536)
        if quick:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        if not part:
            raise OSError("closed: %r" % got[-200:])
        got += part
        if first is None and b"data:" in got:
            first = time.monotonic() - began
    if b" 200 " not in got[:20]:
        raise OSError("refused: %r" % got[:200])
    return first


for _ in range(240):  # until frontend and mocker know each other
    try:
        with connect() as s:
            first_token(s, True)
        break
    except OSError:
        time.sleep(0.5)
else:
    print("the frontend did not answer", file=sys.stderr)
    sys.exit(2)


def median(quick, fresh):
    s, all = connect(), []
    for _ in range(21):
        all.append(first_token(s, quick))
        if fresh:
            s.close()
            s = connect()
    return 1000 * statistics.median(all[1:])


kept, quick, fresh = median(False, False), median(True, False), median(False, True)
print("Dynamo 1.6.1: first token after %.0f ms on a kept-alive connection, %.0f ms with TCP_QUICKACK, %.0f ms on new connections" % (kept, quick, fresh))
sys.exit(0 if kept > quick + 10 and kept > fresh + 10 else 1)
PY
if [[ $status == 2 ]]; then
	tail -n 5 "$dir/frontend.log" "$dir/mocker.log" >&2
fi
exit "$status"
