"""ONNX ops without a lowering of their own: ONNX Runtime where that is installed, else ONNX's reference evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from egshape.errors import EgshapeError, MissingDependency
from egshape.hints import install
from egshape.ops.host import FRAGILE, RUNNER

_ARRAYS: Mapping[str, np.dtype[Any]] = {
    **{name: np.dtype(name) for sign in ("", "u") for name in (f"{sign}int{bits}" for bits in (8, 16, 32, 64))},
    "float16": np.dtype("e"),
    "float": np.dtype("f"),
    "double": np.dtype("d"),
    "bool": np.dtype("?"),
    "string": np.dtype(object),
}
"""Elements of which ONNX Runtime takes and gives numpy's arrays."""

Function = Callable[[Sequence[np.ndarray]], list[np.ndarray]]


def reference_function(payload: bytes) -> Function:
    """The function of a model of one node: arrays in input order give arrays in output order.

    ONNX Runtime runs it, in one session for all calls; the reference evaluator what that does not know, operands of no
    elements, at which some kernels end the process, nodes with subgraphs, and random numbers, which the other gives two
    nodes alike. Raises
    MissingDependency where onnx is not installed, EgshapeError where neither knows the node."""
    try:
        import onnx
    except ImportError:
        raise MissingDependency("running this model needs the package onnx", hint=install("onnx")) from None
    from egshape.frontends.onnx.host import RANDOM

    node = onnx.ModelProto.FromString(payload).graph.node[0]
    name = f"{node.domain or 'onnx'}.{node.op_type}"
    plain = cache(lambda: _evaluated(payload, name))
    nests = any(attribute.HasField("g") for attribute in node.attribute)  # of its values ONNX Runtime asks for shapes
    careful = node.op_type in RANDOM or (nests and plain() is not None)
    fast = None if careful else _runtime_function(payload, name)
    if fast is not None:
        run = _choosing(*fast, plain, node.op_type in FRAGILE)
        setattr(run, RUNNER, "ONNX Runtime")
        return run
    found = plain()
    if found is None:
        raise EgshapeError(
            f"there is no implementation of {name}",
            code="host-call",
            hint="give it as a function of the model; without one the model can be optimized and saved",
        )
    return found


def _choosing(
    fast: Function, dtypes: Sequence[np.dtype[Any]], plain: Callable[[], Function | None], fragile: bool
) -> Function:
    """The first, which gives these dtypes, but the second for operands of no elements; there the first only where the
    second cannot."""

    def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        careful = None if all(array.size for array in arrays) else plain()
        if careful is None:
            return fast(arrays)
        try:
            return [each.astype(dtype) for each, dtype in zip(careful(arrays), dtypes, strict=True)]
        except EgshapeError:
            if fragile:
                raise
            return fast(arrays)

    return run


def _evaluated(payload: bytes, name: str) -> Function | None:
    """By the reference evaluator; None where it does not know the node."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = onnx.ModelProto.FromString(payload)
    try:
        evaluator: Any = ReferenceEvaluator(model)
    except Exception:  # the evaluator has no error class of its own
        return None
    names = [each.name for each in model.graph.input]

    def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        try:
            found = evaluator.run(None, dict(zip(names, arrays, strict=True)))
        except Exception as error:
            raise EgshapeError(f"the reference evaluator fails in {name}: {error}", code="host-call") from error
        return [np.asarray(each) for each in found]

    return run


def _runtime_function(payload: bytes, name: str) -> tuple[Function, Sequence[np.dtype[Any]]] | None:
    """By ONNX Runtime, and the dtypes of the results; None where that is not installed, or does not know the node."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(payload, options, providers=["CPUExecutionProvider"])
    except Exception:  # the runtime's errors have no common class
        return None
    types = [_ARRAYS.get(each.type[7:-1]) for each in (*session.get_inputs(), *session.get_outputs())]
    dtypes = [dtype for dtype in types if dtype is not None]
    if len(dtypes) < len(types):
        return None
    names = [each.name for each in session.get_inputs()]

    def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        try:
            return list(session.run(None, dict(zip(names, arrays, strict=True))))
        except Exception as error:
            raise EgshapeError(f"ONNX Runtime fails in {name}: {error}", code="host-call") from error

    return run, dtypes[len(names) :]
