"""Result types of the ops of ``ai.onnx.ml`` of which ONNX's own inference says nothing, as ONNX Runtime gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from egshape.dims import Dim, const
from egshape.frontends.onnx.node import Node
from egshape.ir.graph import Value
from egshape.ir.types import TEXT
from egshape.ops.host import UNKNOWN

DOMAIN = "ai.onnx.ml"

Typed = tuple[str, tuple[Dim, ...]]

Contract = Callable[[Node, Value], Sequence[Typed]]


def types_of(node: Node, values: Sequence[Value]) -> Sequence[Typed]:
    """The types of the results, of a size of -1 where only the call tells it; none where no contract stands here."""
    contract = _CONTRACTS.get(node.op) if node.domain == DOMAIN else None
    if contract is None or not values or any(value.type.shape is None for value in values):
        return ()
    return contract(node, values[0])


def _alike(dtype: str = "") -> Contract:
    """The result has the shape of the operand."""
    return lambda node, x: [(dtype or x.type.dtype, x.type.dims)]


def _rows(x: Value) -> Dim:
    """Of how many rows results are: a vector is one."""
    return x.type.dims[0] if x.type.rank > 1 else const(1)


def _table(columns: Callable[[Node], int], dtype: str = "f32") -> Contract:
    """A row of numbers for each row; with "" for the dtype they are as the operand's."""
    return lambda node, x: [(dtype or x.type.dtype, (_rows(x), const(columns(node))))]


def _classifier(numbers: str, scored: bool) -> Contract:
    """A class for each row, and a score for each class. ``numbers``: the attribute that lists classes that are no text;
    ``scored``: there are as many scores as classes, whatever the attributes."""

    def contract(node: Node, x: Value) -> Sequence[Typed]:
        ints, texts = node.ints(numbers, ()), node.texts("classlabels_strings", ())
        scores = len(texts or ints) if scored and (texts or ints) else UNKNOWN
        return [(TEXT if texts else "i64", (_rows(x),)), ("f32", (_rows(x), const(scores)))]

    return contract


_CONTRACTS: Mapping[str, Contract] = {
    "Scaler": _alike("f32"),
    "Normalizer": _alike("f32"),
    "Imputer": _alike(),
    "FeatureVectorizer": _table(lambda node: sum(node.ints("inputdimensions", ()))),
    "LinearRegressor": _table(lambda node: int(node.int("targets", 1))),
    "SVMRegressor": _table(lambda node: 1),
    "TreeEnsemble": _table(lambda node: int(node.int("n_targets", 1)), ""),
    "TreeEnsembleRegressor": _table(lambda node: int(node.int("n_targets", 1))),
    "TreeEnsembleClassifier": _classifier("classlabels_int64s", scored=True),
    "SVMClassifier": _classifier("classlabels_ints", scored=False),
}
"""The contracts by op."""
