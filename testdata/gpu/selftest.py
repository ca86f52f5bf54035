"""The numbers that the engine computes, against a second implementation.

run() decodes greedily, with the same weights,
  plain    every token by a full forward pass over all before it, no cache, attention by hand
  alone    through the engine, one request at a time
  batched  through the engine: requests that come while others run, end at different
           times, are aborted, come again and find their prompt in the cache
and wants the same tokens from all three. Where two logits are nearer to each
other than the rounding of the number type, either token will do; such ties are
counted. steps() times decode steps without any server.
"""

import random
import time

import torch
import torch.nn.functional as F

from engine import Engine, Request
from model import EPSILON, Llama

# Logits of these models have a standard deviation of about 1. How far apart two
# may be and still change places by rounding: measured on the CPU, doubled and more.
TIE = {torch.float32: 1e-3, torch.bfloat16: 0.2, torch.float16: 0.05}


def run(make, vocab):
    """make(rows, context) gives a model. Returns whether all agree, and prints what was compared."""
    draw = random.Random(1)
    model = make(4, 128)
    asked = [([draw.randrange(vocab) for _ in range(draw.choice((1, 2, 7, 33, 90)))], draw.randint(1, 24)) for _ in range(12)]
    alone = [batch(model, [a], False)[0].tokens for a in asked]
    tokens = ties = wrong = 0
    for name, results in (
        ("alone", alone),
        ("batched", [r.tokens for r in batch(model, asked, False)]),
        ("batched, prefix caching", cached(model, asked)),
    ):
        worst = 0.0
        for (prompt, n), got in zip(asked, results):
            if len(got) != n:
                print(f"{name}: {len(got)} tokens, {n} were asked for")
                wrong += 1
            for i, token in enumerate(got):
                logits = plain(model, prompt + got[:i]).float()
                tokens += 1
                behind = float(logits.max() - logits[token])
                worst = max(worst, behind)
                ties += 0 < behind <= TIE[model.dtype]
                wrong += behind > TIE[model.dtype]
        print(f"{name}: {sum(map(len, results))} tokens, the furthest {worst:.2g} behind the best logit")
    print(f"{tokens} tokens compared with full forward passes in {model.dtype}: {wrong} wrong, {ties} ties")
    return wrong == 0


def batch(model, asked, prefix_caching):
    """Requests that come one step after the other, the third aborted once and sent again."""
    engine = Engine(model, model.context, prefix_caching, lambda _: None)
    requests = [Request(i, prompt, n) for i, (prompt, n) in enumerate(asked)]
    for i, r in enumerate(requests):
        if i == 2:
            engine.add(Request("aborted", r.prompt, 20))
        engine.add(r)
        engine.step()
        engine.abort("aborted")
    drain(engine)
    return requests


def cached(model, asked):
    """The tokens of requests that find their prompts in the cache. Four rows keep four
    prompts: three are sent, then a fourth that takes the place of the first, which has
    to move, then the three in another order."""
    engine = Engine(model, 4 * model.context, True, lambda _: None)

    def send(some):
        requests = [Request(None, prompt, n) for prompt, n in some]
        for r in requests:
            engine.add(r)
        drain(engine)
        return requests

    out = []
    for i in range(0, len(asked), 3):
        three = asked[i:i + 3]
        send(three)
        send([([i, 1, 2], 1)])
        again = send(three[::-1])
        for r in again:
            if r.cached != len(r.prompt) - 1:
                raise SystemExit(f"{r.cached} of {len(r.prompt)} prompt tokens came from the cache")
        out += [r.tokens for r in again[::-1]]
    return out


def drain(engine):
    while engine.busy():
        engine.step()


@torch.inference_mode()
def plain(model, ids):
    """The logits after ids, in the simplest way."""
    s, n = model.shape, len(ids)
    x = model.embedding[torch.tensor(ids, device=model.device)]
    for w in model.layers:
        q, k, v = (norm(x) @ w["qkv"].T).split([s.heads * s.head_dim, s.kv_heads * s.head_dim, s.kv_heads * s.head_dim], dim=-1)
        heads = []
        for h in range(s.heads):
            kv = h // (s.heads // s.kv_heads)
            one, other, value = (t[:, i * s.head_dim:(i + 1) * s.head_dim] for t, i in ((q, h), (k, kv), (v, kv)))
            scores = turn(one, s.theta) @ turn(other, s.theta).T / s.head_dim ** 0.5
            future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
            heads.append(scores.masked_fill(future, float("-inf")).softmax(-1) @ value)
        x = x + torch.cat(heads, -1) @ w["o"].T
        gate, up = (norm(x) @ w["gate_up"].T).split(s.ffn, dim=-1)
        x = x + (F.silu(gate) * up) @ w["down"].T
    return norm(x[-1:])[0] @ model.head.T


def norm(x):
    y = x.float()
    return (y / (y.pow(2).mean(-1, keepdim=True) + EPSILON).sqrt()).to(x.dtype)


def turn(x, theta):
    """Rotary positions as complex numbers: the pair (i, i + half) turns by position · theta^(-i/half)."""
    half = x.shape[-1] // 2
    speed = torch.tensor([theta ** (-i / half) for i in range(half)], device=x.device)
    angle = torch.arange(len(x), device=x.device).unsqueeze(1) * speed
    z = torch.complex(x[:, :half].float(), x[:, half:].float()) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat((z.real, z.imag), -1).to(x.dtype)


def steps(model, synchronize, repeats=20):
    """Milliseconds of decode steps and of prefills."""
    model.warm_up()

    def clock(f, n):
        f(), synchronize()
        began = time.monotonic()
        for _ in range(n):
            f()
        synchronize()
        return 1000 * (time.monotonic() - began) / n

    for rows in sorted({1, max(1, model.rows // 8), max(1, model.rows // 2), model.rows}):
        for context in sorted({model.context // 8, model.context // 2, model.context - 1}):
            ms = clock(lambda: model.decode([1] * rows, [context] * rows), repeats)
            print(f"decode  {rows:4d} requests, context {context:6d}: {ms:8.2f} ms")
    for isl in sorted({model.context // n for n in (1, 2, 8, 32)}):
        ms = clock(lambda: model.prefill([(0, [1] * isl)]), 3)
        print(f"prefill {isl:6d} tokens: {ms:8.2f} ms")


def models(shape, device, dtype, attention):
    return lambda rows, context: Llama(shape, rows, context, device, dtype, attention=attention)
