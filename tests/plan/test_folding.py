"""What hangs on constants only is computed when a graph is planned."""

import sys

import numpy as np
import pytest

from egshape.dims import const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.interpret import interpret
from egshape.plan.form.folding import Arrays
from egshape.plan.ir.loops import Const, Load, Product
from egshape.plan.ir.program import Run
from egshape.plan.ir.walk import expressions, statements
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


def table(op):
    """x, frames of rows, by a matrix that ``op`` makes of a constant, the same for all frames."""
    rng = np.random.default_rng(2)
    b = BlockBuilder()
    frames = symbol("frames")
    x = b.arg("x", "f32", [None, 64, 80], ["frames", None, None])
    small = b.one(op, [b.one("constant", (), {"value": rng.normal(size=(64, 64)).astype(np.float32)})])
    wide = b.one("broadcast_in_dim", [small], {"dims": (1, 2), "shape": (frames, const(64), const(64))})
    dims = {"lhs_batch": (0,), "rhs_batch": (0,), "lhs_contract": (2,), "rhs_contract": (1,)}
    return graph_of(b, b.one("dot_general", [wide, x], {**dims, "precision": (), "dtype": "f32"}))


def test_a_function_of_a_constant_is_computed_once_and_packed_once_for_all_of_a_batch():
    graph = table("cosine")
    kernels = [step.kernel for step in plan(graph).steps if isinstance(step, Run)]
    assert [kernel.label for kernel in kernels] == ["dot_general"]
    (product,) = (stmt for stmt in statements(kernels[0].body) if isinstance(stmt, Product))
    assert product.right.data is not None and product.right.data.size == 64 * 64
    for frames in (0, 1, 3):
        x = np.random.default_rng(3).normal(size=(frames, 64, 80)).astype(np.float32)
        np.testing.assert_allclose(call(compiled(graph), [x])[0], interpret(graph, [x])[0], 1e-4, 1e-4)


@pytest.mark.parametrize("constant", [True, False])
def test_a_long_chain_needs_no_recursion(constant):
    b = BlockBuilder()
    x = b.one("constant", (), {"value": np.float32(1)}) if constant else b.arg("x", "f32", [])
    for _ in range(3 * sys.getrecursionlimit()):
        x = b.one("negate", [x])
    graph = graph_of(b, x)
    found = Arrays({value: op for op in graph.body.ops for value in op.results}, {}).of(x)
    assert (found is not None) is constant


def test_a_function_of_a_scalar_is_a_number_in_the_kernel():
    """Which LLVM sees, as it sees no memory."""
    b = BlockBuilder()
    x = b.arg("x", "f32", [None], ["n"])
    root = b.one("tanh", [b.one("constant", (), {"value": np.float32(64)})])
    wide = b.one("broadcast_in_dim", [root], {"dims": (), "shape": (symbol("n"),)})
    (kernel,) = (s.kernel for s in plan(graph_of(b, b.one("divide", [x, wide]))).steps if isinstance(s, Run))
    assert [e.value for e in expressions(kernel.body) if isinstance(e, Const)] == [1.0]
    assert not any(isinstance(e, Load) and e.buffer.kind == "const" for e in expressions(kernel.body))
