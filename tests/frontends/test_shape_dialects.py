"""The arith, index, shape and tensor dialects, op by op, against what MLIR says that they mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

from egshape.api import optimize
from egshape.errors import CheckFailed, EgshapeError, Unsupported
from egshape.frontends.stablehlo import read
from egshape.frontends.stablehlo.emit import write
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret

F = np.float32
INTEGERS = (-(2**31), -7, -2, -1, 0, 1, 3, 8, 2**31 - 1)
WIDTH = 2**32


def _u(x: int) -> int:
    return x % WIDTH


def _s(x: int) -> int:
    return (x + WIDTH // 2) % WIDTH - WIDTH // 2


def _truncated(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


BINARY: dict[str, Callable[[int, int], int]] = {
    "addi": lambda x, y: _s(x + y),
    "subi": lambda x, y: _s(x - y),
    "muli": lambda x, y: _s(x * y),
    "divsi": _truncated,
    "remsi": lambda x, y: x - y * _truncated(x, y),
    "divui": lambda x, y: _s(_u(x) // _u(y)),
    "remui": lambda x, y: _s(_u(x) % _u(y)),
    "floordivsi": lambda x, y: x // y,
    "ceildivsi": lambda x, y: -(-x // y),
    "ceildivui": lambda x, y: _s(-(-_u(x) // _u(y))),
    "maxsi": max,
    "minsi": min,
    "maxui": lambda x, y: max(x, y, key=_u),
    "minui": lambda x, y: min(x, y, key=_u),
    "andi": lambda x, y: x & y,
    "ori": lambda x, y: x | y,
    "xori": lambda x, y: x ^ y,
    "shli": lambda x, y: _s(x << y),
    "shrsi": lambda x, y: x >> y,
    "shrui": lambda x, y: _s(_u(x) >> y),
}
PREDICATES: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "slt": lambda x, y: x < y,
    "sle": lambda x, y: x <= y,
    "sgt": lambda x, y: x > y,
    "sge": lambda x, y: x >= y,
    "ult": lambda x, y: _u(x) < _u(y),
    "ule": lambda x, y: _u(x) <= _u(y),
    "ugt": lambda x, y: _u(x) > _u(y),
    "uge": lambda x, y: _u(x) >= _u(y),
}
INDEX = {"divs": "divsi", "divu": "divui", "ceildivs": "ceildivsi", "ceildivu": "ceildivui", "floordivs": "floordivsi",
         "rems": "remsi", "remu": "remui", "maxs": "maxsi", "maxu": "maxui", "mins": "minsi", "minu": "minui",
         "shl": "shli", "shrs": "shrsi", "shru": "shrui", "and": "andi", "or": "ori", "xor": "xori", "add": "addi",
         "sub": "subi", "mul": "muli"}  # fmt: skip


def _defined(name: str, x: int, y: int) -> bool:
    """Whether MLIR says what the op gives."""
    if "div" in name or "rem" in name:
        return y != 0 and not (x == -(2**31) and ("s" in name[-2:]))
    return not name.startswith("sh") or 0 <= y < 32


@pytest.mark.parametrize("name", BINARY)
def test_integers(name: str) -> None:
    graph = read(
        f"""func.func @main(%x: tensor<?xi32>, %y: tensor<?xi32>) -> tensor<?xi32> {{
          %0 = arith.{name} %x, %y : tensor<?xi32>
          return %0 : tensor<?xi32> }}""",
        "t.mlir",
    )
    pairs = [(x, y) for x in INTEGERS for y in INTEGERS if _defined(name, x, y)]
    given = [np.array(side, np.int32) for side in zip(*pairs, strict=True)]
    assert interpret(graph, given)[0].tolist() == [BINARY[name](x, y) for x, y in pairs]
    write(graph)


@pytest.mark.parametrize("name", PREDICATES)
def test_comparisons(name: str) -> None:
    graph = read(
        f"""func.func @main(%x: tensor<?xi32>, %y: tensor<?xi32>) -> tensor<?xi1> {{
          %0 = arith.cmpi {name}, %x, %y : tensor<?xi32>
          return %0 : tensor<?xi1> }}""",
        "t.mlir",
    )
    pairs = [(x, y) for x in INTEGERS for y in INTEGERS]
    given = [np.array(side, np.int32) for side in zip(*pairs, strict=True)]
    assert interpret(graph, given)[0].tolist() == [PREDICATES[name](x, y) for x, y in pairs]


@pytest.mark.parametrize("name", INDEX)
def test_sizes(name: str) -> None:
    """On sizes, in the index dialect: what comes out is known as a size, and sizes are what it is used for."""
    graph = read(
        f"""func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<index> {{
          %c0 = index.constant 0
          %a = tensor.dim %x, %c0 : tensor<?xf32>
          %b = tensor.dim %y, %c0 : tensor<?xf32>
          %0 = index.{name} %a, %b
          %1 = tensor.from_elements %0 : tensor<index>
          return %1 : tensor<index> }}""",
        "t.mlir",
    )
    for n, m in ((0, 1), (1, 3), (5, 2), (7, 7)):
        found = interpret(graph, [np.zeros(n, F), np.zeros(m, F)])
        assert [each.tolist() for each in found] == [BINARY[INDEX[name]](n, m)]


def test_division_of_sizes_is_known() -> None:
    """All divisions of a size by a number give the size that they say."""
    graph = read(
        """func.func @main(%x: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
          %c0 = arith.constant 0 : index
          %c2 = arith.constant 2 : index
          %c = stablehlo.constant dense<1.0> : tensor<f32>
          %a = tensor.dim %x, %c0 : tensor<?xf32>
          %0 = arith.divui %a, %c2 : index
          %1 = arith.ceildivsi %a, %c2 : index
          %2 = arith.shrui %a, %c2 : index
          %3 = tensor.splat %c1[%0] : tensor<?xf32>
          %4 = tensor.splat %c1[%1] : tensor<?xf32>
          %5 = tensor.splat %c1[%2] : tensor<?xf32>
          return %3, %4, %5 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32> }""".replace(
            "%c = stablehlo.constant dense<1.0> : tensor<f32>", "%c1 = arith.constant 1.0 : f32"
        ),
        "t.mlir",
    )
    assert [str(value.type) for value in graph.outputs] == ["f32[arg0.0//2]", "f32[cdiv(arg0.0, 2)]", "f32[arg0.0//4]"]


@pytest.mark.parametrize(
    ("op", "kinds", "values", "wanted"),
    [
        ("extsi", ("i8", "i32"), [-1, 5], [-1, 5]),
        ("extui", ("i8", "i32"), [-1, 5], [255, 5]),
        ("extui", ("i1", "i32"), [True, False], [1, 0]),
        ("extsi", ("i1", "i32"), [True, False], [-1, 0]),
        ("trunci", ("i32", "i8"), [257, -1], [1, -1]),
        ("trunci", ("i32", "i1"), [2, 3], [False, True]),
        ("index_cast", ("i32", "index"), [-1, 5], [-1, 5]),
        ("index_castui", ("i32", "index"), [-1, 5], [2**32 - 1, 5]),
        ("sitofp", ("i32", "f32"), [-1, 5], [-1.0, 5.0]),
        ("uitofp", ("i8", "f32"), [-1, 5], [255.0, 5.0]),
        ("fptosi", ("f32", "i32"), [-1.5, 5.5], [-1, 5]),
        ("bitcast", ("f32", "i32"), [1.0], [0x3F800000]),
    ],
)
def test_conversions(op: str, kinds: tuple[str, str], values: list[Any], wanted: list[Any]) -> None:
    one, two = kinds
    graph = read(
        f"""func.func @main(%x: tensor<?x{one}>) -> tensor<?x{two}> {{
          %0 = arith.{op} %x : tensor<?x{one}> to tensor<?x{two}>
          return %0 : tensor<?x{two}> }}""",
        "t.mlir",
    )
    dtype = {"i1": np.bool_, "i8": np.int8, "i32": np.int32, "f32": F}[one]
    assert interpret(graph, [np.array(values, dtype)])[0].tolist() == wanted


@pytest.mark.parametrize(
    ("predicate", "wanted"),
    [("oeq", [1, 0, 0]), ("one", [0, 1, 0]), ("une", [0, 1, 1]), ("ult", [0, 1, 1]), ("uno", [0, 0, 1]),
     ("ord", [1, 1, 0]), ("ueq", [1, 0, 1]), ("oge", [1, 0, 0])],
)  # fmt: skip
def test_comparisons_of_floats(predicate: str, wanted: list[int]) -> None:
    graph = read(
        f"""func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xi1> {{
          %0 = arith.cmpf {predicate}, %x, %y : tensor<3xf32>
          return %0 : tensor<3xi1> }}""",
        "t.mlir",
    )
    (found,) = interpret(graph, [np.array([1, 1, np.nan], F), np.array([1, 2, 1], F)])
    assert found.tolist() == list(map(bool, wanted))


SHAPES = """func.func @main(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> RESULT {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %s = shape.shape_of %x : tensor<?x?xf32> -> tensor<2xindex>
  %t = shape.shape_of %y : tensor<?x?xf32> -> tensor<2xindex>
  %p = shape.shape_of %x : tensor<?x?xf32> -> !shape.shape
  %q = shape.shape_of %y : tensor<?x?xf32> -> !shape.shape
  BODY
}"""
VECTOR = "tensor<?xindex>"


def _of_shapes(body: str, kind: str) -> Graph:
    return read(SHAPES.replace("BODY", f"{body}\n return %r : {kind}").replace("RESULT", kind), "t.mlir")


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("%e = shape.meet %p, %p : !shape.shape, !shape.shape -> !shape.shape\n"
         "%r = shape.to_extent_tensor %e : !shape.shape -> tensor<?xindex>", [2, 3]),
        ("%e = shape.concat %p, %q : !shape.shape, !shape.shape -> !shape.shape\n"
         "%r = shape.to_extent_tensor %e : !shape.shape -> tensor<?xindex>", [2, 3, 2, 1]),
        ('%h, %e = "shape.split_at"(%s, %c1) : (tensor<2xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)\n'
         "%r = shape.concat %e, %h : tensor<?xindex>, tensor<?xindex> -> tensor<?xindex>", [3, 2]),
        ("%r = shape.broadcast %s, %t : tensor<2xindex>, tensor<2xindex> -> tensor<?xindex>", [2, 3]),
        ("%e = shape.any %s, %s : tensor<2xindex>, tensor<2xindex> -> tensor<?xindex>\n"
         "%r = tensor.cast %e : tensor<?xindex> to tensor<?xindex>", [2, 3]),
        ("%a = shape.get_extent %s, %c0 : tensor<2xindex>, index -> index\n"
         "%b = shape.num_elements %s : tensor<2xindex> -> index\n"
         "%e = shape.from_extents %b, %a : index, index\n"
         "%r = shape.to_extent_tensor %e : !shape.shape -> tensor<?xindex>", [6, 2]),
        ("%z = shape.const_size 1\n"
         "%m = shape.reduce(%p, %z) : !shape.shape -> !shape.size {\n"
         " ^bb0(%i: index, %d: !shape.size, %acc: !shape.size):\n"
         "   %n = shape.mul %acc, %d : !shape.size, !shape.size -> !shape.size\n"
         "   shape.yield %n : !shape.size }\n"
         "%e = shape.from_extents %m : !shape.size\n"
         "%r = shape.to_extent_tensor %e : !shape.shape -> tensor<?xindex>", [6]),
        ("%w = shape.cstr_broadcastable %s, %t : tensor<2xindex>, tensor<2xindex>\n"
         "%v = shape.cstr_eq %s, %s : tensor<2xindex>, tensor<2xindex>\n"
         "%u = shape.assuming_all %w, %v\n"
         "%r = shape.assuming %u -> (tensor<?xindex>) {\n"
         "   %e = shape.broadcast %s, %t : tensor<2xindex>, tensor<2xindex> -> tensor<?xindex>\n"
         "   shape.assuming_yield %e : tensor<?xindex> }", [2, 3]),
    ],
)  # fmt: skip
def test_shapes(body: str, wanted: list[int]) -> None:
    graph = _of_shapes(body, VECTOR)
    given = [np.zeros((2, 3), F), np.zeros((2, 1), F)]
    assert interpret(graph, given)[0].tolist() == wanted
    assert interpret(optimize(graph).graph, given)[0].tolist() == wanted


@pytest.mark.parametrize(
    ("op", "second", "wanted"),
    [("is_broadcastable", (2, 1), True), ("is_broadcastable", (2, 2), False),
     ("shape_eq", (2, 3), True), ("shape_eq", (2, 1), False)],
)  # fmt: skip
def test_questions_about_shapes(op: str, second: tuple[int, int], wanted: bool) -> None:
    types = "tensor<2xindex>, tensor<2xindex>"
    body = f"%e = shape.{op} %s, %t : {types}\n%r = tensor.from_elements %e : tensor<i1>"
    graph = _of_shapes(body, "tensor<i1>")
    assert interpret(graph, [np.zeros((2, 3), F), np.zeros(second, F)])[0].tolist() is wanted


WITH = """%o = shape.with_shape %x, %q : tensor<?x?xf32>, !shape.shape
  %r = shape.value_of %o : tensor<?x?xf32>"""


@pytest.mark.parametrize("body", [WITH, "%w = shape.cstr_eq %s, %t : tensor<2xindex>, tensor<2xindex>\n"
                                  "%r = stablehlo.abs %x : tensor<?x?xf32>"])  # fmt: skip
def test_shapes_that_must_be_equal(body: str) -> None:
    graph = _of_shapes(body, "tensor<?x?xf32>")
    assert interpret(graph, [np.ones((2, 3), F), np.ones((2, 3), F)])[0].shape == (2, 3)
    with pytest.raises(CheckFailed, match="not equal"):
        interpret(graph, [np.ones((2, 3), F), np.ones((2, 1), F)])


def test_a_value_as_a_shape() -> None:
    graph = read(
        """func.func @main(%x: tensor<2xindex>) -> tensor<?xindex> {
          %s = shape.value_as_shape %x : tensor<2xindex> -> !shape.shape
          %c = shape.const_shape [1, 3] : tensor<2xindex>
          %b = shape.broadcast %s, %c : !shape.shape, tensor<2xindex> -> !shape.shape
          %r = shape.to_extent_tensor %b : !shape.shape -> tensor<?xindex>
          return %r : tensor<?xindex> }""",
        "t.mlir",
    )
    assert interpret(graph, [np.array([4, 1])])[0].tolist() == [4, 3]


def test_cstr_require_and_what_cannot_be_read() -> None:
    body = """%e = shape.shape_eq %s, %t : tensor<2xindex>, tensor<2xindex>
      %w = shape.cstr_require %e, "the shapes differ"
      %r = shape.assuming %w -> (tensor<?x?xf32>) { shape.assuming_yield %x : tensor<?x?xf32> }"""
    graph = _of_shapes(body, "tensor<?x?xf32>")
    with pytest.raises(CheckFailed, match="the shapes differ"):
        interpret(graph, [np.ones((2, 3), F), np.ones((2, 1), F)])
    with pytest.raises(Unsupported, match=r"t\.mlir:\d+:\d+.*arith\.mulsi_extended.*lowered") as raised:
        read("""func.func @main(%x: tensor<i32>) -> tensor<i32> {
          %0, %1 = arith.mulsi_extended %x, %x : tensor<i32>
          return %0 : tensor<i32> }""", "t.mlir")  # fmt: skip
    assert isinstance(raised.value, EgshapeError)
