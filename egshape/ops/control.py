"""Control flow and grouping: while, if, case, composite, optimization_barrier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from egshape.ir.graph import Block
from egshape.ir.types import TensorType
from egshape.ops.base import ElementScope, Loose, fault, op
from egshape.ops.regions import Region


def _own_symbols(block: Block) -> set[str]:
    """Names of the symbols that a region defines itself: they mean nothing outside."""
    return {definition.name for definition in block.symbols}


def _outer(block: Block) -> list[Loose]:
    """A region's result types as seen from outside: None for an axis that only the region can name."""
    own = _own_symbols(block)
    return [
        (
            value.type.dtype,
            None
            if value.type.shape is None
            else tuple(None if size.symbols() & own else size for size in value.type.shape),
        )
        for value in block.results
    ]


def _join(one: Loose, two: Loose, what: str) -> Loose:
    """A type that both branches have: an axis keeps its size where they agree."""
    if one[0] != two[0]:
        raise fault(f"{what} has dtype {one[0]} in one branch and {two[0]} in another")
    if one[1] is None or two[1] is None:
        return one[0], None
    if len(one[1]) != len(two[1]):
        raise fault(f"{what} has rank {len(one[1])} in one branch and {len(two[1])} in another")
    return one[0], tuple(a if a is b else None for a, b in zip(one[1], two[1], strict=True))


def _branches(regions: tuple[Block, ...]) -> list[Loose]:
    if not regions:
        raise fault("needs a branch")
    joined = _outer(regions[0])
    for region in regions:
        if region.args:
            raise fault("a branch takes no arguments")
        if len(region.results) != len(joined):
            raise fault(f"one branch gives {len(joined)} results and another {len(region.results)}")
    for region in regions[1:]:
        joined = [
            _join(one, two, f"result {index}")
            for index, (one, two) in enumerate(zip(joined, _outer(region), strict=True))
        ]
    return joined


def _scalar(type: TensorType, dtype: str, what: str) -> None:
    if type.dtype != dtype or type.shape:
        raise fault(f"{what} must be a scalar of {dtype}, got {type}")


def _takes(block: Block, types: tuple[TensorType, ...], what: str) -> None:
    """Raise a fault unless the block's arguments have the dtypes and ranks of the carried values."""
    if len(block.args) != len(types):
        raise fault(f"{what} takes {len(block.args)} values, {len(types)} are carried")
    _alike(tuple(value.type for value in block.args), types, f"{what} argument")


def _alike(found: tuple[TensorType, ...], wanted: tuple[TensorType, ...], what: str) -> None:
    for index, (one, two) in enumerate(zip(found, wanted, strict=True)):
        ranks = one.shape is not None and two.shape is not None and len(one.shape) != len(two.shape)
        if one.dtype != two.dtype or ranks:
            raise fault(f"{what} {index} is {one}, the value is {two}")


def _carried(init: TensorType, arg: TensorType, own: set[str]) -> Loose:
    """The type of a carried value after the loop: None for an axis whose size the rounds change."""
    if init.shape is None or arg.shape is None:
        return init.dtype, None
    return init.dtype, tuple(
        None if inside.symbols() & own else size for size, inside in zip(init.shape, arg.shape, strict=True)
    )


@op(
    "while",
    family="control",
    operands=("*inits",),
    regions=("cond", "body"),
    names={"stablehlo": "while"},
    doc="Carry values through the body as long as the condition holds. A size stays the same unless the "
    "body's "
    "argument has a symbol of its own there. StableHLO spec: while.",
)
class While:
    @staticmethod
    def shape(*inits: TensorType, regions: tuple[Block, ...]) -> list[Loose]:
        cond, body = regions
        _takes(cond, inits, "the condition's")
        _takes(body, inits, "the body's")
        if len(cond.results) != 1:
            raise fault(f"the condition gives {len(cond.results)} values")
        _scalar(cond.results[0].type, "i1", "the condition")
        if len(body.results) != len(inits):
            raise fault(f"the body gives {len(body.results)} values, {len(inits)} are carried")
        _alike(tuple(value.type for value in body.results), inits, "the body's result")
        return [_carried(init, arg.type, _own_symbols(body)) for init, arg in zip(inits, body.args, strict=True)]

    @staticmethod
    def reference(*inits: np.ndarray, regions: tuple[Region, ...]) -> list[np.ndarray]:
        cond, body = regions
        carried = list(inits)
        while bool(cond(*carried)[0]):
            carried = body(*carried)
        return carried


@op(
    "if",
    family="control",
    operands=("pred",),
    regions=("then", "else"),
    names={"stablehlo": "if"},
    doc="The results of one of two regions without arguments. StableHLO spec: if.",
)
class If:
    @staticmethod
    def shape(pred: TensorType, *, regions: tuple[Block, ...]) -> list[Loose]:
        _scalar(pred, "i1", "the predicate")
        if len(regions) != 2:
            raise fault(f"takes two regions, got {len(regions)}")
        return _branches(regions)

    @staticmethod
    def reference(pred: np.ndarray, *, regions: tuple[Region, ...]) -> list[np.ndarray]:
        return regions[0]() if bool(pred) else regions[1]()


@op(
    "case",
    family="control",
    operands=("index",),
    regions=("*branches",),
    names={"stablehlo": "case"},
    doc="The results of the region that the index names; the last one for an index out of range. StableHLO spec: case.",
)
class Case:
    @staticmethod
    def shape(index: TensorType, *, regions: tuple[Block, ...]) -> list[Loose]:
        _scalar(index, "i32", "the index")
        return _branches(regions)

    @staticmethod
    def reference(index: np.ndarray, *, regions: tuple[Region, ...]) -> list[np.ndarray]:
        number = int(index)
        return regions[number if 0 <= number < len(regions) else -1]()


@op(
    "composite",
    family="control",
    operands=("*operands",),
    attrs={"name": "text", "attrs": ("record", ()), "version": ("int", 0), "whole": ("bool", False)},
    regions=("decomposition",),
    names={"stablehlo": "composite"},
    doc="A named op that means what its decomposition computes from the operands; a whole one goes out under its name, "
    "so that its decomposition is not worked on. StableHLO spec: composite.",
)
class Composite:
    @staticmethod
    def shape(
        *operands: TensorType, name: str, attrs: Any, version: int, whole: bool, regions: tuple[Block, ...]
    ) -> list[Loose]:
        (decomposition,) = regions
        _takes(decomposition, operands, f"the decomposition of {name}")
        return _outer(decomposition)

    @staticmethod
    def reference(
        *operands: np.ndarray, name: str, attrs: Any, version: int, whole: bool, regions: tuple[Region, ...]
    ) -> list[np.ndarray]:
        return regions[0](*operands)


@op(
    "optimization_barrier",
    family="control",
    operands=("*xs",),
    names={"stablehlo": "optimization_barrier"},
    doc="The operands themselves; keeps what is before apart from what is behind. StableHLO spec: "
    "optimization_barrier.",
)
class OptimizationBarrier:
    @staticmethod
    def shape(*xs: TensorType) -> list[Loose]:
        return [(x.dtype, x.shape) for x in xs]

    @staticmethod
    def reference(*xs: np.ndarray) -> list[np.ndarray]:
        return list(xs)

    @staticmethod
    def elements(
        scope: ElementScope,
        operands: Sequence[np.ndarray | None],
        attrs: Mapping[str, Any],
        types: Sequence[TensorType],
    ) -> np.ndarray | None:
        return operands[0]
