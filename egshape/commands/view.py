"""view: the report in a browser, written again at each change of the model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from egshape.commands.files import load_model, read_facts
from egshape.commands.optimizing import optimized
from egshape.commands.options import (
    AnnotateFileOpt,
    AnnotateOpt,
    AssumeOpt,
    FactsOpt,
    FormatOpt,
    OpsOpt,
    RulesOpt,
    ShareLayersOpt,
)
from egshape.commands.playground import PortOpt, opened, served, until_ended
from egshape.commands.terminal import say
from egshape.errors import EgshapeError

if TYPE_CHECKING:
    from egshape.viz.report.serve import Live

EVERY = 0.3
"""Seconds between two looks at the files' times."""


def view(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="A model file; with --playground a rule file, or none.")
    ] = None,
    port: PortOpt = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page; else only say where it is.")
    ] = True,
    playground: Annotated[
        bool, typer.Option("--playground", help="Play with a rule instead, as `egshape rules playground`.")
    ] = False,
    assume: AssumeOpt = None,
    annotate: AnnotateOpt = None,
    annotate_file: AnnotateFileOpt = None,
    facts: FactsOpt = None,
    rules: RulesOpt = None,
    share_layers: ShareLayersOpt = False,
    ops: OpsOpt = None,
    format: FormatOpt = None,
) -> None:
    """Show the report of MODEL in a browser.

    It is served on this machine only, and comes again when the model, the rules or the facts are saved. Ctrl-C ends
    it."""
    if playground:
        with served(Path(model) if model else None, "", port, ops) as server:
            until_ended(server, browser)
        return
    if model is None or model == "-":
        raise EgshapeError("view needs the file of a model", hint="egshape view model.onnx", code="usage")
    from egshape.viz.report.page import report
    from egshape.viz.report.serve import Live
    from egshape.viz.report.serve import server as serve

    def page() -> str:
        graph = load_model(model, format, ops, annotate, annotate_file, assume)
        result = optimized(graph, assume, facts=read_facts(facts), rules=rules, share_layers=share_layers)
        return report(result, live=True)

    beside = [each for each in (facts, annotate_file) if each is not None]
    files = [Path(model), *(rules or ()), *(ops or ()), *beside]
    live, stamp = Live(), _stamp(files)
    with opened(lambda port: serve(live, port), port) as server:
        live.show(page())
        Thread(target=_follow, args=(live, files, stamp, page), daemon=True).start()
        until_ended(server, browser)


def _follow(live: Live, files: list[Path], stamp: list[tuple[int, ...]], page: Callable[[], str]) -> None:
    """Show a new page after each save; what is wrong with a model is said on the page and here."""
    for _ in _saves(files, stamp):
        live.say("working", "optimizing again …")
        try:
            live.show(page())
        except EgshapeError as error:
            live.say("problem", str(error))
            say(f"egshape: {error}")


def _saves(files: list[Path], before: list[tuple[int, ...]]) -> Iterator[None]:
    """Once for each change of the files since ``before``."""
    while True:
        time.sleep(EVERY)
        now = _stamp(files)
        if now != before and all(one for one, was in zip(now, before, strict=True) if was):
            before = now
            yield


def _stamp(files: list[Path]) -> list[tuple[int, ...]]:
    """What changes when a file is saved; nothing of one that is not there between two states of a save."""
    out: list[tuple[int, ...]] = []
    for file in files:
        try:
            status = file.stat()
            out.append((status.st_mtime_ns, status.st_size))
        except OSError:
            out.append(())
    return out
