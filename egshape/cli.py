"""The command line: thin over ``egshape.api``.

Results go to stdout, notes and progress to stderr. Exit 0: done; 1: the answer is no; 2: the input is wrong.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from egshape import __version__
from egshape.commands.compile import compile
from egshape.commands.facts import facts
from egshape.commands.models import optimize, run, shapes
from egshape.commands.reasons import advise, explain, prove
from egshape.commands.rules import app as rules
from egshape.commands.shapelib import app as shapelib
from egshape.commands.terminal import put, say
from egshape.commands.versions import buckets, versions
from egshape.commands.viz import viz
from egshape.errors import EgshapeError

app = typer.Typer(
    name="egshape",
    help="Shape reasoning and rewriting for tensor programs with symbolic sizes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (optimize, shapes, facts, prove, explain, advise, versions, buckets, compile, run, viz):
    app.command()(command)
app.add_typer(rules, name="rules")
app.add_typer(shapelib, name="shapelib")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. ``argv`` defaults to the process's own arguments."""
    if argv is None:  # the process is ours: what is half written goes when it is told to end
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        app(args=list(argv) if argv is not None else None, prog_name="egshape")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except EgshapeError as error:
        say(f"egshape: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except MemoryError as error:
        say(f"egshape: out of memory{f': {error}' if str(error) else ''}")
        return 2
    except BaseException as error:  # a panic of the engine is no Exception
        if os.environ.get("EGSHAPE_TRACEBACK"):
            raise
        if isinstance(error, OSError) and error.errno is not None:  # of our own files it is an EgshapeError
            say(f"egshape: {error.filename or 'output'}: {error.strerror}")
            return 2
        say(
            f"egshape: internal error: {type(error).__name__}: {error} "
            "(a fault of egshape; EGSHAPE_TRACEBACK=1 shows where)"
        )
        return 2
    return 0


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        put(__version__)
        raise typer.Exit


if __name__ == "__main__":
    sys.exit(main())
