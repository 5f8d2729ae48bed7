"""Calls of functions that run in Python: what has no lowering of its own still runs, and is named."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from egshape.errors import EgshapeError
from egshape.ir.types import TEXT
from egshape.ops.declare import op
from egshape.ops.traits import Traits

HostFunction = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]

RESOLVERS = {
    "onnx": "egshape.adapters.onnx:reference_function",
    "reference": "egshape.adapters.pairs:host_function",
    "stablehlo": "egshape.adapters.xla:host_function",
    "torch": "egshape.adapters.torch_host:function",
    "torch.trusting": "egshape.adapters.torch_host:function",
}
"""What makes the function of a call from its payload, by the call's kind: ``module:attribute``. Imported when a call
runs first, since a frontend's library is no part of the core."""

TRUSTING = frozenset(("torch.trusting",))
"""Kinds of calls whose functions take places and the like as they come, and write to wrong memory for others: they run
with a program's own data only, never with invented data."""

Runner = Callable[[tuple[str, str], Sequence[np.ndarray]], Sequence[np.ndarray]]
"""What runs a ``call`` on arrays."""

HOST_CALLS = frozenset(("host_call", "host_effect"))
"""The ops of this module."""

FRAGILE = frozenset(("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM", "FeatureVectorizer"))
"""ONNX ops whose kernels in ONNX Runtime end the process at a batch of 0."""

RUNNER = "runner"
"""The attribute of a host function that says what runs it, where that is not Python."""

UNKNOWN = -1
"""Stands in ``sizes`` for an axis whose size only the call tells."""


def call_of(kind: str, payload: bytes) -> tuple[str, str]:
    """The attribute ``call`` of a host call, which prints and hashes: the kind, and the payload as base64 text."""
    return kind, base64.b64encode(payload).decode("ascii")


@lru_cache(maxsize=256)
def resolve(call: tuple[str, str]) -> HostFunction:
    """The function that a ``call`` attribute names. Raises EgshapeError for a kind that nothing resolves."""
    kind, payload = call
    if kind not in RESOLVERS:
        raise EgshapeError(f"no host functions are of the kind {kind!r}", code="host-call")
    module, _, name = RESOLVERS[kind].partition(":")
    maker = getattr(import_module(module), name)
    return maker(base64.b64decode(payload))  # type: ignore[no-any-return]


_RUNNER: ContextVar[Runner | None] = ContextVar("runner", default=None)


@contextmanager
def running_by(runner: Runner) -> Iterator[None]:
    """Calls that are made inside are run by ``runner``."""
    token = _RUNNER.set(runner)
    try:
        yield
    finally:
        _RUNNER.reset(token)


def run_here(call: tuple[str, str], operands: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """The results of a ``call``, run in this process."""
    return resolve(call)(operands)


def runner(call: tuple[str, str]) -> str:
    """What runs a call. Raises as ``resolve``."""
    return str(getattr(resolve(call), RUNNER, "Python"))


def trusts(call: tuple[str, str]) -> bool:
    """Whether a ``call`` must not run with invented data."""
    return call[0] in TRUSTING


def unresolved(call: tuple[str, str]) -> str:
    """Why nothing here can run a ``call``, "" if something can."""
    try:
        resolve(call)
    except EgshapeError as error:
        return error.message
    return ""


_ATTRS = {"target": "text", "call": "record", "dtypes": "record", "ranks": "axes", "sizes": "sizes"}


@op(
    "host_call",
    family="host",
    operands=("*operands",),
    attrs=_ATTRS,
    traits=Traits(foreign=True),
    doc="Calls a pure Python function. call: its kind and payload (see egshape.ops.host). The results have the dtypes "
    "and ranks given (-1: unknown); sizes holds their axes one after the other, -1 for one that only the call tells.",
)
class HostCall:
    """What a frontend has no lowering for. ``target`` is what the user calls it: ``onnx.Unique``."""

    @staticmethod
    def reference(
        *operands: np.ndarray,
        target: str,
        call: Any,
        dtypes: tuple[str, ...],
        ranks: tuple[int, ...],
        sizes: tuple[int, ...],
    ) -> list[np.ndarray]:
        found = (_RUNNER.get() or run_here)((str(call[0]), str(call[1])), operands)
        return [
            np.asarray(result).astype(object, copy=False) if dtype == TEXT else np.asarray(result)
            for result, dtype in zip(found, dtypes, strict=True)
        ]


@op(
    "host_effect",
    family="host",
    operands=("*operands",),
    attrs=_ATTRS,
    effect=True,
    traits=Traits(foreign=True),
    doc="A host_call that may do more than give its results (random numbers with a state, calls of foreign code): it "
    "is neither dropped nor joined with an equal one, and effects keep their order.",
)
class HostEffect(HostCall):
    reference = HostCall.reference
