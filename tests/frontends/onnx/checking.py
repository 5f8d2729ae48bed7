"""Models in ONNX's text form, run by our interpreter and by ONNX's reference evaluator at several sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import onnx
from onnx import parser
from onnx.reference import ReferenceEvaluator

import egshape
from egshape.adapters.native import compile_function
from egshape.errors import CheckFailed, EgshapeError
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from egshape.ir.types import numpy_dtype
from egshape.ir.verify import verify


@dataclass(frozen=True)
class Case:
    """A model's signature and nodes; ``sizes`` are the points to run at, by symbol; ``data`` holds named inputs, or
    makes them of the sizes; ``native`` says that nothing may be called on the host."""

    name: str
    text: str
    sizes: Sequence[Mapping[str, int]]
    data: Mapping[str, object] = field(default_factory=dict)
    opset: int = 20
    native: bool = True
    tolerance: float = 1e-5


def parsed(case: Case) -> onnx.ModelProto:
    """The model of a case."""
    imports = f'"" : {case.opset}, "com.microsoft" : 1, "local" : 1'
    return parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]>\n{case.text}")


def load(model: onnx.ModelProto) -> Graph:
    """The verified graph of a model."""
    graph = egshape.load(model.SerializeToString(), format="onnx")
    verify(graph)
    return graph


def inputs(case: Case, graph: Graph, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Random inputs: small integers, floats around 0."""
    rng = np.random.default_rng(len(case.name))
    out = {}
    for value in graph.inputs:
        dtype = numpy_dtype(value.type.dtype)
        made = case.data.get(value.name)
        if made is not None:
            out[value.name] = np.asarray(made(sizes) if callable(made) else made, dtype)
            continue
        shape = [dim.evaluate(sizes) for dim in value.type.dims]
        if dtype.kind in "iub":
            out[value.name] = rng.integers(0, 2, shape).astype(dtype)
        else:
            out[value.name] = rng.standard_normal(shape).astype(dtype)
    return out


def _native(graph: Graph) -> Callable[[Mapping[str, np.ndarray]], Sequence[np.ndarray]]:
    function = compile_function(graph)

    def run(feeds: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        found = function(*(feeds[value.name] for value in graph.inputs))
        return found if isinstance(found, tuple) else (found,)

    return run


def compare(case: Case, compiled: bool = False) -> int:
    """Run a case at each of its sizes, raw, optimized and (if asked) compiled; how many points both could run. A point
    that the reference rejects may be rejected by us too."""
    model = parsed(case)
    graph = load(model)
    hosted = [op.attrs["target"] for op in graph.body.walk() if op.name == "host_call"]
    assert not (case.native and hosted), f"{case.name}: {hosted} are called on the host"
    result = egshape.optimize(graph, validate=False)
    assert result.report.status != "fallback", f"{case.name}: {result.report.notes}"
    ways = {"raw": partial(interpret, graph), "optimized": partial(interpret, result.graph)}
    if compiled:
        ways["compiled"] = _native(result.graph)
    evaluator, ran = ReferenceEvaluator(model), 0
    for sizes in case.sizes:
        feeds = inputs(case, graph, sizes)
        try:
            wanted = [np.asarray(each) for each in evaluator.run(None, feeds)]
        except Exception:
            continue
        ran += 1
        for kind, run in ways.items():
            where = f"{case.name}, {kind}, at {dict(sizes)}"
            try:
                found = run(feeds)
            except (CheckFailed, EgshapeError) as error:
                raise AssertionError(f"{where}: {error}") from error
            for one, two in zip(found, wanted, strict=True):
                assert one.shape == two.shape, f"{where}: shape {one.shape}, not {two.shape}"
                assert one.dtype == two.dtype, f"{where}: dtype {one.dtype}, not {two.dtype}"
                np.testing.assert_allclose(
                    one.astype(np.float64),
                    two.astype(np.float64),
                    rtol=case.tolerance,
                    atol=case.tolerance,
                    err_msg=where,
                )
    return ran
