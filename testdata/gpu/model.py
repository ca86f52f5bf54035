"""A decoder-only transformer of the Llama architecture with random weights, and its KV cache.

Takes token ids and where their keys and values belong; gives logits. Pre-norm
blocks of grouped-query attention with rotary positions (halves rotated, as in
Hugging Face's code) and SwiGLU, RMSNorm, no biases. What it computes is noise,
how long it takes is not: weights and cache have the sizes of the real model.

The cache is one tensor of rows × context. decode() works on the rows from 0 to
n-1, so that attention reads them without gathering: whoever runs sequences
keeps them there.

On a GPU, decode steps and short prompts run as CUDA graphs, one for each of some
sizes: Python launches one graph, not some hundred kernels. What is smaller is
padded, and the padding writes to a row of its own.
"""

import dataclasses
import math

import torch
import torch.nn.functional as F


@dataclasses.dataclass(frozen=True)
class Shape:
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tied: bool = False  # the output layer is the embedding
    theta: float = 500000.0  # base of the rotary frequencies

    def kv_bytes(self, dtype):
        """Bytes that one token takes in the cache."""
        return 2 * self.layers * self.kv_heads * self.head_dim * torch.finfo(dtype).bits // 8


# Sizes of the models' config.json on Hugging Face: meta-llama/Llama-3.2-1B,
# Llama-3.2-3B, Llama-3.1-8B (2024). tiny is for a CPU.
PRESETS = {
    "tiny": Shape(4, 256, 8, 2, 32, 768, 32000),
    "1b": Shape(16, 2048, 32, 8, 64, 8192, 128256, tied=True),
    "3b": Shape(28, 3072, 24, 8, 128, 8192, 128256, tied=True),
    "8b": Shape(32, 4096, 32, 8, 128, 14336, 128256),
}

SDPA = hasattr(F, "scaled_dot_product_attention")  # torch 2.0
# A mask is padded to a multiple of this, which the kernels of SDPA want; in a graph
# to a multiple of GRAIN, because each length is a graph.
ALIGN, GRAIN = 64, 1024
# Prompts up to SHORT tokens run as graphs, padded to a multiple of STEP.
SHORT, STEP = 1024, 32
EPSILON = 1e-5  # of RMSNorm


