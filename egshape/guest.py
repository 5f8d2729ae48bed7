"""Foreign code as a guest: what may end its process or take any memory runs in one that is killed at the limits.

One guest waits for the next user, so that a program that optimizes many models starts one. What holds here
(``limits.holding``) holds for it: the time, and the memory of both processes together.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from egshape.egraph.process import Allowance, Process, Spare, WorkerLost
from egshape.errors import EgshapeError, EngineFault
from egshape.limits import held, holding
from egshape.ops.host import resolve, run_here

LARGEST_MB = 64
"""No array larger than this comes back from a guest, and sizes for comparisons are chosen so that no value is."""

_IDLE_MB = 600
"""A guest that has more resident memory than this does not wait for the next user."""

_CRASHES = 3
"""So often a guest is started again for one user after it crashed."""

_NUMPY = frozenset(("reference",))
"""Kinds of host calls that run numpy alone, in this process."""


class GuestLost(Exception):
    """The guest was killed at a limit (``limit`` is its name), or crashed ("")."""

    def __init__(self, limit: str, last_words: str = "") -> None:
        super().__init__(limit or "the guest crashed")
        self.limit = limit
        self.last_words = last_words


class _Guest(Process):
    """The process of a guest (`guest_process.py`)."""

    def __init__(self) -> None:
        script = str(Path(__file__).with_name("guest_process.py"))
        package = str(Path(__file__).parent.parent)  # also where an import hook of the user's interpreter finds it
        paths = [*(each or os.getcwd() for each in sys.path), package]
        super().__init__([sys.executable, "-I", script, os.pathsep.join(paths)], (), "the process of a runtime")


_SPARE = Spare(_Guest)


_MODULES = {"onnx": ("onnx.reference",), "stablehlo": ("jax",), "torch": ("torch",)}
"""What takes long to import, by the kind of a call."""


def prepare_for(calls: Iterable[tuple[str, str]]) -> None:
    """Start a guest for host calls while other work goes on here."""
    kinds = {kind for kind, _ in calls} - _NUMPY
    if kinds:
        prepare(__name__, *(module for kind in sorted(kinds) for module in _MODULES.get(kind, ())))


def prepare(*modules: str) -> None:
    """Start a guest that imports ``modules`` while other work goes on here."""
    try:
        guest = _SPARE.take()
        guest.send(("load", modules))
        guest.answer_later()
    except (WorkerLost, EngineFault):  # missed when it is needed
        return
    _SPARE.give(guest)


def _started() -> _Guest:
    try:
        return _SPARE.take()
    except EngineFault as fault:
        raise GuestLost("", fault.message) from None


class Host:
    """One user's guest: started when it is asked first, and again after a crash. ``crashed``: how often it was."""

    def __init__(self) -> None:
        self._guest: _Guest | None = None
        self.crashed = 0

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a function of a module, in the guest. Raises the EgshapeError that it raises there (code
        "guest" for any other error), GuestLost."""
        return self._request("call", _packed(function, *arguments))

    def make(self, name: str, function: Callable[..., Any], *arguments: Any) -> None:
        """Keep what a function gives in the guest, under a name."""
        self._request("make", name, _packed(function, *arguments))

    def ask(self, name: str, method: str, *arguments: Any) -> Any:
        """The result of a method of what was made under a name."""
        return self._request("ask", name, _packed(method, *arguments))

    def _request(self, *request: Any) -> Any:
        if self.crashed >= _CRASHES:
            raise GuestLost("", "it crashed too often")
        if self._guest is None:
            self._guest = _started()
        until, memory_mb = held()
        try:
            self._guest.send(request)
            good, found = pickle.loads(self._guest.answer(Allowance(until, memory_mb)))
        except WorkerLost as lost:
            self._guest = None
            self.crashed += not lost.limit
            raise GuestLost(lost.limit, lost.last_words) from None
        except EngineFault as fault:  # no memory for the answer
            self.close()
            raise GuestLost("", str(fault)) from None
        except BaseException:  # Ctrl-C: the answer that comes belongs to nobody
            self._guest = None
            raise
        if good:
            return found
        raise found

    def close(self) -> None:
        """Let the guest wait for its next user."""
        guest, self._guest = self._guest, None
        if guest is None:
            return
        try:
            guest.send(("drop",))
            guest.answer(Allowance(*held()))
        except (WorkerLost, EngineFault):
            return
        if guest.own_mb() > _IDLE_MB:
            guest.kill()
        else:
            _SPARE.give(guest)


@contextmanager
def host() -> Iterator[Host]:
    """A guest for what is called inside."""
    lent = Host()
    try:
        yield lent
    finally:
        lent.close()


def ready(lent: Host, calls: Iterable[tuple[str, str]]) -> None:
    """Make the functions of host calls in the guest, so that no call waits for an import. Raises GuestLost."""
    lent.call(_resolve_all, [call for call in calls if call[0] not in _NUMPY])


def _resolve_all(calls: Sequence[tuple[str, str]]) -> None:
    for call in calls:
        with suppress(EgshapeError):  # told when it is called
            resolve(call)


def run_call(
    lent: Host, call: tuple[str, str], operands: Sequence[np.ndarray], until: float = float("inf")
) -> Sequence[np.ndarray]:
    """The results of a host call, in the guest; here where only this process has its function (an op that the user
    registered). ``until``: a `time.monotonic()` value. Raises EgshapeError as the call does, GuestLost."""
    if call[0] in _NUMPY:
        return run_here(call, operands)
    try:
        with holding(until):
            found: Sequence[np.ndarray] = lent.call(_run, call, list(operands))
    except EgshapeError as error:
        if error.code != _MISSING:
            raise
        return run_here(call, operands)
    return found


_MISSING = "guest-missing"


def _run(call: tuple[str, str], operands: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """In the guest: the results of a host call."""
    try:
        function = resolve(call)
    except EgshapeError as error:
        raise EgshapeError(error.message, code=_MISSING) from None
    found = [np.asarray(each) for each in function(operands)]
    if sum(each.nbytes for each in found) > LARGEST_MB << 20:
        raise EgshapeError(f"a call gives more than {LARGEST_MB} MB", code="unsupported")
    return found


def _packed(*parts: Any) -> bytes:
    return pickle.dumps(parts, protocol=5)
