"""One block under conversion, and what handlers add ops with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from egshape.dims import Dim, const
from egshape.facts import Relation
from egshape.frontends.bounds import Bounds
from egshape.frontends.torch.registry import NoLowering
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import NOWHERE, Block, Location, Value
from egshape.ir.types import is_integer, numpy_dtype
from egshape.ops import REGISTRY
from egshape.ops.base import ELEMENT_LIMIT, concrete_attrs, object_array

Number = bool | int | float | Dim
"""What ATen calls a Scalar, a size included."""

_DIRECTIONS = {"==": "EQ", "!=": "NE", "<=": "LE", "<": "LT"}
"""Of comparisons, by the kind of a relation."""

DECIDED = 24
"""Statements about larger expressions are left undecided: they take long, and are seldom decided."""


@dataclass
class Program:
    """What all blocks of one conversion share."""

    whole: bool = False
    """Whether ops that are several of ours stay one composite."""
    bounds: Bounds = field(default_factory=Bounds)
    arrays: dict[Value, np.ndarray] = field(default_factory=dict)
    """Values that are small constants."""
    relations: list[Relation] = field(default_factory=list)
    """What holds of data-dependent sizes."""
    hosted: list[tuple[str, str]] = field(default_factory=list)
    """Ops that became host calls, and where."""
    decided: dict[Relation, bool | None] = field(default_factory=dict)
    """Decisions, which are forgotten when something is learnt."""
    sizes: dict[Any, Dim] = field(default_factory=dict)
    """torch's symbols."""
    free: set[Any] = field(default_factory=set)
    """torch's symbols of data that it knows not to be negative."""


@dataclass(frozen=True)
class Call:
    """The node under conversion: what torch says of it."""

    op: str = ""
    label: str = ""
    """The name of its result."""
    dtypes: tuple[str, ...] = ()
    """Of the results that are tensors."""
    promoted: str = ""
    """The dtype in which the first two arguments meet."""
    symbols: tuple[Any, ...] = ()
    """Of a result that is a size: torch's symbol."""
    ranks: tuple[int, ...] = ()
    """Of the results that are tensors."""
    used: frozenset[int] = frozenset()
    """Which of several results something reads."""


