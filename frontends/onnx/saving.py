"""Models as files: alone, or with their weights in a file beside them.

That file's name holds a checksum of the weights and is written first, so a model that is there has its own weights,
whatever happens in between; then those of the model that stood there before go."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from egshape.atomic import write_atomic
from egshape.errors import EgshapeError
from egshape.frontends.onnx import messages, weights
from egshape.ir.graph import Graph

ROOM = 2**31 - 2**24
"""Weights of at most so many bytes are written into the model."""


def save(
    graph: Graph, path: Path, opset: int | None = None, external: bool | None = None, checks: str = "nodes"
) -> tuple[str, ...]:
    """Write an ONNX model to a file, its weights to one beside it if ``external``, or by default where one message
    cannot hold them. Weights are streamed. What of the graph the file does not hold, as notes. Errors as of
    ``messages.write``, and EgshapeError for what cannot be written."""
    found = messages.whole(graph, opset, checks)
    model, initializers = found.model, found.initializers
    target = path.resolve()
    if external is None:
        external = weights.size(initializers) + model.ByteSize() > ROOM
    if not external:
        write_atomic(path, weights.pieces(model, initializers))
        _clean(target, "")
        return found.notes
    side = weights.SideFile(initializers)
    unnamed = target.with_name(f".{target.name}.{os.getpid()}.data")
    try:
        write_atomic(unnamed, side.pieces())
        unnamed.replace(target.with_name(side.name(target.name)))
        write_atomic(path, weights.pieces(model, initializers, side.places(target.name)))
    except OSError as error:
        raise EgshapeError(f"cannot be written: {error.strerror or error}", where=str(path), code="write") from error
    finally:
        unnamed.unlink(missing_ok=True)
    _clean(target, side.name(target.name))
    return found.notes


def move(written: Path, path: Path) -> None:
    """Move a saved model, and its weights, to where a file of the same name may stand."""
    target = path.resolve()
    kept = ""
    for side in _beside(written):
        side.replace(target.with_name(side.name))
        kept = side.name
    written.replace(target)
    _clean(target, kept)


def _beside(model: Path) -> list[Path]:
    return sorted(model.parent.glob(f"{glob.escape(model.name)}.{'[0-9a-f]' * weights.DIGITS}.data"))


def _clean(model: Path, kept: str) -> None:
    for old in _beside(model):
        if old.name != kept:
            old.unlink(missing_ok=True)
