"""Functions of sizes that rules bring together are sizes."""

from __future__ import annotations

import pytest

from egshape.dims import Dim, const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Op
from tests.egraph.programs import optimized

N = symbol("n")


def ops_of(*functions: str) -> tuple[Op, ...]:
    """What is left of functions of the size n, repeated along an axis of any size, in turn."""
    builder = BlockBuilder()
    x = builder.arg("x", "f32", [None], ["n"])
    value = builder.one(
        "broadcast_in_dim", [builder.one("get_dimension_size", [x], {"dim": 0})], {"dims": (), "shape": (N,)}
    )
    for name in functions:
        value = builder.one(name, [value, value] if name in ("multiply", "subtract") else [value])
    return optimized(builder, value).graph.ops


@pytest.mark.parametrize(
    ("functions", "element"), [(["negate"], -N), (["negate", "not"], N - 1), (["subtract", "negate"], const(0))]
)
def test_a_function_that_is_moved_above_a_broadcast_is_a_size(functions: list[str], element: Dim) -> None:
    first, last = ops_of(*functions)
    assert last.name == "broadcast_in_dim"
    if element.const is None:
        assert (first.name, first.attrs["elements"]) == ("dims", (element,))
    else:
        assert (first.name, int(first.attrs["value"])) == ("constant", element.const)


def test_one_that_hangs_on_whether_the_size_wraps_stays_a_function() -> None:
    """The square of n may be a negative i32."""
    assert [op.name for op in ops_of("multiply", "abs")] == ["dims", "abs", "broadcast_in_dim"]
    assert [op.name for op in ops_of("abs")] == ["dims", "broadcast_in_dim"]
