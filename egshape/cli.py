"""The command line: thin over ``egshape.api``.

Results go to stdout, notes and progress to stderr. Exit 0: done; 1: the answer is no; 2: the input is wrong.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from egshape.commands.app import refuse_empty, with_values
from egshape.commands.compile import compile, compiled_as
from egshape.commands.editor import lsp
from egshape.commands.ending import ending
from egshape.commands.facts import facts
from egshape.commands.many import of_many
from egshape.commands.models import optimize, run, shapes
from egshape.commands.options import JsonOpt
from egshape.commands.reasons import advise, explain, prove
from egshape.commands.rules import app as rules
from egshape.commands.shapelib import app as shapelib
from egshape.commands.terminal import put
from egshape.commands.versions import buckets, versions
from egshape.commands.view import view
from egshape.commands.viz import viz
from egshape.errors import EgshapeError

app = typer.Typer(
    name="egshape",
    help="Shape reasoning and rewriting for tensor programs with symbolic sizes.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in (
    of_many(optimize, output="", report=".json"),
    of_many(shapes),
    facts,
    prove,
    explain,
    of_many(advise),
    versions,
    buckets,
    of_many(compile, output=compiled_as),
    run,
    viz,
    view,
    lsp,
):
    app.command()(command)
app.add_typer(rules, name="rules")
app.add_typer(shapelib, name="shapelib")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. ``argv`` defaults to the process's own arguments."""
    if argv is None:  # the process is ours: what is half written goes when it is told to end
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    args = with_values(sys.argv[1:] if argv is None else argv)

    def run() -> None:
        refuse_empty(app, args)
        app(args=args, prog_name="egshape")

    return ending(run)


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version, and those of what it stands on, and stop.")
    ] = False,
    as_json: JsonOpt = False,
) -> None:
    if version:
        from egshape.commands.about import about

        put(about().model_dump_json() if as_json else str(about()))
        raise typer.Exit
    if as_json:
        raise EgshapeError("--json goes with a command", hint="write it behind the command", code="usage")


if __name__ == "__main__":
    sys.exit(main())
