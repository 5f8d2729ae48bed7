"""Shape code is right up to the largest size: a step whose operands may leave i32 is computed in i64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from egshape.dims import parse, symbol

pytest.importorskip("jax")

from egshape.adapters.xla import run_stablehlo
from egshape.errors import UndefinedSize
from egshape.frontends.size_ranges import SIZE, Values
from egshape.frontends.stablehlo import read
from egshape.frontends.stablehlo.emit import write
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, SymbolDef
from egshape.ir.interpret import interpret
from egshape.ops import numeric

LARGEST = 2**31 - 1
SIZES = (0, 1, 7, 8, 2**30, *range(LARGEST - 7, LARGEST + 1))

_NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "sign": np.sign,
    "divide": numeric.divide,
    "remainder": numeric.remainder,
}


def _module(text: str, names: str = "hw", shown: str = "i32") -> str:
    """The module that gives one size of inputs h and w, and an input that both are sizes of."""
    builder = BlockBuilder()
    x = builder.arg("x", "f32", (None,) * (len(names) + 1), (*names, None))
    attrs = {"elements": (parse(text),), "shape": (), "dtype": shown}
    size = builder.one("dims", (), attrs)
    return write(Graph("g", builder.finish([x, size]), ("out0", "out1")))


def _computed(text: str, sizes: tuple[int, ...]) -> int:
    """What the ops of such a module give, with wrapping arithmetic of their own dtypes."""
    held: dict[str, np.ndarray] = {}
    for line in text.splitlines():
        name, _, op = line.strip().partition(" = stablehlo.")
        if not op:
            if name.startswith("return"):
                return int(held[name.split()[2].split(",")[0]])
            continue
        kind, *words = op.replace(",", "").replace("dense<", "").split()
        dtype = np.int64 if op.endswith("i64>") else np.bool_ if op.endswith("i1>") else np.int32
        operands = [held[word] for word in words if word in held]
        with np.errstate(over="ignore"):
            if kind == "get_dimension_size":
                held[name] = np.array(sizes[int(words[words.index("=") + 1])], np.int32)
            elif kind == "constant":
                held[name] = np.array(int(words[0].rstrip(">")), dtype)
            elif kind == "convert":
                held[name] = operands[0].astype(dtype)
            elif kind == "compare":
                assert words[0] == "EQ"
                held[name] = np.array(operands[0] == operands[1])
            elif kind == "select":
                held[name] = np.where(*operands)
            else:
                held[name] = np.asarray(_NUMPY[kind](*operands), dtype)
    raise AssertionError("no result")


EXPRESSIONS = [
    "(h + 5)//8",
    "cdiv(h, 16)",
    "cdiv(h, 3)",
    "max(h + 1, w) - 1",
    "min(h + 1, w + 2)",
    "(2*h + 1)//3",
    "h % 7",
    "(h + 5) % 8",
    "(h + 5) % 7",
    "(h - w)//3",
    "(h - w)//8",
    "(h - w - 9)//8",
    "(h - w - 9) % 8",
    "(h - w - 9) % 7",
    "(h*w)//(h + w + 1)",
    "h//((w + 5)//3 + 1)",
    "(h + 3)//4 + (h + 3)//5",
    "h*w - (h*w//100)*100",
    "(h + 9)//(w + 1) - (h + 9)//(w + 2)",
    "(h + 1)//(0 - w - 1)",
    "bcast(h + 1, w)",
    "2*((h + 1)//2) - h",
]


@pytest.mark.parametrize("text", EXPRESSIONS)
@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_shape_code_is_right_up_to_the_largest_size(text: str, dtype: str) -> None:
    dim = parse(text)
    module = _module(text, shown=dtype)
    found = 0
    for h, w in product(SIZES, repeat=2):
        wanted = dim.evaluate({"h": h, "w": w})
        if "bcast" in text and h + 1 != w and 1 not in (h + 1, w):
            continue  # these do not broadcast, which the program rejects elsewhere
        if -(2**31) <= wanted <= LARGEST:
            found += 1
            assert _computed(module, (h, w)) == wanted, (h, w)
    assert found > 9


@pytest.mark.parametrize("text", ["(h + 5)//8", "cdiv(h, 16)", "max(h + 1, w) - 1", "(2*h + 1)//3", "h % 7"])
def test_written_text_reads_back_as_right(text: str) -> None:
    """Axes of this length hold no element: the last one is 0."""
    dim = parse(text)
    graph = read(_module(text), "g")
    for h in (0, 1, LARGEST - 7, LARGEST):
        data = np.zeros((h, 3, 0), np.float32)
        assert int(interpret(graph, [data])[1]) == dim.evaluate({"h": h, "w": 3})


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_xla_refines_it(text: str) -> None:
    """XLA's shape refinement evaluates every op of the shape code."""
    dim = parse(f"max({text}, 0)")
    builder = BlockBuilder()
    x = builder.arg("x", "f32", (None, None), ("h", "w"))
    zero = builder.one("constant", (), {"value": np.array(0, np.float32)})
    y = builder.one("broadcast_in_dim", (zero,), {"dims": (), "shape": (dim,)})
    module = write(Graph("g", builder.finish([x, y]), ("out0", "out1")))
    sizes = (1, 7) if "bcast" not in text else (0, 7)
    found = run_stablehlo(module, [np.zeros(sizes, np.float32)])[1]
    assert found.shape == (dim.evaluate(dict(zip("hw", sizes, strict=True))),)