def aligned(n, to=ALIGN):
    return -(-n // to) * to


class Llama:
    """Weights and cache on one device. rows sequences of up to context tokens."""

    def __init__(self, shape, rows, context, device, dtype, seed=1, attention="sdpa"):
        self.shape, self.rows, self.context = shape, rows, context
        self.device, self.dtype, self.attention = device, dtype, attention
        draw = torch.Generator(device=device).manual_seed(seed)

        def weight(out, into):
            w = torch.empty(out, into, device=device, dtype=dtype)
            return w.normal_(0, 1 / math.sqrt(into), generator=draw)

        s = shape
        q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
        self.ones = torch.ones(s.hidden, device=device, dtype=dtype)  # every norm's weight
        self.layers = [
            {"qkv": weight(q + 2 * kv, s.hidden), "o": weight(s.hidden, q),
             "gate_up": weight(2 * s.ffn, s.hidden), "down": weight(s.hidden, s.ffn)}
            for _ in range(s.layers)
        ]
        self.embedding = weight(s.vocab, s.hidden)
        self.head = self.embedding if s.tied else weight(s.vocab, s.hidden)
        # One row more than asked for: padding writes there.
        self.cache = torch.zeros(s.layers, 2, rows + 1, aligned(context), s.kv_heads, s.head_dim, device=device, dtype=dtype)
        self.cos, self.sin = rotary(shape, context, device, dtype)
        self.places = torch.arange(aligned(context), device=device)
        self.graphs = {}
        self.pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None

    @torch.inference_mode()
    def prefill(self, prompts):
        """The logits after whole prompts, [len(prompts), vocab]; prompts are (row, token ids).

        Their tokens go through the matrices together, and attend each to their own."""
        n = [len(ids) for _, ids in prompts]
        if self.attention == "flash" and len(n) == 1 and n[0] <= SHORT:
            size = aligned(n[0], STEP)
            more = [0] * (size - n[0])
            inputs, starts = lay([*prompts, (self.rows, more)]), torch.tensor([0, n[0], size], dtype=torch.int32)
            return self.replay(size, lambda inputs, starts: self.whole(inputs, starts, size), inputs, starts)[:1]
        starts = torch.tensor([0, *n], dtype=torch.int32).cumsum(0, dtype=torch.int32)
        return self.whole(lay(prompts).to(self.device), starts.to(self.device), max(n))

    @torch.inference_mode()
    def decode(self, tokens, lengths):
        """The logits after one more token each in the rows 0 to len(tokens)-1, [rows, vocab].

        lengths are the tokens that each row holds before."""
        n, reach = len(tokens), self.reach(max(lengths) + 1)
        if self.pool is None:
            return self.one_each(torch.tensor([tokens, lengths, range(n)]), reach)
        size = next(size for size in self.sizes() if size >= n)
        more = size - n
        inputs = torch.tensor([[*tokens] + more * [0], [*lengths] + more * [0], [*range(n)] + more * [self.rows]])
        return self.replay((size, reach), lambda inputs: self.one_each(inputs, reach), inputs)[:n]

    def sizes(self):
        """Batch sizes of the graphs: 1, 2, 4, then every eighth, as vLLM's."""
        return sorted({n for n in (1, 2, 4, *range(8, self.rows, 8)) if n < self.rows} | {self.rows})

    def reach(self, tokens):
        """How many places of each row attention is given, to read that many tokens."""
        places = len(self.places)
        if self.attention == "flash":  # it knows each row's length
            return places
        return min(aligned(tokens, GRAIN if self.pool else ALIGN), places)

    def warm_up(self):
        """Every kernel and graph once: kernels are loaded, memory is taken."""
        for n in (self.context, *(range(SHORT, 0, -STEP) if self.pool else (16,))):
            self.prefill([(0, [1] * min(n, self.context))])
        for n in reversed(self.sizes()):  # the largest graph first: the others reuse its memory
            for tokens in range(GRAIN, len(self.places) + GRAIN, GRAIN):
                self.decode([1] * n, [min(tokens, self.context) - 1] * n).argmax(-1).tolist()

    def replay(self, key, step, *inputs):
        """What step gives of inputs, by its graph, which has a copy of each; the next replay overwrites it."""
        if key not in self.graphs:
            self.graphs[key] = self.capture(step, [t.to(self.device) for t in inputs])
        graph, own, out = self.graphs[key]
        for t, new in zip(own, inputs):
            t.copy_(new)
        graph.replay()
        return out

    def capture(self, step, inputs):
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            step(*inputs)  # what is done only the first time must not be in the graph
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            out = step(*inputs)
        return graph, inputs, out

    def whole(self, inputs, starts, longest):
        """The logits after each of the prompts that begin at starts, of which the last entry is the end."""
        return self.logits(self.blocks(inputs, self.over_prompts(starts, longest))[(starts[1:] - 1).long()])

    def one_each(self, inputs, reach):
        """The logits after each of inputs, where the first is of row 0, the second of row 1."""
        return self.logits(self.blocks(inputs, self.over_rows(inputs[1], reach)))

    def blocks(self, inputs, attend):
        """What the tokens of inputs become: its rows are tokens, places in their rows of the cache, these rows."""
        tokens, at, rows = inputs
        x = F.embedding(tokens, self.embedding)
        cos, sin = self.cos[at].unsqueeze(1), self.sin[at].unsqueeze(1)
        for layer, w in enumerate(self.layers):
            q, k, v = self.project(w, x, cos, sin)
            keys, values = self.cache[layer]
            keys[rows, at] = k
            values[rows, at] = v
            x = self.rest(w, x, attend(q, k, v, keys, values))
        return x

    def over_prompts(self, starts, longest):
        """What attends from the tokens of each prompt to those before them in it."""
        if self.attention == "flash":
            return lambda q, k, v, *_: flash(q, k, v, starts, starts, longest, longest, causal=True)
        bounds = starts.tolist()

        def attend(q, k, v, *_):
            out = torch.empty_like(q)
            for begin, end in zip(bounds, bounds[1:]):
                own = [t[begin:end].transpose(0, 1).unsqueeze(0) for t in (q, k, v)]  # [1, heads, tokens, dim]
                out[begin:end] = ATTENTION[self.attention](*own, None)[0].transpose(0, 1)
            return out

        return attend

    def over_rows(self, at, reach):
        """What attends from one token of each row to the places of its row, up to at."""
        n, s = len(at), self.shape
        if self.attention == "flash":
            queries = torch.arange(n + 1, dtype=torch.int32, device=self.device)
            starts, lengths = queries * reach, (at + 1).int()
            return lambda q, _k, _v, keys, values: flash(
                q, keys[:n].flatten(0, 1), values[:n].flatten(0, 1), queries, starts, 1, reach, lengths=lengths)
        mask = torch.zeros(n, 1, 1, reach, device=self.device, dtype=self.dtype)
        mask.masked_fill_((self.places[:reach] > at.unsqueeze(1)).view(n, 1, 1, reach), -math.inf)

        def attend(q, _k, _v, keys, values):
            # The queries that share a KV head take the place of the tokens.
            keys, values = (t[:n, :reach].transpose(1, 2) for t in (keys, values))
            return ATTENTION[self.attention](q.view(n, s.kv_heads, -1, s.head_dim), keys, values, mask).reshape(q.shape)

        return attend

    def move(self, src, dst, tokens):
        """Row dst gets what row src holds."""
        self.cache[:, :, dst, :tokens] = self.cache[:, :, src, :tokens]

    def swap(self, a, b, tokens):
        kept = self.cache[:, :, a, :tokens].clone()
        self.move(b, a, tokens)
        self.cache[:, :, b, :tokens] = kept

    def norm(self, x):
        return rms_norm(x, self.ones)

    def project(self, w, x, cos, sin):
        """Queries, keys and values of x, [tokens, heads, dim], the first two rotated."""
        s = self.shape
        y = F.linear(self.norm(x), w["qkv"]).view(len(x), -1, s.head_dim)
        turned, v = y[:, :-s.kv_heads], y[:, -s.kv_heads:]
        turned = torch.addcmul(turned * cos, turned.roll(s.head_dim // 2, -1), sin)
        return turned[:, :s.heads], turned[:, s.heads:], v

    def rest(self, w, x, attended):
        """The block after attention."""
        x.addmm_(attended.reshape(len(x), -1), w["o"].T)
        gate, up = F.linear(self.norm(x), w["gate_up"]).chunk(2, dim=-1)
        return x.addmm_(F.silu(gate) * up, w["down"].T)

    def logits(self, x):
        return F.linear(self.norm(x), self.head)


def lay(prompts):
    """The tokens of prompts one after the other, their places, their rows, [3, tokens]."""
    return torch.cat([
        torch.stack((torch.tensor(ids, dtype=torch.long), torch.arange(len(ids)), torch.full((len(ids),), row)))
        for row, ids in prompts], 1)


def rotary(shape, context, device, dtype):
    """Cosines and sines by position, [context, head_dim]. A pair (a, b) of the two halves becomes
    (a·cos - b·sin, b·cos + a·sin), so the first half of the sines is negative."""
    half = shape.head_dim // 2
    speed = shape.theta ** (-torch.arange(half, device=device, dtype=torch.float32) / half)
    angle = torch.arange(context, device=device, dtype=torch.float32).unsqueeze(1) * speed
    cos, sin = angle.cos(), angle.sin()
    return torch.cat((cos, cos), -1).to(dtype), torch.cat((-sin, sin), -1).to(dtype)


def rms_norm(x, weight):
    if hasattr(F, "rms_norm"):  # torch 2.4
        return F.rms_norm(x, (x.shape[-1],), weight, EPSILON)
    y = x.float()
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + EPSILON)).to(x.dtype) * weight


def flash(q, k, v, q_starts, k_starts, longest_q, longest_k, causal=False, lengths=None):
    """FlashAttention-2 as torch has it (2.5 or later, 16 bits), which nothing public gives with lengths:
    sequences one after the other, [tokens, heads, dim], of which lengths says how many keys count."""
    return torch.ops.aten._flash_attention_forward(
        q, k, v, q_starts, k_starts, longest_q, longest_k, 0.0, causal, False, seqused_k=lengths)[0]


def sdpa(q, k, v, mask):
    """Attention by torch's own kernels; without a mask it is causal."""
    if mask is not None:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.expand(-1, q.shape[1], q.shape[2], -1))
    shared = q.shape[1] // k.shape[1]
    return F.scaled_dot_product_attention(q, k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1), is_causal=True)


def by_hand(q, k, v, mask):
    """The same in two products and a softmax."""
    if mask is None:
        n, shared = q.shape[2], q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
        mask = torch.full((n, n), -math.inf, device=q.device, dtype=q.dtype).triu(1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + mask
    return torch.softmax(scores.float(), dim=-1).to(q.dtype) @ v


ATTENTION = {"sdpa": sdpa, "matmul": by_hand}
