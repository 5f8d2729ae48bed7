"""Models that nobody here would write, and what they showed: each is written valid, and does what it did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")
pytest.importorskip("onnxruntime", reason="ONNX needs the extra onnx")

import onnx
from onnx import parser

import egshape
from egshape.frontends.onnx.own import count_of
from tests.frontends.onnx.test_control_out import session


def model_of(text: str, opset: int = 17, ir: int = 8) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: {ir}, opset_import: ["": {opset}]> {text}')


def written(model: onnx.ModelProto, tmp_path: Path, *facts: str) -> onnx.ModelProto:
    result = egshape.optimize(model, assume=facts)
    assert result.report.status == "saturated"
    egshape.save(result, tmp_path / "m.onnx")
    out = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(out, full_check=True)
    return out


def run(model: onnx.ModelProto, *shape: int) -> Any:
    """The first result at a shape of the first input, None where it is rejected."""
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    try:
        return session(model).run(None, {model.graph.input[0].name: x})[0]
    except Exception:  # the runtime's errors have no common class
        return None


@pytest.mark.parametrize("ir", [3, 4])
@pytest.mark.parametrize("fact", ["n == 4", "n % 2 == 0"])
def test_models_of_which_initializers_are_inputs(ir: int, fact: str, tmp_path: Path) -> None:
    model = model_of(
        "g (float[n,m] x, float[1] w) => (float[n,m] y) <float[1] w = {2.0}> { y = Mul(x, w) }", opset=9, ir=ir
    )
    out = written(model, tmp_path, fact)
    np.testing.assert_array_equal(run(out, 4, 2), run(model, 4, 2))
    assert run(out, 3, 2) is None


@pytest.mark.parametrize("fact", ["n % 2 == 0", "n >= 100"])
def test_checks_that_an_opset_cannot_compute_leave_no_node(fact: str, tmp_path: Path) -> None:
    model = model_of("g (float[n,m] x) => (float[n,m] y) { y = Tanh(x) }", opset=8, ir=3)
    out = written(model, tmp_path, fact)
    assert [node.op_type for node in out.graph.node] == ["Tanh"] and run(out, 3, 2) is not None
    assert "egshape.checks" in {each.key for each in out.metadata_props}


def test_a_scan_of_a_square(tmp_path: Path) -> None:
    """Sizes that are equal by a fact only, inside of a loop."""
    text = """g (float[n,m] x) => (float[n,m] y) { y = Scan<num_scan_inputs = 1, scan_input_directions = [1],
        body = b (float[m] e) => (float[m] o) { o = Neg(e) }>(x) }"""
    model = model_of(text)
    out = written(model, tmp_path, "n == m")
    np.testing.assert_array_equal(run(out, 3, 3), run(model, 3, 3))
    assert run(out, 3, 2) is None


def test_a_reshape_to_the_same_shape_rejects_what_it_rejected(tmp_path: Path) -> None:
    """What is left beside a size of 0 cannot be told, also where the shape stays."""
    text = """g (float[n,m] x) => (float[a,b] y)
        <int64[1] one = {1}, int64[1] k = {3}, int64[1] zero = {0}, int64[1] rest = {-1}> { s = Shape(x)
        d = Div(s, k) r = Mul(d, k) p = Slice(r, zero, one) q = Concat<axis = 0>(p, rest)
        c = Slice(x, zero, p) y = Reshape(c, q) }"""
    model = model_of(text)
    out = written(model, tmp_path)
    np.testing.assert_array_equal(run(out, 7, 2), run(model, 7, 2))
    assert run(model, 2, 3) is None and run(out, 2, 3) is None


# Size code in unusual forms: none grows.
SIZES = {
    "chosen": "z = Constant<value = int64[2] {-1, 2}>() s = Shape(x) o = Constant<value = int64[1] {4}>() "
    "i = Constant<value = int64[1] {0}>() n1 = Gather(s, i) c = Less(n1, o) t = Where(c, z, s) y = Reshape(x, t)",
    "split": "s = Shape(x) p, q = Split(s) t = Concat<axis = 0>(q, p) y = Reshape(x, t)",
    "product": "s = Shape(x) p = ReduceProd<keepdims = 1>(s) y = Reshape(x, p)",
    "largest": "s = Shape(x) p = ReduceMax<keepdims = 1>(s) r = Constant<value = int64[1] {1}>() "
    "t = Concat<axis = 0>(r, p) y = Expand(x, t)",
    "squeezed": "s = Shape(x) i = Constant<value = int64 {1}>() g1 = Gather(s, i) a = Constant<value = int64[1] {0}>() "
    "u = Unsqueeze(g1, a) m1 = Constant<value = int64[1] {-1}>() t = Concat<axis = 0>(m1, u) y = Reshape(x, t)",
    "sized": "n1 = Size(x) a = Constant<value = int64[1] {-1}>() t = Reshape(n1, a) y = Reshape(x, t)",
    "masked": "s = Shape(x) e = Equal(s, s) c = Cast<to = 7>(e) t = Mul(s, c) y = Reshape(x, t)",
    "negated": "s = Shape(x) a = Neg(s) t = Abs(a) y = Reshape(x, t)",
    "less one": "s = Shape(x) o = Constant<value = int64[2] {1, 1}>() e = Sub(s, o) "
    "z = Constant<value = int64[2] {0, 0}>() y = Slice(x, z, e)",
    "stepped": "z = Constant<value = int64[1] {-1}>() e = Constant<value = int64[1] {-9000}>() "
    "a = Constant<value = int64[1] {0}>() y = Slice(x, z, e, a, z)",
    "padded": "s = Shape(x) k = Constant<value = int64[2] {8, 8}>() r = Mod(s, k) d = Sub(k, r) z = Mod(d, k) "
    "b = Constant<value = int64[2] {0, 0}>() p = Concat<axis = 0>(b, z) y = Pad(x, p)",
    "tiled": "s = Shape(x) t = Div(s, s) y = Tile(x, t)",
}


@pytest.mark.parametrize("name", [pytest.param(each, marks=() if at < 4 else pytest.mark.long)
                                  for at, each in enumerate(SIZES)])  # fmt: skip
@pytest.mark.parametrize("fact", [(), ("n in [1,4] or [8,8]",)])
def test_size_code_in_unusual_form_does_not_grow(name: str, fact: tuple[str, ...], tmp_path: Path) -> None:
    model = model_of(f"g (float[n,m] x) => (float[a] y) {{ {SIZES[name]} }}")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    result = egshape.optimize(model, assume=fact)
    egshape.save(result, tmp_path / "bare.onnx", checks="none")
    assert count_of(onnx.load(tmp_path / "bare.onnx").graph.node) <= count_of(model.graph.node)
    out = written(model, tmp_path, *fact)
    for sizes in ((4, 2), (1, 1), (3, 3), (8, 16), (9, 2)):
        before, after = run(model, *sizes), run(out, *sizes)
        if fact and sizes[0] == 9:
            assert after is None
        elif before is None:
            assert after is None, sizes
        else:
            np.testing.assert_array_equal(before, after)
