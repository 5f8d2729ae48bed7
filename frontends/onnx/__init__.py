"""ONNX in: a model becomes a ``Graph``. ``ops/`` declares the ops, ``registry`` says how. And out: ``emit``."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from egshape.errors import MissingDependency
from egshape.ir.graph import Graph


def read(source: Path | bytes, name: str) -> Graph:
    """The graph of an ONNX model: a path, or bytes. Errors as of ``convert.read``, and MissingDependency where onnx is
    not installed."""
    _needed("reading")
    from egshape.frontends.onnx import convert

    return convert.read(source, name)


def write(graph: Graph, opset: int | None = None) -> Iterator[bytes | memoryview]:
    """The bytes of a graph as an ONNX model, in pieces. Errors as of ``emit.write``, and MissingDependency."""
    _needed("writing")
    from egshape.frontends.onnx import emit

    return emit.write(graph, opset)


def __getattr__(name: str) -> Any:
    """``Backend`` and ``LlvmBackend``, which stand above the frontends, on demand."""
    if name not in ("Backend", "LlvmBackend"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _needed("the backend for")
    return getattr(import_module("egshape.adapters.onnx_backend"), name)


def _needed(what: str) -> None:
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise MissingDependency(f"{what} ONNX needs the package onnx", hint="pip install 'egshape[onnx]'") from None
