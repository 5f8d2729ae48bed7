"""ONNX's reference evaluator for ops without a lowering of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from egshape.errors import EgshapeError, MissingDependency


def reference_function(payload: bytes) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """The function of a model of one node: arrays in input order give arrays in output order. Raises
    MissingDependency where onnx is not installed, EgshapeError where the evaluator does not know the node."""
    try:
        import onnx
        from onnx.reference import ReferenceEvaluator
    except ImportError:
        raise MissingDependency("running this model needs the package onnx", hint="pip install 'egshape[onnx]'"
                                ) from None
    model = onnx.ModelProto.FromString(payload)
    name = f"{model.graph.node[0].domain or 'onnx'}.{model.graph.node[0].op_type}"
    try:
        evaluator: Any = ReferenceEvaluator(model)
    except Exception as error:  # the evaluator has no error class of its own
        raise EgshapeError(f"the reference evaluator cannot run {name}: {error}", code="host-call") from error
    names = [each.name for each in model.graph.input]

    def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        try:
            found = evaluator.run(None, dict(zip(names, arrays, strict=True)))
        except Exception as error:
            raise EgshapeError(f"the reference evaluator fails in {name}: {error}", code="host-call") from error
        return [np.asarray(each) for each in found]

    return run
