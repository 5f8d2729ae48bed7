"""Windows that are folded along one axis after the other, or written out, against the interpreter."""

import numpy as np
import pytest

from egshape.dims import const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.interpret import interpret
from egshape.plan.ir.program import Run
from egshape.plan.targets import plan
from tests.fuzz.differential import graph_of
from tests.lower.checking import call, compiled

CASES = {
    "2x2": ((1, 1, 2, 2), (1, 1, 2, 2), (1, 1, 1, 1), (0,) * 8),
    "3x3 padded": ((1, 1, 3, 3), (1, 1, 2, 2), (1, 1, 1, 1), (0, 0, 0, 0, 1, 1, 1, 1)),
    "5x5": ((1, 1, 5, 5), (1, 1, 1, 1), (1, 1, 1, 1), (0, 0, 0, 0, 2, 2, 2, 2)),
    "dilated": ((1, 1, 4, 3), (1, 1, 1, 3), (1, 1, 2, 1), (0, 0, 0, 0, 3, 0, 0, 4)),
    "cropped": ((1, 1, 2, 6), (1, 1, 1, 2), (1, 1, 1, 1), (0, 0, 0, 0, -1, 1, 2, -1)),
    "features last": ((1, 3, 4, 1), (1, 1, 2, 1), (1, 1, 1, 1), (0, 0, 1, 1, 2, 1, 0, 0)),
    "strides alone": ((1, 1, 1, 1), (1, 1, 2, 3), (1, 1, 1, 1), (0,) * 8),
}
PLACES = ((1, 2, 9, 11), (2, 1, 6, 33), (1, 1, 7, 8), (0, 2, 7, 9), (1, 3, 13, 13))


@pytest.mark.parametrize("fold", ["maximum", "add", "minimum"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_windows(name, fold):
    window, strides, steps, padding = CASES[name]
    for dtype, kind in (("f32", np.float32), ("i32", np.int32)):
        start = (
            {"maximum": -np.inf, "minimum": np.inf, "add": 0}[fold]
            if dtype == "f32"
            else {"maximum": np.iinfo(kind).min, "minimum": np.iinfo(kind).max, "add": 0}[fold]
        )
        b = BlockBuilder()
        x = b.arg("x", dtype, [None] * 4, ["n", "c", "h", "w"])
        init = b.one("constant", (), {"value": np.array(start, kind)})
        inner = b.child()
        two = [inner.arg(None, dtype, []) for _ in range(2)]
        body = inner.finish([inner.one(fold, two)])
        dims = {
            key: tuple(map(const, sizes))
            for key, sizes in (
                ("window", window),
                ("strides", strides),
                ("base_dilation", (1,) * 4),
                ("window_dilation", steps),
                ("padding", padding),
            )
        }
        graph = graph_of(b, b.one("reduce_window", [x, init], dims, regions=[body]))
        function = compiled(graph)
        fitting = 0
        for sizes in PLACES:
            array = np.random.default_rng(1).normal(size=sizes) * 9
            array = array.astype(kind)
            if dtype == "f32" and array.size > 50:
                array.flat[17] = np.nan
            try:
                (wanted,) = interpret(graph, [array])
            except Exception:
                continue  # the windows do not fit
            fitting += 1
            np.testing.assert_allclose(call(function, [array])[0], wanted, 1e-5, 1e-5, err_msg=f"{dtype} {sizes}")
        assert fitting >= 3


def test_a_wide_window_goes_axis_by_axis():
    b = BlockBuilder()
    x = b.arg("x", "f32", [None, None], ["h", "w"])
    inner = b.child()
    body = inner.finish([inner.one("maximum", [inner.arg(None, "f32", []) for _ in range(2)])])
    ones = (const(1), const(1))
    y = b.one(
        "reduce_window",
        [x, b.one("constant", (), {"value": np.float32(-np.inf)})],
        {
            "window": (const(9), const(9)),
            "strides": ones,
            "base_dilation": ones,
            "window_dilation": ones,
            "padding": (const(4),) * 4,
        },
        regions=[body],
    )
    steps = plan(graph_of(b, y)).steps
    assert [step.kernel.label for step in steps if isinstance(step, Run)] == ["pad", "reduce_window", "reduce_window"]
    assert y.type.dims == (symbol("h"), symbol("w"))
