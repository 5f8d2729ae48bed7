"""Types that the functions of custom ops give, and attributes in StableHLO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import egshape
from egshape.errors import EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.ir.expand import build_body
from egshape.ops.base import REGISTRY

CALL = """
func.func @f(%x: tensor<?xf32>) -> tensor<?x3xf32> {
  %0 = stablehlo.custom_call @neighbours(%x) {CONFIG} : (tensor<?xf32>) -> tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}
"""


@pytest.fixture
def declared() -> Iterator[dict[str, Any]]:
    """An op whose result type is what the dictionary holds, if anything."""
    given: dict[str, Any] = {}

    @egshape.custom_op("neighbours", operands=("x",), attrs={"width": "int"})
    class Neighbours:
        """Row i is x[i], ..., x[i + width - 1]."""

        def shape(x, width):  # type: ignore[no-untyped-def]
            return given.get("type", (x.dtype, (x.dims[0] - width + 1, width)))

        def reference(x, width):  # type: ignore[no-untyped-def]
            return np.lib.stride_tricks.sliding_window_view(x, width)

    yield given
    REGISTRY.drop("neighbours")


def loaded(config: str = "backend_config = {width = 3 : i64}, api_version = 4 : i32") -> egshape.Graph:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    return egshape.load(CALL.replace("CONFIG", config).encode(), format="mlir")


def test_sizes_may_be_numbers(declared: dict[str, Any]) -> None:
    graph = egshape.optimize(loaded()).graph
    assert [str(value.type) for value in graph.outputs] == ["f32[arg0.0 - 2, 3]"]
    found = egshape.compile(graph, "interpret", optimize=False)(np.arange(4, dtype=np.float32))
    assert np.array_equal(found, [[0, 1, 2], [1, 2, 3]])


@pytest.mark.parametrize("wrong", [None, "f32", ("f32",), ("float32", (1,)), ("f32", ("n",)), ("f32", 3), [1]], ids=str)
def test_what_is_no_type_is_an_error(declared: dict[str, Any], wrong: object) -> None:
    declared["type"] = wrong
    with pytest.raises(EgshapeError, match=r"shape function of the custom op neighbours fails: .*given were f32"):
        loaded()


def test_a_missing_attribute_says_where_it_goes(declared: dict[str, Any]) -> None:
    with pytest.raises(EgshapeError, match=r"needs the attribute 'width' \(write backend_config = \{width = ...\}\)"):
        loaded("api_version = 4 : i32")


def asks_a_size(b: Any, x: Any) -> Any:
    return x if x.type.dims[0] == 1 else b.negate(x)


ASKS = {
    "==": asks_a_size,
    "!=": lambda b, x: b.negate(x) if x.dims[0] != 1 else x,
    "<": lambda b, x: x if x.dims[0] < 2 else b.negate(x),
    "in": lambda b, x: x if x.dims[0] in (1, 2) else b.negate(x),
    "in tuple": lambda b, x: x if 1 in x.type.dims else b.negate(x),
    "bool": lambda b, x: b.negate(x) if x.dims[0] else x,
    "max": lambda b, x: b.broadcast_in_dim(x, dims=(0,), shape=(max(x.dims[0], 1),)),
    "min": lambda b, x: b.broadcast_in_dim(x, dims=(0,), shape=(min(x.dims[0], 1),)),
    "sorted": lambda b, x: b.reshape(x, shape=sorted([x.dims[0], 7])),
    "range": lambda b, x: [b.negate(x) for _ in range(x.dims[0])][-1],
    "int": lambda b, x: b.reshape(x, shape=(int(x.dims[0]),)),
    "same type": lambda b, x: x if x.type == b.concatenate(x, x, dim=0).type else b.negate(x),
}


@pytest.fixture
def negated() -> Iterator[dict[str, Any]]:
    """An op whose shape function asserts that a size is ``given["size"]``, with the body ``given["body"]``."""
    given: dict[str, Any] = {}

    @egshape.custom_op("negated", operands=("x",))
    class Negated:
        """-x."""

        def shape(x):  # type: ignore[no-untyped-def]
            assert "size" not in given or x.dims[0] == given["size"], "another size"
            return x

        def reference(x):  # type: ignore[no-untyped-def]
            return -x

        def body(b, x):  # type: ignore[no-untyped-def]
            return given["body"](b, x)

    yield given
    REGISTRY.drop("negated")


def body_of(*sizes: int | None) -> Any:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", sizes)
    return build_body(REGISTRY["negated"], [x.type], {})


@pytest.mark.parametrize("how", ASKS)
def test_a_body_that_asks_what_nothing_decides_is_an_error(negated: dict[str, Any], how: str) -> None:
    negated["body"] = ASKS[how]
    with pytest.raises(
        EgshapeError, match=r"the body of negated is wrong: (asks whether|wants the number that) .*line"
    ):
        body_of(None)


@pytest.mark.parametrize("how", ["==", "!=", "<", "in", "in tuple"])
def test_a_body_may_ask_what_forms_or_the_shape_function_decide(negated: dict[str, Any], how: str) -> None:
    negated["body"] = ASKS[how]
    assert [op.name for op in body_of(1).ops] == []
    assert [op.name for op in body_of(3).ops] == ["negate"]
    negated["size"] = 1
    assert [op.name for op in body_of(None).ops] == []


def test_a_body_computes_with_sizes(negated: dict[str, Any]) -> None:
    def body(b: Any, x: Any) -> Any:
        n, m = x.dims
        half = b.slice(x, starts=(0, 0), limits=(n // 2, m), strides=(1, 1))
        rest = b.slice(x, starts=(n // 2, 0), limits=[n, m], strides=(1, 1))
        assert half.rank == x.type.rank == 2 and half.dtype == "f32"
        return b.concatenate(b.negate(half), b.negate(rest), dim=0)

    negated["body"] = body
    assert [str(value.type) for value in body_of(None, 3).results] == ["f32[x.0, 3]"]
    negated["body"] = lambda b, x: b.reshape(x, shape=(x.dims[0] // x.dims[1], x.dims[1]))
    assert str(body_of(None, None).results[0].type) == "f32[x.0//x.1, x.1]"


def test_a_body_that_asserts_says_its_words(negated: dict[str, Any]) -> None:
    def body(b: Any, x: Any) -> Any:
        assert x.rank == 1, "only vectors"
        return b.negate(x)

    negated["body"] = body
    with pytest.raises(EgshapeError, match="the body of negated is wrong: only vectors"):
        body_of(2, 3)
