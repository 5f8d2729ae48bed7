"""One model's share of a command on many, done in another process: what it takes, and what it gives back."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from egshape.commands.ending import ending
from egshape.errors import EgshapeError

FAULT = 2
"""The exit code of what could not be done."""


_PRINTING = threading.Lock()
"""What a command prints goes to the streams of its process, which threads share: one of them works at a time."""


@dataclass(frozen=True)
class Task:
    """A command on a model, or a ruleset. ``command``: the module and name of its function, which takes what stands in
    ``model`` and ``options``; ``outputs``: those of them that are files to write; ``parts``: the files that it is in,
    None for those that a model of its format has."""

    command: tuple[str, str]
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    parts: tuple[Path, ...] | None = None
    sent: Mapping[str, bytes] | None = None
    """The content of these files, by their paths from the folder of the model on, for a process that does not see this
    one's folders; it sends back what it writes."""


@dataclass(frozen=True)
class Done:
    """How a task ended: its exit code, what it printed, the seconds that it took. ``written``: files by the name of
    their option, from a process that does not see this one's folders; ``stands``: it was done before."""

    code: int
    out: str = ""
    err: str = ""
    seconds: float = 0.0
    written: Mapping[str, bytes] = field(default_factory=dict)
    stands: bool = False


def work(task: Task) -> Done:
    """Do a task in this process."""
    if task.sent is not None:
        return _elsewhere(task, task.sent)
    module, name = task.command
    command: Callable[..., object] = getattr(importlib.import_module(module), name)
    out, err, began = io.StringIO(), io.StringIO(), time.perf_counter()
    with _PRINTING, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = ending(lambda: command(task.model, **task.options))
    return Done(code, out.getvalue(), err.getvalue(), time.perf_counter() - began)


def _elsewhere(task: Task, sent: Mapping[str, bytes]) -> Done:
    """A task on files that came with it, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="egshape.") as name:
        folder, targets = Path(name), {}
        for option in task.outputs:
            targets[option] = folder / "written" / option / Path(task.options[option]).name
            targets[option].parent.mkdir(parents=True)
        options = {**task.options, **{option: type(task.options[option])(path) for option, path in targets.items()}}
        above = max((Path(file).parts.count("..") for file in sent), default=0)
        inside = folder.joinpath("sent", *["of"] * above)  # so deep that what stands beside its folder is in there too
        inside.mkdir(parents=True)
        for file, data in sent.items():
            inside.joinpath(file).parent.mkdir(parents=True, exist_ok=True)
            inside.joinpath(file).write_bytes(data)
        given, own = os.path.split(task.model)
        done = work(replace(task, model=str(inside / own) if sent else task.model, options=options, sent=None))
        written = {
            f"{option}/{path.relative_to(target.parent)}": path.read_bytes()
            for option, target in targets.items()
            for path in sorted(target.parent.rglob("*"))
            if path.is_file()
        }
        names = {f"{inside}{os.sep}": os.path.join(given, ""), f"{folder}{os.sep}": ""}
        said = [_renamed(text, names) for text in (done.out, done.err)]
    return replace(done, out=said[0], err=said[1], written=written)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """What was printed, in JSON or in words, with other paths."""
    for old, new in names.items():
        text = text.replace(old, json.dumps(new)[1:-1] if text.startswith("{") else new)
    return text


def local(jobs: int) -> Executor:
    """So many processes of this machine."""
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _ends_with_its_parent)


def _ends_with_its_parent() -> None:
    """The terminal's interrupt is for the process that gives out the work; it ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def each(
    tasks: Sequence[Task],
    jobs: int,
    new: Callable[[int], Executor] = local,
    made: Callable[[Task], Task] = lambda task: task,
) -> Iterator[tuple[int, Done]]:
    """What became of tasks, with their numbers, as they end. ``jobs``: how many are in work at once; ``made``: what a
    task becomes when it is given out.

    A process that dies takes those with it that were in work; each is done once more by itself, and has failed if its
    process dies again."""
    alone = []
    for number, done in _through(tasks, range(len(tasks)), jobs, new, made):
        if done is None and jobs > 1:
            alone.append(number)
        else:
            yield number, done or _failed(_DIED)
    for number in alone:
        for _, done in _through(tasks, [number], 1, new, made):
            yield number, done or _failed(_DIED)


def _through(
    tasks: Sequence[Task],
    numbers: Sequence[int],
    jobs: int,
    new: Callable[[int], Executor],
    made: Callable[[Task], Task],
) -> Iterator[tuple[int, Done | None]]:
    """What became of the tasks with some numbers; None for what was in work when a process died."""
    waiting = list(reversed(numbers))
    while waiting:
        running: dict[Future[Done], int] = {}
        with _ended(new(min(jobs, len(waiting)))) as executor:
            died = False
            while not died and (waiting or running):
                while waiting and len(running) < jobs:
                    number = waiting.pop()
                    try:
                        running[executor.submit(work, made(tasks[number]))] = number
                    except EgshapeError as error:
                        yield number, _failed(str(error))
                    except BrokenProcessPool:  # a process has died since the last look
                        waiting.append(number)
                        died = True
                        break
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    number, raised = running.pop(future), future.exception()
                    if isinstance(raised, BrokenProcessPool):
                        died = True
                        yield number, None
                    else:
                        yield number, future.result() if raised is None else _failed(repr(raised))
            yield from ((number, None) for number in running.values())


_DIED = "its process was ended (out of memory, or a crash)"


def _failed(why: str) -> Done:
    """A task whose process ended before it did."""
    return Done(FAULT, err=f"egshape: {why}\n")


@contextlib.contextmanager
def _ended(executor: Executor) -> Iterator[Executor]:
    """An executor that is waited for in the end; where something is raised meanwhile its processes are ended."""
    try:
        yield executor
    except BaseException:
        for process in list((getattr(executor, "_processes", None) or {}).values()):
            process.terminate()
        executor.shutdown(wait=False, cancel_futures=True)
        raise
    executor.shutdown()
