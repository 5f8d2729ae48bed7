"""view: the report in a browser, written again at each change of the model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from egshape.commands.ending import problem
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
    TrustRulesOpt,
)
from egshape.commands.playground import PortOpt, opened, served, until_ended
from egshape.commands.record import parts
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
    trust_rules: TrustRulesOpt = False,
    share_layers: ShareLayersOpt = False,
    ops: OpsOpt = None,
    format: FormatOpt = None,
) -> None:
    """Show the report of MODEL in a browser.

    It is served on this machine only, and comes again when the model, its weights' files, the rules or the facts are
    saved. Ctrl-C ends it."""
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
        result = optimized(
            graph, assume, facts=read_facts(facts), rules=rules, trust_rules=trust_rules, share_layers=share_layers
        )
        return report(result, live=True)

    beside = [each for each in (facts, annotate_file) if each is not None]
    watched = Watched(Path(model), format, [*(rules or ()), *(ops or ()), *beside])
    live = Live()
    with opened(lambda port: serve(live, port), port) as server:
        watched.look()
        live.show(page())
        Thread(target=follow, args=(live, watched, page), daemon=True).start()
        until_ended(server, browser)


def follow(live: Live, watched: Watched, page: Callable[[], str]) -> None:
    """Show a new page after each save; what is wrong with a model, or goes wrong with it, is said on the page and here,
    and the next save is waited for."""
    while True:
        time.sleep(EVERY)
        if not watched.changed():
            continue
        live.say("working", "optimizing again …")
        watched.look()
        try:
            live.show(page())
        except Exception as error:
            text = problem(error, "model")
            live.say("problem", text)
            say(f"egshape: {text}")


class Watched:
    """The files that a page is made of: the model, those that it names (weights of an ONNX model), and others. Where it
    cannot be read what it names, its folder: one of them may be written yet."""

    def __init__(self, model: Path, format: str | None, others: Sequence[Path]) -> None:
        self._model, self._format, self._others = model, format, tuple(others)
        self._files: tuple[Path, ...] = (model, *others)
        self._before: list[tuple[int, ...]] = []

    def look(self) -> None:
        """Note how the files are now; what changes from here on is a change."""
        try:
            named = parts(self._model, self._format)
        except Exception:  # what is wrong with the model is said where it is loaded
            named = (self._model, self._model.absolute().parent)
        self._files = (*named, *self._others)
        self._before = _stamp(self._files)

    def changed(self) -> bool:
        """Whether a file was saved since the last look; not while one is gone, which happens in a save."""
        now = _stamp(self._files)
        return now != self._before and all(one for one, was in zip(now, self._before, strict=True) if was)


def _stamp(files: Sequence[Path]) -> list[tuple[int, ...]]:
    """What changes when a file is saved; nothing of one that is not there between two states of a save."""
    out: list[tuple[int, ...]] = []
    for file in files:
        try:
            status = file.stat()
            out.append((status.st_mtime_ns, status.st_size))
        except OSError:
            out.append(())
    return out
