"""What hangs on constants only is computed when a graph is planned."""

import numpy as np

from egshape.dims import const
from egshape.ir.builder import BlockBuilder
from egshape.plan.form.folding import Arrays
from egshape.plan.ir.program import Run
from egshape.plan.targets import plan
from tests.fuzz.differential import graph_of
from tests.lower.checking import call, compiled
from tests.viz.models import loop


def test_a_joined_weight_is_packed_when_the_graph_is_planned():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(5, 16)).astype(np.float32) for _ in range(3)]
    b = BlockBuilder()
    x = b.arg("x", "f32", [None, 16], ["n", None])
    joined = b.one("concatenate", [b.one("constant", (), {"value": part}) for part in parts], {"dim": 0})
    turned = b.one("transpose", [joined], {"permutation": (1, 0)})
    y = b.one(
        "dot_general",
        [x, turned],
        {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "precision": (), "dtype": "f32"},
    )
    graph = graph_of(b, y)
    assert [step.kernel.label for step in plan(graph).steps if isinstance(step, Run)] == ["dot_general"]
    array = rng.normal(size=(7, 16)).astype(np.float32)
    np.testing.assert_allclose(call(compiled(graph), [array])[0], array @ np.concatenate(parts).T, 1e-5, 1e-5)


def test_a_joined_kernel_of_a_convolution_is_constant():
    rng = np.random.default_rng(1)
    parts = [rng.normal(size=(3, 4, 3)).astype(np.float32) for _ in range(2)]
    b = BlockBuilder()
    x = b.arg("x", "f32", [None, 4, None], ["n", None, "w"])
    kernel = b.one("concatenate", [b.one("constant", (), {"value": part}) for part in parts], {"dim": 0})
    y = b.one(
        "convolution",
        [x, kernel],
        {
            "numbers": (0, 1, (2,), 1, 0, (2,), 0, 1, (2,)),
            "strides": (1,),
            "padding": (const(1), const(1)),
            "lhs_dilation": (1,),
            "rhs_dilation": (1,),
            "reversal": (0,),
            "feature_groups": 1,
            "batch_groups": 1,
            "precision": (),
            "dtype": "f32",
        },
    )
    labels = {step.kernel.label for step in plan(graph_of(b, y)).steps if isinstance(step, Run)}
    assert labels == {"pad", "taps", "convolution"}


def test_one_of_several_results_is_no_array():
    op = next(op for op in loop().body.ops if len(op.results) > 1)
    assert [Arrays(dict.fromkeys(op.results, op), {}).of(value) for value in op.results] == [None, None]
