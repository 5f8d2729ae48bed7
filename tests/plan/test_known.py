"""What native code is told of sizes: nothing that a 64-bit number cannot say."""

from __future__ import annotations

import numpy as np
import pytest

from egshape.adapters.native import compile_function
from egshape.dims import Dim, const, symbol
from egshape.errors import EgshapeError
from egshape.facts import Facts
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph
from egshape.plan.analysis.known import LARGEST, Known
from egshape.plan.ir.loops import Loop, Pack
from egshape.plan.ir.program import Run
from egshape.plan.ir.walk import statements
from egshape.plan.targets import plan
from tests.fuzz.differential import argument, graph_of


@pytest.mark.parametrize(
    ("facts", "high"),
    [
        ("a - 1 <= 9223372036854775807", None),
        ("a <= 9223372036854775807", None),
        ("a <= 9223372036854775806", LARGEST - 1),
        ("a <= 7", 7),
        ("a + 10 <= 9223372036854775807", LARGEST - 10),
    ],
)
def test_bounds_fit_in_64_bits(facts: str, high: int | None) -> None:
    """A bound beyond would wrap to a negative number: native code would be told that no size is possible."""
    known = Known()
    for relation in Facts.parse(facts).statements():
        known.checked(relation)
    bounds = known.bounds(["a"])
    assert [each.high for each in bounds] == ([] if high is None else [high])


def _known(*facts: str) -> Known:
    known = Known()
    for relation in (each for fact in facts for each in Facts.parse(fact).statements()):
        known.checked(relation)
    return known


def test_sizes_that_are_checked_to_be_equal_share_a_symbol() -> None:
    known = _known("`arg1.1` % 8 == 0", "`arg1.1` == n", "`arg0.0` == m", "m == `arg2.0`", "`arg3.0` == 5", "a == 2*n")
    assert {name: str(size) for name, size in known.same().items()} == {
        "arg1.1": "n",
        "arg0.0": "m",
        "arg2.0": "m",
        "arg3.0": "5",
    }
    assert [each.divisor for each in known.bounds(["n"])] == [8], "what is known of one is known of the other"
    assert not Known("shape").same()


def test_arrays_of_equal_sizes_are_one_loop() -> None:
    b = BlockBuilder()
    x, y = (argument(b, name, "f32", [symbol(f"{name}0"), symbol(f"{name}1")]) for name in "xy")
    for axis in range(2):
        sides = symbol(f"x{axis}"), symbol(f"y{axis}")
        b.add("check", (), {"relation": "==", "sides": sides, "message": "equal", "args": ()})
    program = plan(graph_of(b, b.one("add", [x, y])))
    (kernel,) = (step.kernel for step in program.steps if isinstance(step, Run))
    (loop,) = kernel.body
    assert isinstance(loop, Loop) and str(loop.extent) == "x0*x1", "both are read by one index"


def _product(*relations: tuple[str, Dim, Dim]) -> Graph:
    """x @ y behind checks."""
    b = BlockBuilder()
    x, y = (argument(b, name, "f32", [symbol(f"{name}0"), symbol(f"{name}1")]) for name in "xy")
    for kind, *sides in relations:
        b.add("check", (), {"relation": kind, "sides": tuple(sides), "message": "is known", "args": ()})
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "precision": ()}
    return graph_of(b, b.one("dot_general", [x, y], {**attrs, "dtype": "f32"}))


def test_kernels_are_chosen_by_sizes_that_are_checked_at_entry() -> None:
    """One column is turned into one row, which reads the other side where it lies: nothing is packed."""

    def packs(*relations: tuple[str, Dim, Dim]) -> bool:
        steps = plan(_product(*relations)).steps
        kernels = [step.kernel for step in steps if isinstance(step, Run)]
        return any(isinstance(each, Pack) for kernel in kernels for each in statements(kernel.body))

    three, one = ("==", symbol("x1"), const(3)), ("==", symbol("y1"), const(1))
    assert packs(three) and packs(("<=", symbol("y1"), const(1)))
    assert not packs(three, one) and not packs(("==", symbol("x1"), symbol("y1")), ("==", symbol("x1"), const(1)))


def test_what_is_checked_at_entry_is_still_checked() -> None:
    graph = _product(("==", symbol("x1"), const(3)), ("==", symbol("y1"), const(1)))
    run = compile_function(graph)
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((3, 1), np.float32)
    np.testing.assert_array_equal(run(x, y), x @ y)
    for wrong in ((x, np.ones((3, 2), np.float32)), (x[:, :2], y[:2]), (x, np.ones((2, 1), np.float32))):
        with pytest.raises(EgshapeError):
            run(*wrong)
    with pytest.raises(EgshapeError):  # no sizes fit, which is found when it runs
        compile_function(_product(("==", symbol("x1"), const(3)), ("==", symbol("y0"), const(4))))(x, y)
    never = compile_function(_product(("==", symbol("y1"), const(1)), ("==", symbol("y1"), const(2))))
    for columns in (1, 2):
        with pytest.raises(EgshapeError, match="is known"):
            never(x, np.ones((3, columns), np.float32))
