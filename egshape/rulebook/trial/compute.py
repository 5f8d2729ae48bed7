"""Both sides of what a rule stated, computed at many sizes and held against each other."""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np

from egshape.errors import EgshapeError
from egshape.facts import Relation
from egshape.ir.graph import Block, Graph, Op, Value
from egshape.ir.interpret import interpret
from egshape.ir.types import TensorType
from egshape.rulebook.trial import promises
from egshape.rulebook.trial.arrays import random_array

SIZES = (0, 1, 2, 3, 5, 7)
POINTS = 12
"""At how many sizes two sides are compared; of scalars alone, which show one number at a time, at twice as many."""
LARGE, _BEFORE_LARGE = 260, 4
"""A size past the range of the smallest integers: after some others sizes are tried of which one is so large, and the
rest are 1."""
FAR = 66_000
"""A size past the range of 16 bits, tried alike of programs whose elements are sizes or are counted."""
_KINDS: tuple[Literal["special", "mixed", "tame"], ...] = ("special", "mixed", "tame")
TRIES = 40
"""How many sizes are looked at to find so many at which the left side runs."""

_SHOWN = 8
"""How many elements of a result are shown."""

ELEMENTS = 5000
"""Sizes at which a value has more elements than this are passed over."""

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Difference:
    """Sizes and arrays at which two sides are not the same, and how they differ."""

    sizes: Sizes
    inputs: Mapping[str, np.ndarray]
    text: str

    @property
    def weight(self) -> tuple[int, int, int]:
        """The smaller, the easier to read."""
        return sum(array.size for array in self.inputs.values()), sum(self.sizes.values()), len(self.text)


@dataclass(frozen=True)
class Case:
    """A left side as a block of its own, what is given about its sizes, its text, and the types of its result and
    arguments."""

    args: tuple[Value, ...]
    ops: tuple[Op, ...]
    symbols: tuple[object, ...]
    given: tuple[Relation, ...]
    text: str
    types: tuple[TensorType, ...] = ()

    def block(self, results: Sequence[Value], more: Sequence[Op] = ()) -> Block:
        """The case with further ops, returning some values."""
        return Block(self.args, (*self.ops, *more), tuple(results), self.symbols)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Points:
    """Sizes and arrays at which the left side of a case runs."""

    case: Case
    found: tuple[tuple[Sizes, tuple[np.ndarray, ...]], ...]


def sizes_of(
    symbols: Sequence[str], given: Sequence[Relation], seed: int, large: Sequence[int] = (LARGE,)
) -> Iterator[dict[str, int]]:
    """Sizes at which the givens hold: small ones and random ones in turn, some of them twice where there are few, and
    large ones."""
    names = sorted(set(symbols))
    choices = random.Random(seed)
    if len(names) <= 3:
        tuples = list(itertools.product(SIZES, repeat=len(names)))
    else:
        tuples = [tuple(choices.choice(SIZES) for _ in names) for _ in range(4 * TRIES)]
    mixed = [
        each for pair in zip(sorted(tuples, key=sum), choices.sample(tuples, len(tuples)), strict=True) for each in pair
    ]
    largest = [
        tuple(size if name == each else 1 for name in names)
        for size in large
        for each in choices.sample(names, min(len(names), 1))
    ]
    for values in [*mixed[:_BEFORE_LARGE], *largest, *(mixed * POINTS)[_BEFORE_LARGE:TRIES]]:
        sizes = dict(zip(names, values, strict=True))
        try:
            if all(relation.holds(sizes) for relation in given):
                yield sizes
        except EgshapeError:
            continue


def points(case: Case, root: Value, seed: int = 0, wanted: int = 0) -> Points:
    """Where the left side runs, at so many sizes; 0 for as many as two sides are compared at."""
    wanted = wanted or (POINTS if any(arg.type.rank for arg in case.args) else 2 * POINTS)
    names = [name for arg in case.args for dim in arg.type.dims for name in dim.symbols()]
    found: list[tuple[Sizes, tuple[np.ndarray, ...]]] = []
    large = (LARGE, FAR) if any(map(_counts, case.ops)) else (LARGE,)
    for number, sizes in enumerate(sizes_of(names, case.given, seed, large)):
        try:
            if _largest(case, sizes) > (FAR if FAR in sizes.values() else ELEMENTS):
                continue
            inputs = _inputs(case.args, sizes, 100 * seed + number)
            _run(case.block([root]), inputs)
        except (EgshapeError, MemoryError):
            continue
        found.append((sizes, inputs))
        if len(found) == wanted:
            break
    return Points(case, tuple(found))


def _counts(op: Op) -> bool:
    """Whether the elements that an op gives may be sizes, or counted: those of nothing, and a scalar of an array."""
    if not op.operands:
        return op.name != "constant"
    return op.results[0].type.rank == 0 < op.operands[0].type.rank


def _largest(case: Case, sizes: Sizes) -> int:
    """The most elements that a value has, as far as sizes known at entry tell."""
    values = (*case.args, *(value for op in case.ops for value in op.results))
    shapes = [
        [dim.evaluate(sizes) for dim in value.type.dims]
        for value in values
        if all(dim.symbols() <= sizes.keys() for dim in value.type.dims)
    ]
    return max((prod(shape) for shape in shapes), default=0)


