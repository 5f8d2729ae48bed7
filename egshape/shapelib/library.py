"""What is declared of each shape function, and whether it is true."""

from __future__ import annotations

import itertools
import runpy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from egshape.dims import Dim, parse
from egshape.errors import CheckFailed, EgshapeError, UndefinedSize
from egshape.facts import Relation
from egshape.ir.types import TensorType, numpy_dtype
from egshape.ops import REGISTRY
from egshape.ops.base import typed
from egshape.ops.shape_function import ShapeFunction, array_type
from egshape.shapelib.peers import Peer, Shapes

FAMILIES = ("linear", "windows", "movement", "indexing", "reduce")
"""The files of the library."""

SIZES = (0, 1, 2, 3, 5)
"""Sizes that each unknown takes in turn."""

MOST_SAMPLES = 400
MOST_ASKED = 12
"""Samples of a case about which others are asked."""

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Case:
    """Operand types, such as ``n, m; i64: k``, and attributes."""

    operands: str | None
    attrs: Mapping[str, Any]

    @property
    def types(self) -> list[TensorType]:
        """The operands' types."""
        return [] if self.operands is None else [_type(text.strip()) for text in self.operands.split(";")]

    def __str__(self) -> str:
        given = [*map(str, self.types), *(f"{key}={item}" for key, item in self.attrs.items())]
        return f"({', '.join(given)})"


@dataclass(frozen=True)
class Entry:
    """A shape function with its cases. ``oracle`` takes arrays and attributes, and gives arrays or shapes; it raises
    for what the op does not take."""

    name: str
    function: Callable[..., Any]
    oracle: Callable[..., Any]
    cases: tuple[Case, ...]
    contract: Callable[..., tuple[str, dict[str, Any]]] | None = None
    """Of attributes the shipped op that is the same, with its attributes: its contract must say the same."""

    @property
    def about(self) -> str:
        """Its first line of documentation."""
        return (self.function.__doc__ or "").strip().split("\n")[0]


def declared(
    oracle: Callable[..., Any],
    *cases: str | tuple[str | None, Mapping[str, Any]],
    contract: Callable[..., tuple[str, dict[str, Any]]] | None = None,
) -> Callable[[F], F]:
    """Declare a shape function: ``@declared(np.matmul, "n, k; k, m")``. A case is the operands, or these with
    attributes. ``contract``: of attributes, the shipped op that is the same with its own."""

    def declare(function: F) -> F:
        made = tuple(Case(each, {}) if isinstance(each, str) else Case(*each) for each in cases)
        function.entry = Entry(function.__name__, function, oracle, made, contract)  # type: ignore[attr-defined]
        return function

    return declare


def entries(file: Path | None = None) -> dict[str, Entry]:
    """The shape functions of the library, or those that a file of yours declares, by name."""
    if file is None:
        spaces = [vars(import_module(f"egshape.shapelib.{family}")) for family in FAMILIES]
    else:
        try:
            spaces = [runpy.run_path(str(file))]
        except Exception as error:
            raise EgshapeError(f"does not run: {type(error).__name__}: {error}", where=str(file), code="ops") from error
    found = [
        each.entry for space in spaces for each in space.values() if isinstance(getattr(each, "entry", None), Entry)
    ]
    return {each.name: each for each in found}


def mismatch(entry: Entry, peers: Sequence[Peer] = ()) -> str:
    """How a shape function differs from its oracle or from what others say of it, with the first sizes at which it
    does; "" if it does not."""
    knowing = [each for each in peers if entry.name in each.ops]
    for case in entry.cases:
        try:
            why = next(_differences(entry, case, knowing), "")
        except EgshapeError as error:
            why = str(error)
        if why:
            return f"{entry.name}{case}: {why}"
    return ""


def _differences(entry: Entry, case: Case, peers: Sequence[Peer]) -> Iterator[str]:
    made, types = ShapeFunction(entry.name, entry.function), case.types
    found = made.infer(types, case.attrs)
    general = found if isinstance(found, list) else [found]
    conditions = made.conditions(types, case.attrs)
    names = sorted({name for each in types for dim in each.dims for name in dim.symbols()})
    samples = list(itertools.product(SIZES, repeat=len(names)))
    asked = _some(samples, MOST_ASKED)
    for numbers in _some(samples, MOST_SAMPLES):
        env = dict(zip(names, numbers, strict=True))
        arrays = [np.zeros([dim.evaluate(env) for dim in each.dims], numpy_dtype(each.dtype)) for each in types]
        refusals = [each.told(str) for each in conditions if not _holds(each.relation, env)]
        given = None if refusals else [_at(shape, env) for _, shape in general]
        others = _said(peers, entry.name, case.attrs, arrays, given, len(general)) if numbers in asked else ()
        for whose, wanted in (*_wanted(entry, arrays, case.attrs), *others):
            if not _agree(given, wanted):
                at = ", ".join(f"{name} = {size}" for name, size in env.items()) or "all sizes"
                yield f"at {at} it gives {given or f'no shape ({refusals[0]})'}, {whose} {wanted or 'none'}"


def _some(samples: list[tuple[int, ...]], most: int) -> list[tuple[int, ...]]:
    """At most so many of them, spread evenly."""
    return samples[:: -(-len(samples) // most)]


def _said(
    peers: Sequence[Peer],
    name: str,
    attrs: Mapping[str, Any],
    arrays: Sequence[np.ndarray],
    given: Shapes | None,
    results: int,
) -> Iterator[tuple[str, Shapes | None]]:
    """The shapes that others give."""
    for each in peers:
        if given is not None or not each.accepted:
            yield from ((each.name, said) for said in each.said(name, attrs, arrays, results))


def _agree(given: Shapes | None, wanted: Shapes | None) -> bool:
    """Whether shapes are the same; an axis may be unknown to either."""
    if given is None or wanted is None:
        return given is wanted
    same = [len(one) for one in given] == [len(two) for two in wanted]
    return same and all(
        None in (a, b) or a == b for one, two in zip(given, wanted, strict=True) for a, b in zip(one, two, strict=True)
    )


def _wanted(
    entry: Entry, arrays: Sequence[np.ndarray], attrs: Mapping[str, Any]
) -> Iterator[tuple[str, Shapes | None]]:
    """The shapes that the op gives, None where it takes no such operands; and those that a contract gives."""
    try:
        found = entry.oracle(*arrays, **attrs)
        several = found if isinstance(found, list) else [found]
        yield "the op", [list(each.shape if isinstance(each, np.ndarray | np.generic) else each) for each in several]
    except (ValueError, IndexError, ZeroDivisionError, CheckFailed):
        yield "the op", None
    if entry.contract is not None:
        op, own = entry.contract(**attrs)
        try:
            loose = REGISTRY[op].shape(*map(array_type, arrays), **own)
            yield f"the contract of {op}", [_at(shape, {}) for _, shape in typed(loose)]
        except EgshapeError:
            yield f"the contract of {op}", None


def _at(shape: Sequence[Dim | None] | None, env: Mapping[str, int]) -> list[int | None]:
    return [None if dim is None else dim.evaluate(env) for dim in shape or ()]


def _holds(relation: Relation, env: Mapping[str, int]) -> bool:
    try:
        return relation.holds(env)
    except UndefinedSize:
        return False


def _type(text: str) -> TensorType:
    dtype, _, sizes = text.rpartition(":")
    dims = [parse(each) for each in sizes.split(",") if each.strip()]
    return TensorType(dtype or "f32", tuple(dims))
