"""Continuous batching: a queue, rows of a KV cache, steps.

Takes requests; gives tokens. A step admits what is waiting, prefills the new
prompts whole (up to max_batched tokens of them), then decodes one token for every
running request. Running requests are the rows 0 to n-1 of the cache: one that
ends leaves its row to the last, one that comes gets row n.

With prefix caching, the row of a request that has ended keeps its prompt until
the row is needed, the longest unused first. A request with the very same prompt
takes that row over, and only its last prompt token is computed again. It is whole
prompts or nothing: a shared beginning is not found.
"""

import collections
import contextlib
import csv
import time


class Request:
    def __init__(self, name, prompt, max_tokens):
        self.name, self.prompt, self.max_tokens = name, tuple(prompt), max_tokens
        self.cached = 0  # prompt tokens that were in the cache
        self.tokens = []  # output

    def ended(self):
        return len(self.tokens) == self.max_tokens


class Row:
    """What a row of the cache holds besides what is being decoded there."""

    def __init__(self):
        self.prompt = None  # whose keys and values it begins with
        self.used = 0  # step in which it was last in use


class Engine:
    """emit is called with the requests that got a token, after each half of a step."""

    def __init__(self, model, max_batched, prefix_caching, emit, steps=None):
        if max_batched < model.context:
            raise ValueError(f"{max_batched} tokens in a step hold no prompt of {model.context}: prompts are prefilled whole")
        self.model, self.max_batched, self.prefix_caching, self.emit = model, max_batched, prefix_caching, emit
        self.waiting, self.running = collections.deque(), []
        self.rows = [Row() for _ in range(model.rows)]
        self.step_no = self.queries = self.hits = 0
        self.log = StepLog(steps)

    def add(self, request):
        if len(request.prompt) + request.max_tokens > self.model.context:
            raise ValueError(f"{len(request.prompt)} + {request.max_tokens} tokens, the context holds {self.model.context}")
        self.waiting.append(request)

    def abort(self, name):
        """Forgets a request, wherever it is."""
        self.waiting = collections.deque(r for r in self.waiting if r.name != name)
        for row in [i for i, r in enumerate(self.running) if r.name == name]:
            self.release(row)

    def busy(self):
        return bool(self.waiting or self.running)

    def held(self):
        """Tokens of the running requests in the cache."""
        return sum(length(r) for r in self.running)

    def step(self):
        self.step_no += 1
        new = self.admit()
        if new:
            prompts = [(row, self.running[row].prompt) for row in new]
            with self.log.step("prefill", len(new), sum(len(p) for _, p in prompts), 0):
                ids = self.model.prefill(prompts).argmax(-1).tolist()
            self.give(new, ids)
        if self.running:
            n = len(self.running)
            tokens, lengths = [last_token(r) for r in self.running], [length(r) for r in self.running]
            with self.log.step("decode", n, n, self.held() / n):
                ids = self.model.decode(tokens, lengths).argmax(-1).tolist()
            self.give(range(n), ids)

    def admit(self):
        """Takes in what there is room for; the rows whose prompts are to be prefilled."""
        new, left = [], self.max_batched
        while self.waiting and len(self.running) < len(self.rows):
            r, row = self.waiting[0], len(self.running)
            hit = self.find(r.prompt)
            if hit is None and len(r.prompt) > left:
                break
            self.waiting.popleft()
            self.queries += len(r.prompt)
            if hit is None:
                left -= len(r.prompt)
                new.append(row)
                self.vacate(row)
            else:
                self.exchange(row, hit)
                r.cached = len(r.prompt) - 1
                self.hits += r.cached
            self.running.append(r)
            self.rows[row].prompt = r.prompt if self.prefix_caching else None
        return new

    def find(self, prompt):
        """The row, of those that nobody runs on, that holds prompt."""
        free = range(len(self.running), len(self.rows))
        return next((i for i in free if self.rows[i].prompt == prompt), None)

    def vacate(self, row):
        """Makes a row free to be written; what it keeps goes where it is missed least."""
        oldest = min(range(row, len(self.rows)), key=lambda i: (self.rows[i].prompt is not None, self.rows[i].used))
        if oldest != row:
            self.model.move(row, oldest, kept(self.rows[row]))
            self.rows[oldest] = self.rows[row]
            self.rows[row] = Row()

    def exchange(self, a, b, tokens=0):
        """Swaps two rows: at least so many tokens of them."""
        if a != b:
            self.model.swap(a, b, max(tokens, kept(self.rows[a]), kept(self.rows[b])))
            self.rows[a], self.rows[b] = self.rows[b], self.rows[a]

    def give(self, rows, ids):
        """Appends one token to the request of each row, and ends those that have all."""
        for row, token in zip(rows, ids):
            r = self.running[row]
            r.tokens.append(token)
            self.rows[row].used = self.step_no
        given = [self.running[row] for row in rows]
        for row in reversed(rows):  # from the end, so that the rows before stay where they are
            if self.running[row].ended():
                self.release(row)
        self.emit(given)

    def release(self, row):
        last = len(self.running) - 1
        self.exchange(row, last, max(length(self.running[row]), length(self.running[last])))
        self.running[row] = self.running[last]
        self.running.pop()


def kept(row):
    return len(row.prompt) if row.prompt else 0


def length(request):
    """Tokens of a request that are in its row: all but the last token, which is
    the next step's input."""
    return len(request.prompt) + len(request.tokens) - 1


def last_token(request):
    return request.tokens[-1] if request.tokens else request.prompt[-1]


class StepLog:
    """One line for each step, in CSV: what it held and how many seconds it took."""

    COLUMNS = "at_s", "kind", "requests", "tokens", "context", "seconds"

    def __init__(self, path):
        self.file = open(path, "a", newline="") if path else None
        if self.file:
            self.rows = csv.writer(self.file)
            if self.file.tell() == 0:
                self.rows.writerow(self.COLUMNS)

    @contextlib.contextmanager
    def step(self, kind, requests, tokens, context):
        """Times a block. tokens: how many go through the model; context: how many the
        cache holds of each decoding request, on average."""
        began = time.monotonic()
        yield
        if self.file:
            self.rows.writerow((f"{began:.6f}", kind, requests, tokens, f"{context:.1f}", f"{time.monotonic() - began:.6f}"))

    def close(self):
        if self.file:
            self.file.close()
