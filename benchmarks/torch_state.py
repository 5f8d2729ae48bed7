"""Decoding with a static cache of keys and values, a buffer of the model that each step changes in one place: peak
memory and time of the steps, each way in a process of its own. Linux tells the peak since it was last asked.

    python -m benchmarks.torch_state [--steps 64] [--longest 8192] [--batch 8] [--threads 1]"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import egshape
from benchmarks.tools.machine import measured_on

WIDTH, HEADS = 256, 4
WAYS = ("eager", "inductor", "torch.compile(backend='egshape')", "egshape.torch.compile", "export and compile, out=")


class Step(nn.Module):
    """A token of a layer of attention over all that was before."""

    def __init__(self, batch: int, longest: int) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("keys", torch.zeros(batch, HEADS, longest, WIDTH // HEADS))
        self.register_buffer("values", torch.zeros(batch, HEADS, longest, WIDTH // HEADS))

    def forward(self, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        q, k, v = self.into(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        self.keys.index_copy_(2, place, k)
        self.values.index_copy_(2, place, v)
        seen = torch.arange(self.keys.shape[2]) <= place
        mixed = nn.functional.scaled_dot_product_attention(q, self.keys, self.values, seen[None])
        return self.out(mixed.transpose(1, 2).flatten(2))


def stepping(way: str, model: Step, first: tuple[torch.Tensor, torch.Tensor], threads: int) -> Callable[..., Any]:
    """One way to run a step."""
    if way == "eager":
        return model
    if way == "inductor":
        return torch.compile(model)
    if way == WAYS[2]:
        return torch.compile(model, backend="egshape", options={"threads": threads})
    if way == WAYS[3]:
        return egshape.torch.compile(model, (None, None), threads=threads)
    fn = egshape.compile(egshape.torch.export(model, first), threads=threads)
    held = [model.keys, model.values]
    return lambda x, place: fn(x, place, *held, out=[None, *held])[0]


def resident(which: str) -> float:
    """MiB of this process: now (``VmRSS``), or at the peak (``VmHWM``)."""
    found = re.search(rf"{which}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


def measured(way: str, steps: int, batch: int, longest: int, threads: int) -> tuple[float, float, float]:
    """MiB beyond the cache itself, those of a second compilation among them, median microseconds of a step, and the
    largest difference to eager."""
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    with torch.no_grad():
        small, model = Step(batch, 64), Step(batch, longest)
        places = [torch.tensor([place]) for place in range(steps)]
        tokens = [torch.randn(batch, 1, WIDTH) for _ in places]
        stepping(way, small, (tokens[0], places[0]), threads)(tokens[0], places[0])  # what compiling takes is not meant
        run = stepping(way, model, (tokens[0], places[0]), threads)
        for buffer in model.buffers():
            buffer.fill_(0)  # memory that was never written is not there yet
        Path("/proc/self/clear_refs").write_text("5")
        before = resident("VmRSS")
        results, seconds = [], []
        for token, place in zip(tokens, places, strict=True):
            start = time.perf_counter()
            results.append(run(token, place))
            seconds.append(time.perf_counter() - start)
        after = resident("VmHWM")
        model.keys.zero_()
        model.values.zero_()
        apart = max(float((one - model(*each)).abs().max()) for one, *each in zip(results, tokens, places, strict=True))
    return after - before, statistics.median(seconds[1:]) * 1e6, apart


def main() -> None:
    """Measure all ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--longest", type=int, default=8192)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    cache = 2 * args.batch * args.longest * WIDTH * 4 / 2**20
    print(measured_on(["torch"]))
    print(f"a cache of {cache:.0f} MiB, {args.steps} steps")
    for way in WAYS:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            more, micros, apart = pool.apply(measured, (way, args.steps, args.batch, args.longest, args.threads))
        print(f"  {way}: {more:.0f} MiB more at the peak, {micros:.0f} us a step, {apart:.1e} from eager", flush=True)


if __name__ == "__main__":
    main()
