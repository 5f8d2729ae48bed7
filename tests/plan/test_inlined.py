"""Composites stand in place before kernels are chosen."""

import numpy as np

from egshape.ir.builder import BlockBuilder
from egshape.plan.ir.program import Run
from egshape.plan.targets import plan
from tests.fuzz.differential import graph_of
from tests.lower.checking import call, compiled


def test_an_epilogue_reaches_over_the_end_of_a_composite():
    weights, bias = np.arange(48, dtype=np.float32).reshape(16, 3), np.arange(3, dtype=np.float32)
    b = BlockBuilder()
    x = b.arg("x", "f32", [None, 16], ["n", None])
    inner = b.child()
    y = inner.arg("y", "f32", x.type.dims)
    w = inner.one("constant", (), {"value": weights})
    product = inner.one(
        "dot_general",
        [y, w],
        {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "precision": (), "dtype": "f32"},
    )
    wide = inner.one(
        "broadcast_in_dim", [inner.one("constant", (), {"value": bias})], {"dims": (1,), "shape": product.type.dims}
    )
    block = inner.finish([inner.one("add", [product, wide])])
    linear = b.one("composite", [x], {"name": "test.linear"}, regions=[block])
    graph = graph_of(b, b.one("tanh", [linear]))
    assert [step.kernel.label for step in plan(graph).steps if isinstance(step, Run)] == ["dot_general_tanh"]
    array = np.linspace(-1, 1, 80, dtype=np.float32).reshape(5, 16)
    (found,) = call(compiled(graph), [array])
    np.testing.assert_allclose(found, np.tanh(array @ weights + bias), 1e-5, 1e-5)


def test_results_of_composites_are_known_in_regions_and_outputs():
    b = BlockBuilder()
    x = b.arg("x", "f32", [None, 3], ["n", None])
    inner = b.child()
    twice = b.one(
        "composite",
        [x],
        {"name": "test.twice"},
        regions=[_of(inner, inner.one("add", [inner.arg("y", "f32", x.type.dims)] * 2))],
    )
    same = b.child()
    again = b.one("composite", [twice], {"name": "test.same"}, regions=[_of(same, same.arg("z", "f32", x.type.dims))])
    outer = b.child()
    outer.arg("w", "f32", x.type.dims)
    minus = b.one("composite", [x], {"name": "test.minus"}, regions=[_of(outer, outer.one("negate", [again]))])
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    found = call(compiled(graph_of(b, twice, again, minus)), [array])
    for one, factor in zip(found, (2, 2, -2), strict=True):
        np.testing.assert_array_equal(one, array * factor)


def _of(b, value):
    return b.finish([value])
