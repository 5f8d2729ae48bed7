"""Two models side by side in a runtime, as a guest runs them: the process of the user holds neither of them, nor what
they give."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

TOLERANCE = 1e-4
"""Relative to the largest element: another order of sums, and fused kernels, round otherwise."""

Open = Callable[..., Any]
"""Opens a model; what it gives is used as an ``onnxruntime.InferenceSession`` is."""


@dataclass(frozen=True)
class Port:
    """An input or output."""

    name: str


class Ports:
    """The inputs and outputs of a graph, by name, as a session has them."""

    def __init__(self, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self._inputs = inputs
        self._outputs = outputs

    def get_inputs(self) -> list[Port]:
        """The inputs of the graph."""
        return [Port(name) for name in self._inputs]

    def get_outputs(self) -> list[Port]:
        """The outputs of the graph."""
        return [Port(name) for name in self._outputs]


class Beside:
    """The original and the written model; what they gave last."""

    def __init__(self, open: Open, arguments: Sequence[Any]) -> None:
        """``open``: a model, from ``arguments`` behind it."""
        self._open = open
        self._arguments = arguments
        self._sessions: list[Any] = []
        self._found: list[list[Any]] = []

    def open(self, model: str | bytes) -> str:
        """Open the next model; why it cannot be, "" if it can."""
        try:
            self._sessions.append(self._open(model, *self._arguments))
        except Exception as error:  # the runtimes' errors have no common class
            return _said(error)
        return ""

    def run(self, which: int, arrays: Mapping[str, np.ndarray]) -> str:
        """Run the original (0) or the written model (1); why it fails, "" if it does not."""
        session = self._sessions[which]
        wanted = {each.name for each in session.get_inputs()}
        del self._found[which:]
        try:
            given = {name: array for name, array in arrays.items() if name in wanted}
            self._found.append(list(session.run(None, given)))
        except Exception as error:  # the runtimes' errors have no common class
            return _said(error)
        return ""

    def difference(self) -> str:
        """Where the results of both differ, "" if nowhere."""
        names = [each.name for each in self._sessions[0].get_outputs()]
        return difference(names, *self._found)


def _said(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def onnx_session(model: str | bytes) -> Any:
    """A model in ONNX Runtime: a path, also one that is no UTF-8, or bytes."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 2
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    if isinstance(model, str) and not _is_utf8(model):
        folder, name = os.path.split(os.path.abspath(model))
        os.chdir(folder)  # the process is a guest's: no other code depends on its folder
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", ".")
        with open(name, "rb") as file:
            model = file.read()
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def difference(names: Sequence[str], one: Sequence[Any], two: Sequence[Any]) -> str:
    """Where outputs differ, floats by more than rounding, "" if nowhere."""
    for name, before, after in zip(names, one, two, strict=True):
        if not isinstance(before, np.ndarray) or not isinstance(after, np.ndarray):
            continue
        if before.dtype != after.dtype or before.shape != after.shape:
            return f"output {name} is {after.dtype}{list(after.shape)}, not {before.dtype}{list(before.shape)}"
        if before.dtype.kind not in "fc":
            if not np.array_equal(before, after):
                return f"output {name} differs"
            continue
        finite = np.isfinite(before)
        scale = float(np.abs(before[finite]).max(initial=0.0)) + 1e-6
        if not np.array_equal(np.isnan(before), np.isnan(after)) or not np.allclose(
            before, after, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True
        ):
            return f"output {name} differs by up to {float(np.nanmax(np.abs(before - after))):.3g}"
    return ""
