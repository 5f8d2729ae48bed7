"""What goes to the terminal: results to stdout, notes and progress to stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from egshape.trace import Tracer


@contextmanager
def progress() -> Iterator[Tracer]:
    """A tracer that moves a progress bar, if somebody watches."""
    if not sys.stderr.isatty():
        yield Tracer()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("load", total=None)
        yield Tracer(on_stage=lambda stage: bar.update(task, description=stage))


@contextmanager
def bar(of: str) -> Iterator[Callable[[int, int, str], None]]:
    """What moves a progress bar over things that are counted, if somebody watches: how many are done, of how many, and
    what is said of the last. ``of``: what is said before the first."""
    if not sys.stderr.isatty():
        yield lambda number, total, said: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(of, total=None)
        yield lambda number, total, said: shown.update(task, completed=number, total=total, description=said or of)


def put(text: str) -> None:
    sys.stdout.write(text + "\n")


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
