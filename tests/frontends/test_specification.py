"""An op of the specification each, in a small module: read, optimized, saved, read back, and run as XLA runs it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("llvmlite")

from egshape.adapters.xla import run_stablehlo, verify_stablehlo
from egshape.api import compile as compile_graph
from egshape.api import optimize
from egshape.errors import CheckFailed
from egshape.frontends.stablehlo import read
from egshape.frontends.stablehlo.emit import write

F, INT = np.float32, np.int32
Case = tuple[str, Sequence[Sequence[np.ndarray]]]

CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
ALONE = f"{CHANNEL}, replica_groups = dense<0> : tensor<1x1xi64>"
ADD = """({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %r = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %r : tensor<f32> })"""
ROWS, WHOLE = "tensor<?x4xf32>", "tensor<4x6xf32>"


def _rows(*sizes: int) -> list[list[np.ndarray]]:
    return [[np.arange(4 * n, dtype=F).reshape(n, 4) / 2 - 3] for n in sizes]


def _line(*sizes: int) -> list[np.ndarray]:
    return [np.linspace(-2, 2, n, dtype=F) for n in sizes]


def _wholes(*sizes: int) -> list[np.ndarray]:
    return [np.arange(n, dtype=INT) * 7 - 3 for n in sizes]


def _of(name: str, values: Sequence[np.ndarray], result: str = "", count: int = 1) -> Case:
    """An op by elements, of ``count`` operands that are alike."""
    given = {"f": "f32", "i": "i32"}[values[0].dtype.kind]
    operand, result = f"tensor<?x{given}>", f"tensor<?x{result or given}>"
    types = f"({', '.join([operand] * count)}) -> {result}" if result != operand else operand
    names = ["%x", "%y"][:count]
    text = f"""func.func @main({", ".join(f"{name}: {operand}" for name in names)}) -> {result} {{
      %0 = stablehlo.{name} {", ".join(names)} : {types}
      return %0 : {result} }}"""
    more = [[np.abs(each[::-1]) % 5] for each in values] if count > 1 else [[] for _ in values]
    return text, [[each, *other] for each, other in zip(values, more, strict=True)]


def _main(arguments: str, op: str, type: str, given: Sequence[Sequence[np.ndarray]], results: int = 1) -> Case:
    """A module that returns the first result of an op."""
    found, first = ("%0", "%0") if results == 1 else (f"%0:{results}", "%0#0")
    return f"func.func @main({arguments}) -> {type} {{\n  {found} = {op}\n  return {first} : {type} }}", given


def _collective(name: str, attributes: str = ALONE, region: str = "", type: str = ROWS) -> Case:
    op = f'"stablehlo.{name}"(%x) <{{{attributes}}}> {region} : ({type}) -> {type}'
    return _main(f"%x: {type}", op, type, _rows(4) if type != ROWS else _rows(1, 4))


def _sizes(name: str, count: int, *values: Sequence[int]) -> list[list[np.ndarray]]:
    """Vectors of one size each, behind an array of 4, and a number to pad with."""
    padding = [np.array(7, F)] if name == "pad" else []
    return [[np.arange(4, dtype=F), *padding, *(np.array([v], INT) for v in each[:count])] for each in values]


VECTORS = "%l: tensor<1xi32>, %h: tensor<1xi32>, %i: tensor<1xi32>"
ONE = "tensor<1xi32>"
PICKS = "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1"
IMAGE = [[np.ones((n, k, 4, 1), F), np.ones((3, 3, 1, 2), F)] for n, k in ((0, 4), (1, 4), (3, 4))]
NHWC = "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"
PLACES = [
    [np.arange(4 * n, dtype=F).reshape(n, 4), np.arange(k, dtype=INT).reshape(k, 1) - 1] for n in (1, 5) for k in (0, 4)
]

FLOATS = (
    "cbrt", "ceil", "floor", "exponential_minus_one", "log", "log_plus_one", "logistic", "round_nearest_afz",
    "round_nearest_even", "rsqrt", "sign", "sqrt", "tan",
)  # fmt: skip

CASES: dict[str, Case] = {
    **{name: _of(name, _line(0, 1, 5)) for name in FLOATS},
    **{name: _of(name, _line(0, 1, 5), count=2) for name in ("atan2", "maximum", "minimum", "power")},
    **{name: _of(name, _wholes(0, 1, 5)) for name in ("count_leading_zeros", "popcnt", "not")},
    **{
        name: _of(name, _wholes(0, 1, 5), count=2)
        for name in ("and", "or", "xor", "shift_right_arithmetic", "shift_right_logical")
    },
    "is_finite": _of("is_finite", _line(0, 1, 5), "i1"),
    "clamp": _main(
        "%l: tensor<f32>, %x: tensor<?xf32>",
        "stablehlo.clamp %l, %x, %l : (tensor<f32>, tensor<?xf32>, tensor<f32>) -> tensor<?xf32>",
        "tensor<?xf32>",
        [[np.array(0.5, F), each] for each in _line(0, 1, 5)],
    ),
    "select": _main(
        "%p: tensor<?xi1>, %x: tensor<?xf32>",
        "stablehlo.select %p, %x, %x : tensor<?xi1>, tensor<?xf32>",
        "tensor<?xf32>",
        [[one > 0, two] for one, two in zip(_line(0, 1, 5, 2), _line(0, 1, 5, 3), strict=True)],
    ),
    "iota": _main("", "stablehlo.iota dim = 1 : tensor<3x4xi32>", "tensor<3x4xi32>", [[]]),
    "dynamic_iota": _main(
        "%s: tensor<2xi32>",
        "stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi32>) -> tensor<?x?xf32>",
        "tensor<?x?xf32>",
        [[np.array(sizes, INT)] for sizes in ((0, 3), (1, 1), (2, 5))],
    ),
    "broadcast": _main(
        "%x: tensor<3xf32>",
        "stablehlo.broadcast %x, sizes = [2] : (tensor<3xf32>) -> tensor<2x3xf32>",
        "tensor<2x3xf32>",
        [_line(3)],
    ),
    "dot": _main(
        f"%x: {ROWS}, %y: tensor<4x?xf32>",
        f"stablehlo.dot %x, %y : ({ROWS}, tensor<4x?xf32>) -> tensor<?x?xf32>",
        "tensor<?x?xf32>",
        [[rows, np.ones((4, n), F)] for n, (rows,) in enumerate(_rows(0, 1, 5))],
    ),
    "reverse": _main(f"%x: {ROWS}", f"stablehlo.reverse %x, dims = [0, 1] : {ROWS}", ROWS, _rows(0, 1, 5)),
    "pad": _main(
        "%x: tensor<4xf32>, %p: tensor<f32>",
        "stablehlo.pad %x, %p, low = [-1], high = [3], interior = [1] : (tensor<4xf32>, tensor<f32>) -> tensor<9xf32>",
        "tensor<9xf32>",
        [[np.arange(4, dtype=F), np.array(7, F)]],
    ),
    "dynamic_pad": _main(
        f"%x: tensor<?xf32>, %p: tensor<f32>, {VECTORS}",
        "stablehlo.dynamic_pad %x, %p, %l, %h, %i : "
        f"(tensor<?xf32>, tensor<f32>, {ONE}, {ONE}, {ONE}) -> tensor<?xf32>",
        "tensor<?xf32>",
        _sizes("pad", 3, (0, 0, 0), (1, 2, 1), (-1, 0, 0)),
    ),
    "real_dynamic_slice": _main(
        f"%x: tensor<?xf32>, {VECTORS}",
        f"stablehlo.real_dynamic_slice %x, %l, %h, %i : (tensor<?xf32>, {ONE}, {ONE}, {ONE}) -> tensor<?xf32>",
        "tensor<?xf32>",
        _sizes("slice", 3, (0, 0, 1), (1, 4, 2), (2, 3, 1)),
    ),
    "dynamic_slice": _main(
        "%x: tensor<?xf32>, %i: tensor<i32>",
        "stablehlo.dynamic_slice %x, %i, sizes = [2] : (tensor<?xf32>, tensor<i32>) -> tensor<2xf32>",
        "tensor<2xf32>",
        [[each, np.array(place, INT)] for each in _line(1, 2, 5) for place in (-1, 9)],
    ),
    "gather": _main(
        f"%x: {ROWS}, %i: tensor<?x1xi32>",
        f'"stablehlo.gather"(%x, %i) <{{dimension_numbers = #stablehlo.gather<{PICKS}>, '
        f"slice_sizes = array<i64: 1, 4>}}> : ({ROWS}, tensor<?x1xi32>) -> {ROWS}",
        ROWS,
        PLACES,
    ),
    "dynamic_gather": _main(
        f"%x: {ROWS}, %i: tensor<?x1xi32>, %s: tensor<2xi32>",
        f'"stablehlo.dynamic_gather"(%x, %i, %s) <{{dimension_numbers = #stablehlo.gather<{PICKS}>}}> : '
        f"({ROWS}, tensor<?x1xi32>, tensor<2xi32>) -> tensor<?x?xf32>",
        "tensor<?x?xf32>",
        [[*each, np.array([1, width], INT)] for each in PLACES for width in (4, 2)],
    ),
    "scatter": _main(
        "%x: tensor<?xf32>, %i: tensor<?x1xi32>, %u: tensor<?xf32>",
        '"stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], '
        f"scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> {ADD} : "
        "(tensor<?xf32>, tensor<?x1xi32>, tensor<?xf32>) -> tensor<?xf32>",
        "tensor<?xf32>",
        [[np.zeros(n, F), np.arange(k, dtype=INT).reshape(k, 1) - 1, np.ones(k, F)] for n in (1, 5) for k in (0, 4)],
    ),
    "reduce_window": _main(
        f"%x: {WHOLE}, %z: tensor<f32>",
        '"stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> '
        f"{ADD} : ({WHOLE}, tensor<f32>) -> tensor<4x3xf32>",
        "tensor<4x3xf32>",
        [[np.arange(24, dtype=F).reshape(4, 6), np.array(1, F)]],
    ),
    "select_and_scatter": _main(
        f"%x: {WHOLE}, %s: tensor<2x3xf32>, %z: tensor<f32>",
        '"stablehlo.select_and_scatter"(%x, %s, %z) <{window_dimensions = array<i64: 2, 2>, '
        """window_strides = array<i64: 2, 2>}> ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1> }, """
        f"{ADD[1:]} : ({WHOLE}, tensor<2x3xf32>, tensor<f32>) -> {WHOLE}",
        WHOLE,
        [[np.arange(24, dtype=F).reshape(4, 6), np.ones((2, 3), F), np.array(0, F)]],
    ),
    "convolution": _main(
        "%x: tensor<?x4x4x1xf32>, %w: tensor<3x3x1x2xf32>",
        f"stablehlo.convolution(%x, %w) dim_numbers = {NHWC}, window = {{stride = [1, 1]}} "
        "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
        "(tensor<?x4x4x1xf32>, tensor<3x3x1x2xf32>) -> tensor<?x2x2x2xf32>",
        "tensor<?x2x2x2xf32>",
        IMAGE,
    ),
    "dynamic_conv": _main(
        "%x: tensor<?x?x4x1xf32>, %w: tensor<3x3x1x2xf32>, %p: tensor<2x2xi32>",
        '"stablehlo.dynamic_conv"(%x, %w, %p) <{batch_group_count = 1 : i64, feature_group_count = 1 : i64, '
        f"dimension_numbers = #stablehlo.conv<{NHWC}>}}> : "
        "(tensor<?x?x4x1xf32>, tensor<3x3x1x2xf32>, tensor<2x2xi32>) -> tensor<?x?x?x2xf32>",
        "tensor<?x?x?x2xf32>",
        [[*each, np.array([[pad, pad], [1, 1]], INT)] for each in IMAGE for pad in (0, 1)],
    ),
    "optimization_barrier": _main(
        "%x: tensor<?xf32>", "stablehlo.optimization_barrier %x : tensor<?xf32>", "tensor<?xf32>", [_line(0), _line(3)]
    ),
    "cholesky": _main(
        "%x: tensor<?x?xf32>",
        "stablehlo.cholesky %x, lower = true : tensor<?x?xf32>",
        "tensor<?x?xf32>",
        [*([np.eye(n, dtype=F) * 4] for n in (1, 5)), [np.ones((2, 3), F)]],
    ),
    "fft": _main(
        "%x: tensor<?x8xf32>",
        "stablehlo.fft %x, type = RFFT, length = [8] : (tensor<?x8xf32>) -> tensor<?x5xcomplex<f32>>",
        "tensor<?x5xcomplex<f32>>",
        [[np.arange(8 * n, dtype=F).reshape(n, 8)] for n in (1, 3)],
    ),
    "batch_norm_inference": _main(
        f"%x: {ROWS}, %s: tensor<4xf32>",
        '"stablehlo.batch_norm_inference"(%x, %s, %s, %s, %s) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}> : '
        f"({ROWS}, {', '.join(['tensor<4xf32>'] * 4)}) -> {ROWS}",
        ROWS,
        [[rows, np.ones(4, F)] for (rows,) in _rows(0, 1, 5)],
    ),
    "batch_norm_grad": _main(
        f"%x: {ROWS}, %s: tensor<4xf32>",
        '"stablehlo.batch_norm_grad"(%x, %s, %s, %s, %x) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}> : '
        f"({ROWS}, {', '.join(['tensor<4xf32>'] * 3)}, {ROWS}) -> ({ROWS}, tensor<4xf32>, tensor<4xf32>)",
        ROWS,
        [[rows, np.ones(4, F)] for (rows,) in _rows(1, 5)],
        results=3,
    ),
    "all_gather": _collective("all_gather", f"{ALONE}, all_gather_dim = 1 : i64, use_global_device_ids"),
    "all_to_all": _collective(
        "all_to_all", f"{ALONE}, split_dimension = 1 : i64, concat_dimension = 1 : i64, split_count = 1 : i64"
    ),
    "collective_broadcast": _collective("collective_broadcast"),
    "collective_permute": _collective(
        "collective_permute", f"{CHANNEL}, source_target_pairs = dense<[[0, 0]]> : tensor<1x2xi64>"
    ),
    "cross-replica-sum": _collective("cross-replica-sum", "replica_groups = dense<0> : tensor<1x1xi64>"),
    "reduce_scatter": _collective("reduce_scatter", f"{ALONE}, scatter_dimension = 1 : i64", ADD, "tensor<4x4xf32>"),
    "partition_id": _main("", "stablehlo.partition_id : tensor<ui32>", "tensor<ui32>", [[]]),
    "replica_id": _main("", "stablehlo.replica_id : tensor<ui32>", "tensor<ui32>", [[]]),
    "einsum": _main(
        f"%x: {ROWS}, %y: tensor<4x2xf32>",
        f'stablehlo.einsum %x, %y, config = "ab,bc->ac" : ({ROWS}, tensor<4x2xf32>) -> tensor<?x2xf32>',
        "tensor<?x2xf32>",
        (),
    ),
    "unary_einsum": _main(
        f"%x: {ROWS}",
        f'"stablehlo.unary_einsum"(%x) <{{einsum_config = "ab->a"}}> : ({ROWS}) -> tensor<?xf32>',
        "tensor<?xf32>",
        (),
    ),
    "torch_index_select": _main(
        "%x: tensor<5x?xf32>, %i: tensor<2xi32>",
        '"stablehlo.torch_index_select"(%x, %i) <{dim = 0 : i64, batch_dims = 0 : i64}> : '
        "(tensor<5x?xf32>, tensor<2xi32>) -> tensor<2x?xf32>",
        "tensor<2x?xf32>",
        (),
    ),
}  # fmt: skip
"""Modules, and inputs; none where XLA cannot run them either."""

BROKEN_IN_XLA = ("collective_broadcast",)
"""XLA on the CPU does not have it: the text alone is tried."""


def _ends(run: object, given: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """The results; None where the sizes are rejected."""
    try:
        found = run(given)  # type: ignore[operator]
    except CheckFailed:
        return None
    return list(found) if isinstance(found, tuple | list) else [found]


@pytest.mark.long_but("dynamic_*", "clamp", "cross*", "torch*")
@pytest.mark.parametrize("name", CASES)
def test_as_xla_runs_it(name: str) -> None:
    text, every = CASES[name]
    result = optimize(read(text, f"{name}.mlir"))
    assert result.report.status == "saturated", result.report.notes
    written = write(result.graph)
    verify_stablehlo(written)
    assert write(optimize(read(written, "written.mlir")).graph) == written
    native = compile_graph(result.graph, "llvm")
    for given in every if name not in BROKEN_IN_XLA else ():
        wanted = _ends(lambda arrays: run_stablehlo(text, arrays), given)
        again = _ends(lambda arrays: run_stablehlo(written, arrays), given)
        _alike(wanted, again)
        _alike(wanted, _ends(lambda arrays: native(*arrays), given))


def _alike(wanted: list[np.ndarray] | None, found: list[np.ndarray] | None) -> None:
    assert (wanted is None) == (found is None)
    for one, two in zip(wanted or (), found or (), strict=True):
        assert one.dtype == two.dtype and one.shape == two.shape
        np.testing.assert_allclose(one, two, 1e-5, 1e-5)
