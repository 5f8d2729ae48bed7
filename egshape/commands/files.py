"""Files that commands read and write: models, facts, arrays."""

from __future__ import annotations

import io
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from egshape.errors import EgshapeError, ParseError, TypeMismatch

if TYPE_CHECKING:
    from egshape.facts import Facts
    from egshape.ir.graph import Graph


def load_model(model: str, format: str | None) -> Graph:
    from egshape import api

    if model != "-":
        return api.load(Path(model), format=format)
    if format is None:
        raise EgshapeError("a model from standard input needs --format", where="-", code="usage")
    return api.load(sys.stdin.buffer.read(), format=format)


def read_facts(path: Path | None) -> Facts | None:
    from egshape.facts import Facts

    if path is None:
        return None
    try:
        return Facts.from_json(read_bytes(path))
    except EgshapeError as error:
        raise placed(error, str(path)) from error


def placed(error: EgshapeError, where: str) -> EgshapeError:
    """The same error, said of a place inside ``where``."""
    if where in error.where:
        return error
    inner = f"{where}: {error.where}" if error.where else where
    return type(error)(error.message, where=inner, hint=error.hint, code=error.code)


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise EgshapeError(f"cannot be read: {error.strerror}", where=str(path), code="read") from error


def read_arrays(path: Path, graph: Graph) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of ``path``, one for each input of ``graph``, checked by name."""
    wanted = [value.name for value in graph.inputs]
    try:
        with np.load(io.BytesIO(read_bytes(path)), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, AttributeError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ParseError(f"is no .npz file: {error}", where=str(path)) from error
    problems = [f"{name} is missing" for name in wanted if name not in arrays]
    problems += [f"{name} is no input" for name in arrays if name not in wanted]
    if problems:
        raise TypeMismatch("; ".join(problems), where=str(path), hint=f"the inputs are {', '.join(wanted)}")
    return {value.name: _with_dtype(arrays[value.name], value.type.dtype) for value in graph.inputs}


def _with_dtype(array: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """bf16 and the 8-bit floats come out of an .npz as raw bytes; give them their type back."""
    from egshape.ir.types import numpy_dtype

    if array.dtype.kind != "V" or array.dtype.itemsize != numpy_dtype(dtype).itemsize:
        return array
    return array.view(numpy_dtype(dtype))


def saved_bytes(graph: Graph, format: str) -> bytes:
    from egshape import api

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        api.save(graph, path, format=format)
        return path.read_bytes()
