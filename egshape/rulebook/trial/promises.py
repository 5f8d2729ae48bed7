"""What an attribute promises and no value shows: the precision of products, and that indices are sorted.

A right side must compute its products at a precision that the left one has, and may say that indices are sorted only
where they are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from egshape.ir.graph import Op, Value
from egshape.ir.types import is_complex, is_float


@dataclass(frozen=True)
class Promises:
    """``difference``: how the precision of both sides differs, "" where it does not. ``gathers``: those that say that
    their indices are sorted, the first ``left`` of them on the left side."""

    difference: str
    gathers: tuple[Op, ...]
    left: int

    @property
    def indices(self) -> list[Value]:
        """What must be computed to look at the promises."""
        return [op.operands[1] for op in self.gathers]

    def broken(self, arrays: Sequence[np.ndarray]) -> str:
        """Which promise of the right side is broken by these indices, "" for none: where one of the left side is, the
        result may be anything."""
        kept = [_sorted(op, array) for op, array in zip(self.gathers, arrays, strict=True)]
        if all(kept[: self.left]) and not all(kept[self.left :]):
            return "the right side says that indices are sorted, which they are not"
        return ""


def of(left: Value, right: Value, ops: Sequence[Op], more: Sequence[Op]) -> Promises:
    """What two values promise that are computed by some ops, and more of them."""
    one, two = _used(left, ops), _used(right, (*ops, *more))
    gathers = [[op for op in side if op.name == "gather" and op.attrs["sorted"]] for side in (one, two)]
    new = [op for op in gathers[1] if op not in gathers[0]]
    return Promises(_precision(one, two), (*gathers[0], *new), len(gathers[0]))


def _used(value: Value, ops: Sequence[Op]) -> list[Op]:
    """The ops that a value hangs on."""
    wanted, found = {value}, []
    for op in reversed(ops):
        if not wanted.isdisjoint(op.results):
            wanted.update(op.operands)
            found.append(op)
    return found


def _precision(left: Iterable[Op], right: Iterable[Op]) -> str:
    given = {_of(op) for op in left if _rounds(op)}
    for op in right:
        if given and _rounds(op) and _of(op) not in given:
            were = " and ".join(sorted(map(_text, given)))
            return f"{op.name} at the precision {were} became one at {_text(_of(op))}, which no value shows"
    return ""


def _rounds(op: Op) -> bool:
    return "precision" in op.attrs and (is_float(op.attrs["dtype"]) or is_complex(op.attrs["dtype"]))


def _of(op: Op) -> tuple[str, ...]:
    return tuple(op.attrs["precision"]) or ("DEFAULT", "DEFAULT")


def _text(precision: tuple[str, ...]) -> str:
    return f"[{', '.join(precision)}]"


def _sorted(op: Op, indices: np.ndarray) -> bool:
    """Whether the starts of a gather's slices are in order, axis by axis of what it takes them from."""
    place = op.attrs["index_vector_dim"]
    if op.attrs["indices_batch"]:
        return True  # what is sorted then is not said
    if place == indices.ndim:
        indices = indices[..., None]
    vectors = np.moveaxis(indices, place, -1)
    rows = vectors.reshape(math.prod(vectors.shape[:-1]), vectors.shape[-1])
    order = [row for _, row in sorted(zip(op.attrs["start_index_map"], rows.T.tolist(), strict=True))]
    starts = list(zip(*order, strict=True))
    return starts == sorted(starts)