def _inputs(args: Sequence[Value], sizes: Sizes, seed: int) -> tuple[np.ndarray, ...]:
    out = []
    for place, arg in enumerate(args):
        shape = [dim.evaluate(sizes) for dim in arg.type.dims]
        if min(shape, default=0) < 0:
            raise EgshapeError("no such array")
        out.append(random_array(arg.type.dtype, shape, seed * 31 + place, _KINDS[seed % 3]))
    return tuple(out)


def _run(block: Block, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    graph = Graph("trial", block, tuple(f"out{k}" for k in range(len(block.results))))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy on special values
        return interpret(graph, inputs)


def differences(
    at: Points, left: Value, right: Value, more: Sequence[Op], tolerance: float | None
) -> Iterator[Difference | None]:
    """For each point, how the right side differs from the left one; None where it does not."""
    if left.type.dtype != right.type.dtype:
        yield Difference({}, {}, f"the left side has the dtype {left.type.dtype}, the right side {right.type.dtype}")
        return
    if left.type.rank != right.type.rank:
        yield Difference({}, {}, f"the left side has {left.type.rank} axes, the right side {right.type.rank}")
        return
    promised = promises.of(left, right, at.case.ops, more)
    if tolerance is None and promised.difference:
        yield Difference({}, {}, promised.difference)
        return
    block = at.case.block([left, right, *promised.indices], more)
    names = [arg.name for arg in at.case.args]
    for sizes, inputs in at.found:
        if tolerance is not None:
            inputs = tuple(map(_finite, inputs))  # noqa: PLW2901
        held = dict(zip(names, inputs, strict=True))
        try:
            one, two, *indices = _run(block, inputs)
        except EgshapeError as error:
            if tolerance is None or _runs(at.case.block([left]), inputs):
                yield Difference(sizes, held, f"the left side runs, the right side does not: {error.message}")
            continue
        text = promised.broken(indices) if same(one, two, tolerance) else _became(one, two)
        yield Difference(sizes, held, text) if text else None


def _became(one: np.ndarray, two: np.ndarray) -> str:
    if one.shape != two.shape:
        return f"shape {list(one.shape)} became {list(two.shape)}"
    if one.size <= _SHOWN:
        return f"{shown(one)} became {shown(two)}"
    pairs = zip(one.reshape(-1), two.reshape(-1), strict=True)
    place = next(k for k, (a, b) in enumerate(pairs) if bits(np.array(a)) != bits(np.array(b)))
    index = [int(each) for each in np.unravel_index(place, one.shape)]
    return f"at {index}, {one.reshape(-1)[place]} became {two.reshape(-1)[place]}"


def _finite(array: np.ndarray) -> np.ndarray:
    """The array with small numbers for what is not finite: rules that change rounding are about numbers."""
    if array.dtype.kind not in "fcV":
        return array
    odd = ~np.isfinite(array)
    return np.where(odd, np.resize(np.arange(1, 8) / 4, array.shape).astype(array.dtype), array) if odd.any() else array


def _runs(block: Block, inputs: Sequence[np.ndarray]) -> bool:
    try:
        _run(block, inputs)
    except EgshapeError:
        return False
    return True


def false_at(at: Points, test: Callable[[Sizes], bool], text: Callable[[Sizes], str]) -> Iterator[Difference | None]:
    """For each point, whether a statement about sizes is false there."""
    names = [arg.name for arg in at.case.args]
    for sizes, inputs in at.found:
        try:
            good = test(sizes)
        except EgshapeError:
            good = False
        yield None if good else Difference(sizes, dict(zip(names, inputs, strict=True)), text(sizes))


def same(one: np.ndarray, two: np.ndarray, tolerance: float | None) -> bool:
    """Whether two arrays agree: to the bit, any NaN being any NaN, or within a relative tolerance where the first one
    is finite."""
    if one.dtype != two.dtype or one.shape != two.shape:
        return False
    if tolerance is None or one.dtype.kind not in "fcV":
        return bits(one) == bits(two)
    wide_one, wide_two = (each.astype(np.complex128 if each.dtype.kind == "c" else np.float64) for each in (one, two))
    least = tolerance * float(np.finfo(np.float32).tiny)
    near = np.isclose(wide_two, wide_one, rtol=tolerance, atol=least)
    return bool((near | ~np.isfinite(wide_one)).all())


def bits(array: np.ndarray) -> bytes:
    """The bytes of an array, all NaNs alike: which NaN an op gives is not specified."""
    if array.dtype.kind in "fV":
        with np.errstate(invalid="ignore"):
            nans = np.isnan(array)
        array = np.where(nans, np.array(np.nan).astype(array.dtype), array) if nans.any() else array
    elif array.dtype.kind == "c":
        parts = (array.real, array.imag)
        return b"".join(bits(np.ascontiguousarray(part)) for part in parts)
    return np.ascontiguousarray(array).tobytes()


def shown(array: np.ndarray, most: int = _SHOWN) -> str:
    """An array in one line, with all digits that tell its numbers from others."""
    part = array.reshape(-1)[:most] if array.size > most else array
    text = np.array2string(part, separator=", ", threshold=most, formatter={"all": str})
    return " ".join(text.split()) + (" ..." if array.size > most else "")


def show(type: TensorType, rename: Callable[[str], str]) -> str:
    """A type with symbols called as the author called them."""
    return f"{type.dtype}[{', '.join(rename(str(dim)) for dim in type.dims)}]"
