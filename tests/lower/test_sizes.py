"""Sizes near the end of 64 bits: numbers are no computation, and cannot wrap."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite", reason="compiling needs the extra llvm")

import numpy as np

import egshape
from egshape.dims import Atom, Call, Dim, bcast, const, minimum, symbol
from egshape.dims.core import of_atom
from egshape.dims.functions import SHIPPED
from egshape.errors import EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph
from egshape.ir.text import parse_graph
from egshape.lower.common.sizes import cannot_wrap
from egshape.lower.host.sizes import wraps
from egshape.lower.llvm.writer import Writer
from tests.fuzz.differential import argument, graph_of
from tests.lower.checking import compiled


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        (const(2**63 - 1), True),
        (const(-(2**63)), True),
        (const(2**63), False),
        (symbol("n") * 3 + 1, True),
        (symbol("n") * symbol("n"), False),
    ],
)
def test_what_cannot_wrap(size: Dim, wanted: bool) -> None:
    assert cannot_wrap(size) is wanted


M = 1_000_000


@pytest.mark.parametrize(
    ("sizes", "good"),
    [
        ((3 * M, M, 4 * M), True),
        ((3 * M, M, 1), True),
        ((0, 1, 4 * M), True),
        ((3 * M, M, 4 * M - 1), False),
        ((2 * M, M, 2 * M), False),
        ((3 * M, M, 0), False),
        ((0, 0, 1), True),
        ((0, 0, 2), False),
    ],
)
def test_whether_large_sizes_broadcast_is_told_without_their_products(sizes: tuple[int, int, int], good: bool) -> None:
    """(x - y) * (x - 1) * (y - 1) leaves 64 bits from sizes of two millions on."""
    b = BlockBuilder()
    x, y, z = (argument(b, name, "i8", [symbol(name)]) for name in "xyz")
    both = b.one("concatenate", [x, y], {"dim": 0})
    shape = (bcast(both.type.dims[0], symbol("z")),)
    one, two = (b.one("broadcast_in_dim", [each], {"dims": (0,), "shape": shape}) for each in (both, z))
    function = compiled(graph_of(b, b.one("add", [one, two])))
    arrays = [np.full(size, k, np.int8) for k, size in enumerate(sizes)]
    if good:
        wanted = np.concatenate(arrays[:2]) + arrays[2]
        np.testing.assert_array_equal(np.asarray(function(*arrays)), wanted)
    else:
        with pytest.raises(EgshapeError, match="broadcast"):
            function(*arrays)


def test_what_is_computed_for_a_broadcast_stays_small() -> None:
    """Also of sums of sizes, and of a broadcast with another one: no term has more than three sizes."""
    function, (x, y, z) = SHIPPED["bcast"], map(symbol, "xyz")
    inner = function.unfolded(x + y, z)
    assert inner is not None
    outer = function.unfolded(x + y, minimum(x + y, inner))
    assert outer is not None
    for sizes in ((8000, 24, 8024), (8000, 24, 1), (1, 0, 9), (0, 0, 1), (1, 0, 0), (M, 2 * M, 3 * M)):
        env = dict(zip("xyz", sizes, strict=True))
        wanted = bcast(x + y, minimum(x + y, bcast(x + y, z))).evaluate(env)
        assert outer.evaluate(env) == wanted, sizes
    assert max(sum(power for _, power in term) for term, _ in outer.terms) <= 3


@pytest.mark.parametrize(
    ("sizes", "good"),
    [
        ((2 * M, 2 * M, 2 * M), True),
        ((2 * M, 0, 0), True),
        ((2 * M, 2 * M, 2 * M - 1), False),
        ((1, 0, 2 * M), True),
        ((0, 1, 2 * M), True),
        ((0, 0, 1), True),
        ((0, 0, 2), False),
    ],
)
def test_whether_large_sums_that_share_a_size_broadcast(sizes: tuple[int, int, int], good: bool) -> None:
    """(y - z) * (x + y - 1) * (x + z - 1), multiplied out, leaves 64 bits from sizes of two millions on."""
    b = BlockBuilder()
    x, y, z = (argument(b, name, "i8", [symbol(name)]) for name in "xyz")
    sums = [b.one("concatenate", [x, each], {"dim": 0}) for each in (y, z)]
    shape = (bcast(sums[0].type.dims[0], sums[1].type.dims[0]),)
    one, two = (b.one("broadcast_in_dim", [each], {"dims": (0,), "shape": shape}) for each in sums)
    function = compiled(graph_of(b, b.one("add", [one, two])))
    arrays = [np.full(size, k, np.int8) for k, size in enumerate(sizes)]
    if good:
        wanted = np.concatenate(arrays[:2]) + np.concatenate(arrays[::2])
        np.testing.assert_array_equal(np.asarray(function(*arrays)), wanted)
    else:
        with pytest.raises(EgshapeError, match="broadcast"):
            function(*arrays)


def unfolded(size: Dim) -> Dim:
    """The size as back ends compute it."""

    def meaning(atom: Atom) -> Dim:
        return SHIPPED["bcast"].unfolded(*map(unfolded, atom.args)) if isinstance(atom, Call) else of_atom(atom)

    return size.map_atoms(meaning)


def test_what_a_size_takes_is_written_once() -> None:
    """Also its magnitude, which took some 40 times the lines for each broadcast in another: three took minutes."""
    w = Writer()
    w.symbols = {each: f"%{each}" for each in "wxyz"}
    size = symbol("x") + symbol("y")
    for name in "zwx":
        size = bcast(size, symbol(name))
    wraps(w, unfolded(size))
    assert len(w.lines) < 1500


DATA = """graph wrapping(%x: i64[n]) {{
  symbols n = size(%x, 0)
  check() {{relation="<=", sides=<1, n>, message="there must be some", args=<>, fact=""}}
  %0: i64[] = dims() {{elements=<{size}>, shape=[], dtype=i64}}
  %1: i64[n] = broadcast_in_dim(%0) {{dims=[], shape=<n>}}
  %2: i64[n] = add(%x, %1)
  return %2 as y
}}"""


def data_of(size: str) -> Graph:
    """x + a size, which is a value of 64 bits."""
    return parse_graph(DATA.format(size=size))


@pytest.mark.parametrize(
    "size", ["4611686018427387904*n", "n*n*n*n*n*n*n*n*n", "-9223372036854775808*n + 3", "6148914691236517205*n"]
)
def test_a_size_that_is_a_value_wraps(size: str) -> None:
    """LLVM is not told that it does not: from that it would conclude that n is 1."""
    function = compiled(data_of(size))
    for n in (1, 2, 3, 4, 7, 128, 1000):
        number = eval(size, {"n": n})
        wanted = (number + 2**63) % 2**64 - 2**63
        np.testing.assert_array_equal(function(np.zeros(n, np.int64)), np.full(n, wanted))


@pytest.mark.parametrize(("op", "limit"), [("minimum", 2**63 - 1), ("maximum", -(2**63))])
def test_the_limit_of_a_dtype_limits_nothing(op: str, limit: int) -> None:
    """JAX clips indices by the largest number there is."""
    pytest.importorskip("jaxlib", reason="reading StableHLO needs the extra stablehlo")
    text = f"""func.func @main(%x: tensor<?xi32>) -> tensor<i64> {{
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xi32>) -> tensor<i32>
      %0 = stablehlo.convert %n : (tensor<i32>) -> tensor<i64>
      %1 = stablehlo.constant dense<-1> : tensor<i64>
      %2 = stablehlo.add %0, %1 : tensor<i64>
      %3 = stablehlo.constant dense<{limit}> : tensor<i64>
      %4 = stablehlo.{op} %2, %3 : tensor<i64>
      %5 = stablehlo.{op} %3, %4 : tensor<i64>
      return %5 : tensor<i64>
    }}"""
    graph = egshape.load(text.encode(), format="stablehlo")
    for each in (graph, egshape.optimize(graph).graph):
        function = compiled(each)
        assert [int(function(np.zeros(n, np.int32))) for n in (0, 1, 5)] == [-1, 0, 4]


@pytest.mark.parametrize(
    ("dtype", "factor", "bits"), [("ui32", 2654435761, 7), ("ui64", 6364136223846793005, 33), ("i64", 2**60, 3)]
)
def test_a_hash_of_a_size_is_no_size(dtype: str, factor: int, bits: int) -> None:
    """It wraps at most sizes, and is not held to fit."""
    pytest.importorskip("jaxlib", reason="reading StableHLO needs the extra stablehlo")
    shift = "shift_right_arithmetic" if dtype == "i64" else "shift_right_logical"
    text = f"""func.func @main(%x: tensor<?xi32>) -> (tensor<{dtype}>, tensor<i1>) {{
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xi32>) -> tensor<i32>
      %0 = stablehlo.convert %n : (tensor<i32>) -> tensor<{dtype}>
      %1 = stablehlo.constant dense<{factor}> : tensor<{dtype}>
      %2 = stablehlo.multiply %0, %1 : tensor<{dtype}>
      %3 = stablehlo.constant dense<{bits}> : tensor<{dtype}>
      %4 = stablehlo.{shift} %2, %3 : tensor<{dtype}>
      %5 = stablehlo.compare LT, %2, %3 : (tensor<{dtype}>, tensor<{dtype}>) -> tensor<i1>
      return %4, %5 : tensor<{dtype}>, tensor<i1>
    }}"""
    graph = egshape.load(text.encode(), format="stablehlo")
    number = {"ui32": np.uint32, "ui64": np.uint64, "i64": np.int64}[dtype]
    for each in (graph, egshape.optimize(graph).graph):
        function = compiled(each)
        for n in (0, 1, 2, 9, 1000):
            with np.errstate(over="ignore"):
                hash_ = number(n) * number(factor)
            found, below = function(np.zeros(n, np.int32))
            assert (int(found), bool(below)) == (int(hash_ >> number(bits)), bool(hash_ < bits))


def test_the_size_of_an_input_does_not_wrap() -> None:
    """n*m + n is 2**64 here, of which 64 bits are 0: as many elements as an empty array has."""
    text = """graph wrapping(%a: f32[n, 0], %c: f32[m, 0], %y: f32[n*m + n]) {
      symbols n = size(%a, 0), m = size(%c, 0)
      %0: f32[n] = slice(%y) {starts=<0>, limits=<n>, strides=<1>}
      return %0 as out
    }"""
    function = compiled(parse_graph(text))
    n, m = 2**20, 2**44 - 1
    with pytest.raises(EgshapeError, match="too large"):
        function(np.ones((n, 0), np.float32), np.ones((m, 0), np.float32), np.ones(0, np.float32))
    small = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(function(np.ones((2, 0), np.float32), np.ones((2, 0), np.float32), small), small[:2])


def test_the_size_of_a_result_does_not_wrap() -> None:
    text = """graph wrapping(%a: f32[n, 0], %c: f32[m, 0]) {
      symbols n = size(%a, 0), m = size(%c, 0)
      %0: f32[] = constant() {value=f32[]{1.0}}
      %1: f32[n*m, 0] = broadcast_in_dim(%0) {dims=[], shape=<n*m, 0>}
      return %1 as out
    }"""
    function = compiled(parse_graph(text))
    for n, m in ((2**32, 2**32), (2**32, 2**31)):
        with pytest.raises(EgshapeError, match="too large"):
            function(np.ones((n, 0), np.float32), np.ones((m, 0), np.float32))
    assert function(np.ones((3, 0), np.float32), np.ones((2, 0), np.float32)).shape == (6, 0)
