"""StableHLO programs that are right here must be right in XLA once they are saved, and read again from there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

from egshape.adapters.xla import run_stablehlo
from egshape.api import optimize
from egshape.compiling import compile
from egshape.errors import CheckFailed
from egshape.frontends.stablehlo import read
from egshape.frontends.stablehlo.emit import write
from egshape.ir.interpret import interpret

Arrays = Sequence[np.ndarray[Any, Any]]
I32 = np.int32


def _main(head: str, *lines: str) -> str:
    return f"module {{ func.func @main{head} {{\n" + "\n".join(lines) + "\n} }"


def _everywhere(text: str, arrays: Arrays) -> list[list[Any]]:
    """What the graph, the result, what was saved and XLA of that give."""
    graph = read(text, "t.mlir")
    better = optimize(graph).graph
    saved = write(better)
    found = [interpret(each, arrays) for each in (graph, better, read(saved, "o.mlir"))]
    return [[np.asarray(a).tolist() for a in each] for each in (*found, run_stablehlo(saved, arrays))]


def _agree(text: str, arrays: Arrays, wanted: list[Any] | None = None) -> None:
    first = [np.asarray(a).tolist() for a in run_stablehlo(text, arrays)] if wanted is None else wanted
    assert _everywhere(text, arrays) == [first] * 4


# -- windows of windows ---------------------------------------------------------------------------------------------

_X = "(%x: tensor<?xi32>, %u: tensor<2xi32>, %i: tensor<I>, %j: tensor<i32>) -> "
_TAKE = "%a = stablehlo.dynamic_slice %x, %i, sizes = [5] : (tensor<?xi32>, tensor<I>) -> tensor<5xi32>"
_TAKE_AGAIN = "%b = stablehlo.dynamic_slice %a, %j, sizes = [2] : (tensor<5xi32>, tensor<i32>) -> tensor<2xi32>"
_GATHER = (
    "%k = stablehlo.reshape %i : (tensor<I>) -> tensor<1xI>\n"
    '%a = "stablehlo.gather"(%x, %k) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], start_index_map = [0]>'
    ", slice_sizes = array<i64: 5>}> : (tensor<?xi32>, tensor<1xI>) -> tensor<5xi32>"
)
_LOOP = (
    "%z = stablehlo.constant dense<0> : tensor<i32>\n%one = stablehlo.constant dense<1> : tensor<i32>\n"
    "%w:2 = stablehlo.while(%n = %z, %t = %u) : tensor<i32>, tensor<2xi32> cond {\n"
    "%p = stablehlo.compare LT, %n, %one, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
    f"stablehlo.return %p : tensor<i1> }} do {{\n{_TAKE_AGAIN}\n%s = stablehlo.add %t, %b : tensor<2xi32>\n"
    "%m = stablehlo.add %n, %one : tensor<i32>\nstablehlo.return %m, %s : tensor<i32>, tensor<2xi32> }"
)
NESTS = {
    "slice of a slice": _main(f"{_X}tensor<2xi32>", _TAKE, _TAKE_AGAIN, "return %b : tensor<2xi32>"),
    "slice of a gather": _main(f"{_X}tensor<2xi32>", _GATHER, _TAKE_AGAIN, "return %b : tensor<2xi32>"),
    "in a loop": _main(f"{_X}tensor<2xi32>", _TAKE, _LOOP, "return %w#1 : tensor<2xi32>"),
    "behind work that goes away": _main(
        f"{_X}tensor<2xi32>",
        _TAKE.replace("%a =", "%c ="),
        "%a = stablehlo.maximum %c, %c : tensor<5xi32>",
        _TAKE_AGAIN,
        "return %b : tensor<2xi32>",
    ),
    "behind a reshape": _main(
        f"{_X}tensor<2x1xi32>",
        _TAKE,
        "%z = stablehlo.constant dense<0> : tensor<i32>",
        "%r = stablehlo.reshape %a : (tensor<5xi32>) -> tensor<5x1xi32>",
        "%b = stablehlo.dynamic_slice %r, %j, %z, sizes = [2, 1] : (tensor<5x1xi32>, tensor<i32>, tensor<i32>) "
        "-> tensor<2x1xi32>",
        "return %b : tensor<2x1xi32>",
    ),
    "update of a slice, put back": _main(
        f"{_X}tensor<?xi32>",
        _TAKE,
        "%b = stablehlo.dynamic_update_slice %a, %u, %j : (tensor<5xi32>, tensor<2xi32>, tensor<i32>) -> tensor<5xi32>",
        "%c = stablehlo.dynamic_update_slice %x, %b, %i : (tensor<?xi32>, tensor<5xi32>, tensor<I>) -> tensor<?xi32>",
        "return %c : tensor<?xi32>",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NESTS)
@pytest.mark.parametrize("dtype", ["i32", "ui8"])
def test_starts_of_windows_that_nest_are_clamped(name: str, dtype: str) -> None:
    graph = read(NESTS[name].replace("I>", f"{dtype}>").replace("xI", f"x{dtype}"), "t.mlir")
    saved = write(optimize(graph).graph)
    for size, i, j in ((10, 8, 0), (10, 8, 2), (10, 3, 7), (300, 120, 4), (7, 1, -3)):
        start = np.array(i, {"i32": np.int32, "ui8": np.uint8}[dtype])
        arrays = [np.arange(size, dtype=I32), np.array([-1, -2], I32), start, np.array(j, I32)]
        wanted, found = interpret(graph, arrays), run_stablehlo(saved, arrays)
        assert [a.tolist() for a in found] == [np.asarray(a).tolist() for a in wanted]


def test_starts_without_a_sign_are_read_as_they_are() -> None:
    """XLA alone takes 255 for -1 where it fuses the slice with what made its operand."""
    text = _main(
        "(%x: tensor<?xui8>, %i: tensor<ui8>) -> tensor<2xui8>",
        "%c = stablehlo.concatenate %x, %x, dim = 0 : (tensor<?xui8>, tensor<?xui8>) -> tensor<?xui8>",
        "%a = stablehlo.dynamic_slice %c, %i, sizes = [2] : (tensor<?xui8>, tensor<ui8>) -> tensor<2xui8>",
        "%b = stablehlo.negate %a : tensor<2xui8>",
        "return %b : tensor<2xui8>",
    )
    x = np.arange(1, 14, dtype=np.uint8)
    assert _everywhere(text, [x, np.array(255, np.uint8)]) == [[[244, 243]]] * 4


def test_a_window_alone_has_no_clamp() -> None:
    alone = _main(f"{_X}tensor<5xi32>".replace("I>", "i32>"), _TAKE.replace("I>", "i32>"), "return %a : tensor<5xi32>")
    assert "clamp" not in write(read(alone, "t.mlir"))


# -- integers that wrap ---------------------------------------------------------------------------------------------


def _chain(result: str, *lines: str) -> str:
    first = "%n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xi8>) -> tensor<i32>"
    return _main(f"(%x: tensor<?xi8>) -> tensor<{result}>", first, *lines, f"return %r : tensor<{result}>")


def _convert(name: str, source: str, one: str, two: str) -> str:
    return f"%{name} = stablehlo.convert %{source} : (tensor<{one}>) -> tensor<{two}>"


CHAINS = {
    "a product of differences": _chain(
        "ui32",
        _convert("u", "n", "i32", "ui32"),
        "%c = stablehlo.constant dense<70001> : tensor<ui32>",
        "%s = stablehlo.subtract %c, %u : tensor<ui32>",
        "%r = stablehlo.multiply %s, %s : tensor<ui32>",
    ),
    "a square, widened": _chain(
        "i64",
        _convert("u", "n", "i32", "ui32"),
        "%m = stablehlo.multiply %u, %u : tensor<ui32>",
        _convert("r", "m", "ui32", "i64"),
    ),
    "a negative number without a sign": _chain(
        "i64",
        "%c = stablehlo.constant dense<5> : tensor<i32>",
        "%m = stablehlo.subtract %n, %c : tensor<i32>",
        _convert("h", "m", "i32", "ui8"),
        _convert("r", "h", "ui8", "i64"),
    ),
    "eight bits": _chain(
        "i32",
        _convert("u", "n", "i32", "i8"),
        "%m = stablehlo.multiply %u, %u : tensor<i8>",
        _convert("r", "m", "i8", "i32"),
    ),
    "a remainder of a square": _chain(
        "ui32",
        _convert("u", "n", "i32", "ui32"),
        "%m = stablehlo.multiply %u, %u : tensor<ui32>",
        "%c = stablehlo.constant dense<1000> : tensor<ui32>",
        "%r = stablehlo.remainder %m, %c : tensor<ui32>",
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_integers_wrap_as_in_xla(name: str) -> None:
    for size in (0, 1, 300, 70000):
        _agree(CHAINS[name], [np.zeros(size, np.int8)])


# -- static result types --------------------------------------------------------------------------------------------

_SIZES = "%s: tensor<2xi32>"
STATED = {
    "dynamic_broadcast_in_dim": _main(
        f"(%x: tensor<4xf32>, {_SIZES}) -> tensor<3x4xf32>",
        "%0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1] : (tensor<4xf32>, tensor<2xi32>) "
        "-> tensor<3x4xf32>",
        "return %0 : tensor<3x4xf32>",
    ),
    "dynamic_reshape": _main(
        f"(%x: tensor<12xf32>, {_SIZES}) -> tensor<3x4xf32>",
        "%0 = stablehlo.dynamic_reshape %x, %s : (tensor<12xf32>, tensor<2xi32>) -> tensor<3x4xf32>",
        "return %0 : tensor<3x4xf32>",
    ),
    "dynamic_iota": _main(
        f"({_SIZES}) -> tensor<3x?xi32>",
        "%0 = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi32>) -> tensor<3x?xi32>",
        "return %0 : tensor<3x?xi32>",
    ),
    "real_dynamic_slice": _main(
        f"(%x: tensor<9x9xf32>, {_SIZES}) -> tensor<3x4xf32>",
        "%z = stablehlo.constant dense<0> : tensor<2xi32>",
        "%o = stablehlo.constant dense<1> : tensor<2xi32>",
        "%0 = stablehlo.real_dynamic_slice %x, %z, %s, %o : (tensor<9x9xf32>, tensor<2xi32>, tensor<2xi32>, "
        "tensor<2xi32>) -> tensor<3x4xf32>",
        "return %0 : tensor<3x4xf32>",
    ),
    "dynamic_pad": _main(
        f"(%x: tensor<1x1xf32>, {_SIZES}) -> tensor<4x5xf32>",
        "%z = stablehlo.constant dense<0> : tensor<2xi32>",
        "%c = stablehlo.constant dense<0.0> : tensor<f32>",
        "%0 = stablehlo.dynamic_pad %x, %c, %s, %z, %z : (tensor<1x1xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, "
        "tensor<2xi32>) -> tensor<4x5xf32>",
        "return %0 : tensor<4x5xf32>",
    ),
    "rng": _main(
        f"({_SIZES}) -> tensor<i32>",
        "%a = stablehlo.constant dense<0.0> : tensor<f32>",
        "%0 = stablehlo.rng %a, %a, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<2xi32>) "
        "-> tensor<3x4xf32>",
        "%z = stablehlo.constant dense<7> : tensor<i32>",
        "return %z : tensor<i32>",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STATED)
def test_a_static_result_type_checks_the_sizes_that_the_op_is_given(name: str) -> None:
    graph = read(STATED[name], "t.mlir")
    better = optimize(graph).graph
    saved = write(better)
    given = {"dynamic_reshape": (12,), "real_dynamic_slice": (9, 9), "dynamic_pad": (1, 1)}.get(name, (4,))
    data = [np.zeros(given, np.float32)] if len(graph.inputs) == 2 else []
    assert len(run_stablehlo(saved, [*data, np.array([3, 4], I32)])) == 1
    for each in (graph, better, read(saved, "o.mlir")):
        interpret(each, [*data, np.array([3, 4], I32)])
        with pytest.raises(CheckFailed, match="a size is"):
            interpret(each, [*data, np.array([2, 4], I32)])
    with pytest.raises(CheckFailed):
        run_stablehlo(saved, [*data, np.array([2, 4], I32)])


# -- buffers of bounded size ------------------------------------------------------------------------------------------

_B = "tensor<?xi32, #stablehlo.bounds<4>>"
_SHRINK = f"%0 = stablehlo.set_dimension_size %x, %a, dim = 0 : (tensor<4xi32>, tensor<i32>) -> {_B}"
_SUM = (
    "%s = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [0] : "
    f"({_B}, tensor<i32>) -> tensor<i32>"
)
_ZERO = "%z = stablehlo.constant dense<0> : tensor<i32>"
_GROW = f"%1 = stablehlo.set_dimension_size %0, %b, dim = 0 : ({_B}, tensor<i32>) -> {_B}"
GROWN = _main(
    "(%x: tensor<4xi32>, %a: tensor<i32>, %b: tensor<i32>) -> (tensor<i32>, tensor<i32>)",
    _ZERO,
    _SHRINK,
    f"%k = stablehlo.get_dimension_size %0, dim = 0 : ({_B}) -> tensor<i32>",
    "%m = stablehlo.multiply %k, %k : tensor<i32>",  # needs nothing behind it
    _GROW,
    _SUM,
    "%t = stablehlo.add %s, %m : tensor<i32>",
    "return %s, %t : tensor<i32>, tensor<i32>",
)


def test_a_buffer_keeps_its_elements_where_its_size_shrinks_and_grows() -> None:
    x = np.array([1, 2, 3, 4], I32)
    for a, b, total in ((2, 3, 6), (0, 4, 10), (4, 1, 1)):
        _agree(GROWN, [x, np.array(a, I32), np.array(b, I32)], [total, total + a * a])
    found = compile(GROWN.encode(), format="mlir")(x, np.array(2, I32), np.array(3, I32))
    assert [np.asarray(each).item() for each in found] == [6, 10]


def test_saving_a_buffer_of_bounded_size_twice_changes_nothing() -> None:
    saved = write(read(GROWN, "t.mlir"))
    assert "bounds<4>" in saved and write(read(saved, "t.mlir")) == saved


def test_a_result_of_bounded_size_keeps_its_type() -> None:
    text = _main(f"(%x: tensor<4xi32>, %a: tensor<i32>) -> {_B}", _SHRINK, f"return %0 : {_B}")
    saved = write(optimize(read(text, "t.mlir")).graph)
    assert f"-> ({_B})" in saved and f"return %0 : {_B}" in saved


def test_the_bound_of_an_input_type_is_a_check() -> None:
    text = _main(f"(%x: {_B}) -> {_B}", f"%0 = stablehlo.add %x, %x : {_B}", f"return %0 : {_B}")
    graph = read(text, "t.mlir")
    better = optimize(graph).graph
    for each in (graph, better, read(write(better), "o.mlir")):
        assert interpret(each, [np.ones(4, I32)])[0].tolist() == [2] * 4
        with pytest.raises(CheckFailed):
            interpret(each, [np.ones(5, I32)])


def test_the_bound_of_an_input_type_keeps_its_message() -> None:
    text = _main(f"(%x: {_B}) -> {_B}", f"%0 = stablehlo.add %x, %x : {_B}", f"return %0 : {_B}")
    with pytest.raises(CheckFailed, match=r"axis 0 of arg0 is larger than its type allows, 4: arg0\.0 is 5"):
        interpret(optimize(read(text, "t.mlir")).graph, [np.ones(5, I32)])


def test_a_function_that_gives_a_value_of_bounded_size() -> None:
    function = f"func.func private @f(%x: tensor<4xi32>, %a: tensor<i32>) -> {_B} {{ {_SHRINK}\nreturn %0 : {_B} }}"
    call = f"%1 = func.call @f(%x, %a) : (tensor<4xi32>, tensor<i32>) -> {_B}"
    text = _main("(%x: tensor<4xi32>, %a: tensor<i32>) -> tensor<i32>", _ZERO, call, _SUM, "return %s : tensor<i32>")
    text = text.removesuffix("}") + function + " }"
    for size, total in ((0, 0), (2, 3), (4, 10)):
        _agree(text, [np.array([1, 2, 3, 4], I32), np.array(size, I32)], [total])
    saved = write(read(text, "t.mlir"))
    assert write(read(saved, "o.mlir")) == saved


def test_what_a_buffer_is_made_of_may_have_another_type_than_it_came_with() -> None:
    four = "%c = stablehlo.constant dense<4> : tensor<1xi32>"
    reshape = "%x = stablehlo.dynamic_reshape %y, %c : (tensor<?xi32>, tensor<1xi32>) -> tensor<4xi32>"
    sum = _SUM.replace("%1", "%0")
    head = "(%y: tensor<?xi32>, %a: tensor<i32>) -> tensor<i32>"
    _agree(
        _main(head, _ZERO, four, reshape, _SHRINK, sum, "return %s : tensor<i32>"), [np.arange(4, dtype=I32), I32(3)]
    )


# -- products that leave i32 ------------------------------------------------------------------------------------------

_SQUARE = ("%m = stablehlo.multiply %n, %n : tensor<i32>", "%c = stablehlo.constant dense<7> : tensor<i32>")
_NEGATIVE = (
    "%m = stablehlo.multiply %n, %n : tensor<i32>",
    "%z = stablehlo.constant dense<0> : tensor<i32>",
    "%p = stablehlo.compare LT, %m, %z : (tensor<i32>, tensor<i32>) -> tensor<i1>",
    '%r = "stablehlo.if"(%p) ({\n%u = stablehlo.negate %m : tensor<i32>\nstablehlo.return %u : tensor<i32>\n}, {\n'
    "stablehlo.return %n : tensor<i32>\n}) : (tensor<i1>) -> tensor<i32>",
)
PRODUCTS = {
    **{
        name: _chain("i32", *_SQUARE, f"%r = stablehlo.{name} %m, %c : tensor<i32>")
        for name in ("divide", "remainder", "minimum", "maximum", "shift_right_arithmetic")
    },
    "widened": _chain("i64", _SQUARE[0], _convert("r", "m", "i32", "i64")),
    "of a branch": _chain("i32", *_NEGATIVE),
    "of a large multiple": _chain(
        "i32",
        "%k = stablehlo.constant dense<100000> : tensor<i32>",
        "%m = stablehlo.multiply %n, %k : tensor<i32>",
        "%c = stablehlo.constant dense<7> : tensor<i32>",
        "%r = stablehlo.divide %m, %c : tensor<i32>",
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_that_leave_their_dtype_at_usual_sizes_wrap_as_in_xla(name: str) -> None:
    for size in (0, 5, 46341, 70000):
        _agree(PRODUCTS[name], [np.zeros(size, np.int8)])


def test_the_number_of_elements_of_a_value_is_a_size() -> None:
    graph = read(
        _main(
            "(%x: tensor<?x?xi8>) -> tensor<?x2xi8>",
            "%a = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x?xi8>) -> tensor<i32>",
            "%b = stablehlo.get_dimension_size %x, dim = 1 : (tensor<?x?xi8>) -> tensor<i32>",
            "%m = stablehlo.multiply %a, %b : tensor<i32>",
            "%c = stablehlo.constant dense<2> : tensor<i32>",
            "%d = stablehlo.divide %m, %c : tensor<i32>",
            "%e = stablehlo.reshape %d : (tensor<i32>) -> tensor<1xi32>",
            "%f = stablehlo.reshape %c : (tensor<i32>) -> tensor<1xi32>",
            "%s = stablehlo.concatenate %e, %f, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>",
            "%r = stablehlo.dynamic_reshape %x, %s : (tensor<?x?xi8>, tensor<2xi32>) -> tensor<?x2xi8>",
            "return %r : tensor<?x2xi8>",
        ),
        "t.mlir",
    )
    assert str(graph.body.results[0].type.dims[0]) == "(arg0.0*arg0.1)//2"