class Scope:
    """A block under conversion."""

    def __init__(self, program: Program, builder: BlockBuilder) -> None:
        self.program = program
        self.builder = builder
        self.location: Location = NOWHERE
        self.call = Call()
        self.needs: list[Relation] = []
        """Relations on which the next op relies."""
        self._vectors: dict[Any, Value] = {}

    @property
    def dtype(self) -> str:
        """The dtype of the node's first result."""
        return self.call.dtypes[0]

    # -- reading -----------------------------------------------------------------------------------------------

    def numbers(self, value: Value) -> tuple[int, ...] | None:
        """The elements of an integer tensor that is a small constant."""
        array = self.program.arrays.get(value)
        return None if array is None or array.dtype.kind not in "iub" else tuple(map(int, array.reshape(-1)))

    def elements(self, value: Value) -> list[Any] | None:
        """What is known of the elements of a small tensor, in row-major order."""
        known = self.builder.elements(value)
        return None if known is None else list(known.reshape(-1))

    def sizes(self, value: Value, label: str, key: str = "shape", *, signed: bool = False) -> tuple[Dim, ...]:
        """The elements of an integer vector as sizes; unknown ones become symbols named after ``label``, which must
        not be negative when the graph runs unless ``signed``. What that relies on is required by the next op."""
        if value.type.rank > 1 or any(size.const is None for size in value.type.dims):
            raise NoLowering("how many sizes there are is data")
        found, needs = self.builder.sizes(label, value, key, signed)
        self.needs += needs
        self.builder.set_elements(value, object_array(found, tuple(size.const or 0 for size in value.type.dims)))
        return found

    def decide(self, kind: str, one: Dim, two: Dim | int) -> bool | None:
        """Whether a relation of sizes holds at all sizes, at none, or neither."""
        relation = Relation(kind, one, two if isinstance(two, Dim) else const(two))
        if sum(1 + len(mono) for side in (relation.lhs, relation.rhs) for mono, _ in side.terms) > DECIDED:
            return None
        if relation not in self.program.decided:
            self.program.decided[relation] = self.program.bounds.decide(relation)
        return self.program.decided[relation]

    def learn(self, relation: Relation) -> None:
        """Note what the ops so far make sure of."""
        if self.builder.parent is None:
            self.program.bounds.learn(relation)
            self.program.decided.clear()

    # -- writing -----------------------------------------------------------------------------------------------

    def one(self, name: str, operands: Sequence[Value] = (), **attrs: Any) -> Value:
        """Add one of our ops with one result; an op on small constants is computed."""
        folded = self._folded(name, operands, attrs)
        return self.add(name, operands, attrs)[0] if folded is None else self.constant(folded)

    def add(
        self, name: str, operands: Sequence[Value], attrs: dict[str, Any], *, regions: Sequence[Block] = ()
    ) -> tuple[Value, ...]:
        """Add one of our ops at the place of the node."""
        needs, self.needs = self.needs, []
        return self.builder.add(name, operands, attrs, regions=regions, location=self.location, requires=needs)

    def _folded(self, name: str, operands: Sequence[Value], attrs: dict[str, Any]) -> np.ndarray | None:
        decl, given = REGISTRY[name], concrete_attrs(attrs)
        if not operands or decl.effect or decl.regions or given is None:
            return None
        arrays = [self.program.arrays[each] for each in operands if each in self.program.arrays]
        size = max(
            sum(array.size for array in arrays), float(np.prod([float(size) for size in given.get("shape", ())]))
        )
        if len(arrays) < len(operands) or size > ELEMENT_LIMIT:
            return None
        full = {each.name: each.default for each in decl.attrs if each.default is not ...}
        return np.asarray(decl.reference(*arrays, **{**full, **given}))

    def constant(self, array: np.ndarray) -> Value:
        """Add a constant."""
        value = self.builder.one("constant", (), {"value": array}, location=self.location)
        if array.size <= ELEMENT_LIMIT:
            self.program.arrays[value] = array
        return value

    def scalar(self, number: Number | Relation, dtype: str) -> Value:
        """A number, a size, or whether a relation of sizes holds, as a tensor without axes."""
        if isinstance(number, Relation):
            sides = self.scalar(number.lhs, "i64"), self.scalar(number.rhs, "i64")
            found = self.one("compare", sides, direction=_DIRECTIONS[number.kind], kind="SIGNED")
            return found if dtype == "i1" else self.one("convert", (found,), dtype=dtype)
        if isinstance(number, Dim):
            found = self.vector([number], "i64", ())
            return found if dtype == "i64" else self.one("convert", (found,), dtype=dtype)
        with np.errstate(over="ignore"):
            return self.constant(np.array(number).astype(numpy_dtype(dtype)))

    def full(self, number: Number, like: Value) -> Value:
        """A number in the dtype and shape of a value."""
        return self.spread(self.scalar(number, like.type.dtype), like.type.dims)

    def spread(self, scalar: Value, shape: Sequence[Dim]) -> Value:
        """A scalar, repeated to a shape."""
        return scalar if not shape else self.one("broadcast_in_dim", (scalar,), dims=(), shape=tuple(shape))

    def vector(self, sizes: Sequence[Dim], dtype: str = "i64", shape: tuple[int, ...] | None = None) -> Value:
        """An integer tensor of sizes, a vector unless a shape is given; each is added once a block."""
        where = (len(sizes),) if shape is None else shape
        if all(size.const is not None for size in sizes):
            return self.constant(np.array([size.const for size in sizes]).astype(numpy_dtype(dtype)).reshape(where))
        key = (tuple(sizes), dtype, where)
        if key not in self._vectors:
            self._vectors[key] = self.one("dims", elements=tuple(sizes), shape=where, dtype=dtype)
        return self._vectors[key]

    def check(self, relation: Relation, message: str) -> None:
        """A check of sizes, which what follows may rely on; none where it is known. The message shows both sides as
        {0} and {1}."""
        if self.decide(relation.kind, relation.lhs, relation.rhs) is True:
            return
        sides = (relation.lhs, relation.rhs)
        self.add("check", (), {"relation": relation.kind, "sides": sides, "args": sides, "message": message})
        self.learn(relation)

    def check_value(self, condition: Value, message: str) -> None:
        """A check of a condition that is data."""
        flat = condition if condition.type.rank == 0 else self.one("reshape", (condition,), shape=())
        flat = flat if flat.type.dtype == "i1" else self.one("convert", (flat,), dtype="i1")
        self.add("check", (flat,), {"message": message})

    def bounded(self, value: Value, axis: int, most: Dim) -> None:
        """Note how large a data-dependent size of a result is at most."""
        size = value.type.dims[axis]
        if size.const is None and self.builder.parent is None:
            self.program.relations.append(Relation("<=", size, most, f"{self.call.label} at most"))

    # -- regions -----------------------------------------------------------------------------------------------

    def child(self) -> Scope:
        """A region of an op of this block."""
        out = Scope(self.program, self.builder.child())
        out.location, out.call = self.location, self.call
        return out

    def argument(self, outer: Value) -> Value:
        """An argument of this region for a value outside of it, of which the same is known."""
        arg = self.builder.arg(None, outer.type.dtype, outer.type.dims)
        known = self.builder.elements(outer)
        if known is not None:
            self.builder.set_elements(arg, known)
        if outer in self.program.arrays:
            self.program.arrays[arg] = self.program.arrays[outer]
        return arg

    def region(
        self, arguments: Sequence[tuple[str, Sequence[Dim]]], body: Callable[..., Value | Sequence[Value]]
    ) -> Block:
        """A region with arguments of these types; ``body`` gets the scope and the arguments, and gives the results."""
        inner = self.child()
        args = [inner.builder.arg(None, dtype, tuple(shape)) for dtype, shape in arguments]
        found = body(inner, *args)
        return inner.builder.finish([found] if isinstance(found, Value) else list(found))


def integers(dtype: str) -> bool:
    """Whether a dtype is one of integers or i1."""
    return dtype == "i1" or is_integer(dtype)
