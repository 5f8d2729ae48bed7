"""Compiled functions for the API: native code in this process, our errors, artifacts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from egshape.adapters.text import has_text, resolved
from egshape.errors import CheckFailed, EgshapeError, InvalidInput, Unsupported
from egshape.ir.graph import Graph
from egshape.lower import artifact, emit_c
from egshape.lower.drivers.llvm import Native, compile_native
from egshape.lower.llvm import native
from egshape.lower.weights import Interned
from egshape.ops.host import HostFunction
from egshape.runtime.artifact import restored
from egshape.runtime.core.function import CompiledFunction

MOST_THREADS = 1024


def failure(message: str, code: str, where: str) -> EgshapeError:
    """The error that a compiled function raises."""
    if code == "check":
        return CheckFailed(message, where=where)
    return EgshapeError(message, where=where, code=code)


def compile_function(
    graph: Graph, threads: int = 1, facts: str = "all", weights: Interned | None = None
) -> CompiledFunction:
    """A graph as native code that uses up to ``threads`` threads, and as much of what is known about sizes as ``facts``
    says: ``none``, ``shape`` or ``all``, for measurements of what facts are worth. ``weights``: constants of other
    functions of the graph, which are used where they are equal; its own are put there.

    Raises Unsupported, naming op and location, for what is not compiled."""
    if not isinstance(threads, int) or not 1 <= threads <= MOST_THREADS:
        raise InvalidInput(f"threads must be a whole number, 1 to {MOST_THREADS}, not {threads!r}")
    if has_text(graph):
        raise Unsupported(
            "has values that are text, which go through Python and no file holds",
            where=graph.name,
            hint="egshape.compile runs the model in this process",
        )
    made = compile_native(graph, facts)
    if weights is not None:
        made = made.sharing(weights)
    library = functools.cache(lambda: native.shared_library([*made.codes, native.library_object(made.machine)]))

    def save(path: Any, form: str) -> list[Path]:
        return _save(made, library, Path(path), form, threads)

    def reduce() -> tuple[Any, ...]:
        return remade, (made.manifest, library(), made.constants, {}, threads)

    return CompiledFunction(
        made.manifest,
        made.entries,
        made.constants,
        made.keep,
        failure,
        save,
        threads,
        host_functions(made.manifest),
        reduce,
    )


def host_functions(manifest: Mapping[str, Any]) -> list[HostFunction]:
    """The Python functions that a program calls."""
    return [resolved((kind, payload)) for kind, payload in (row["call"] for row in manifest["host_calls"])]


def remade(
    manifest: Mapping[str, Any],
    library: bytes,
    constants: Sequence[np.ndarray],
    images: Mapping[str, bytes],
    threads: int,
) -> CompiledFunction:
    """A function as it was before it was pickled, with our errors, and its host calls. Raises RunError (code
    "artifact") on another machine."""
    parts = (manifest, library, constants, images, threads)

    def save(path: Any, form: str) -> list[Path]:
        if form == "c":
            raise EgshapeError(
                "was pickled, and is written as an artifact only",
                where=str(path),
                hint="write C where it was compiled",
                code="unsupported",
            )
        refuse_host_calls(manifest, Path(path))
        artifact.write(path, {**manifest, "threads": threads}, library, constants, images)
        return [Path(path)]

    return restored(
        manifest,
        library,
        constants,
        images,
        threads,
        0,
        failure,
        save,
        host_functions(manifest),
        lambda: (remade, parts),
    )


def refuse_host_calls(manifest: Mapping[str, Any], path: Path) -> None:
    """Raises EgshapeError for a program that calls Python, which no file can hold."""
    called = sorted({row["target"] for row in manifest["host_calls"]})
    if called:
        raise EgshapeError(
            f"calls Python for {', '.join(called)}: it runs in this process only",
            where=str(path),
            hint="an artifact runs without Python code of a frontend",
            code="host-call",
        )


def _save(made: Native, library: Callable[[], bytes], path: Path, form: str, threads: int) -> list[Path]:
    """Write an artifact (``form`` egx), or a header and a library to a folder (c)."""
    refuse_host_calls(made.manifest, path)
    if form == "c":
        return emit_c.write(path, made.manifest, made.codes, made.constants, made.machine, threads)
    artifact.write(path, {**made.manifest, "threads": threads}, library(), made.constants)
    return [path]
