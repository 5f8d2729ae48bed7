"""XLA in a process of its own: its shape refinement divides by sizes that are 0, which ends a process (SIGFPE)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from multiprocessing import get_context
from typing import Any

import numpy as np

from egshape.adapters.xla import run_stablehlo
from egshape.errors import CheckFailed, EgshapeError

Ran = tuple[Sequence[np.ndarray[Any, Any]], str]
"""Results and "", or none and why there are none."""

UNUSABLE, ENDED = "XLA cannot tell", "XLA ended its process"


def run(text: str, arrays: Sequence[Any]) -> Ran:
    """What XLA makes of a program for these inputs. UNUSABLE: it says neither results nor that sizes are wrong; ENDED:
    two processes in a row died of it, the first of which may have been dead before; that costs nobody else."""
    for _ in range(2):
        try:
            return _pool().submit(_run, text, arrays).result()
        except BrokenProcessPool:
            _pool.cache_clear()
    return (), ENDED


@cache
def _pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, get_context("spawn"))


def _run(text: str, arrays: Sequence[Any]) -> Ran:
    try:
        return run_stablehlo(text, arrays), ""
    except CheckFailed as error:
        return (), f"{error.code}: {error}".splitlines()[0]
    except EgshapeError as error:
        return (), UNUSABLE if error.code == "unsupported" else f"{error.code}: {error}".splitlines()[0]
