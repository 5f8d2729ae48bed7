"""Values whose rank only running tells: native code computes what does not depend on them."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="it runs the originals")
pytest.importorskip("onnx", reason="ONNX needs the extra onnx")

import onnxruntime as ort
from onnx import parser

import egshape
from egshape.adapters.unranked import UnrankedFunction, split
from egshape.errors import EgshapeError

CASES = {
    "an end": "g (float[n,1,m] x) => (float[n,m] y) { t = Tanh(x) y = Squeeze(t) }",
    "two ends": "g (float[n,m] x) => (float[n,m] z, float[k] y, float[n,m] x) { z = Exp(x) y = Squeeze(z) }",
    "a rank again": """g (float[n,4,m] x) => (float[n,4,m] y) <float[4,4] w={1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6},
        int64[3] t={-1,4,1}> { a = ReduceMean<axes=[2]>(x) s = Squeeze(a) u = MatMul(s, w)
        r = Reshape(u, t) y = Mul(x, r) }""",
    "sizes that data tell": """g (float[n] x, float[m] b) => (float[o] y, float[1,k] z) {
        i = NonZero(x) c = Cast<to=1>(i) s = Squeeze(c) y = Add(s, b) z = Exp(c) }""",
    "a branch": """g (float[n,m] x, bool c) => (float[n,m] y) { t = Exp(x) y = If(c) <
        then_branch = a () => (float[u,v] p) { p = Squeeze(t) },
        else_branch = e () => (float[u,v] q) { q = Tanh(t) }> }""",
}


@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_as_onnx_runtime(text: str) -> None:
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    function = egshape.compile(egshape.load(model.SerializeToString(), "onnx"), "llvm")
    assert isinstance(function, UnrankedFunction)
    runtime = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    for n, m in ((1, 1), (1, 3), (2, 1), (2, 3)):
        feeds = {"x": rng.standard_normal([{"n": n, "m": m}.get(d.dim_param, d.dim_value) for d in
                 model.graph.input[0].type.tensor_type.shape.dim]).astype(np.float32)}  # fmt: skip
        if len(model.graph.input) > 1:
            feeds[model.graph.input[1].name] = np.array(n == 2) if "bool" in text else np.ones(1, np.float32)
        for call in (function, pickle.loads(pickle.dumps(function))):
            found = call(**feeds)
            for one, two in zip(runtime.run(None, feeds), found if isinstance(found, tuple) else (found,), strict=True):
                np.testing.assert_allclose(one, two, rtol=1e-5, strict=True)


def test_what_is_native(tmp_path: Path) -> None:
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {CASES["a rank again"]}')
    first, rest = split(egshape.load(model.SerializeToString(), "onnx"))
    assert len(first.outputs) == 1 and all(value.type.shape is not None for value in first.outputs)
    assert [value.name for value in rest.inputs][:1] == ["x"] and len(rest.inputs) == 2
    with pytest.raises(EgshapeError, match="only running tells"):
        egshape.compile(model, "llvm").save(tmp_path / "f.egx")
