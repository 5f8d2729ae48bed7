"""Programs drawn at random, types drawn at random that are said of their values, and whether those hold: decided by
trying sizes, not as annotations are bound."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from egshape.annotation import annotation
from egshape.dims import Dim, const, floordiv, product, symbol
from egshape.errors import EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Op, Value
from egshape.ir.interpret import interpret

LARGEST = 400
"""No name is tried beyond that; no axis is longer."""

TEXTS = (
    "n",
    "m",
    "k",
    "2*n",
    "4*m",
    "3*k",
    "n + m",
    "n*m",
    "2*k + 1",
    "6 - n",
    "n//2",
    "max(n, m)",
    "1",
    "3",
    "?",
    "?",
)


@dataclass(frozen=True)
class Drawn:
    """A program, and what is said of it."""

    graph: Graph
    types: Mapping[str, str]


def drawn(seed: int) -> Drawn:
    """The program of a seed."""
    rng = random.Random(seed)
    builder = BlockBuilder()
    values = [builder.arg("x", "f32", (None, rng.choice((None, None, 4)))), builder.arg("y", "f32", (None,))]
    for _ in range(rng.randint(1, 5)):
        try:
            values.append(_step(rng, builder, values))
        except EgshapeError:  # sizes that can never fit: such a program is not loaded either
            continue
    graph = Graph("f", builder.finish((values[-1],)), ("out",))
    return Drawn(graph, _types(rng, graph, values))


def _step(rng: random.Random, builder: BlockBuilder, values: Sequence[Value]) -> Value:
    x = rng.choice(values)
    size = product(x.type.dims)
    axis = rng.randrange(x.type.rank)
    match rng.randrange(7):
        case 0:
            return builder.one("negate", (x,))
        case 1:
            return builder.one("transpose", (x,), {"permutation": tuple(reversed(range(x.type.rank)))})
        case 2:
            return builder.one("reshape", (x,), {"shape": (size,)})
        case 3:
            parts = rng.choice((2, 3, 4))
            return builder.one("reshape", (x,), {"shape": (floordiv(size, const(parts)), const(parts))})
        case 4:
            other = rng.choice([each for each in values if each.type.rank == x.type.rank])
            return builder.one("concatenate", (x, other), {"dim": axis})
        case 5:
            other = rng.choice([each for each in values if each.type.rank == x.type.rank])
            return builder.one("add", (x, other))
        case _:
            half = [floordiv(each, const(2)) if place == axis else each for place, each in enumerate(x.type.dims)]
            ones, zeros = (const(1),) * x.type.rank, (const(0),) * x.type.rank
            return builder.one("slice", (x,), {"starts": zeros, "limits": tuple(half), "strides": ones})


def _types(rng: random.Random, graph: Graph, values: Sequence[Value]) -> dict[str, str]:
    """Types of some values: an axis says what it is, in names for the inputs' sizes, or anything."""
    names = {symbol_: symbol(name) for symbol_, name in zip(_sizes(graph), ("n", "m", "k"), strict=False)}
    said = {}
    for value in rng.sample(values, min(len(values), rng.randint(1, 4))):
        texts = [str(size.substitute(names)) if rng.random() < 0.6 else rng.choice(TEXTS) for size in value.type.dims]
        said[value.name if value in graph.inputs else f"%{value.name}"] = f"f32[{', '.join(texts)}]"
    return said


def _sizes(graph: Graph) -> list[str]:
    return [each.name for each in graph.body.symbols]


def points(seed: int, count: int) -> Iterator[tuple[tuple[int, int], tuple[int]]]:
    """Shapes of the inputs, small ones first."""
    rng = random.Random(seed)
    yield from (((0, 0), (0,)), ((1, 1), (1,)), ((1, 4), (4,)), ((2, 4), (8,)))
    for _ in range(count):
        yield (rng.randint(0, 9), rng.choice((0, 1, 2, 3, 4, 4, 6, 8))), (rng.randint(0, 24),)


def arrays_of(graph: Graph, shapes: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Arrays of these shapes, other ones where a type says a number."""
    out = []
    for value, shape in zip(graph.inputs, shapes, strict=True):
        sizes = [own if size.const is None else size.const for own, size in zip(shape, value.type.dims, strict=True)]
        out.append(np.arange(prod(sizes), dtype="f4").reshape(sizes))
    return out


def shapes_at(graph: Graph, arrays: Sequence[np.ndarray]) -> dict[str, tuple[int, ...]] | None:
    """The shapes of all values by the names that types call them by; None where the program itself fails."""
    found = {value.name: array.shape for value, array in zip(graph.inputs, arrays, strict=True)}

    def note(op: Op, results: Sequence[np.ndarray]) -> None:
        found.update((f"%{value.name}", array.shape) for value, array in zip(op.results, results, strict=True))

    try:
        interpret(graph, arrays, trace=note)
    except EgshapeError:
        return None
    return found


def holds(types: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether there are sizes of the names at which all that is said is so: tried, one name after the other."""
    claims = [
        (wanted.dim, size)
        for name, text in types.items()
        for wanted, size in zip(annotation(text).shape or (), shapes[name], strict=True)
        if wanted is not None
    ]
    return _solved(claims, {})


def _solved(claims: list[tuple[Dim, int]], names: dict[str, int]) -> bool:
    def unknown(claim: tuple[Dim, int]) -> list[str]:
        return sorted(claim[0].symbols() - names.keys())

    for dim, size in claims:
        if dim.symbols() <= names.keys() and dim.evaluate(names) != size:
            return False
    left = [claim for claim in claims if unknown(claim)]
    if not left:
        return True
    name = unknown(min(left, key=lambda claim: len(unknown(claim))))[0]
    return any(_solved(left, {**names, name: number}) for number in range(LARGEST))
