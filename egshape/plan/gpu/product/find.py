"""Products and convolutions for a GPU: steps that a library runs, and kernels over tiles with any epilogue.

A product of floats is a ``Gemm``: matrices where they lie if a library can read them so, else copies, and a bias behind
it; what else follows is a kernel of its own. Other products, and convolutions, are tiles of our own, which read their
operands as expressions (a patch of the input, padded) and compute what follows before they store."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from egshape.ir.graph import Block, Op, Value
from egshape.plan.form import epilogue
from egshape.plan.form.matrices import axes_of
from egshape.plan.form.steps import Steps
from egshape.plan.gpu.product import library
from egshape.plan.gpu.product.contracted import settled, tiled
from egshape.plan.gpu.product.convolution import convolution
from egshape.plan.gpu.product.gelu import tanh_gelu
from egshape.switches import wished

LIBRARY = frozenset((("f32", "f32"), ("f64", "f64"), ("f16", "f16"), ("f16", "f32"), ("bf16", "bf16"), ("bf16", "f32")))
"""Dtypes of operands and result that the library multiplies."""
SWITCH = "EGSHAPE_CUDA_PRODUCTS"
"""Environment: ``library`` or ``own`` instead of what ``by_library`` says, so that a benchmark can run both."""
GELU_SWITCH = "EGSHAPE_CUDA_GELU"
"""Environment: ``library`` or ``kernel`` instead of what ``by_library_gelu`` says."""


def is_product(op: Op) -> bool:
    """Whether an op is a product, or computed as one."""
    return op.name in ("dot_general", "convolution")


def by_library(op: Op) -> bool:
    """Whether a library runs a product, where one is installed. The place of that choice: all that it multiplies."""
    one, two = (value.type.dtype for value in op.operands[:2])
    able = op.name == "dot_general" and one == two and (one, op.attrs["dtype"]) in LIBRARY
    return able and (wished(SWITCH, ("library", "own")) or "library") == "library"


def by_library_gelu() -> bool:
    """Whether a library computes GELU behind its product. The place of that choice: only if asked for, as its
    documentation says neither which form it computes (others say: by tanh) nor what becomes of infinities."""
    return wished(GELU_SWITCH, ("library", "kernel")) == "library"


@dataclass(frozen=True, eq=False)
class Cluster(epilogue.Cluster):
    """A product on a GPU; ``bias``: the vector along the columns that the library adds; ``residual``: what else it
    adds, of the result's shape; ``gelu``: whether it computes the tanh form of GELU of that."""

    bias: Value | None = None
    residual: Value | None = None
    gelu: bool = False

    def emit(self, p: Steps) -> None:
        """Add the kernels."""
        op = self.ops[0]
        if op.name == "convolution":
            convolution(p, self)
        elif by_library(op):
            library.step(p, self, self.bias, self.residual, self.gelu)
        else:
            d = axes_of(p, op)
            for value in op.operands:
                settled(p, value)
            p.start()
            (one, left), (two, right) = d.operands
            tiled(p, self, d, p.read(one, left), p.read(two, right))


def find(
    p: Steps, block: Block, number: int, uses: epilogue.Readers, taken: Collection[Op], waiting: Collection[Value]
) -> Cluster:
    """The cluster of a product."""
    first = block.ops[number]
    if not by_library(first):
        found = epilogue.find(block, number, uses, taken, waiting)
        return Cluster(found.ops, found.elementwise)
    ops, bias, residual = [first], None, None
    while (then := _following(block, ops[-1], uses, taken)) is not None and then.name == "add":
        others = [x for x in then.operands if x is not ops[-1].result]
        if len(others) != 1 or others[0] in waiting or then.result.type != first.result.type:
            break
        vector = _along_columns(p, block, first, others[0]) if bias is None else None
        if vector is not None:
            bias = vector
        elif residual is None and p.resolved(others[0]) in p.places and others[0].type == first.result.type:
            residual = others[0]
        else:
            break
        ops.append(then)
    more = tanh_gelu(block, ops[-1].result, uses, taken) if by_library_gelu() else ()
    return Cluster((*ops, *more), len(ops) + len(more), bias, residual, bool(more))


def _following(block: Block, op: Op, uses: epilogue.Readers, taken: Collection[Op]) -> Op | None:
    """The one op that reads a result; None if there are more, or it is in another cluster."""
    numbers = uses.get(op.result, ())
    if len(numbers) != 1 or numbers[0] == epilogue.ENDLESS or block.ops[numbers[0]] in taken:
        return None
    return block.ops[numbers[0]]


def _along_columns(p: Steps, block: Block, first: Op, value: Value) -> Value | None:
    """What a value repeats along everything but the axes of columns, of which it has an element each; None if it does
    not."""
    value = p.resolved(value)
    op = p.producers.get(value) or next((op for op in block.ops if value in op.results), None)
    rank, a = first.result.type.rank, first.attrs
    columns = first.operands[1].type.rank - len(a["rhs_batch"]) - len(a["rhs_contract"])
    if not columns or op is None or op.name != "broadcast_in_dim" or value.type.shape != first.result.type.shape:
        return None
    vector, dims = op.operands[0], tuple(op.attrs["dims"])
    alone = [axis for axis, size in zip(dims, vector.type.dims, strict=True) if size.const != 1]
    own = [size for size in vector.type.dims if size.const != 1]
    wanted = [(axis, value.type.dims[axis]) for axis in range(rank - columns, rank) if value.type.dims[axis].const != 1]
    same = len(wanted) == len(own) and all(
        axis == other and size is whole for axis, size, (other, whole) in zip(alone, own, wanted, strict=True)
    )
    return vector if same else None
