"""What goes to the terminal: results to stdout, notes and progress to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from egshape.trace import Tracer


@contextmanager
def progress() -> Iterator[Tracer]:
    """A tracer that moves a progress bar, if somebody watches."""
    with _engine_silenced() as terminal:
        if not terminal.isatty():
            yield Tracer()
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(file=terminal), transient=True) as bar:
            task = bar.add_task("load", total=None)
            yield Tracer(on_stage=lambda stage: bar.update(task, description=stage))


@contextmanager
def trials() -> Iterator[Callable[[int, int, str], None]]:
    """What moves a progress bar over trials, if somebody watches."""
    with _engine_silenced() as terminal:
        if not terminal.isatty():
            yield lambda number, total, fact: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
        with Progress(*columns, console=Console(file=terminal), transient=True) as bar:
            task = bar.add_task("optimize", total=None)
            yield lambda number, total, fact: bar.update(task, completed=number, total=total, description=fact)


@contextmanager
def _engine_silenced() -> Iterator[TextIO]:
    """Standard error for ourselves: an engine that panics writes a backtrace there before anything can catch it,
    and what it means is said in a note."""
    if os.environ.get("EGSHAPE_TRACEBACK"):
        yield sys.stderr
        return
    sys.stderr.flush()
    with os.fdopen(os.dup(2), "w") as terminal, open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield terminal
        finally:
            os.dup2(terminal.fileno(), 2)


def put(text: str) -> None:
    sys.stdout.write(text + "\n")


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
