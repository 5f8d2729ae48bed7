"""Convolutions of bytes: of i32, where the input is bytes minus a zero point and the kernel is constant.

They are those of floats with quads in the place of elements: four features of the input side by side make one element
(i32), which the padded copy of the input puts together. Padding is the zero point. The kernel is i8 and a number for
each output feature that is added to its weights: with the input's zero point z the sum of (x - z) * (w + c) over K
elements is S - z * W + c * (X - K * z), where S is the sum of x * w, W that of w, and X that of x."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from egshape.dims import Dim, ceildiv, const, symbol
from egshape.dims import product as total
from egshape.ir.graph import Op
from egshape.plan.analysis.elements import ZERO, Indices
from egshape.plan.cpu.byte_elements import BYTES, Element, element
from egshape.plan.cpu.convolution.products import FEW_FEATURES, Convolution, Products
from egshape.plan.cpu.packing import Right, packed
from egshape.plan.form.epilogue import Cluster
from egshape.plan.form.matrices import ONE
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import (
    Buffer,
    Call,
    Choose,
    Const,
    Expr,
    Index,
    Load,
    Matrix,
    Product,
    Stmt,
    Store,
    Test,
    Var,
)
from egshape.plan.ir.packs import QUAD, ROW_GROUP, pack_columns


def is_product(p: Steps, op: Op) -> bool:
    """Whether a convolution of i32 is computed by products of bytes, or by direct sums."""
    if op.name != "convolution" or op.result.type.rank < 3 or op.attrs["dtype"] != "i32":
        return False
    if op.attrs["batch_groups"] != 1 or any(x.type.dtype not in ("i32", *BYTES) for x in op.operands[:2]):
        return False
    if op.attrs["feature_groups"] > 1:
        return _direct(op) and all(x.type.dtype == "i32" for x in op.operands[:2])
    return (
        op.attrs["numbers"][7] != op.result.type.rank - 1 and _kernel(p, op) is not None and _input(p, op) is not None
    )


def _direct(op: Op) -> bool:
    """Whether few features make a group."""
    *_, k_in, k_out, _, _, _, _ = op.attrs["numbers"]
    shape = op.operands[1].type.dims
    few = shape[k_in] * shape[k_out] // op.attrs["feature_groups"]
    return few.const is not None and few.const <= FEW_FEATURES


@dataclass(frozen=True, eq=False)
class _Kernel:
    """A constant kernel: i8 ``values`` and what is to be added to those of each output feature (i32)."""

    values: np.ndarray
    added: np.ndarray


def _kernel(p: Steps, op: Op) -> _Kernel | None:
    """The kernel of a convolution, if it is a constant whose numbers for one feature lie within 256."""
    found, axis = p.arrays.of(op.operands[1]), op.attrs["numbers"][4]
    if found is None:
        return None
    flat = np.moveaxis(found, axis, 0).reshape(found.shape[axis], -1).astype(np.int64)
    low, high = flat.min(1, initial=0), flat.max(1, initial=0)
    added = np.where(high > 127, high - 127, np.where(low < -128, low + 128, 0))
    if (low - added < -128).any() or (high - added > 127).any():
        return None
    shape = [-1 if k == axis else 1 for k in range(found.ndim)]
    return _Kernel((found - added.reshape(shape)).astype(np.int8), added.astype(np.int32))


def _input(p: Steps, op: Op) -> Element | None:
    """An element of the input as ui8; None if it is no byte or its zero point none."""
    x, image = op.operands[0], op.attrs["numbers"][0]
    at = tuple(ZERO if axis == image else symbol(p.name("i")) for axis in range(x.type.rank))
    p.start()
    axes = [(index, size) for index, size in zip(at, x.type.dims, strict=True) if index is not ZERO]
    return _unsigned(element(p, p.read(x, at), axes))


def _unsigned(found: Element | None) -> Element | None:
    """The element as ui8 if its zero point is a byte too: it pads the input."""
    if found is None or (found.zero is not None and not _is_byte(found.zero, found.byte.dtype)):
        return None
    return found.moved("ui8")


def _is_byte(zero: Expr, dtype: str) -> bool:
    if isinstance(zero, Const):
        return (0 if dtype == "ui8" else -128) <= zero.value <= (255 if dtype == "ui8" else 127)
    return isinstance(zero, Call) and zero.op == "convert" and zero.args[0].dtype == dtype


class Bytes(Convolution):
    """A convolution whose elements are quads; few features of a group are summed as i32."""

    def __init__(self, p: Steps, cluster: Cluster) -> None:
        super().__init__(p, cluster)
        self.features_in = self.inputs
        self.quads = self.groups == 1
        if self.groups > 1:
            return
        kernel = _kernel(p, self.op)
        assert kernel is not None
        self.count_in = self.depth
        self.inputs = ceildiv(self.inputs, const(QUAD))
        self.depth = self.inputs * total(self.taps)
        self.kept = _quads(kernel.values, self.k_in)
        axes = tuple(axis for axis in range(kernel.values.ndim) if axis != self.k_out)
        self.weight_sums = self.constant("sums", kernel.values.sum(axes, dtype=np.int32))
        self.added = self.constant("added", kernel.added) if kernel.added.any() else None
        self.ones = _quads(np.moveaxis(np.ones_like(kernel.values), self.k_in, 1), 1)[:1].reshape(-1)
        self.place_sum: Expr | None = None
        """The sum of what the place reads, if kernels need it."""

    def constant(self, name: str, data: np.ndarray) -> Buffer:
        """A constant of i32."""
        return Buffer(f"{self.kernel.name}.{name}", "i32", const(data.size), "const", data)

    @property
    def pointwise(self) -> bool:
        """Never: the input is put together from features."""
        return False

    def element(self, place: list[Dim], axis: int, tests: Sequence[Dim]) -> Expr:
        """Four features as one number."""
        if self.groups > 1:
            return super().element(place, axis, tests)
        first, whole = place[axis] * QUAD, Const("i32", 0)
        value: Expr = whole
        for number in range(QUAD):
            feature = first + number
            left = self.features_in - 1 - feature
            if left.const is not None and left.const < 0:
                break
            at = tuple(feature if k == axis else index for k, index in enumerate(place))
            byte = self.unsigned(at)
            one: Expr = Call("i32", "convert", (byte.byte,), (("dtype", "i32"),))
            if tests:
                one = Choose("i32", Test(tuple(tests)), one, byte.zero or whole)
            if (self.features_in % QUAD).const != 0 and left.const is None:
                one = Choose("i32", Test((left,)), one, whole)
            moved = _call("shift_left", one, Const("i32", 8 * number)) if number else one
            value = _call("or", value, moved) if number else moved
        return value

    def unsigned(self, at: Indices) -> Element:
        """An element of the input as ui8, and its zero point."""
        found = element(self.p, self.p.read(self.x, at), [])
        moved = _unsigned(found)
        assert moved is not None
        return moved

    def features(self) -> Right:
        """The kernel as the right side of places."""
        return replace(super().features(), elements="u8s8")

    def trim(self) -> None:
        """Nothing: the padding is the zero point, which counts."""

    def column_sums(self, product: Products, value: Var, column: Dim) -> tuple[list[Stmt], tuple[Buffer, ...]]:
        """The sums of a panel of places: its product with ones."""
        if self.groups > 1 or self.added is None:
            return [], ()
        sums = self.p.scratch("sums", "i32", const(pack_columns("i32")))
        ones = Matrix(self.constant("ones", self.ones), ZERO, ZERO, ONE)
        self.place_sum = Load("i32", sums, column)
        return [product(ONE, ones, Store(sums, column, value))], (sums,)

    def row_sums(
        self, product: Callable[[Right, Dim, Stmt], Product], value: Var, row: Dim
    ) -> tuple[list[Stmt], tuple[Buffer, ...]]:
        """The sums of rows of places: their product with ones."""
        if self.groups > 1 or self.added is None:
            return [], ()
        sums = self.p.scratch("sums", "i32", const(ROW_GROUP))
        ones = Matrix(self.constant("ones", self.ones), ZERO, ONE, ONE)
        right = replace(packed(self.p, "i32", ones, [], ZERO, ONE, self.depth), elements="u8s8")
        self.place_sum = Load("i32", sums, row)
        return [product(right, ZERO, Store(sums, row, value))], (sums,)

    def stored(self, out: Buffer, value: Var, image: Dim, feature: Dim, spots: Indices) -> Store:
        """The epilogue of an element, whose sum is ``value`` and what the zero point adds to it."""
        if self.groups > 1:
            return super().stored(out, value, image, feature, spots)
        at = [ZERO] * self.x.type.rank
        at[self.a["numbers"][0]] = image
        zero = self.unsigned(tuple(at)).zero
        index = self.at(image, feature, spots)
        found: Expr = value
        if zero is not None:
            found = _call("subtract", found, _call("multiply", zero, Load("i32", self.weight_sums, feature)))
        if self.added is not None and self.place_sum is not None:
            every = self.place_sum
            if zero is not None:
                every = _call("subtract", every, _call("multiply", zero, Index("i32", self.count_in)))
            found = _call("add", found, _call("multiply", Load("i32", self.added, feature), every))
        self.p.locals[self.op.result, index] = found
        return Store(out, self.place(index), self.p.read(self.cluster.value, index))


def _call(op: str, one: Expr, two: Expr) -> Call:
    return Call("i32", op, (one, two))


def _quads(kernel: np.ndarray, axis: int) -> np.ndarray:
    """Four elements along an axis as one i32, zeros behind the end."""
    last = np.moveaxis(kernel, axis, -1)
    room = np.zeros((*last.shape[:-1], -(-last.shape[-1] // QUAD) * QUAD), np.int8)
    room[..., : last.shape[-1]] = last
    return np.moveaxis(room.view("<i4"), -1, axis)
