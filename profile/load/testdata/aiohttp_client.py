"""A plain streaming client on asyncio and aiohttp, as most load generators are
written, to compare with. It takes {"url", "streams"} as JSON on its input, asks
for all streams at once, notes the monotonic instant of each content chunk as its
line is had, parses it, and prints all instants in nanoseconds, with the processor
time from the first chunk to the end."""

import asyncio
import json
import resource
import sys
import time

import aiohttp

cpu_at_first = None


def cpu():
    u = resource.getrusage(resource.RUSAGE_SELF)
    return int((u.ru_utime + u.ru_stime) * 1e9)


async def stream(session, url, i):
    global cpu_at_first
    instants = []
    body = {"model": str(i), "prompt": [1, 2, 3], "max_tokens": 16, "stream": True}
    async with session.post(url + "/v1/completions", json=body) as response:
        async for line in response.content:
            now = time.monotonic_ns()
            line = line.strip()
            if not line.startswith(b"data: "):
                continue
            data = line[6:]
            if data == b"[DONE]":
                break
            if cpu_at_first is None:
                cpu_at_first = cpu()
            if json.loads(data)["choices"][0]["text"]:
                instants.append(now)
    return instants


async def main():
    spec = json.load(sys.stdin)
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        read = await asyncio.gather(*(stream(session, spec["url"], i) for i in range(spec["streams"])))
    json.dump({"cpu_ns": cpu() - cpu_at_first, "read": read}, sys.stdout)


asyncio.run(main())
