"""What is checked first makes two ways to say a size one."""

import numpy as np
import pytest

from egshape.dims import ceildiv, const, maximum, symbol
from egshape.errors import CheckFailed
from egshape.ir.builder import BlockBuilder
from egshape.ir.interpret import interpret
from egshape.plan.form.forms import in_form
from egshape.plan.ir.program import Run
from egshape.plan.targets import plan
from tests.fuzz.differential import graph_of
from tests.lower.checking import call, compiled

H = symbol("h")
INNER, OUTER = maximum(H - 1, 0) // 2 + 1, ceildiv(H, const(2))


def halves(checks):
    """tanh of every second element of x, by a composite that says the size as ``INNER``; ``OUTER`` is said of it."""
    b = BlockBuilder()
    x = b.arg("x", "f32", [None], ["h"])
    for relation, lhs, rhs in checks:
        attrs = {"relation": relation, "sides": (lhs, rhs), "message": "no", "args": (), "fact": ""}
        b.add("check", [], attrs)
    y = b.one("pad", [x, _number(b, 5)], {"low": (const(0),), "high": (INNER * 2 - H,), "interior": (const(0),)})
    y = b.one("slice", [y], {"starts": (const(0),), "limits": (INNER * 2,), "strides": (const(2),)})
    inner = b.child()
    z = inner.arg("z", "f32", [OUTER])
    block = inner.finish([inner.one("tanh", [z])])
    (twice,) = b.add("composite", [y], {"name": "test.tanh"}, regions=[block])
    return graph_of(b, b.one("negate", [twice]))


def _number(b, value):
    return b.one("constant", (), {"value": np.array(value, np.float32)})


def test_without_a_check_they_are_two():
    graph = halves([])
    assert in_form(graph) is graph


@pytest.mark.parametrize(
    "checks",
    [
        [("<=", const(1), H)],
        [("==", 2 * (maximum(H - 1, 0) // 4) + 2, maximum(H - 1, 0) // 2 + 1)],
    ],
)
def test_a_check_makes_them_one_and_kernels_reach_over(checks):
    graph = halves(checks)
    sizes = {str(dim) for op in in_form(graph).ops for value in op.results for dim in value.type.dims}
    assert str(INNER) not in sizes
    assert len([step for step in plan(graph).steps if isinstance(step, Run)]) == 1
    function = compiled(graph)
    for size in (3, 4, 7):
        array = np.linspace(-1, 1, size, dtype=np.float32)
        try:
            (wanted,) = interpret(graph, [array])
        except CheckFailed:
            with pytest.raises(CheckFailed):
                call(function, [array])
            continue
        np.testing.assert_allclose(call(function, [array])[0], wanted, 1e-6)


def test_the_check_itself_stays():
    function = compiled(halves([("<=", const(1), H)]))
    with pytest.raises(CheckFailed):
        call(function, [np.zeros(0, np.float32)])


def test_checks_that_clash_change_nothing():
    graph = halves([("<=", const(1), H), ("==", H, const(0))])
    assert in_form(graph) is graph
