"""Ops whose axes, sizes or steps only running tells, interpreted and compiled, against ONNX's reference evaluator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")

import egshape
from egshape.adapters.native import compile_function
from egshape.errors import EgshapeError
from tests.frontends.onnx.checking import Case, compare, load, parsed

SIZES = [{"a": 3, "b": 4}, {"a": 1, "b": 1}, {"a": 0, "b": 2}, {"a": 5, "b": 0}, {"a": 7, "b": 33}]


def case(name: str, body: str, signature: str, out: str = "float[o,p,q] y", **data: object) -> Case:
    """A case on x: float[a,b,3] and small vectors."""
    return Case(name, f"g (float[a,b,3] x, {signature}) => ({out}) {{ {body} }}", SIZES, data)


FAR = np.iinfo(np.int64)
SLICE = "y = Slice(x, s, e, i, t)"
FOUR = "int64[k] s, int64[k] e, int64[k] i, int64[k] t"
CASES = [
    case("reduce", "y = ReduceSum<keepdims=1>(x, i)", "int64[k] i", i=[1]),
    case("reduce-two", "y = ReduceProd<keepdims=1>(x, i)", "int64[k] i", i=[-1, 0]),
    case("reduce-none", "y = ReduceMax<keepdims=1>(x, i)", "int64[k] i", i=[]),
    case("reduce-noop", "y = ReduceL2<keepdims=1, noop_with_empty_axes=1>(x, i)", "int64[k] i", i=[]),
    case("reduce-away", "y = ReduceMin<keepdims=0>(x, i)", "int64[2] i", "float[o] y", i=[2, -2]),
    case("reduce-then", "m = ReduceSum<keepdims=1>(x, i) n = Sub(x, m) y = Exp(n)", "int64[1] i", i=[2]),
    case("slice", SLICE, FOUR, s=[0, 1], e=[2, 3], i=[2, 1], t=[2, 1]),
    case("slice-back", SLICE, FOUR, s=[-1, 20], e=[-20, 0], i=[-1, 0], t=[-1, -2]),
    case("slice-far", SLICE, FOUR, s=[FAR.max, FAR.min], e=[FAR.min, FAR.max], i=[2, 0], t=[FAR.min, FAR.max]),
    case(
        "slice-steps",
        "y = Slice(x, s, e, c, t)",
        "int64[2] s, int64[2] e, int64[2] t",
        "float[o,p,q] y",
        s=[-1, 0],
        e=[0, 9],
        t=[-2, 2],
    ),
    case("slice-int32", "y = Slice(x, s, e, i)", "int32[k] s, int32[k] e, int32[k] i", s=[1], e=[2**31 - 1], i=[-2]),
    case("squeeze", "u = Unsqueeze(x, i) y = Squeeze(u, i)", "int64[2] i", i=[0, -1]),
    case("pad-axes", "y = Pad(x, p, v, i)", "int64[4] p, int64[2] i, float v", p=[1, 0, 2, 3], i=[-1, 0], v=0.5),
    case("pad-edge", 'y = Pad<mode="edge">(x, p, v, i)', "int64[k] p, int64[h] i, float v", p=[1, 2], i=[2], v=0),
]
CASES[-1] = replace(CASES[-1], sizes=[each for each in SIZES if all(each.values())])
CASES[9] = Case(
    CASES[9].name, CASES[9].text.replace("{ y", "{ c = Constant<value = int64[2] {0, 2}>() y"), SIZES, CASES[9].data
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_as_the_reference(case: Case) -> None:
    assert compare(case, compiled=True) >= 2


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("reduce-two", {"i": [0, 0]}),
        ("reduce-two", {"i": [0, -3]}),
        ("reduce", {"i": [3]}),
        ("slice", {"t": [1, 0]}),
        ("slice", {"i": [1, 1]}),
        ("slice", {"e": [1]}),
        ("squeeze", {"i": [1, 1]}),
        ("pad-axes", {"i": [0, 3]}),
    ],
)
def test_what_cannot_be_is_rejected(name: str, change: dict[str, object]) -> None:
    """Axes that are there twice or not at all, and steps of 0."""
    given = next(each for each in CASES if each.name == name)
    graph = load(parsed(given))
    feeds = {
        key: np.asarray(value, np.float32 if key == "v" else np.int64)
        for key, value in {**given.data, **change}.items()
    }
    x = np.ones((2, 4, 3), np.float32)
    for run in (
        egshape.compile(graph, target="interpret", optimize=False),
        compile_function(egshape.optimize(graph).graph),
    ):
        with pytest.raises(EgshapeError):
            run(*(x if value.name == "x" else feeds[value.name] for value in graph.inputs))


def test_a_stated_rank_is_that_of_a_host_call() -> None:
    """ONNX infers no rank of this Loop's result, whose size may change from round to round; the model states one."""
    body = (
        "g (int64 most, bool go, float[1] x) => (float[1] y, float[o,1] r) { "
        "zero = Constant<value = int64[1] {0}>() w = Constant<value = float[3] {1., 2., 3.}>() "
        "y, r = Loop(most, go, x) <body = b (int64 i, bool c, float[1] h) => (bool d, float[1] k, float[1] q) "
        "{ d = Identity(c) s = Unsqueeze(i, zero) one = Constant<value = int64 {1}>() "
        "n = Add(i, one) e = Unsqueeze(n, zero) v = Slice(w, s, e) k = Add(h, v) q = Identity(k) }> }"
    )
    graph = load(parsed(Case("loop", body, [])))
    assert [op.name for op in graph.body.walk() if op.name in ("host_call", "while")] == ["host_call"]
    function = egshape.compile(egshape.optimize(graph).graph, target="llvm")
    np.testing.assert_array_equal(function(np.array(3), np.array(True), np.ones(1, np.float32))[0], [7])
