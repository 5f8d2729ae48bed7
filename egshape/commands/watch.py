"""rules watch: a rule file checked, tested and tried on models at each save."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from egshape.commands.ending import problem
from egshape.commands.files import load_model
from egshape.commands.options import JsonOpt, OpsOpt
from egshape.commands.terminal import progress, put, say
from egshape.show import print_table

if TYPE_CHECKING:
    from egshape.rulebook.watching import Look, Watch

EVERY = 0.3
"""Seconds between two looks at the files' times."""


def watch(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Rule files.")],
    model: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="MODEL", help="A saved model to try the rules on; may be repeated."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    as_json: JsonOpt = False,
    ops: OpsOpt = None,
) -> None:
    """Check, test and try rules at each save.

    Mistakes, verdicts, and what the rules do on models; then what has changed. Ctrl-C ends it."""
    from egshape.rulebook.watching import Watch, known

    graphs = {name: load_model(name, None, ops) for name in model or ()}
    known(files)
    watched = Watch(files, graphs)
    if once:
        raise typer.Exit(_look(watched, None, as_json).exit_code)
    with contextlib.suppress(KeyboardInterrupt):
        _go_on(watched, as_json)


def _go_on(watched: Watch, as_json: bool) -> None:
    before = None
    while True:
        stamp = watched.stamp()
        try:
            before = _look(watched, before, as_json)
        except Exception as error:  # the next save is waited for, whatever this one brought
            say(f"egshape: {problem(error, 'rules')}")
        say("egshape: waiting for the next save (Ctrl-C ends)")
        while watched.stamp() == stamp:
            time.sleep(EVERY)


def _look(watched: Watch, before: Look | None, as_json: bool) -> Look:
    with progress() as tracer:
        now, mistakes = watched.look(tracer.on_stage or (lambda name: None))
    if as_json:
        put(now.model_dump_json())
    else:
        _show(now, mistakes, before)
    sys.stdout.flush()
    return now


def _show(now: Look, mistakes: str, before: Look | None) -> None:
    from egshape.commands.testing import show
    from egshape.rulebook.watching import changes

    put(f"# {time.strftime('%H:%M:%S')} {' '.join(now.files)}")
    if mistakes:
        put(mistakes + "\n")
    if now.tested is None:
        put("not tested: mend what is wrong with its form first")
        return
    show(now.tested)
    for each in now.effects:
        put(f"\n{each.model}: {each.ops} ops -> {each.with_rules}, {each.without} without these rules ({each.status})")
        rows = [(row.rule, str(row.matches), str(row.unions)) for row in each.fired]
        if rows:
            print_table(("rule", "matches", "unions"), rows)
        else:
            put("  none of them matched")
    said = list(changes(before, now))
    if said:
        put("\nsince the last save:")
        for line in said:
            put(f"  {line}")
