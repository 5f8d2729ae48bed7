"""What a graph says of its size is what the file of its model has, beside what it keeps for being written."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import egshape
from egshape.frontends.frontend import as_read
from egshape.frontends.registry import of_graph

TEXT = """func.func @f(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = stablehlo.negate %x : tensor<?x4xf32>
  %1 = stablehlo.negate %0 : tensor<?x4xf32>
  %c = stablehlo.constant dense<1> : tensor<1xi32>
  %2 = stablehlo.reshape %c : (tensor<1xi32>) -> tensor<i32>
  return %1 : tensor<?x4xf32>
}
"""


def test_stablehlo(tmp_path: Path) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    path = tmp_path / "f.mlir"
    path.write_text(TEXT)
    graph = egshape.load(path)
    assert repr(graph).endswith(", 3 statements>")
    assert repr(pickle.loads(pickle.dumps(graph))).endswith(", 3 statements>")
    assert egshape.optimize(graph).changes.before == {"negate": 2, "constant": 1, "reshape": 1}
    held = egshape.annotate(graph, {graph.inputs[0].name: "f32[2*m, 4]"})
    assert as_read(held) is None and repr(held).endswith(" ops>"), "it is not as it was read"


def test_a_program_of_torch_keeps_its_tensors_too(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    program = torch.export.export(torch.nn.BatchNorm1d(4), (torch.ones(3, 4),))
    graph = egshape.load(program)
    assert set(graph.own.tensors) == {"running_mean", "running_var", "num_batches_tracked"}
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    assert repr(graph).endswith(f", {len(calls)} calls>")
    assert as_read(pickle.loads(pickle.dumps(graph))) == as_read(graph)


def test_a_graph_that_was_built_has_ops() -> None:
    graph = egshape.load(b"graph f(%x: f32[4]) { %0: f32[4] = negate(%x)  return %0 as y }", "egs")
    assert as_read(graph) is None and of_graph(graph) is not None
    assert repr(graph).endswith(", 1 ops>")
