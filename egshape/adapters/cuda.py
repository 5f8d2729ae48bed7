"""Compiled functions of CUDA devices for the API: native code in this process, our errors, artifacts."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from egshape.adapters.native import failure, host_functions, refuse_host_calls, remade
from egshape.errors import EgshapeError, InvalidInput
from egshape.ir.graph import Graph
from egshape.lower import artifact
from egshape.lower.cuda.compiler import ARCHITECTURES
from egshape.lower.drivers.cuda import Cuda, ImageMaker, compile_cuda
from egshape.lower.llvm import native
from egshape.runtime.cuda.driver import opened
from egshape.runtime.cuda.function import CudaFunction
from egshape.runtime.cuda.program import Opener

OLDEST = 80
_ARCHITECTURE = re.compile(r"sm_(\d{2,3})[af]?")


def compile_function(
    graph: Graph,
    architectures: Sequence[str] | None = None,
    facts: str = "all",
    make: ImageMaker | None = None,
    open: Opener = opened,
) -> CudaFunction:
    """A graph as native code that drives a device of one of the architectures. The driver is opened by the first call,
    so that no device is needed to compile and to save. ``make`` and ``open``: who makes the images of kernels (by
    default NVRTC), and which driver runs them.

    Raises InvalidInput for an architecture that is none; Unsupported, naming op and location, for what is not
    compiled; EgshapeError ``dependency`` without NVRTC."""
    for each in architectures or ():
        found = _ARCHITECTURE.fullmatch(each)
        if found is None or int(found[1]) < OLDEST:
            raise InvalidInput(
                f"{each!r} is no architecture that kernels are compiled for",
                hint=f"give names such as sm_90, from sm_{OLDEST} on",
            )
    made = compile_cuda(graph, tuple(architectures or ARCHITECTURES), facts, make)

    library = functools.cache(lambda: native.shared_library([made.code, native.library_object(made.machine)]))

    def save(path: Any, form: str) -> list[Path]:
        return _save(made, library, Path(path), form)

    def reduce() -> tuple[Any, ...]:
        return remade, (made.manifest, library(), made.constants, made.images, 1)

    return CudaFunction(
        made.manifest,
        made.entries,
        made.images,
        made.constants,
        made.keep,
        failure,
        save,
        open,
        host_functions(made.manifest),
        reduce,
    )


def _save(made: Cuda, library: Callable[[], bytes], path: Path, form: str) -> list[Path]:
    """Write an artifact with the images of all architectures."""
    if form == "c":
        raise EgshapeError(
            "a function of a CUDA device is not written as C",
            where=str(path),
            hint="save it as an artifact, or compile it with target='llvm'",
            code="unsupported",
        )
    refuse_host_calls(made.manifest, path)
    artifact.write(path, {**made.manifest, "threads": 1}, library(), made.constants, made.images)
    return [path]
