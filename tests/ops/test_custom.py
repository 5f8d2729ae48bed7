"""Types that the functions of custom ops give, and attributes in StableHLO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import egshape
from egshape.errors import EgshapeError
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
