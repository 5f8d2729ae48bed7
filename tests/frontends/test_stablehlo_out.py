"""StableHLO out: jaxlib verifies it, XLA computes with it, and shape code stands once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from egshape.dims import Dim, const, parse, symbol

pytest.importorskip("jax")

from egshape.adapters.xla import run_stablehlo
from egshape.errors import CheckFailed, EgshapeError
from egshape.frontends.stablehlo import read
from egshape.frontends.stablehlo.emit import write
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Block, Graph, SymbolDef, Value
from egshape.ir.text import parse_graph
from egshape.ir.verify import verify
from egshape.ops import REGISTRY

B, S = symbol("b"), symbol("s")


def _graph(builder: BlockBuilder, results: Sequence[Value]) -> Graph:
    graph = Graph("g", builder.finish(results), tuple(f"out{i}" for i in range(len(results))))
    verify(graph)
    return graph


def _x(builder: BlockBuilder) -> Value:
    return builder.arg("x", "f32", (None, None, 8), ("b", "s", None))


def _dims(sizes: Sequence[Dim | int]) -> tuple[Dim, ...]:
    return tuple(size if isinstance(size, Dim) else const(size) for size in sizes)


def _scalar(builder: BlockBuilder, value: Any, dtype: type = np.float32) -> Value:
    return builder.one("constant", (), {"value": np.array(value, dtype)})


def _pair(builder: BlockBuilder, name: str, dtype: str = "f32") -> Block:
    inner = builder.child()
    one, two = inner.arg(None, dtype, ()), inner.arg(None, dtype, ())
    return inner.finish([inner.one(name, (one, two))])


def _size_of(text: str, sizes: dict[str, int], dtype: str = "i32", shape: tuple[int, ...] = ()) -> Any:
    builder = BlockBuilder()
    args = [builder.arg(f"x{name}", "f32", (None,), (name,)) for name in sizes]
    dim = parse(text)
    total = int(np.prod(shape))
    value = builder.one("dims", (), {"elements": (dim,) * total, "shape": shape, "dtype": dtype})
    (found,) = run_stablehlo(write(_graph(builder, [value])), [np.zeros(n, np.float32) for n in sizes.values()])
    assert found.dtype.name == {"i32": "int32", "i64": "int64", "ui32": "uint32", "i8": "int8"}[dtype]
    assert len(args) == len(sizes)
    return found


@pytest.mark.parametrize(
    "text",
    [
        "a*b*16 + 3",
        "(a + b)*4",
        "max(a, b)//2 + 1",
        "(a - 1)//2 + 1",
        "a % 4",
        "cdiv(a, 3)",
        "min(a, 3*b)",
        "a - 2*b",
        "(a - b)//3",
        "(a - b)//4",
        "(a - b) % 3",
        "(a - b) % 8",
        "bcast(a, 1)*b",
        "2*((a + 5)//8) - (a + 1)//4 + b",
        "2*((a + 5)//8) - (a + 1)//4",
        "max(a - b, 0)",
        "cdiv(a, b)",
        "a//b",
        "(a - 2*b)//b",
        "-(a//2)",
        "cdiv(a - b, 3)",
        "(a - 7)//(-2)",
        "a//(b - 20)",
        "min(a, b, 4)",
    ],
)
@pytest.mark.parametrize("sizes", [{"a": 1, "b": 5}, {"a": 7, "b": 3}, {"a": 6, "b": 6}])
def test_size_expressions(text: str, sizes: dict[str, int]) -> None:
    used = {name: size for name, size in sizes.items() if name in parse(text).symbols()}
    want = parse(text).evaluate(sizes)
    assert int(_size_of(text, used)) == want
    assert _size_of(text, used, shape=(1,)).tolist() == [want]


@pytest.mark.parametrize("dtype", ["i32", "i64", "ui32", "i8"])
def test_size_dtypes(dtype: str) -> None:
    assert _size_of("a*b + 1", {"a": 3, "b": 5}, dtype, (2, 2)).tolist() == [[16, 16], [16, 16]]


def test_wide_sizes_do_not_wrap() -> None:
    assert int(_size_of("a*2147483647", {"a": 3}, "i64")) == 3 * 2147483647


def test_each_size_once() -> None:
    builder = BlockBuilder()
    x = _x(builder)
    flat = builder.one("reshape", (x,), {"shape": _dims([B * S, 8])})
    again = builder.one("reshape", (builder.one("abs", (flat,)),), {"shape": _dims([B, S, 8])})
    more = builder.one("reshape", (builder.one("negate", (flat,)),), {"shape": _dims([B, S, 8])})
    text = write(_graph(builder, [builder.one("add", (again, more)), flat]))
    count = {
        name: text.count(f"stablehlo.{name} ")
        for name in (
            "get_dimension_size",
            "reshape",
            "concatenate",
            "multiply",
            "constant",
            "dynamic_reshape",
        )
    }
    assert count == {
        "get_dimension_size": 2,
        "reshape": 2,
        "concatenate": 2,
        "multiply": 1,
        "constant": 1,
        "dynamic_reshape": 3,
    }


def test_neighbouring_constants_are_one_piece() -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", (None,), ("b",))
    y = builder.one("broadcast_in_dim", (x,), {"dims": (0,), "shape": _dims([B, 4, 16])})
    text = write(_graph(builder, [y]))
    assert "dense<[4, 16]> : tensor<2xi32>" in text
    assert text.count("constant") == 1


def test_a_common_sum_is_shared() -> None:
    builder = BlockBuilder()
    x, y = builder.arg("x", "f32", (None, None), ("b", "s")), builder.arg("y", "f32", (B, None), (None, "t"))
    both = builder.one("concatenate", (x, y), {"dim": 1})
    total = S + symbol("t")
    wide = builder.one("broadcast_in_dim", (both,), {"dims": (0, 1), "shape": _dims([B, total, 2])})
    flat = builder.one("reshape", (wide,), {"shape": _dims([B * total, 2])})
    text = write(_graph(builder, [flat]))
    assert text.count("stablehlo.add") == 1
    assert text.count("stablehlo.multiply") == 1


def test_constants_in_every_form() -> None:
    arrays = [
        np.array([1.5, -0.0, np.inf, np.nan, 1e-45], np.float32),
        np.arange(100, dtype=np.int8),
        np.array([[True, False]] * 20),
        np.full((4, 4), 2.5),
        np.zeros((0, 3), np.float32),
        np.array([1 + 2j, -1j], np.complex64),
        np.linspace(0, 1, 50, dtype=np.float16),
        np.array([2**63], np.uint64),
    ]
    builder = BlockBuilder()
    values = [builder.one("constant", (), {"value": array}) for array in arrays]
    for array, found in zip(arrays, run_stablehlo(write(_graph(builder, values)), []), strict=True):
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)
        assert array.dtype.kind == "c" or np.array_equal(
            np.signbit(found.astype(float)), np.signbit(array.astype(float))
        )


def test_crops_need_no_shape_operand() -> None:
    builder = BlockBuilder()
    x = _x(builder)
    y = builder.one(
        "slice", (x,), {"starts": _dims([0, 1, 2]), "limits": (B, S, const(6)), "strides": _dims([1, 1, 1])}
    )
    text = write(_graph(builder, [y]))
    assert "get_dimension_size" not in text
    data = np.random.default_rng(0).normal(size=(3, 4, 8)).astype(np.float32)
    np.testing.assert_array_equal(run_stablehlo(text, [data])[0], data[:, 1:, 2:6])


def test_movement_and_creation() -> None:
    builder = BlockBuilder()
    x = _x(builder)
    half = builder.one(
        "slice", (x,), {"starts": _dims([0, 0, 0]), "limits": (B, S, const(8)), "strides": _dims([1, 2, 4])}
    )
    moving = builder.one(
        "slice",
        (x,),
        {"starts": (B - 1, const(0), const(0)), "limits": (B, S, const(8)), "strides": _dims([1, 1, 1])},
    )
    padded = builder.one(
        "pad",
        (x, _scalar(builder, 1)),
        {"low": (const(0), B, const(0)), "high": _dims([1, 0, 0]), "interior": _dims([0, 0, 1])},
    )
    fixed = builder.one(
        "pad",
        (x, _scalar(builder, 1)),
        {"low": _dims([0, 1, 0]), "high": _dims([1, 0, 0]), "interior": _dims([0, 0, 1])},
    )
    ramp = builder.one("iota", (), {"dtype": "f32", "dim": 1, "shape": (B, S)})
    turned = builder.one("transpose", (x,), {"permutation": (1, 0, 2)})
    back = builder.one("reverse", (x,), {"dims": (0, 2)})
    graph = _graph(builder, [half, moving, padded, fixed, ramp, turned, back])
    data = np.random.default_rng(0).normal(size=(3, 4, 8)).astype(np.float32)
    found = run_stablehlo(write(graph), [data])
    wide = np.ones((4, 7, 15), np.float32)
    wide[:3, 3:, ::2] = data
    narrow = np.ones((4, 5, 15), np.float32)
    narrow[:3, 1:, ::2] = data
    wanted = [
        data[:, ::2, ::4],
        data[2:],
        wide,
        narrow,
        np.tile(np.arange(4, dtype=np.float32), (3, 1)),
        data.transpose(1, 0, 2),
        data[::-1, :, ::-1],
    ]
    for one, two in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    "name",
    sorted(decl.name for decl in REGISTRY if decl.family in ("unary", "binary", "ternary") and not decl.attrs),
)
def test_elementwise(name: str) -> None:
    """Every elementwise op on the first dtype that it takes, with sizes known on one side only."""
    count = len(REGISTRY[name].operands)
    for dtype in ("f32", "i32", "i1", "c64"):
        builder = BlockBuilder()
        x, y = builder.arg("x", dtype, (None, 2), ("b", None)), builder.arg("y", dtype, (3, 2))
        pred = builder.arg("p", "i1", ())
        operands = [x, y, x][:count] if name != "select" else [pred, x, y]
        try:
            found = [builder.one(name, operands)]
        except EgshapeError:
            continue
        assert write(_graph(builder, found))
        return
    raise AssertionError(f"{name} takes none of the dtypes")


def test_gather_and_windows_with_sizes() -> None:
    builder = BlockBuilder()
    x = _x(builder)
    places = builder.one("constant", (), {"value": np.array([[1], [0]], np.int32)})
    rows = builder.one(
        "gather",
        (x, places),
        {
            "offset_dims": (1, 2),
            "collapsed": (0,),
            "start_index_map": (0,),
            "index_vector_dim": 1,
            "sizes": (const(1), S, const(8)),
        },
    )
    sums = builder.one(
        "reduce_window",
        (x, _scalar(builder, 0)),
        {
            "window": _dims([1, 2, 1]),
            "strides": _dims([1, 1, 1]),
            "base_dilation": _dims([1, 1, 1]),
            "window_dilation": _dims([1, 1, 1]),
            "padding": (const(0), const(0), S % 2, const(1), const(0), const(0)),
        },
        regions=(_pair(builder, "add"),),
    )
    kernel = builder.one("constant", (), {"value": np.ones((2, 8, 3), np.float32)})
    conv = builder.one(
        "convolution",
        (x, kernel),
        {
            "numbers": (0, 2, (1,), 1, 2, (0,), 0, 2, (1,)),
            "strides": (1,),
            "padding": (S % 2, const(1)),
            "lhs_dilation": (1,),
            "rhs_dilation": (1,),
            "reversal": (0,),
            "dtype": "f32",
        },
    )
    data = np.random.default_rng(0).normal(size=(3, 4, 8)).astype(np.float32)
    found = run_stablehlo(write(_graph(builder, [rows, sums, conv])), [data])
    np.testing.assert_array_equal(found[0], data[[1, 0]])
    wider = np.concatenate([data, np.zeros((3, 1, 8), np.float32)], axis=1)
    np.testing.assert_allclose(found[1], wider[:, :-1] + wider[:, 1:])
    summed = wider.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(found[2], np.repeat(summed[:, :-1] + summed[:, 1:], 3, axis=2), rtol=1e-4, atol=1e-5)


def test_sizes_inside_of_regions_stand_outside() -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", (None,), ("b",))
    pred = builder.arg("p", "i1", ())

    def arm(name: str) -> Block:
        inner = builder.child()
        y = inner.one("broadcast_in_dim", (x,), {"dims": (1,), "shape": (B, B)})
        return inner.finish([inner.one(name, (y,))])

    y = builder.one("if", (pred,), {}, regions=(arm("abs"), arm("negate")))
    text = write(_graph(builder, [y]))
    assert text.count("get_dimension_size") == 1
    assert text.index("broadcast_in_dim") < text.index('"stablehlo.if"')
    data = np.array([1, -2], np.float32)
    for flag, want in ((True, np.abs(data)), (False, -data)):
        np.testing.assert_array_equal(run_stablehlo(text, [data, np.array(flag)])[0], np.tile(want, (2, 1)))


def test_loop_sort_scatter_and_reduce() -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", (None, 4), ("b", None))
    cond, body = builder.child(), builder.child()
    i, state = cond.arg(None, "i32", ()), cond.arg(None, "f32", (B, 4))
    limit = cond.one("dims", (), {"elements": (B,), "shape": (), "dtype": "i32"})
    test = cond.one("compare", (i, limit), {"direction": "LT", "kind": "SIGNED"})
    j, old = body.arg(None, "i32", ()), body.arg(None, "f32", (B, 4))
    grown = [body.one("add", (j, _scalar(body, 1, np.int32))), body.one("add", (old, old))]
    _, doubled = builder.add(
        "while", (_scalar(builder, 0, np.int32), x), {}, regions=(cond.finish([test]), body.finish(grown))
    )
    order = builder.child()
    one, two = order.arg(None, "f32", ()), order.arg(None, "f32", ())
    less = order.finish([order.one("compare", (one, two), {"direction": "LT", "kind": "FLOAT"})])
    ordered = builder.one("sort", (doubled,), {"dim": 0, "stable": True}, regions=(less,))
    places = builder.one("constant", (), {"value": np.array([[0], [2]], np.int32)})
    updates = builder.one("constant", (), {"value": np.ones((2, 4), np.float32)})
    changed = builder.one(
        "scatter",
        (ordered, places, updates),
        {
            "update_window_dims": (1,),
            "inserted_window_dims": (0,),
            "scatter_dims_to_operand_dims": (0,),
            "index_vector_dim": 1,
        },
        regions=(_pair(builder, "add"),),
    )
    total = builder.one("reduce", (changed, _scalar(builder, 0)), {"dims": (0,)}, regions=(_pair(builder, "add"),))
    data = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    found = run_stablehlo(write(_graph(builder, [total, changed])), [data])
    want = np.sort(data * 8, axis=0)
    want[[0, 2]] += 1
    np.testing.assert_allclose(found[1], want, rtol=1e-6)
    np.testing.assert_allclose(found[0], want.sum(axis=0), rtol=1e-5)
    del state


def test_select_and_scatter_and_composite() -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", (None, 4), ("b", None))
    source = builder.arg("y", "f32", (B, 2))
    picked = builder.child()
    one, two = picked.arg(None, "f32", ()), picked.arg(None, "f32", ())
    select = picked.finish([picked.one("compare", (one, two), {"direction": "GE", "kind": "FLOAT"})])
    spread = builder.one(
        "select_and_scatter",
        (x, source, _scalar(builder, 0)),
        {"window": (1, 2), "strides": (1, 2), "padding": (0, 0, 0, 0)},
        regions=(select, _pair(builder, "add")),
    )
    inner = builder.child()
    given = inner.arg(None, "f32", (B, const(4)))
    wide = inner.one("broadcast_in_dim", (given,), {"dims": (0, 2), "shape": _dims([B, 2, 4])})
    called = builder.one(
        "composite",
        (spread,),
        {"name": "my.wide", "attrs": (("k", "2 : i64"),), "version": 1},
        regions=(inner.finish([wide]),),
    )
    text = write(_graph(builder, [called]))
    assert "composite" not in text  # XLA could not run it: its sizes are dynamic
    data, more = np.array([[1, 2, 4, 3]], np.float32), np.array([[10, 20]], np.float32)
    np.testing.assert_array_equal(run_stablehlo(text, [data, more])[0], [[[0, 10, 20, 0]] * 2])


def test_a_static_composite_keeps_its_name() -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", (2,))
    inner = builder.child()
    given = inner.arg(None, "f32", (2,))
    region = inner.finish([inner.one("negate", (given,))])
    attrs = {"name": "my.neg", "attrs": (("k", "2 : i64"),), "version": 1}
    calls = [builder.one("composite", (x,), attrs, regions=(region,)) for _ in range(2)]
    text = write(_graph(builder, calls))
    assert text.count("func.func private @my.neg.impl") == 1
    assert text.count('stablehlo.composite "my.neg"') == 2
    assert run_stablehlo(text, [np.ones(2, np.float32)])[1].tolist() == [-1, -1]


def test_checks() -> None:
    builder = BlockBuilder()
    _x(builder)
    builder.add(
        "check",
        (),
        {"relation": "<=", "sides": (B * S, const(12)), "message": "{0} is above {1}", "args": (B * S, B)},
    )
    builder.add("check", (), {"relation": "<=", "sides": (B, S), "message": "b > s", "args": ()})
    text = write(_graph(builder, builder.args))
    assert text.count("@shape_assertion") == 2
    assert text.count("stablehlo.convert") == 2  # b and s once each, for the product in i64
    assert run_stablehlo(text, [np.zeros((3, 4, 8), np.float32)])[0].shape == (3, 4, 8)
    with pytest.raises(CheckFailed, match="15 is above 3"):
        run_stablehlo(text, [np.zeros((3, 5, 8), np.float32)])
    with pytest.raises(CheckFailed, match="b > s"):
        run_stablehlo(text, [np.zeros((4, 3, 8), np.float32)])


def test_data_dependent_sizes() -> None:
    builder = BlockBuilder()
    counts = builder.arg("counts", "i64", (2,))
    for index, name in enumerate(("n", "m")):
        builder.symbols.append(SymbolDef(name, counts, element=index))
    y = builder.one("iota", (), {"dtype": "f32", "dim": 0, "shape": (symbol("n") + symbol("m"), symbol("m"))})
    found = run_stablehlo(write(_graph(builder, [y])), [np.array([2, 3])])
    assert found[0].shape == (5, 3)


def test_names_facts_and_attributes_survive() -> None:
    text = """module @m attributes {jax.uses_shape_polymorphism = true, mhlo.num_partitions = 1 : i32} {
      func.func public @main(%a: tensor<?x4xf32> loc("in x"))
          -> (tensor<?x4xf32> {jax.result_info = "result.y"}) {
        %0 = stablehlo.abs %a : tensor<?x4xf32>
        return %0 : tensor<?x4xf32>
      }
    }"""
    graph = read(text, "m.mlir")
    again = read(write(graph), "m.mlir")
    assert again.inputs[0].name == "in x"
    assert again.facts == graph.facts
    assert again.metadata["attributes"] == graph.metadata["attributes"]
    assert again.metadata["result_attributes"] == graph.metadata["result_attributes"]
    assert write(again) == write(graph)


def test_locations_on_request() -> None:
    text = """module @m { func.func public @main(%a: tensor<?xf32>) -> tensor<?xf32> {
        %0 = stablehlo.abs %a : tensor<?xf32> loc("net.py":12:3)
        return %0 : tensor<?xf32>
      } }"""
    graph = read(text, "m.mlir")
    assert read(write(graph, locations=True), "m.mlir").ops[0].location == graph.ops[0].location
    assert "net.py" not in write(graph)


def test_an_undefined_symbol_is_named() -> None:
    builder = BlockBuilder()
    y = builder.one("iota", (), {"dtype": "f32", "dim": 0, "shape": (symbol("n"),)})
    with pytest.raises(EgshapeError, match="'n'"):
        write(Graph("g", builder.finish([y]), ("out0",)))


@pytest.mark.parametrize(
    ("dtype", "name"), [("i32", "stablehlo.multiply"), ("ui8", "stablehlo.multiply"), ("f32", "chlo.square")]
)
def test_a_square_of_integers_is_a_product(dtype: str, name: str) -> None:
    builder = BlockBuilder()
    x = builder.arg("x", dtype, [None, 4])
    assert name in write(Graph("g", builder.finish([builder.one("square", (x,))]), ("out0",)))


def test_a_barrier_has_operands_of_its_results_types() -> None:
    """Where the results know more of the sizes, as rewriting may leave it."""
    text = """graph g(%x: f32[1, a]) {
  symbols a = size(%x, 1)
  check() {relation="==", sides=<a, 1>, message="one", args=[], fact=""}
  %y: f32[1, 1] = optimization_barrier(%x)
  return %y as y
}
"""
    written = write(parse_graph(text))
    assert "(tensor<1x1xf32>) -> (tensor<1x1xf32>)" in written
    (found,) = run_stablehlo(written, [np.full((1, 1), 3, np.float32)])
    assert found.tolist() == [[3]]
