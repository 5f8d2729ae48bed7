"""ONNX in: a model becomes a ``Graph``. ``ops/`` declares the ops, ``registry`` says how. And out: ``emit``."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from egshape.errors import MissingDependency
from egshape.frontends.frontend import Forms
from egshape.hints import install
from egshape.ir.graph import Graph


def read(source: Path | bytes, name: str, forms: Forms | None = None) -> Graph:
    """The graph of an ONNX model: a path, or bytes. ``forms``: the lengths of input sequences, by name; for optional
    inputs None, ``"tensor"`` or a length. Errors as of ``convert.read``, and MissingDependency where onnx is
    not installed."""
    _needed("reading")
    from egshape.frontends.onnx import convert

    return convert.read(source, name, forms)


def write(graph: Graph, opset: int | None = None, checks: str = "nodes") -> Iterator[bytes | memoryview]:
    """The bytes of a graph as an ONNX model, in pieces. ``checks``: as of ``save``. Errors as of
    ``messages.write``, and MissingDependency."""
    _needed("writing")
    from egshape.frontends.onnx import messages

    return messages.write(graph, opset, checks)


def save(
    graph: Graph, path: Path, opset: int | None = None, external: bool | None = None, checks: str = "nodes"
) -> tuple[str, ...]:
    """Write a graph as an ONNX model; ``external``: with its weights in a file beside it, by default where it must be.
    ``checks``: as ``"nodes"`` that fail in any runtime, listed in the ``"metadata"``, or ``"none"``. Gives what of the
    graph the file does not hold, as notes. Errors as of ``saving.save``, and MissingDependency."""
    _needed("writing")
    from egshape.frontends.onnx import saving

    return saving.save(graph, path, opset, external, checks)


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
        raise MissingDependency(f"{what} ONNX needs the package onnx", hint=install("onnx")) from None
