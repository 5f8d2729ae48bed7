"""The guest: a process that runs what may end its process, or take any memory: ONNX Runtime, XLA, torch.

It runs as a script, with the paths of its user's interpreter; `guest.py` is the other end. A request is a pickled
function with its arguments, the answer its pickled result, or the error that it raised.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


class Requests:
    """Answers requests; what ``make`` gives is kept by name until ``drop``."""

    def __init__(self) -> None:
        self._held: dict[str, Any] = {}

    def load(self, modules: tuple[str, ...]) -> None:
        """Import modules, so that the first call does not wait for them; those that are missing are left out."""
        for module in modules:
            try:
                import_module(module)
            except ImportError:
                continue

    def call(self, data: bytes) -> bytes:
        """The result of a function on its arguments."""
        return self._answer(data, lambda function, *arguments: function(*arguments))

    def make(self, name: str, data: bytes) -> bytes:
        """Keep what a function gives."""

        def keep(function: Callable[..., Any], *arguments: Any) -> None:
            self._held[name] = function(*arguments)

        return self._answer(data, keep)

    def ask(self, name: str, data: bytes) -> bytes:
        """The result of a method of what is kept."""
        return self._answer(data, lambda method, *arguments: getattr(self._held[name], method)(*arguments))

    def drop(self) -> None:
        """Forget all that is kept."""
        self._held.clear()

    def _answer(self, data: bytes, answer: Callable[..., Any]) -> bytes:
        try:
            found: tuple[bool, Any] = (True, answer(*pickle.loads(data)))
        except Exception as error:  # of any runtime: their classes are not all known to the other end
            from egshape.errors import EgshapeError

            if not isinstance(error, EgshapeError):
                said = next(iter(str(error).splitlines()), "")
                error = EgshapeError(f"{type(error).__name__}: {said}", code="guest")
            found = (False, error)
        return pickle.dumps(found, protocol=5)


class _Never(Exception):
    """Raised by nothing: errors are part of answers here."""


def main(paths: str, requests: str, life: str) -> None:
    """Serve requests on a socket's descriptor until it, or the other end of ``life``, is closed."""
    sys.path[:] = paths.split(os.pathsep)
    from egshape.egraph.worker import die_with, first_to_be_killed, serve

    die_with(int(life))
    first_to_be_killed()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C on a terminal reaches the user's process, which ends this
    serve(socket.socket(fileno=int(requests)), Requests(), _Never)


if __name__ == "__main__":
    main(*sys.argv[1:])
