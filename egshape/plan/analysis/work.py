"""How much a kernel does: operations and bytes, as sizes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from egshape.dims import Dim, const, maximum
from egshape.ir.types import itemsize
from egshape.ops import REGISTRY
from egshape.ops.traits import WEIGHTS
from egshape.plan.ir.loops import (
    Assign,
    Buffer,
    Call,
    If,
    Kernel,
    Let,
    LetIndex,
    Local,
    Loop,
    Pack,
    Product,
    Stmt,
    Store,
    While,
)
from egshape.plan.ir.packs import GROUPS, PAIR, QUAD
from egshape.plan.ir.walk import buffers, expressions

_ZERO = const(0)
_SOME = 16
"""Assumed rounds of a loop whose count only data tells."""


@dataclass(frozen=True)
class Weights:
    """What things count: an op, a costly function, a conversion, an access to memory, a multiply-add of a product, and
    those of a quad of bytes and of a pair of bf16."""

    plain: int
    heavy: int
    convert: int
    access: int
    product: int
    quad: int
    pair: int


FLOPS = Weights(1, 1, 0, 0, 2, 8, 4)
TIME = Weights(WEIGHTS["light"], WEIGHTS["function"], 8, 8, WEIGHTS["product"], 2, 2)
"""About 1/60 of a nanosecond, as the model of cost takes them."""


def operations(body: tuple[Stmt, ...], weights: Weights = TIME, extents: Mapping[str, Dim] | None = None) -> Dim:
    """What statements do, weighted; the rounds of a loop over data count as a few."""
    known = dict(extents or {})
    total = _ZERO
    for stmt in body:
        match stmt:
            case Loop():
                extent = _outside(stmt.extent, known)
                total += extent * operations(stmt.body, weights, {**known, stmt.var: extent})
            case While():
                total += _SOME * operations(stmt.body, weights, known)
            case If():
                total += maximum(*(operations(part, weights, known) for part in (stmt.then, stmt.other)))
            case Store() | Let() | Local() | Assign() | LetIndex():
                total += _count(stmt, weights)
            case Product():
                each = operations(stmt.body, weights, known)
                step = {1: weights.product, PAIR: weights.pair, QUAD: weights.quad}[GROUPS[stmt.elements]]
                total += _outside(stmt.m, known) * _outside(stmt.n, known) * (step * _outside(stmt.depth, known) + each)
            case Pack():
                total += weights.access * _outside(stmt.rows * stmt.columns, known)
            case _:
                total += weights.product * _outside(stmt.products, known)
    return total


def _count(stmt: Store | Let | Local | Assign | LetIndex, weights: Weights) -> int:
    calls = [expr for expr in expressions((stmt,)) if isinstance(expr, Call)]
    return sum(_weight(expr.op, weights) for expr in calls) + weights.access


def _weight(op: str, weights: Weights) -> int:
    if op == "fma":
        return 2 * weights.plain
    heavy = op in REGISTRY and REGISTRY[op].traits.effort != "light"
    return weights.heavy if heavy else weights.convert if op == "convert" else weights.plain


def _outside(extent: Dim, extents: Mapping[str, Dim]) -> Dim:
    """A size as it is in the first rounds of the loops around it, or, where it is 0 there, in the last."""
    inner = {name: extents.get(name, const(_SOME)) for name in extent.symbols() if name.startswith("$")}
    first = extent.substitute(dict.fromkeys(inner, 0)) if inner else extent
    return extent.substitute(inner) if first.const == 0 else first


def flops(kernel: Kernel) -> Dim:
    """Arithmetic operations of a kernel, every function counted as one."""
    return operations(kernel.body, FLOPS)


def traffic(kernel: Kernel, own: Collection[Buffer] = ()) -> Dim:
    """Bytes of the buffers that a kernel touches, each counted once, but for ``own``, which lie in no memory."""
    return sum((buffer.size * itemsize(buffer.dtype) for buffer in buffers(kernel.body) if buffer not in own), _ZERO)
