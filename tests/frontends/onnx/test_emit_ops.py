"""Reductions, gathers and convolutions of StableHLO, as ONNX nodes in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

ort = pytest.importorskip("onnxruntime", reason="ONNX needs the extra onnx")

import egshape  # noqa: E402
from egshape.errors import EgshapeError, Unsupported  # noqa: E402
from egshape.ir.builder import BlockBuilder  # noqa: E402
from egshape.ir.graph import Graph, Value  # noqa: E402
from egshape.ir.interpret import interpret  # noqa: E402
from egshape.ir.text import parse_graph  # noqa: E402
from egshape.ir.types import numpy_dtype  # noqa: E402

KERNELS = {"f32", "f64", "i32", "i64", "i1"}
"""Dtypes of which ONNX Runtime reduces; others are written in these."""


def in_runtime(graph: Graph, folder: Path, feeds: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
    egshape.save(graph, folder / "m.onnx")
    session = ort.InferenceSession(str(folder / "m.onnx"), providers=["CPUExecutionProvider"])
    return session.run(None, dict(feeds))


def agree(graph: Graph, folder: Path, arrays: Sequence[np.ndarray]) -> None:
    feeds = {value.name: array for value, array in zip(graph.inputs, arrays, strict=True)}
    for one, two in zip(in_runtime(graph, folder, feeds), interpret(graph, list(arrays)), strict=True):
        assert (one.dtype, one.shape) == (two.dtype, two.shape)
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


def folded(kind: str, dtype: str, start: float, dims: tuple[int, ...]) -> Graph:
    builder = BlockBuilder()
    x = builder.arg("x", dtype, (None, None), ("n", "m"))
    first = builder.one("constant", (), {"value": np.full((), start, numpy_dtype(dtype))})
    inner = builder.child()
    sides = [inner.arg(None, dtype, ()) for _ in range(2)]
    body = inner.finish([inner.one(kind, tuple(sides))])
    (out,) = builder.add("reduce", (x, first), {"dims": dims}, regions=(body,))
    return Graph("g", builder.finish([out]), ("y",))


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1), ()], ids=str)
@pytest.mark.parametrize(
    ("kind", "dtype", "start"),
    [
        ("add", "f32", 0.0),
        ("add", "f32", 2.5),
        ("multiply", "i32", 1),
        ("add", "i8", 3),
        ("maximum", "f32", -np.inf),
        ("maximum", "f32", 0.5),
        ("minimum", "i64", 2),
        ("maximum", "ui8", 0),
        ("and", "i1", 1),
        ("or", "i1", 0),
    ],
)
def test_a_reduction(kind: str, dtype: str, start: float, dims: tuple[int, ...], tmp_path: Path) -> None:
    """Of no elements it is its start."""
    rng = np.random.default_rng(0)
    for shape in ((2, 3), (0, 3), (2, 0), (0, 0), (1, 1)):
        x = (rng.integers(0, 100, shape) % (2 if dtype == "i1" else 100)).astype(numpy_dtype(dtype))
        agree(folded(kind, dtype, start, dims), tmp_path, [x])


def test_a_reduction_by_a_computation_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="a reduction of i8 by xor"):
        egshape.save(folded("xor", "i8", 0, (0,)), tmp_path / "m.onnx")


def gathered(x: str, places: str, result: str, attrs: str) -> Graph:
    return parse_graph(
        f"graph g(%x: {x}, %i: {places}) {{\n  symbols n = size(%x, 0)\n"
        f"  %y: {result} = gather(%x, %i) {{{attrs}, operand_batch=[], indices_batch=[], sorted=false}}\n"
        "  return %y as y\n}"
    )


GATHERS = {
    "of rows": (
        "f32[n, 4]",
        "i32[2, 3, 1]",
        "f32[2, 3, 4]",
        "offset_dims=[2], collapsed=[0], start_index_map=[0], index_vector_dim=2, sizes=<1, 4>",
    ),
    "of rows, their axis first": (
        "f32[n, 4]",
        "i32[2, 3, 1]",
        "f32[4, 2, 3]",
        "offset_dims=[0], collapsed=[0], start_index_map=[0], index_vector_dim=2, sizes=<1, 4>",
    ),
    "without an axis of vectors": (
        "f32[n, 4]",
        "i64[3]",
        "f32[n, 3]",
        "offset_dims=[0], collapsed=[1], start_index_map=[1], index_vector_dim=1, sizes=<n, 1>",
    ),
    "of rows, their unit axis kept": (
        "f32[n, 4]",
        "i32[3, 1]",
        "f32[3, 1, 4]",
        "offset_dims=[1, 2], collapsed=[], start_index_map=[0], index_vector_dim=1, sizes=<1, 4>",
    ),
    "of parts of rows": (
        "f32[n, 4]",
        "i32[3, 1]",
        "f32[3, 2]",
        "offset_dims=[1], collapsed=[0], start_index_map=[0], index_vector_dim=1, sizes=<1, 2>",
    ),
    "of elements": (
        "f32[n, 4]",
        "i32[3, 2]",
        "f32[3]",
        "offset_dims=[], collapsed=[0, 1], start_index_map=[1, 0], index_vector_dim=1, sizes=<1, 1>",
    ),
    "of elements, vectors first": (
        "f32[n, 4, 2]",
        "i32[2, 3]",
        "f32[2, 3]",
        "offset_dims=[0], collapsed=[0, 1], start_index_map=[0, 1], index_vector_dim=0, sizes=<1, 1, 2>",
    ),
    "of a window": (
        "f32[n, 4]",
        "i32[2]",
        "f32[2, 3]",
        "offset_dims=[0, 1], collapsed=[], start_index_map=[0, 1], index_vector_dim=0, sizes=<2, 3>",
    ),
}


@pytest.mark.parametrize("name", GATHERS)
def test_a_gather(name: str, tmp_path: Path) -> None:
    """At places inside and outside of the operand, to which they are clamped."""
    graph = gathered(*GATHERS[name])
    rng = np.random.default_rng(0)
    places = graph.inputs[1].type
    for rows in (2, 3, 7):
        x = rng.standard_normal([dim.evaluate({"n": rows}) for dim in graph.inputs[0].type.dims]).astype(np.float32)
        shape = [dim.const or 0 for dim in places.dims]
        agree(graph, tmp_path, [x, rng.integers(-3, 9, shape).astype(numpy_dtype(places.dtype))])


def test_a_gather_of_several_windows_is_named(tmp_path: Path) -> None:
    attrs = "offset_dims=[1, 2], collapsed=[], start_index_map=[0], index_vector_dim=1, sizes=<2, 4>"
    with pytest.raises(Unsupported, match="a gather of several windows has no ONNX form"):
        egshape.save(gathered("f32[n, 4]", "i32[3, 1]", "f32[3, 2, 4]", attrs), tmp_path / "m.onnx")


def convolved(padding: Sequence[int], reversal: tuple[int, int] = (0, 0)) -> Graph:
    """Features last, as JAX has them."""
    builder = BlockBuilder()
    x = builder.arg("x", "f32", (None, None, None, 3), ("b", "h", "w", ""))
    kernel = builder.arg("k", "f32", (3, 2, 3, 5))
    layout = ((0), (3), (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
    attrs = {
        "numbers": layout,
        "strides": (2, 1),
        "padding": tuple(map(egshape.dims.const, padding)),
        "lhs_dilation": (1, 1),
        "rhs_dilation": (1, 2),
        "reversal": reversal,
        "dtype": "f32",
    }
    out: Value = builder.one("convolution", (x, kernel), attrs)
    return Graph("g", builder.finish([out]), ("y",))


@pytest.mark.parametrize("reversal", [(0, 0), (1, 0)])
def test_a_convolution(reversal: tuple[int, int], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    kernel = rng.standard_normal((3, 2, 3, 5)).astype(np.float32)
    for shape in ((1, 5, 6, 3), (2, 4, 7, 3), (0, 5, 6, 3)):
        agree(convolved((1, 1, 0, 2), reversal), tmp_path, [rng.standard_normal(shape).astype(np.float32), kernel])


def test_a_convolution_that_cuts_off_is_named(tmp_path: Path) -> None:
    with pytest.raises(EgshapeError, match="cuts off"):
        egshape.save(convolved((-1, 1, 0, 2)), tmp_path / "m.onnx")


def test_an_output_that_has_the_name_of_an_input_gets_another(tmp_path: Path) -> None:
    graph = parse_graph("graph g(%y: f32[4]) {\n  %0: f32[4] = tanh(%y)\n  return %0 as y\n}")
    (found,) = in_runtime(graph, tmp_path, {"y": np.ones(4, np.float32)})
    np.testing.assert_allclose(found, np.tanh(np.ones(4)), rtol=1e-6)
