#!/usr/bin/env python3
"""A small completions server around a real transformer with random weights.

usage: serve.py --port PORT [--preset 8b] [--max-num-seqs N] [--max-model-len N] …
       serve.py --selftest      compare what it computes with a plain forward pass
       serve.py --bench         time its steps without a server

It needs torch and nothing else: bf16 on CUDA where there is a GPU, float32 on the
CPU. It is an engine to measure, whose every part is known: continuous batching in
steps (engine.py), whole prompts, a cache of rows × context (model.py), vLLM's API
and metrics (api.py). The engine runs in a child process, so that writing to many
clients takes nothing from its steps. TERM ends both.
"""

import argparse
import asyncio
import gc
import multiprocessing
import queue
import signal
import sys
import threading

sys.dont_write_bytecode = True

from api import Server  # noqa: E402  (no torch in this process)


def flags():
    ap = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    add = ap.add_argument
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=8000)
    add("--preset", default="8b", help="sizes of the model: tiny, 1b, 3b, 8b (default: 8b)")
    add("--served-model-name", help="what clients call it (default: the preset's name)")
    add("--tensor-parallel-size", type=int, choices=(1,), default=1, help="one GPU is all it can use")
    add("--max-num-seqs", type=int, default=32, help="rows of the cache: requests that run at once, and prompts that are kept")
    add("--max-model-len", type=int, default=4096, help="tokens of one row")
    add("--max-num-batched-tokens", type=int, help="prompt tokens of one step (default: 8192, or --max-model-len if that is more)")
    add("--prefix-caching", action="store_true", help="keep the prompts of requests that ended, for the very same prompt")
    add("--attention", choices=("flash", "sdpa", "matmul"),
        help="FlashAttention with lengths, torch's attention with a mask, two products (default: the first that can be had)")
    add("--dtype", choices=("bfloat16", "float16", "float32"), help="of weights and cache (default: bfloat16 on CUDA, float32 on the CPU)")
    add("--device", help="cuda or cpu (default: cuda, where there is one)")
    add("--threads", type=int, default=1, help="of torch on the CPU")
    add("--seed", type=int, default=1, help="of the weights")
    add("--steps", metavar="FILE", help="append a line for each step to this CSV file")
    add("--selftest", action="store_true")
    add("--bench", action="store_true")
    args = ap.parse_args()
    args.max_num_batched_tokens = args.max_num_batched_tokens or max(8192, args.max_model_len)
    return args


def choose(args):
    """The model's sizes, the device, the number type, how to attend."""
    import torch

    import model

    if args.preset not in model.PRESETS:
        sys.exit(f"serve.py: --preset {args.preset}: want one of {', '.join(model.PRESETS)}")
    torch.set_num_threads(args.threads)
    if hasattr(torch.backends.cuda, "enable_cudnn_sdp"):
        # It would compile a graph for each new shape, and here lengths grow with every step.
        torch.backends.cuda.enable_cudnn_sdp(False)
    device = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    dtype = getattr(torch, args.dtype or ("bfloat16" if device.type == "cuda" else "float32"))
    halves = device.type == "cuda" and dtype != torch.float32
    attention = args.attention or ("flash" if halves else "sdpa" if model.SDPA else "matmul")
    if attention == "sdpa" and not model.SDPA:
        sys.exit(f"serve.py: --attention sdpa: torch {torch.__version__} does not have it")
    return model.PRESETS[args.preset], device, dtype, attention


def build(args):
    """The model, and a line about it."""
    import torch

    import model

    shape, device, dtype, attention = choose(args)
    m = model.Llama(shape, args.max_num_seqs, args.max_model_len, device, dtype, args.seed, attention)
    what = f"torch {torch.__version__}, {args.preset} random weights, {str(dtype).split('.')[1]}, {attention}"
    if device.type == "cuda":
        what += f", {torch.cuda.get_device_name(device)}"
    return m, what


def run_engine(args, pipe):
    """The child process: one step after the other, until the pipe closes."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the parent's end is the end
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from engine import Engine, Request

    model, what = build(args)

    def emit(requests):
        pipe.send(([(r.name, r.tokens[-1], r.ended(), r.cached) for r in requests],
                   {"running": len(engine.running), "waiting": len(engine.waiting), "held": engine.held(),
                    "queries": engine.queries, "hits": engine.hits}))

    engine = Engine(model, args.max_num_batched_tokens, args.prefix_caching, emit, args.steps)
    model.warm_up()
    gc.collect()
    gc.freeze()  # nothing of the model is ever garbage: spare the collector the search
    inbox = queue.SimpleQueue()
    threading.Thread(target=receive, args=(pipe, inbox), daemon=True).start()
    try:
        pipe.send((what, model.shape.vocab))
        while True:
            while not engine.busy() or not inbox.empty():
                kind, name, *rest = inbox.get()
                if kind == "end":
                    return
                if kind == "add":
                    engine.add(Request(name, *rest))
                else:
                    engine.abort(name)
                    emit([])
            engine.step()
    except BrokenPipeError:
        pass  # the parent has gone
    finally:
        engine.log.close()


def receive(pipe, inbox):
    try:
        while True:
            inbox.put(pipe.recv())
    except (EOFError, OSError):
        inbox.put(("end", None))


async def serve(args, engine, child):
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def end(why):
        if not ended.done():
            ended.set_result(why)

    for s in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(s, end, None)
    loop.add_reader(child.sentinel, end, "the engine died")
    ready = loop.create_future()
    loop.add_reader(engine.fileno(), lambda: ready.done() or ready.set_result(None))
    await asyncio.wait({ready, ended}, return_when=asyncio.FIRST_COMPLETED)
    if ended.done():
        return ended.result()
    try:
        what, vocab = engine.recv()
    except EOFError:
        return "the engine died"
    kv_tokens = args.max_num_seqs * args.max_model_len
    api = Server(engine, args.served_model_name or args.preset, what, {"vocab": vocab, "max_model_len": args.max_model_len, "kv_tokens": kv_tokens})
    loop.add_reader(engine.fileno(), api.tokens)
    server = await asyncio.start_server(api.handle, args.host, args.port, backlog=1024)
    print(f"GPU KV cache size: {kv_tokens:,} tokens\n{what}: serving {api.model} on {args.host}:{args.port}", flush=True)
    why = await ended
    loop.remove_reader(engine.fileno())
    server.close()
    return why


def main():
    args = flags()
    if args.selftest or args.bench:
        return examine(args)
    # fork, while there is neither a thread nor a GPU in this process.
    context = multiprocessing.get_context("fork")
    engine, theirs = context.Pipe()
    child = context.Process(target=in_child, args=(args, engine, theirs))
    child.start()
    theirs.close()
    why = asyncio.run(serve(args, engine, child))
    engine.close()
    child.join(5)
    if child.is_alive():
        child.kill()
    if why:
        sys.exit(f"serve.py: {why}")


def in_child(args, ours, pipe):
    ours.close()
    run_engine(args, pipe)


def examine(args):
    import torch

    import selftest

    shape, device, dtype, attention = choose(args)
    if args.selftest and not selftest.run(selftest.models(shape, device, dtype, attention), shape.vocab):
        sys.exit(1)
    if args.bench:
        model, what = build(args)
        print(what)
        selftest.steps(model, torch.cuda.synchronize if device.type == "cuda" else lambda: None)


if __name__ == "__main__":
    main()
