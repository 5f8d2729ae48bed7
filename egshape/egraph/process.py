"""An engine's process from its user's side: started early, asked under limits, killed at them."""

from __future__ import annotations

import importlib.util
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from egshape.egraph.worker import REFUSED, receive, send
from egshape.errors import EgshapeError, EngineFault, MissingDependency
from egshape.limits import resident_mb

LOOK_EVERY = 0.02
"""Seconds between two looks at the memory of an engine that computes."""

_SHOWN = 400
"""Characters of a fault's text that are shown."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a request may take: `until`, a `time.monotonic()` value, and resident memory of this process and the engine
    together."""

    until: float = float("inf")
    memory_mb: float = float("inf")


class WorkerLost(Exception):
    """The process was killed at a limit (``limit`` is its name), or ended by itself ("")."""

    def __init__(self, limit: str, last_words: str = "") -> None:
        super().__init__(limit or "the engine's process ended")
        self.limit = limit
        self.last_words = last_words


class Worker:
    """One process that holds one e-graph at a time (`worker.py`). Any thread may use it, one at a time."""

    def __init__(self) -> None:
        # Files without a name: nothing is left of them, however this process ends.
        self._words = tempfile.TemporaryFile()  # noqa: SIM115
        rows = tempfile.TemporaryFile()  # noqa: SIM115
        ours, theirs = socket.socketpair()
        life_end, self._life = os.pipe()
        script = Path(__file__).with_name("worker.py")
        command = [
            sys.executable,
            "-I",
            "-S",
            str(script),
            _extension(),
            str(rows.fileno()),
            str(theirs.fileno()),
            str(life_end),
        ]
        with rows:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._words,
                stderr=self._words,
                pass_fds=(rows.fileno(), theirs.fileno(), life_end),
                start_new_session=True,
            )
        theirs.close()
        os.close(life_end)
        self._socket = ours
        self.pid = self._process.pid
        self._end = weakref.finalize(self, _end, self._process, ours, self._life, self._words, os.getpid())
        _ALL.add(self)

    @property
    def usable(self) -> bool:
        """Whether requests can be sent: not ended, and of this process (not of the one that it was forked from)."""
        return self._end.alive and self._process.poll() is None

    def send(self, request: tuple[Any, ...]) -> None:
        """Send a request; requests are answered in order. Raises WorkerLost where the process ended."""
        with self._lost():
            send(self._socket, request)

    def answer(self, allowance: Allowance) -> Any:
        """The answer to the first request that has none yet. Raises WorkerLost where it met a limit (the process is
        killed) or the process ended, EngineFault where the engine failed, EgshapeError (code "refused") where it
        refused a command."""
        with self._lost():
            self._wait(allowance)
            fault, value = receive(self._socket)
        if fault == REFUSED:
            raise EgshapeError(shortened(value), code=REFUSED)
        if fault:
            raise EngineFault(f"the rewrite engine failed: {shortened(value)}")
        return value

    @contextmanager
    def _lost(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError):
            words = self._last_words()
            self.kill()
            raise WorkerLost("", words) from None
        except BaseException:  # Ctrl-C in the middle of an answer: what comes next would be read wrong
            self.kill()
            raise

    def kill(self) -> None:
        """End the process."""
        self._end()

    def _wait(self, allowance: Allowance) -> None:
        ready = select.poll()
        ready.register(self._socket, select.POLLIN)
        while not ready.poll(max(0.0, min(LOOK_EVERY, allowance.until - time.monotonic())) * 1000):
            if time.monotonic() >= allowance.until:
                self.kill()
                raise WorkerLost("seconds")
            if allowance.memory_mb != float("inf") and self.memory_mb() > allowance.memory_mb:
                self.kill()
                raise WorkerLost("memory_mb")

    def memory_mb(self) -> float:
        """Resident memory of this process and of the engine's."""
        return resident_mb() + resident_mb(self.pid)

    def _last_words(self) -> str:
        with suppress(OSError, ValueError):
            self._words.seek(0)
            return shortened(self._words.read().decode(errors="replace"))
        return ""


_ALL: weakref.WeakSet[Worker] = weakref.WeakSet()


def _forget_all() -> None:
    """After a fork the processes belong to the parent: the child closes its copies of the ends."""
    for worker in list(_ALL):
        worker.kill()
    SPARE.forget()


def _end(process: subprocess.Popen[bytes], sock: socket.socket, life: int, words: IO[bytes], owner: int) -> None:
    """Close our ends, and end the process if it is ours: a fork of its owner has copies of the ends only."""
    sock.close()
    words.close()
    with suppress(OSError):
        os.close(life)
    if os.getpid() != owner:
        process.returncode = 0  # not a child of this process: nothing to wait for
        return
    process.kill()
    process.wait()


def _extension() -> str:
    """The file of egglog's extension module. Raises MissingDependency without one."""
    package = importlib.util.find_spec("egglog")
    for folder in (package.submodule_search_locations or ()) if package is not None else ():
        for path in sorted(Path(folder).glob("bindings*")):
            if path.suffix in (".so", ".pyd", ".dylib"):
                return str(path)
    raise MissingDependency("egglog's extension module is not installed", hint="pip install egglog")


def shortened(text: object) -> str:
    """A fault's text on one line, of bounded length."""
    line = " ".join(str(text).split())
    return line if len(line) <= _SHOWN else line[:_SHOWN] + " ..."


class Spare:
    """A process that was started before it is needed, so that its start costs no waiting."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._worker: Worker | None = None

    def prepare(self) -> None:
        """Start a process, if none waits; one that cannot be started is missed when it is needed."""
        with self._lock, suppress(OSError):
            if self._worker is None or not self._worker.usable:
                self._worker = Worker()

    def take(self) -> Worker:
        """The process that waits, else a new one."""
        with self._lock:
            worker, self._worker = self._worker, None
        return worker if worker is not None and worker.usable else Worker()

    def forget(self) -> None:
        """After a fork: what waits belongs to the parent, and another thread may have held the lock."""
        self._lock = threading.Lock()
        self._worker = None


SPARE = Spare()
os.register_at_fork(after_in_child=_forget_all)
