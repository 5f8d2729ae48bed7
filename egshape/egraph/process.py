"""A process that computes for this one, from its user's side: started early, asked under limits, killed at them."""

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from egshape.egraph.worker import REFUSED, receive, send
from egshape.errors import EgshapeError, EngineFault, MissingDependency
from egshape.limits import resident_mb

LOOK_EVERY = 0.02
"""Seconds between two looks at the memory of a process that computes."""

_SHOWN = 400
"""Characters of a fault's text that are shown."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a request may take: `until`, a `time.monotonic()` value, and resident memory of this process and the other
    one together."""

    until: float = float("inf")
    memory_mb: float = float("inf")


class WorkerLost(Exception):
    """The process was killed at a limit (``limit`` is its name), or ended by itself ("")."""

    def __init__(self, limit: str, last_words: str = "") -> None:
        super().__init__(limit or "the process ended")
        self.limit = limit
        self.last_words = last_words


class Process:
    """One process that answers requests over a socket (`worker.serve`) and ends with its user. Any thread may use it,
    one at a time."""

    def __init__(self, command: Sequence[str], kept: Sequence[int] = (), what: str = "the process") -> None:
        """``command`` gets the descriptors of its socket, and of a pipe that closes when its user ends, as last
        arguments; ``kept`` are open in it too. ``what``: what messages call it."""
        self._words = _unnamed()
        self._what = what
        self._unread = 0
        """Answers that nobody waits for."""
        ours, theirs = socket.socketpair()
        life_end, self._life = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno()), str(life_end)],
                stdin=subprocess.DEVNULL,
                stdout=self._words,
                stderr=self._words,
                pass_fds=(*kept, theirs.fileno(), life_end),
                start_new_session=True,
            )
        except BaseException:
            os.close(self._life)
            ours.close()
            raise
        finally:
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

    def answer_later(self) -> None:
        """Leave the answer to the last request unread, and what went wrong with it untold."""
        self._unread += 1

    def answer(self, allowance: Allowance) -> Any:
        """The answer to the first request that has none yet. Raises WorkerLost where it met a limit (the process is
        killed) or the process ended, EngineFault where the engine failed, EgshapeError (code "refused") where it
        refused a command."""
        with self._lost():
            while self._unread:
                self._wait(allowance)
                receive(self._socket)
                self._unread -= 1
            self._wait(allowance)
            fault, value = receive(self._socket)
        if fault == REFUSED:
            raise EgshapeError(shortened(value), code=REFUSED)
        if fault:
            raise EngineFault(f"{self._what} failed: {shortened(value)}")
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

    def forget_words(self) -> None:
        """Forget what the process wrote: its next user is told of its own words only."""
        with suppress(OSError, ValueError):
            os.ftruncate(self._words.fileno(), 0)
            os.lseek(self._words.fileno(), 0, os.SEEK_SET)  # the process writes at the same place

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
        """Resident memory of both processes."""
        return resident_mb() + self.own_mb()

    def own_mb(self) -> float:
        """Resident memory of the other process."""
        return resident_mb(self.pid)

    def _last_words(self) -> str:
        with suppress(OSError, ValueError):
            self._words.seek(0)
            return shortened(self._words.read().decode(errors="replace"))
        return ""


class Worker(Process):
    """A process that holds one e-graph at a time (`worker.Requests`)."""

    def __init__(self) -> None:
        rows = _unnamed()
        script = str(Path(__file__).with_name("worker.py"))
        with rows:
            command = [sys.executable, "-I", "-S", script, _extension(), str(rows.fileno())]
            super().__init__(command, [rows.fileno()], "the rewrite engine")


def _unnamed() -> IO[bytes]:
    """A file without a name: nothing is left of it, however this process ends. It is in memory where no folder can be
    written to."""
    try:
        return tempfile.TemporaryFile()
    except OSError:
        if sys.platform != "linux":
            raise
        return os.fdopen(os.memfd_create("egshape"), "w+b")


_ALL: weakref.WeakSet[Process] = weakref.WeakSet()
_SPARES: weakref.WeakSet[Spare[Any]] = weakref.WeakSet()


def _forget_all() -> None:
    """After a fork the processes belong to the parent: the child closes its copies of the ends."""
    for process in list(_ALL):
        process.kill()
    for spare in list(_SPARES):
        spare.forget()


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


Kind = TypeVar("Kind", bound=Process)


class Spare(Generic[Kind]):
    """A process that waits until it is needed, so that its start costs no waiting."""

    def __init__(self, start: Callable[[], Kind]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._waiting: Kind | None = None
        _SPARES.add(self)

    def prepare(self) -> None:
        """Start a process, if none waits; one that cannot be started is missed when it is needed."""
        with self._lock, suppress(EngineFault):
            if self._waiting is None or not self._waiting.usable:
                self._waiting = self._started()

    def take(self) -> Kind:
        """The process that waits, else a new one. Raises EngineFault where none can be started."""
        with self._lock:
            found, self._waiting = self._waiting, None
        return found if found is not None and found.usable else self._started()

    def _started(self) -> Kind:
        try:
            return self._start()
        except OSError as error:
            raise EngineFault(f"a process of its own cannot be started: {error}") from None

    def give(self, process: Kind) -> None:
        """Let a process wait for the next user; it is ended where another one waits."""
        process.forget_words()
        with self._lock:
            if self._waiting is None and process.usable:
                self._waiting = process
                return
        process.kill()

    def forget(self) -> None:
        """After a fork: what waits belongs to the parent, and another thread may have held the lock."""
        self._lock = threading.Lock()
        self._waiting = None


SPARE = Spare(Worker)
os.register_at_fork(after_in_child=_forget_all)
