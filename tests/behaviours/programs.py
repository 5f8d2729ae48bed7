"""Short words for the programs of these tests, and what is asked of every one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

import egshape
from egshape.api import Result
from egshape.dims import Dim, const, parse
from egshape.frontends.stablehlo import read
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Value
from egshape.ir.types import numpy_dtype
from egshape.prove import Proof, prove
from egshape.validate import compare
from tests.fuzz import differential
from tests.fuzz.differential import data, region

Axis = int | str | Dim | None
"""A static size, the name of a symbol, a size, or a symbol named after the axis."""


def dims(*sizes: int | str | Dim) -> tuple[Dim, ...]:
    """Sizes from numbers, texts and sizes."""
    return tuple(const(s) if isinstance(s, int) else parse(s) if isinstance(s, str) else s for s in sizes)


class Program(BlockBuilder):
    """A graph under construction."""

    def input(self, name: str, shape: Sequence[Axis], dtype: str = "f32") -> Value:
        """An argument; an axis that is a text is that symbol, shared by all arguments that name it."""
        names = [axis if isinstance(axis, str) else None for axis in shape]
        return self.arg(name, dtype, [None if isinstance(axis, str) else axis for axis in shape], names)

    def number(self, value: object, dtype: str = "i32") -> Value:
        """A constant."""
        return self.one("constant", (), {"value": np.asarray(value).astype(numpy_dtype(dtype))})

    def full(self, value: object, like: Value) -> Value:
        """A constant in every element of the shape of another value."""
        scalar = self.number(value, like.type.dtype)
        return self.one("broadcast_in_dim", (scalar,), {"dims": (), "shape": like.type.dims})

    def size(self, x: Value, axis: int) -> Value:
        """The size of an axis, as a model computes it."""
        return self.one("get_dimension_size", (x,), {"dim": axis})

    def reshape(self, x: Value, *sizes: int | str | Dim) -> Value:
        """A reshape to sizes that are stated."""
        return self.one("reshape", (x,), {"shape": dims(*sizes)})

    def vector(self, *items: Value | int, dtype: str = "i32") -> Value:
        """A vector of scalars."""
        scalars = [self.number(item, dtype) if isinstance(item, int) else item for item in items]
        return self.one("concatenate", [self.reshape(item, 1) for item in scalars], {"dim": 0})

    def pick(self, vector: Value, place: int) -> Value:
        """One element of a vector, as a scalar."""
        attrs = {"starts": dims(place), "limits": dims(place + 1), "strides": dims(1)}
        return self.reshape(self.one("slice", (vector,), attrs))

    def slice(
        self,
        x: Value,
        starts: Sequence[int | str | Dim],
        limits: Sequence[int | str | Dim],
        strides: Sequence[int] | None = None,
    ) -> Value:
        """A slice at stated places."""
        return self.one(
            "slice",
            (x,),
            {"starts": dims(*starts), "limits": dims(*limits), "strides": dims(*(strides or (1,) * len(starts)))},
        )

    def broadcast(self, x: Value, axes: Sequence[int], *sizes: int | str | Dim) -> Value:
        """A broadcast to sizes that are stated."""
        return self.one("broadcast_in_dim", (x,), {"dims": tuple(axes), "shape": dims(*sizes)})

    def compare(self, direction: str, x: Value, y: Value) -> Value:
        """A comparison of integers."""
        return self.one("compare", (x, y), {"direction": direction, "kind": "SIGNED"})

    def reduce(self, name: str, x: Value, start: float, *axes: int) -> Value:
        """A reduction with an op of two scalars."""
        body = region(self, name, x.type.dtype)
        init = self.number(start, x.type.dtype)
        return self.one("reduce", (x, init), {"dims": tuple(axes)}, regions=(body,))

    def graph(self, *results: Value) -> Graph:
        """The finished graph; its outputs are ``out0``, ``out1``, ..."""
        return Graph("g", self.finish(results), tuple(f"out{number}" for number in range(len(results))))


def solved(
    graph: Graph, *assume: str, refine_signature: bool = False, accepted: int = 2, at: Sequence[Mapping[str, int]] = ()
) -> Result:
    """The optimized graph: saturated, and equal to the original bit for bit at a few sizes, wrong ones included.

    ``at`` are sizes of the symbols at which the program runs, for conditions that few sizes meet."""
    result = egshape.optimize(graph, assume, validate=False, refine_signature=refine_signature)
    assert result.report.status == "saturated", result.report.notes
    verdict = compare(graph, result.graph, result.facts)
    assert not verdict.differences, f"{verdict.differences[0]}\n{graph}\n{result.graph}"
    assert at or verdict.accepted >= accepted, f"only {verdict.accepted} runs were accepted of\n{graph}"
    for env in at:
        arrays = [data(value.type.dtype, [dim.evaluate(env) for dim in value.type.dims]) for value in graph.inputs]
        assert differential.run(graph, arrays).error is None
        assert not differential.compare(graph, result.graph, arrays)
    return result


def ops(result: Result) -> list[str]:
    """The names of the ops that are left, checks apart, in order."""
    return [op.name for op in result.graph.body.walk() if op.name != "check"]


def checks(result: Result) -> list[str]:
    """The conditions on sizes that are still checked."""
    return [
        f"{op.attrs['sides'][0]} {op.attrs['relation']} {op.attrs['sides'][1]}"
        for op in result.graph.body.walk()
        if op.name == "check" and op.attrs["sides"]
    ]


def shapes(result: Result) -> list[str]:
    """The shapes of the outputs after all that was found of sizes."""
    return ["[" + ", ".join(each.shape or ("*",)) + "]" for each in result.report.outputs]


def equal(result: Result, a: str, b: str) -> bool:
    """Whether two sizes are known to be equal, with reasons."""
    found = result.explain(a, b)
    assert bool(found.why) == (found.status == "proved")
    return found.status == "proved"


def module(text: str) -> Graph:
    """The graph of StableHLO functions."""
    return read(f"module {{\n{text}\n}}", "program.mlir")


def ask(goal: str, *given: str) -> Proof:
    """The answer to a question; what proves must say why."""
    proof = prove(goal, list(given))
    assert proof.why or proof.status != "proved"
    return proof
