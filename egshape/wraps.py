"""Starts of windows that shape code computes of several sizes, and that may leave the range of their dtype.

A program that cuts ``a + b .. a + b + c`` out of a concatenation computes ``a + b`` in 32 bits. Nothing says that it
fits, so that the window is not known to be the last part; with a check that it fits, it is."""

from __future__ import annotations

from collections.abc import Iterator

from egshape.decide.context import Context
from egshape.decide.reason import Given
from egshape.dims import Dim, const, product, symbol
from egshape.facts import Relation
from egshape.ir.graph import Graph
from egshape.ir.types import integer_range
from egshape.ops import REGISTRY
from egshape.pipeline import Optimized

_WINDOWS = "indexing"
"""The family of ops that take windows at starts."""

_SIZES = ("i32", "i64")
"""Dtypes of sizes. Those of other ones wrap on purpose, at sizes that a model may well have."""

_USUAL = const(1 << 28)
"""A start that fits where no input has more elements is refused at sizes of giants only, where it does not."""


def bounds_of_starts(done: Optimized) -> Iterator[Relation]:
    """Bounds under which starts of windows do not wrap: of starts that two or more sizes make, if no bound is known.

    A start that leaves its dtype at sizes that a model may well have wraps on purpose, or at least must be right."""
    if not any(REGISTRY[op.name].family == _WINDOWS for op in done.graph.body.walk()):
        return
    usual = _usual(done.graph)
    for scope in done.outcome.scopes:
        for op in scope.block.ops:
            if REGISTRY[op.name].family != _WINDOWS:
                continue
            for value in op.operands:
                elements = scope.elements.get(value)
                if elements is None or value.type.dtype not in _SIZES:
                    continue
                most = const(integer_range(value.type.dtype)[1])
                for size in elements.reshape(-1):
                    if isinstance(size, Dim) and len(size.symbols()) > 1:
                        said = f"the start {size} of a window does not fit {value.type.dtype}"
                        bound = Relation("<=", size, most, message=said)
                        if scope.sizes.decide(bound) != "proved" and usual.decide(bound) == "proved":
                            yield bound


def _usual(graph: Graph) -> Context:
    """That no input has very many elements."""
    context, reason = Context(), Given(False)
    for each in graph.body.symbols:
        context.assume(Relation("<=", symbol(each.name), _USUAL), reason)
    for value in graph.inputs:
        if value.type.shape:
            context.assume(Relation("<=", product(value.type.shape), _USUAL), reason)
    return context
