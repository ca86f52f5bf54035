#!/usr/bin/env bash
# Dynamo 1.6.1 (ai-dynamo-runtime of PyPI) with etcd 3.7.3, Linux: the virtual connector,
# VirtualConnectorCoordinator in the planner and VirtualConnectorClient in what scales.
#
# A planner numbers its decisions from 0, and its keys in etcd go when it shuts down. The
# client's scaled_decision_id stays: it belongs to the client's lease. A planner that is then
# started begins at 0 again. For each decision whose number is not above that old
# acknowledgement, is_scaling_ready() is true at once and the client's wait() has not
# returned 5 s later, so that nobody scales. The first decision above it is carried out again.
# (By hand: after SIGKILL the planner's keys went within 24 s, and then it was the same.)
#
# Seen, with a client that runs all the time and takes 2 s to carry out a decision:
#   first planner
#   decision 0, 1 prefill 1 decode: ready at once False, in the end True; client did 1 1
#   decision 1, 2 prefill 2 decode: ready at once False, in the end True; client did 2 2
#   decision 2, 3 prefill 3 decode: ready at once False, in the end True; client did 3 3
#   left in etcd: scaled_decision_id=2
#   second planner
#   decision 0, 4 prefill 4 decode: ready at once True, in the end True; client did 3 3
#   decision 1, 5 prefill 5 decode: ready at once True, in the end True; client did 3 3
#   decision 2, 6 prefill 6 decode: ready at once True, in the end True; client did 3 3
#   decision 3, 7 prefill 7 decode: ready at once False, in the end True; client did 7 7
#   left in etcd: scaled_decision_id=3
#
# Exits 0 where it is still so, 1 where it is not, 2 where it could not be tried.
set -euo pipefail
dir=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$dir"' EXIT
cannot() { tail -n 5 "$dir"/*.log >&2; exit 2; }
python3 -m venv "$dir/venv" >"$dir/venv.log" 2>&1 || cannot
python=$dir/venv/bin/python
"$python" -m pip install -q --disable-pip-version-check --no-deps ai-dynamo-runtime==1.6.1 2>"$dir/pip.log" || cannot
(mkdir "$dir/build" && cd "$dir/build" && export GOFLAGS="" GOWORK=off CGO_ENABLED=0 && go mod init build && go get go.etcd.io/etcd/server/v3@v3.7.3 &&
	go build -trimpath -ldflags '-s -w' -o "$dir/etcd" go.etcd.io/etcd/server/v3) >"$dir/go.log" 2>&1 || cannot

cat >"$dir/part.py" <<'PY'
import asyncio, base64, http.client, json, sys, time
from dynamo._core import DistributedRuntime, VirtualConnectorClient, VirtualConnectorCoordinator

part, port, did = sys.argv[1:4]  # did is the file with what the client carried out last


async def client(runtime):
    c = VirtualConnectorClient(runtime, "dynamo")
    while True:
        await c.wait()
        decision = await c.get()
        await asyncio.sleep(2)
        with open(did, "w") as f:
            f.write("%d %d" % (decision.num_prefill_workers, decision.num_decode_workers))
        await c.complete(decision)


async def planner(runtime, sizes):
    p = VirtualConnectorCoordinator(runtime, "dynamo", 1, 60, 60)
    await p.async_init()
    for n in sizes:
        await p.update_scaling_decision(n, n)
        once = ready = await p.is_scaling_ready()
        until = time.monotonic() + 30
        while not ready and time.monotonic() < until:
            await asyncio.sleep(0.1)
            ready = await p.is_scaling_ready()
        await asyncio.sleep(5)  # ready or not, the client has this time
        print("decision %d, %d prefill %d decode: ready at once %s, in the end %s; client did %s"
              % (p.read_state().decision_id, n, n, once, ready, open(did).read()))


async def main():
    runtime = DistributedRuntime(asyncio.get_running_loop(), "etcd", "tcp", event_plane="zmq")
    await (client(runtime) if part == "client" else planner(runtime, map(int, sys.argv[4:])))
    runtime.shutdown()


def left():
    prefix, end = (base64.b64encode(k).decode() for k in (b"v1/dynamo/planner/", b"v1/dynamo/planner0"))
    c = http.client.HTTPConnection("127.0.0.1", int(port), timeout=10)
    c.request("POST", "/v3/kv/range", json.dumps({"key": prefix, "range_end": end}))
    kvs = [[base64.b64decode(kv[k]).decode() for k in ("key", "value")] for kv in json.load(c.getresponse()).get("kvs", [])]
    print("left in etcd:", *(k.split("/")[-1] + "=" + v for k, v in kvs))


left() if part == "left" else asyncio.run(main())
PY
read -r port peer < <("$python" -c 'import socket
print(*(s.getsockname()[1] for s in [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]))')
export ETCD_ENDPOINTS=http://127.0.0.1:$port DYN_LOG=error
"$dir/etcd" --data-dir "$dir/data" --{listen,advertise}-client-urls="$ETCD_ENDPOINTS" --initial-cluster="default=http://127.0.0.1:$peer" \
	--{listen,initial-advertise}-peer-urls="http://127.0.0.1:$peer" >"$dir/etcd.log" 2>&1 &
pids+=($!)
for _ in {1..150}; do (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break; sleep 0.2; done
timeout 400 "$python" "$dir/part.py" client "$port" "$dir/did" >"$dir/client.log" 2>&1 &
pids+=($!)
part() { timeout 150 "$python" "$dir/part.py" "$1" "$port" "$dir/did" "${@:2}" 2>"$dir/part.log" || cannot; }
life() { echo "$1 planner"; part planner "${@:2}"; sleep 3; part left; }
{ life first 1 2 3; life second 4 5 6 7; } >"$dir/seen"
cat "$dir/seen"
sed -n 's/^#   //p' "$0" | cmp -s - "$dir/seen"
