"""Checks and shape code as StableHLO out writes them: few ops, equivalent, and no step that wraps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from egshape.dims import Dim, const, parse, symbol

pytest.importorskip("jax")

from benchmarks.robustness import xla_process
from egshape.adapters.xla import run_stablehlo
from egshape.errors import CheckFailed
from egshape.frontends.size_ranges import Ranges
from egshape.frontends.size_terms import forms, plan
from egshape.frontends.stablehlo.emit import write
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, SymbolDef
from egshape.ir.interpret import interpret

_HOLDS: dict[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<=": lambda a, b: a <= b,
    "<": lambda a, b: a < b,
}


def _checked(relation: str, lhs: str, rhs: str, args: tuple[str, ...] = ()) -> str:
    """The module of one check on the sizes a, b, c of three inputs."""
    builder = BlockBuilder()
    values = [builder.arg(f"x{name}", "f32", (None,), (name,)) for name in "abc"]
    attrs = {
        "relation": relation,
        "sides": (parse(lhs), parse(rhs)),
        "message": "no",
        "args": tuple(map(parse, args)),
    }
    builder.add("check", (), attrs)
    return write(Graph("g", builder.finish(values), ("out0", "out1", "out2")))


def _passes(text: str, *sizes: int) -> bool:
    try:
        run_stablehlo(text, [np.zeros(size, np.float32) for size in sizes])
    except CheckFailed:
        return False
    return True


def test_a_constant_goes_to_the_other_side() -> None:
    text = _checked("<=", "0", "12 - a")
    assert "subtract" not in text
    assert "i64" not in text
    assert text.count("stablehlo.constant") == 1
    assert [_passes(text, a, 1, 1) for a in (11, 12, 13)] == [True, True, False]


def test_a_factor_is_divided_out() -> None:
    text = _checked("<=", "16*a", "2147483647")
    assert "dense<134217727> : tensor<i32>" in text
    assert "multiply" not in text


def test_a_sum_that_may_wrap_is_a_difference_that_cannot() -> None:
    text = _checked("<=", "a + b", "2147483647")
    assert "i64" not in text
    assert text.count("stablehlo.subtract") == 1


def test_a_product_is_computed_in_i64() -> None:
    text = _checked("<=", "0", "50 - (a//2)*(b//2)", ("50 - (a//2)*(b//2)",))
    assert text.count("stablehlo.multiply") == 1
    assert "tensor<i64>" in text
    assert [_passes(text, *sizes, 1) for sizes in ((20, 10), (20, 12))] == [True, False]


def test_a_shown_size_serves_the_comparison() -> None:
    text = _checked("==", "a % 4", "0", ("a % 4", "a//4"))
    assert "i64" not in text
    assert text.count("stablehlo.compare EQ") == 1
    assert [_passes(text, a, 1, 1) for a in (8, 9)] == [True, False]


def test_an_element_may_be_negative() -> None:
    """i32 data of -2**31 less 2 wraps to a large number: the check must not pass there."""
    builder = BlockBuilder()
    value = builder.arg("n", "i32", ())
    attrs = {
        "relation": "<=",
        "sides": (const(0), symbol("n") - 2),
        "message": "no",
        "args": (symbol("n") - 2,),
    }
    builder.add("check", (), attrs)
    block = builder.finish([value])
    symbols = (SymbolDef("n", value, element=0),)
    text = write(Graph("g", replace(block, symbols=symbols), ("out0",)))
    assert "tensor<i64>" in text
    assert run_stablehlo(text, [np.array(2, np.int32)])[0] == 2
    with pytest.raises(CheckFailed):
        run_stablehlo(text, [np.array(-(2**31), np.int32)])


@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [
        ("0", "12 - a"),
        ("2*a + 4*b", "13"),
        ("3*a", "b + 5"),
        ("6*a - 3", "9*b"),
        ("a//2 + b", "c*2 - 3"),
        ("a*b", "4*c"),
        ("-1", "2*a - 7"),
        ("max(a - 2, 0)", "0"),
        ("3", "2*max(a - b, 0)"),
        ("max(a - 2, 0)//2", "0"),
        ("max(a - 1, 0)//2*3", "4"),
        ("(a - 3)//2", "0"),
        ("min(a, 3)", "a"),
        ("a", "max(a, b)"),
    ],
)
def test_forms_are_equivalent(lhs: str, rhs: str) -> None:
    for relation, holds in _HOLDS.items():
        one, two = parse(lhs), parse(rhs)
        found = list(forms(relation, one, two))
        assert len(found) > 1
        for sizes in product(range(6), repeat=3):
            env = dict(zip("abc", sizes, strict=True))
            wanted = holds(one.evaluate(env), two.evaluate(env))
            for kind, left, right in found:
                assert _HOLDS[kind](left.evaluate(env), right.evaluate(env)) == wanted, (kind, left, right)


@pytest.mark.parametrize(
    ("lhs", "rhs", "bound"),
    [
        ("max(a - 512, 0)", "0", 512),
        ("max(a - 192, 0)//512", "0", 703),
        ("min(a, 9)", "a", 9),
    ],
)
def test_a_bound_in_a_function_of_a_size_is_one_of_the_size(lhs: str, rhs: str, bound: int) -> None:
    assert ("<=", symbol("a"), const(bound)) in forms("==", parse(lhs), parse(rhs))


def _steps(dim: Dim) -> set[Dim]:
    found = {dim}
    for operand in plan(dim).operands:
        found |= _steps(operand)
    return found


@pytest.mark.parametrize(
    "text",
    [
        "a - b",
        "a*b",
        "a//3 + b",
        "(a - b)//4",
        "(a - b) % 8",
        "a % 5 - 2*b",
        "max(a, b)*2 - 3",
        "min(a, 7)*b",
        "cdiv(a, 4)",
    ],
)
def test_ranges_hold_every_step(text: str) -> None:
    largest = 15
    for bits in (5, 6, 8, 10):
        dim = parse(text)
        found = Ranges(bits, lambda _: (0, largest)).of(dim)
        if found is None:
            continue
        for sizes in product(range(largest + 1), repeat=2):
            env = dict(zip("ab", sizes, strict=True))
            assert found[0] <= dim.evaluate(env) <= found[1]
            for step in _steps(dim):
                assert -(2 ** (bits - 1)) <= step.evaluate(env) < 2 ** (bits - 1)


def test_a_clamped_slice_is_a_gather() -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", (None, None, 3), ("b", "t", None))
    place = builder.arg("i", "i32", ())
    zeros = builder.one("constant", (), {"value": np.zeros(3, np.int32)})
    zero = builder.one("constant", (), {"value": np.zeros(1, np.int32)})
    at = builder.one("reshape", (place,), {"shape": (const(1),)})
    wanted = builder.one("concatenate", (zero, at, zero), {"dim": 0})
    room = (const(0), symbol("t") - 1, const(0))
    high = builder.one("dims", (), {"elements": room, "shape": (3,), "dtype": "i32"})
    start = builder.one("clamp", (zeros, wanted, high))
    b, p = symbol("b"), symbol("p")
    attrs = {
        "starts": (const(0), p, const(0)),
        "limits": (b, p + 1, const(3)),
        "strides": (const(1),) * 3,
    }
    flat = builder.one("reshape", (builder.one("slice", (x,), attrs),), {"shape": (b, const(3))})
    block = builder.finish([flat])
    symbols = (*block.symbols, SymbolDef("p", start, element=1))
    graph = Graph("g", replace(block, symbols=symbols), ("out0",))
    text = write(graph)
    assert text.count("stablehlo.dynamic_gather") == 1
    assert not any(name in text for name in ("clamp", "real_dynamic_slice", "dynamic_reshape", "add"))
    data = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    for index in (-5, 0, 2, 9):
        inputs = [data, np.array(index, np.int32)]
        (found,) = run_stablehlo(text, inputs)
        np.testing.assert_array_equal(found, data[:, min(max(index, 0), 3)])
        np.testing.assert_array_equal(found, interpret(graph, inputs)[0])


def test_what_nothing_reads_is_left_out() -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", (None,), ("b",))
    builder.one("constant", (), {"value": np.array(3.0, np.float32)})
    again = builder.one("convert", (x,), {"dtype": "f32"})
    text = write(Graph("g", builder.finish([builder.one("abs", (again,))]), ("out0",)))
    assert "constant" not in text
    assert "convert" not in text


def test_one_constant_serves_runs_of_it() -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", (None,), ("b",))
    b = symbol("b")
    y = builder.one("broadcast_in_dim", (x,), {"dims": (0,), "shape": (b, const(1))})
    z = builder.one("broadcast_in_dim", (x,), {"dims": (2,), "shape": (const(1), const(1), b)})
    assert write(Graph("g", builder.finish([y, z]), ("out0", "out1"))).count("stablehlo.constant") == 1


@pytest.mark.parametrize(("text", "fixed"), [("2*cdiv(b, 2) - b", True), ("b % 2", True), ("b", False)])
def test_padding_behind_the_last_window_is_constant_where_it_can_be(text: str, fixed: bool) -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", (None,), ("b",))
    zero = builder.one("constant", (), {"value": np.array(0, np.float32)})
    inner = builder.child()
    one, two = inner.arg(None, "f32", ()), inner.arg(None, "f32", ())
    window = {"window": 2, "strides": 2, "base_dilation": 1, "window_dilation": 1}
    attrs = {key: (const(number),) for key, number in window.items()}
    region = inner.finish([inner.one("add", (one, two))])
    (y,) = builder.add("reduce_window", (x, zero), {**attrs, "padding": (const(0), parse(text))}, regions=(region,))
    graph = Graph("g", builder.finish([y]), ("out0",))
    written = write(graph)
    assert ("dynamic_reduce_window" not in written) == fixed
    for size in (0, 1, 4, 5):
        data = np.arange(1, size + 1, dtype=np.float32)
        np.testing.assert_array_equal(run_stablehlo(written, [data])[0], interpret(graph, [data])[0])


@pytest.mark.parametrize("size", ["7%a", "7//a", "b//(a*c)", "(b - c)//a", "(b - c)%a"])
def test_a_check_of_a_divisor_fails_before_xla_divides(size: str) -> None:
    builder = BlockBuilder()
    values = [builder.arg(f"x{name}", "f32", (None,), (name,)) for name in "abc"]
    builder.add("check", (), {"relation": "<=", "sides": (const(1), parse("a")), "message": "a is empty", "args": ()})
    value = builder.one("dims", (), {"elements": (parse(size),), "shape": (), "dtype": "i32"})
    text = write(Graph("g", builder.finish([*values, value]), ("a", "b", "c", "size")))

    def run(a: int, b: int, c: int) -> xla_process.Ran:
        return xla_process.run(text, [np.zeros(n, np.float32) for n in (a, b, c)])

    assert "a is empty" in run(0, 5, 1)[1], "its process must not end"
    for a, b, c in ((1, 5, 2), (3, 2, 9), (7, 1, 1)):
        assert run(a, b, c)[0][3] == eval(size, {}, {"a": a, "b": b, "c": c})
