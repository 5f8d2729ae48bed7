"""How a command ends: the exit code, and what is said of an error."""

from __future__ import annotations

import os
from collections.abc import Callable

import typer

from egshape.commands.terminal import say
from egshape.errors import EgshapeError


def ending(run: Callable[[], object]) -> int:
    """Run a command; its exit code. What it raises is said on stderr, in a line: the answer no is 1, bad input and our
    own faults are 2, an interrupt 130."""
    try:
        run()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except typer.Exit as stop:
        return stop.exit_code
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


def problem(error: Exception, what: str) -> str:
    """What a command that goes on says of an error; one of our own is to be reported with ``what``."""
    if isinstance(error, EgshapeError):
        return str(error)
    return f"a fault of ours, {type(error).__name__}: {error} (please report it with the {what})"
