"""Compiled functions for the API: native code in this process, our errors, artifacts."""

from __future__ import annotations

from typing import Any

from egshape.errors import CheckFailed, EgshapeError
from egshape.ir.graph import Graph
from egshape.lower import native
from egshape.lower.driver import Native, compile_native
from egshape.runtime import artifact
from egshape.runtime.function import CompiledFunction


def failure(message: str, code: str, where: str) -> EgshapeError:
    """The error that a compiled function raises."""
    if code == "check":
        return CheckFailed(message, where=where)
    return EgshapeError(message, where=where, code=code)


def compile_function(graph: Graph) -> CompiledFunction:
    """A graph as native code. Raises Unsupported, naming op and location, for what is not compiled."""
    made = compile_native(graph)

    def save(path: Any) -> None:
        _save(made, path)

    return CompiledFunction(made.manifest, made.address, made.constants, made.keep, failure, save)


def _save(made: Native, path: Any) -> None:
    artifact.save(path, made.manifest, native.shared_library(made.code), made.constants)