def test_few_ops() -> None:
    for text, narrow in (("(h + 5) % 8", True), ("h//8", True), ("h + 5 - w", True), ("(h + 5)//8", False)):
        assert ("i64" not in _module(text)) == narrow
    shared = _module("(h + 5)//8 + (h + 5)//7")
    assert shared.count("convert") == 3  # h once, and both quotients


def test_a_size_that_an_axis_has_is_read_from_it() -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", (None, None), ("h", None))
    y = builder.arg("y", "f32", (parse("(h + 5)//8"),))
    zero = builder.one("constant", (), {"value": np.array(0, np.float32)})
    z = builder.one("broadcast_in_dim", (zero,), {"dims": (), "shape": (parse("(h + 5)//8"),)})
    text = write(Graph("g", builder.finish([x, y, z]), ("out0", "out1", "out2")))
    assert "i64" not in text
    assert "divide" not in text


def test_an_axis_bounds_what_is_divided() -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", (None, parse("h + 5")), ("h", None))
    size = builder.one("dims", (), {"elements": (parse("(h + 5)//8"),), "shape": (), "dtype": "i32"})
    assert "i64" not in write(Graph("g", builder.finish([x, size]), ("out0", "out1")))


@pytest.mark.parametrize("dtype", ["i8", "i32", "i64"])
@pytest.mark.parametrize("wanted", ["i32", "i64"])
def test_a_signed_element_is_read_without_wrapping(dtype: str, wanted: str) -> None:
    """Its symbol is the element plus 2**31, which is no size of i32."""
    builder = BlockBuilder()
    value = builder.arg("n", dtype, ())
    elements = (parse("max(n - 2147483648, 3)"),)
    size = builder.one("dims", (), {"elements": elements, "shape": (), "dtype": wanted})
    block = builder.finish([size])
    symbols = (SymbolDef("n", value, element=0, offset=2**31),)
    text = write(Graph("g", replace(block, symbols=symbols), ("out0",)))
    for number in (-7, 0, 4, 100):
        assert run_stablehlo(text, [np.array(number, dtype.replace("i", "int"))])[0] == max(number, 3)


@pytest.mark.parametrize(
    "text",
    [
        "a - b",
        "a*b//3",
        "(a - b)//4",
        "(a - b) % 8",
        "a//(b + 1)",
        "a//(b - 3)",
        "a % (2 - b)",
        "2*((a + 1)//2) - a",
        "max(a, b)*2 - 3",
        "(a//3)*2 - b//2",
        "cdiv(a, 4) - a//4",
    ],
)
def test_values_are_in_their_range(text: str) -> None:
    dim = parse(text)
    found = Values(lambda _: (0, 12), lambda _: False).of(dim)
    assert found is not None
    for a, b in product(range(13), repeat=2):
        try:
            value = dim.evaluate({"a": a, "b": b})
        except UndefinedSize:
            continue
        assert found[0] <= value <= found[1]


def test_what_cancels_is_bounded() -> None:
    values = Values(lambda _: SIZE, lambda _: False)
    assert values.of(parse("2*((a + 1)//2) - a")) == (0, 1)
    assert values.fits(parse("a - 4*(a//8) - 4*(a//8)"), 32)
    assert not values.fits(parse("a + 1"), 32)
    assert values.fits(symbol("a"), 32)
