"""The HTTP side: vLLM's OpenAI-style API for completions, on asyncio alone.

Takes requests with prompts of token ids; hands them to an engine that runs in
another process, through the two ends of a pipe, and streams its tokens, one chunk
each. It has no tokenizer: token 17 reads " t17", and a prompt of text is refused.
"""

import array
import asyncio
import json
import time

BLOCK = 16  # tokens, for metrics: the cache has no blocks
MAX_BODY = 16 << 20


class Refused(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Stream:
    """One completion on its way to a client."""

    def __init__(self, name, writer, head):
        self.name, self.writer, self.head = name, writer, head
        self.tokens, self.cached = [], 0
        self.done = asyncio.get_running_loop().create_future()

    def give(self, token, last, cached):
        self.tokens.append(token)
        self.cached = cached
        if self.writer:
            self.write(self.choice(f" t{token}", "length" if last else None))
        if last and not self.done.done():
            self.done.set_result(None)

    def choice(self, text, finish):
        return {**self.head, "choices": [{"index": 0, "text": text, "logprobs": None, "finish_reason": finish}]}

    def write(self, event):
        data = event if isinstance(event, str) else json.dumps(event, separators=(",", ":"))
        line = f"data: {data}\n\n".encode()
        self.writer.write(b"%x\r\n%s\r\n" % (len(line), line))


class Server:
    """model is the name that it serves; limits: vocab, max_model_len, kv_tokens."""

    def __init__(self, engine, model, version, limits):
        self.engine, self.model, self.version, self.limits = engine, model, version, limits
        self.streams, self.counted, self.began = {}, 0, int(time.time())
        self.state = {"running": 0, "waiting": 0, "held": 0, "queries": 0, "hits": 0}

    def tokens(self):
        """Takes what the engine has sent: (tokens, state) of each step."""
        try:
            while self.engine.poll():
                tokens, self.state = self.engine.recv()
                self.hand_out(tokens)
        except EOFError:
            asyncio.get_running_loop().remove_reader(self.engine.fileno())  # who started it sees its end

    def hand_out(self, tokens):
        for name, token, last, cached in tokens:
            if s := self.streams.get(name):
                s.give(token, last, cached)

    async def handle(self, reader, writer):
        try:
            while await self.exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        except (ValueError, asyncio.LimitOverrunError) as e:  # not HTTP
            await reply(writer, 400, error(400, str(e)))
        finally:
            writer.close()

    async def exchange(self, reader, writer):
        """One request; whether the connection stays open."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
        size = int(headers.get("content-length", 0))
        if not 0 <= size <= MAX_BODY:
            raise ValueError(f"a body of {size} bytes")
        body = await reader.readexactly(size)
        try:
            await self.answer(method, path.partition("?")[0], body, reader, writer)
        except Refused as e:
            await reply(writer, e.status, error(e.status, str(e)))
        return headers.get("connection", "").lower() != "close" and not writer.is_closing()

    async def answer(self, method, path, body, reader, writer):
        if (method, path) == ("POST", "/v1/completions"):
            await self.complete(body, reader, writer)
        elif method != "GET":
            raise Refused(404, f"there is no {method} {path}")
        elif path == "/health":
            await reply(writer, 200, "", "text/plain")
        elif path == "/version":
            await reply(writer, 200, {"version": self.version})
        elif path == "/v1/models":
            one = {"id": self.model, "object": "model", "created": self.began, "owned_by": "random weights", "max_model_len": self.limits["max_model_len"]}
            await reply(writer, 200, {"object": "list", "data": [one]})
        elif path == "/metrics":
            await reply(writer, 200, self.metrics(), "text/plain; version=0.0.4; charset=utf-8")
        else:
            raise Refused(404, f"there is no {path}")

    async def complete(self, body, reader, writer):
        ask = self.parse(body)
        self.counted += 1
        name = self.counted
        head = {"id": f"cmpl-{name}", "object": "text_completion", "created": int(time.time()), "model": self.model}
        stream = Stream(name, writer if ask.get("stream") else None, head)
        if stream.writer:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n")
        self.streams[name] = stream
        try:
            # Array: four bytes a token on the way.
            self.engine.send(("add", name, array.array("I", ask["prompt"]), ask["max_tokens"]))
            await until(stream.done, reader)
        finally:
            del self.streams[name]
            if not stream.done.done():
                self.engine.send(("abort", name))
        usage = {
            "prompt_tokens": len(ask["prompt"]), "completion_tokens": len(stream.tokens),
            "total_tokens": len(ask["prompt"]) + len(stream.tokens), "prompt_tokens_details": {"cached_tokens": stream.cached},
        }
        if not stream.writer:
            await reply(writer, 200, {**stream.choice("".join(f" t{t}" for t in stream.tokens), "length"), "usage": usage})
            return
        if (ask.get("stream_options") or {}).get("include_usage"):
            stream.write({**head, "choices": [], "usage": usage})
        stream.write("[DONE]")
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    def parse(self, body):
        """The request, checked. Sampling is greedy whatever is asked for, and nothing
        ends before max_tokens: random weights have no end."""
        try:
            ask = json.loads(body)
            prompt = ask["prompt"]
            most = ask["max_tokens"] = ask.get("max_tokens", 16)
        except (ValueError, TypeError, KeyError, AttributeError) as e:
            raise Refused(400, f"not a completion request: {e!r}") from e
        vocab, context = self.limits["vocab"], self.limits["max_model_len"]
        if ask.get("model", self.model) != self.model:
            raise Refused(404, f"there is no model {ask['model']!r}, only {self.model!r}")
        if not isinstance(prompt, list) or not prompt or not all(type(t) is int and 0 <= t < vocab for t in prompt):
            raise Refused(400, f"prompt: want a list of token ids from 0 to {vocab - 1}: there is no tokenizer")
        if type(most) is not int or most < 1:
            raise Refused(400, f"max_tokens: want a whole number from 1 on, got {most!r}")
        if len(prompt) + most > context:
            raise Refused(400, f"a prompt of {len(prompt)} and max_tokens {most}: the context holds {context} tokens")
        if ask.get("n", 1) != 1:
            raise Refused(400, "n: only 1 can be had")
        return ask

    def metrics(self):
        """vLLM's names."""
        s, kv = self.state, self.limits["kv_tokens"]
        label = '{engine="0",model_name="%s"}' % self.model
        lines = []
        for name, kind, value in (
            ("num_requests_running", "gauge", s["running"]),
            ("num_requests_waiting", "gauge", s["waiting"]),
            ("kv_cache_usage_perc", "gauge", s["held"] / kv),
            ("prefix_cache_queries_total", "counter", s["queries"]),
            ("prefix_cache_hits_total", "counter", s["hits"]),
        ):
            lines += [f"# TYPE vllm:{name} {kind}", f"vllm:{name}{label} {value}"]
        lines += ["# TYPE vllm:cache_config_info gauge",
                  'vllm:cache_config_info{engine="0",block_size="%d",num_gpu_blocks="%d"} 1' % (BLOCK, kv // BLOCK)]
        return "\n".join(lines) + "\n"


async def until(done, reader):
    """Waits for a completion, or raises as the client goes."""
    gone = asyncio.ensure_future(reader.read(1))
    await asyncio.wait({done, gone}, return_when=asyncio.FIRST_COMPLETED)
    if done.done():
        gone.cancel()
        await asyncio.wait({gone})
    else:
        raise ConnectionError("the client closed, or sent the next request before this one's answer")


async def reply(writer, status, body, kind="application/json"):
    data = (body if isinstance(body, str) else json.dumps(body)).encode()
    reason = {200: "OK", 400: "Bad Request", 404: "Not Found"}[status]
    writer.write(f"HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
    await writer.drain()


def error(status, message):
    return {"error": {"message": message, "type": "invalid_request_error", "code": status}}
