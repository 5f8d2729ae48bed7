"""``egshape.torch.compile`` beside torch's own compiler and eager, in one process, runs in turns.

    python -m benchmarks.torch [--networks encoder,lstm] [--rounds 15] [--threads 1]

Compile: seconds of the first call. Calls: medians of microseconds at sizes that the first call did not have, and the
geometric means of the ratios to egshape's."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch._inductor.config
from torch import nn

import egshape
from benchmarks.tools.machine import measured_on

SIZES = ((1, 16), (2, 33), (4, 64), (8, 20), (1, 128), (3, 7), (16, 48))


@dataclass(frozen=True)
class Network:
    """A network, what its inputs are at a batch and a length, and their open axes."""

    module: Callable[[], nn.Module]
    inputs: Callable[[int, int], tuple[torch.Tensor, ...]]
    axes: tuple[Mapping[int, str], ...]


class Recurrent(nn.Module):
    """An LSTM and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.out = nn.LSTM(64, 64, batch_first=True), nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.layers(x)[0])


class Encoder(nn.Module):
    """Two layers of attention and products, before which is a normalization."""

    def __init__(self, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
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
            for _ in range(2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        for layer in self.layers:
            held = layer["into"](layer["one"](x)).view(batch, length, 3, self.heads, width // self.heads)
            q, k, v = held.permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)
            x = x + layer["out"](mixed.reshape(batch, length, width))
            x = x + layer["back"](nn.functional.gelu(layer["wide"](layer["two"](x))))
        return x


class DecoderStep(nn.Module):
    """One token of a decoder layer: what it was before is a cache of keys and values, which grows by one."""

    def __init__(self, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        batch, width = x.shape[0], x.shape[2]
        q, k, v = self.into(self.one(x)).view(batch, 1, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        mixed = nn.functional.scaled_dot_product_attention(q, keys, values).transpose(1, 2)
        x = x + self.out(mixed.reshape(batch, 1, width))
        return x + self.back(nn.functional.gelu(self.wide(self.two(x)))), keys, values


class Experts(nn.Module):
    """A mixture of experts: each token goes to two of eight, how many an expert gets is known when it runs."""

    def __init__(self, width: int = 128, experts: int = 8) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)) for _ in range(experts)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.reshape(-1, x.shape[-1])
        weights, chosen = self.gate(tokens).softmax(-1).topk(2, dim=-1)
        out = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows, place = torch.where(chosen == number)
            out = out.index_add(0, rows, expert(tokens[rows]) * weights[rows, place, None])
        return out.view(x.shape)


def convolutions() -> nn.Module:
    """A small network of convolutions."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


NETWORKS = {
    "encoder": Network(Encoder, lambda b, s: (torch.randn(b, s, 256),), ({0: "b", 1: "s"},)),
    "decoder": Network(
        DecoderStep,
        lambda b, s: (torch.randn(b, 1, 256), torch.randn(b, 4, s, 64), torch.randn(b, 4, s, 64)),
        ({0: "b"}, {0: "b", 2: "s"}, {0: "b", 2: "s"}),
    ),
    "experts": Network(Experts, lambda b, s: (torch.randn(b, s, 128),), ({0: "b", 1: "s"},)),
    "lstm": Network(Recurrent, lambda b, s: (torch.randn(b, s, 64),), ({0: "b", 1: "s"},)),
    "convolutions": Network(convolutions, lambda b, s: (torch.randn(b, 3, s + 8, s + 8),), ({0: "b", 2: "h", 3: "w"},)),
}


def measured(network: Network, rounds: int, threads: int) -> None:
    """Print the table of one network."""
    torch.manual_seed(0)
    module = network.module().eval()
    egshape.torch.reset()
    made: dict[str, Callable[..., Any]] = {"eager": module}
    made["inductor"] = torch.compile(module, dynamic=True)
    made["egshape"] = egshape.torch.compile(module, network.axes, threads=threads)
    first = network.inputs(2, 9)
    with torch.no_grad():
        wanted = module(*first)
        for name, run in made.items():
            start = time.perf_counter()
            torch.testing.assert_close(run(*first), wanted, rtol=1e-4, atol=1e-4)
            print(f"  first call of {name}: {time.perf_counter() - start:.2f} s")
        ratios: dict[str, list[float]] = {name: [] for name in made}
        for batch, length in SIZES:
            times = alternating(made, network.inputs(batch, length), rounds)
            for name, each in times.items():
                ratios[name].append(each / times["egshape"])
            print(f"  {batch} x {length}: " + ", ".join(f"{name} {each * 1e6:.0f} us" for name, each in times.items()))
    for name, each in ratios.items():
        print(f"  {name}: {statistics.geometric_mean(each):.2f} times egshape's time")
    print("  " + str(egshape.torch.report()).replace("\n", "\n  "))


def alternating(
    made: Mapping[str, Callable[..., Any]], inputs: Sequence[torch.Tensor], rounds: int
) -> dict[str, float]:
    """Medians of seconds of one call, in turns."""
    found: dict[str, list[float]] = {name: [] for name in made}
    for run in made.values():
        run(*inputs)
    for _ in range(rounds):
        for name, run in made.items():
            start = time.perf_counter()
            run(*inputs)
            found[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) for name, each in found.items()}


def main() -> None:
    """Measure the networks that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch._inductor.config.force_disable_caches = True  # a first call is a first one on this machine
    print(measured_on(["torch"], args.threads))
    for name in args.networks.split(","):
        print(name)
        measured(NETWORKS[name], args.rounds, args.threads)


if __name__ == "__main__":
    main()
