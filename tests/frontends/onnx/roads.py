"""A model on every road: loaded, optimized, compiled, saved and loaded again, against ONNX's reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import egshape
from egshape.ir.interpret import interpret

Info = tuple[str, int, Sequence[Any] | None]


def made(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    opset: int = 21,
    constants: Mapping[str, np.ndarray] | None = None,
    domains: Sequence[str] = (),
    stated: Sequence[Info] = (),
) -> onnx.ModelProto:
    """A model of nodes; an input or output is a name, an element type and sizes, or a ValueInfoProto."""
    held = [onnx.numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(
        list(nodes),
        "g",
        [_info(each) for each in inputs],
        [_info(each) for each in outputs],
        held,
        value_info=[_info(each) for each in stated],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def _info(info: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(*info) if isinstance(info, tuple) else info


def check(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], folder: Path, *, host: bool = True) -> None:
    """All roads give the reference's results; ``host``: whether some op may run there."""
    wanted = ReferenceEvaluator(model).run(None, dict(feeds))
    graph = egshape.load(model.SerializeToString(), "onnx")
    assert host or not any(op.name == "host_call" for op in graph.body.walk())
    result = egshape.optimize(graph)
    assert result.report.status != "fallback", result.report.notes
    egshape.save(result.graph, folder / "m.onnx")
    written = onnx.load(folder / "m.onnx")
    onnx.checker.check_model(written)
    arrays = [feeds[value.name] for value in graph.inputs]
    compiled = egshape.compile(result.graph, "llvm")(*arrays)
    roads = {
        "loaded": interpret(graph, arrays),
        "optimized": interpret(result.graph, arrays),
        "compiled": compiled if isinstance(compiled, tuple) else (compiled,),
        "saved": interpret(egshape.load(folder / "m.onnx"), arrays),
        "written": ReferenceEvaluator(written).run(None, dict(feeds)),
    }
    for road, found in roads.items():
        for one, two in zip(found, wanted, strict=True):
            same(np.asarray(one), np.asarray(two), road)


def same(one: np.ndarray, two: np.ndarray, where: str = "") -> None:
    """Equal shapes and elements; any NaN is any NaN."""
    if two.dtype.kind in "OU":
        assert one.tolist() == two.tolist(), where
        return
    assert (one.dtype, one.shape) == (two.dtype, two.shape), f"{where}: {one.dtype}{one.shape} {two.dtype}{two.shape}"
    np.testing.assert_allclose(one.astype(np.float64), two.astype(np.float64), rtol=1e-6, err_msg=where)


FLOAT, INT64, STRING, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING, TensorProto.BOOL
