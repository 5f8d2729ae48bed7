"""ONNX's reference evaluator for ops without a lowering of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from egshape.errors import EgshapeError, MissingDependency
from egshape.hints import install


def reference_function(payload: bytes) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """The function of a model of one node: arrays in input order give arrays in output order. What the evaluator does
    not know runs in ONNX Runtime where that is installed. Raises MissingDependency where onnx is not installed,
    EgshapeError where neither knows the node."""
    try:
        import onnx
        from onnx.reference import ReferenceEvaluator
    except ImportError:
        raise MissingDependency("running this model needs the package onnx", hint=install("onnx")) from None
    model = onnx.ModelProto.FromString(payload)
    name = f"{model.graph.node[0].domain or 'onnx'}.{model.graph.node[0].op_type}"
    try:
        evaluator: Any = ReferenceEvaluator(model)
    except Exception:  # the evaluator has no error class of its own
        return _runtime_function(payload, name)
    names = [each.name for each in model.graph.input]

    def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        try:
            found = evaluator.run(None, dict(zip(names, arrays, strict=True)))
        except Exception as error:
            raise EgshapeError(f"the reference evaluator fails in {name}: {error}", code="host-call") from error
        return [np.asarray(each) for each in found]

    return run


def _runtime_function(payload: bytes, name: str) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """The same by ONNX Runtime. Raises EgshapeError where that is not installed, or does not know the node."""
    unknown = EgshapeError(
        f"there is no implementation of {name}",
        code="host-call",
        hint="give it as a function of the model; without one the model can be optimized and saved",
    )
    try:
        import onnxruntime
    except ImportError:
        raise unknown from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(payload, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime's errors have no common class
        raise unknown from error
    names = [each.name for each in session.get_inputs()]

    def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        try:
            return list(session.run(None, dict(zip(names, arrays, strict=True))))
        except Exception as error:
            raise EgshapeError(f"ONNX Runtime fails in {name}: {error}", code="host-call") from error

    return run
