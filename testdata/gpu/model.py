"""A decoder-only transformer of the Llama architecture with random weights, and its KV cache.

Takes token ids and where their keys and values belong; gives logits. Pre-norm
blocks of grouped-query attention with rotary positions (halves rotated, as in
Hugging Face's code) and SwiGLU, RMSNorm, no biases. What it computes is noise,
how long it takes is not: weights and cache have the sizes of the real model.

The cache is one tensor of rows × context. decode() works on the rows from 0 to
n-1, so that attention reads them without gathering: whoever runs sequences
keeps them there.
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
# A mask is padded to a multiple of this, which the kernels of SDPA want.
ALIGN = 64
EPSILON = 1e-5  # of RMSNorm


def aligned(n):
    return -(-n // ALIGN) * ALIGN


class Llama:
    """Weights and cache on one device. rows sequences of up to context tokens."""

    def __init__(self, shape, rows, context, device, dtype, seed=1, attention="sdpa"):
        self.shape, self.rows, self.context = shape, rows, context
        self.device, self.dtype = device, dtype
        self.attend = ATTENTION[attention]
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
        self.cache = torch.zeros(s.layers, 2, rows, s.kv_heads, aligned(context), s.head_dim, device=device, dtype=dtype)
        self.cos, self.sin = rotary(shape, context, device, dtype)
        self.places = torch.arange(aligned(context), device=device)

    @torch.inference_mode()
    def prefill(self, prompts):
        """The logits after whole prompts, [len(prompts), vocab]; prompts are (row, token ids).

        Their tokens go through the matrices together, and attend each to their own."""
        spans, at = [], 0
        for row, ids in prompts:
            spans.append((row, at, at + len(ids)))
            at += len(ids)
        x = self.embed([t for _, ids in prompts for t in ids])
        positions = torch.cat([self.places[:end - begin] for _, begin, end in spans])
        cos, sin = self.cos[positions].unsqueeze(1), self.sin[positions].unsqueeze(1)
        for layer, w in enumerate(self.layers):
            q, k, v = self.project(w, x, cos, sin)
            out = torch.empty_like(q)
            for row, begin, end in spans:
                own = [t[begin:end].transpose(0, 1).unsqueeze(0) for t in (q, k, v)]  # [1, heads, tokens, dim]
                self.cache[layer, 0, row, :, :end - begin] = own[1][0]
                self.cache[layer, 1, row, :, :end - begin] = own[2][0]
                out[begin:end] = self.attend(*own, None)[0].transpose(0, 1)
            x = self.rest(w, x, out)
        return self.logits(x[[end - 1 for _, _, end in spans]])

    @torch.inference_mode()
    def decode(self, tokens, lengths):
        """The logits after one more token each in the rows 0 to len(tokens)-1, [rows, vocab].

        lengths are the tokens that each row holds before."""
        n, s = len(tokens), self.shape
        reach = min(aligned(max(lengths) + 1), self.cache.shape[4])
        x = self.embed(tokens)
        at = torch.tensor(lengths, device=self.device)
        rows = self.places[:n]
        cos, sin = self.cos[at].unsqueeze(1), self.sin[at].unsqueeze(1)
        mask = torch.zeros(n, 1, 1, reach, device=self.device, dtype=self.dtype)
        mask.masked_fill_((self.places[:reach] > at.unsqueeze(1)).view(n, 1, 1, reach), -math.inf)
        for layer, w in enumerate(self.layers):
            q, k, v = self.project(w, x, cos, sin)
            kept = self.cache[layer]
            kept[0][rows, :, at] = k
            kept[1][rows, :, at] = v
            # The queries that share a KV head take the place of the tokens.
            out = self.attend(q.view(n, s.kv_heads, -1, s.head_dim), kept[0, :n, :, :reach], kept[1, :n, :, :reach], mask)
            x = self.rest(w, x, out.reshape(n, s.heads, s.head_dim))
        return self.logits(x)

    def move(self, src, dst, tokens):
        """Row dst gets what row src holds."""
        self.cache[:, :, dst, :, :tokens] = self.cache[:, :, src, :, :tokens]

    def swap(self, a, b, tokens):
        kept = self.cache[:, :, a, :, :tokens].clone()
        self.move(b, a, tokens)
        self.cache[:, :, b, :, :tokens] = kept

    def embed(self, ids):
        return F.embedding(torch.tensor(ids, device=self.device), self.embedding)

    def norm(self, x):
        return rms_norm(x, self.ones)

    def project(self, w, x, cos, sin):
        """Queries, keys and values of x, [tokens, heads, dim], the first two rotated."""
        s = self.shape
        y = F.linear(self.norm(x), w["qkv"]).view(len(x), -1, s.head_dim)
        turned, v = y[:, :-s.kv_heads], y[:, -s.kv_heads:]
        a, b = turned.chunk(2, dim=-1)
        turned = turned * cos + torch.cat((-b, a), dim=-1) * sin
        return turned[:, :s.heads], turned[:, s.heads:], v

    def rest(self, w, x, attended):
        """The block after attention."""
        x = x + F.linear(attended.reshape(len(x), -1), w["o"])
        gate, up = F.linear(self.norm(x), w["gate_up"]).chunk(2, dim=-1)
        return x + F.linear(F.silu(gate) * up, w["down"])

    def logits(self, x):
        return F.linear(self.norm(x), self.head)


def rotary(shape, context, device, dtype):
    """Cosines and sines by position, [context, head_dim]."""
    half = shape.head_dim // 2
    speed = shape.theta ** (-torch.arange(half, device=device, dtype=torch.float32) / half)
    angle = torch.arange(context, device=device, dtype=torch.float32).unsqueeze(1) * speed
    angle = torch.cat((angle, angle), dim=-1)
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rms_norm(x, weight):
    if hasattr(F, "rms_norm"):  # torch 2.4
        return F.rms_norm(x, (x.shape[-1],), weight, EPSILON)
    y = x.float()
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + EPSILON)).to(x.dtype) * weight


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
