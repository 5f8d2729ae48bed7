"""200 steps of training through ``torch.compile(backend="egshape")`` beside eager and torch's compiler, with batches
and lengths that change: one process, the compilers take each step in turns.

    python -m benchmarks.torch_training [--networks decoder,lstm] [--steps 200] [--threads 1] [--no-inductor]

The largest difference of a loss to eager's, relative to it; graphs that were compiled; medians of milliseconds of the
steps of the second half."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

import egshape
from benchmarks.tools.machine import measured_on
from benchmarks.torch import Encoder

WORDS = 97


@dataclass(frozen=True)
class Task:
    """A network and what it learns: inputs and targets at a batch and a length."""

    module: Callable[[], nn.Module]
    batch: Callable[[int, int], tuple[torch.Tensor, torch.Tensor]]


class Decoder(nn.Module):
    """A small language model: embeddings, causal attention, products."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.heads, self.words = heads, nn.Embedding(WORDS, width)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "one": nn.LayerNorm(width),
                    "into": nn.Linear(width, 3 * width),
                    "out": nn.Linear(width, width),
                    "two": nn.LayerNorm(width),
                    "wide": nn.Linear(width, 4 * width),
                    "back": nn.Linear(4 * width, width),
                }
            )
            for _ in range(layers)
        )
        self.last = nn.Linear(width, WORDS)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        for layer in self.layers:
            q, k, v = layer["into"](layer["one"](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + layer["out"](mixed.transpose(1, 2).flatten(2))
            x = x + layer["back"](nn.functional.gelu(layer["wide"](layer["two"](x))))
        return self.last(x)


class Tagger(nn.Module):
    """An LSTM in both directions over embeddings."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words, self.layers = (
            nn.Embedding(WORDS, width),
            nn.LSTM(width, width, batch_first=True, bidirectional=True),
        )
        self.last = nn.Linear(2 * width, WORDS)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.last(self.layers(self.words(ids))[0])


class Classifier(nn.Module):
    """Encoder layers, the mean over the sequence, classes."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last = Encoder(64, 4), nn.Linear(64, WORDS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.inner(x).mean(1))


def _pictures() -> nn.Module:
    """Convolutions with batch norm, whose running statistics change, and pools."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1, stride=2),
        nn.GroupNorm(4, 32),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, WORDS),
    )


def _shifted(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(0, WORDS, (batch, length))
    return ids, (ids * 5 + 3) % WORDS


TASKS = {
    "decoder": Task(Decoder, _shifted),
    "lstm": Task(Tagger, _shifted),
    "encoder": Task(Classifier, lambda b, s: (torch.randn(b, s, 64), torch.randint(0, WORDS, (b,)))),
    "convolutions": Task(_pictures, lambda b, s: (torch.randn(b, 3, s + 4, s + 9), torch.randint(0, WORDS, (b,)))),
}


def sizes(steps: int) -> Iterator[tuple[int, int]]:
    """A batch and a length for each step, 1 among them."""
    for step in range(steps):
        yield 2 + step * 5 % 7 if step % 20 else 1, 3 + step * 11 % 23


def trained(task: Task, steps: int, compilers: dict[str, Callable[[nn.Module], Any]]) -> dict[str, Any]:
    """Losses and seconds of each step, by compiler; each has a copy of the network, and sees the same data."""
    torch.manual_seed(0)
    first = task.module().state_dict()
    runs = {}
    for name, compiler in compilers.items():
        module = task.module()
        module.load_state_dict(first)
        runs[name] = (compiler(module), torch.optim.AdamW(module.parameters(), lr=1e-3), [], [])
    for batch, length in sizes(steps):
        x, y = task.batch(batch, length)
        for fast, optimizer, losses, seconds in runs.values():
            start = time.perf_counter()
            optimizer.zero_grad()
            found = fast(x)
            loss = nn.functional.cross_entropy(found.flatten(0, -2), y.flatten())
            loss.backward()
            optimizer.step()
            seconds.append(time.perf_counter() - start)
            losses.append(float(loss.detach()))
    return {name: (losses, seconds) for name, (_, _, losses, seconds) in runs.items()}


def main() -> None:
    """Train the networks that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(TASKS))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-inductor", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch._dynamo.config.allow_rnn = True
    torch._dynamo.config.recompile_limit = 16  # torch's own is 8; it counts both compilers' graphs of one module
    compilers: dict[str, Callable[[nn.Module], Any]] = {
        "eager": lambda module: module,
        "egshape": lambda module: torch.compile(
            module, backend="egshape", dynamic=True, options={"threads": args.threads}
        ),
    }
    if not args.no_inductor:
        compilers["inductor"] = lambda module: torch.compile(module, dynamic=True)
    print(measured_on(["torch"], args.threads))
    for name in args.networks.split(","):
        torch.compiler.reset()
        egshape.torch.reset()
        found = trained(TASKS[name], args.steps, compilers)
        wanted = found["eager"][0]
        print(
            f"{name}: loss {wanted[0]:.4f} -> {wanted[-1]:.4f}, {len(egshape.torch.report().graphs)} graphs of egshape"
        )
        for each, (losses, seconds) in found.items():
            apart = max(abs(one - two) / abs(two) for one, two in zip(losses, wanted, strict=True))
            later = statistics.median(seconds[args.steps // 2 :])
            print(f"  {each}: {apart:.1e} apart, {later * 1e3:.2f} ms a step, {sum(seconds):.1f} s in all", flush=True)
        torch_runs = sorted(
            {op for graph in egshape.torch.report().graphs for op in (*graph.fallback, graph.error) if op}
        )
        if torch_runs:
            print(f"  torch runs {', '.join(torch_runs)}")


if __name__ == "__main__":
    main()
