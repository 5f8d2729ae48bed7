"""Sorts by a mask go twice over it, and what a mask leaves is counted once."""

import numpy as np
import pytest

import egshape
from egshape.dims import symbol
from egshape.ir.builder import BlockBuilder
from egshape.plan.ir.program import Copy, Run
from egshape.plan.targets import plan
from tests.fuzz.differential import argument, graph_of
from tests.lower.checking import check

N, M = symbol("n"), symbol("m")
SIZES = ((0, 3), (1, 1), (1, 5), (2, 0), (7, 4), (33, 2), (3, 257))


def by(direction, dtypes):
    """A comparator that looks at the first operand only."""
    b = BlockBuilder()
    pairs = [b.arg(None, dtype, ()) for dtype in dtypes for _ in range(2)]
    kind = "FLOAT" if dtypes[0].startswith("f") else "UNSIGNED" if dtypes[0] == "i1" else "SIGNED"
    return b.finish([b.one("compare", pairs[:2], {"direction": direction, "kind": kind})])


def ordered(key, direction, dim, heavy):
    b = BlockBuilder()
    mask, x, y = (argument(b, name, dtype, [N, M]) for name, dtype in (("m", "i1"), ("x", "f32"), ("y", "i64")))
    if heavy:  # a mask that is worth a buffer
        zero = b.one(
            "broadcast_in_dim", [b.one("constant", (), {"value": np.float32(0)})], {"dims": (), "shape": (N, M)}
        )
        other = b.one("compare", [b.one("tanh", [x]), zero], {"direction": "GT", "kind": "FLOAT"})
        mask = b.one("xor", [mask, other])
    first = mask if key == "i1" else b.one("convert", [mask], {"dtype": key})
    dtypes = [key, "f32", "i64"]
    return graph_of(b, *b.add("sort", [first, x, y], {"dim": dim, "stable": True}, regions=(by(direction, dtypes),)))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("key, heavy", [("i1", False), ("i64", False), ("f32", True)])
def test_a_sort_by_a_mask(key, heavy, direction, dim):
    graph = ordered(key, direction, dim, heavy)
    labels = [step.kernel.label for step in plan(graph).steps if isinstance(step, Run)]
    assert labels[-1] == "partition" and "sort" not in labels
    rng = np.random.default_rng(3)
    feeds = []
    for n, m in SIZES:
        for share in (0.0, 0.5, 1.0):
            x = rng.standard_normal((n, m), np.float32)
            feeds.append([rng.random((n, m)) < share, x, np.arange(n * m).reshape(n, m)])
    check(graph, *feeds, tolerance=1e-6)


def test_other_sorts_are_sorts():
    b = BlockBuilder()
    x, y = argument(b, "x", "i64", [N]), argument(b, "y", "f32", [N])
    graph = graph_of(b, *b.add("sort", [x, y], {"dim": 0, "stable": True}, regions=(by("LT", ["i64", "f32"]),)))
    assert [step.kernel.label for step in plan(graph).steps if isinstance(step, Run)] == ["sort"]
    check(graph, [np.array([3, 1, 3, 0]), np.arange(4, dtype=np.float32)], tolerance=0)


def test_what_a_mask_leaves_is_counted_once():
    """One pass counts, one sorts, one reads what is left into memory of its size."""
    parser = pytest.importorskip("onnx.parser", reason="ONNX needs the extra onnx")
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[n] x, bool[n] m) => (float[k] y, int64[1] s, float[k] z)
      { y = Compress(x, m) s = Shape(y) z = Exp(y) }"""
    graph = egshape.optimize(egshape.load(parser.parse_model(text).SerializeToString(), "onnx")).graph
    steps = plan(graph).steps
    assert not any(isinstance(step, Copy) for step in steps)
    labels = [step.kernel.label for step in steps if isinstance(step, Run)]
    assert labels.count("reduce") == labels.count("partition") == 1 and "sort" not in labels, labels
    assert all(
        step.kernel.outputs[0].size is symbol("n")
        for step in steps
        if isinstance(step, Run) and step.kernel.label == "partition"
    )
