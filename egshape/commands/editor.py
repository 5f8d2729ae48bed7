"""lsp: the language server for rule files."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from egshape.commands.files import declare_ops
from egshape.commands.options import OpsOpt
from egshape.errors import MissingDependency
from egshape.hints import install


def lsp(
    model: Annotated[
        list[Path] | None,
        typer.Option("--model", metavar="MODEL", help="A saved model on which saved rules are tried."),
    ] = None,
    no_tests: Annotated[bool, typer.Option("--no-tests", help="Do not test a file when it is saved.")] = False,
    ops: OpsOpt = None,
) -> None:
    """Serve editors of rule files.

    The Language Server Protocol on standard input and output; an editor starts it."""
    if importlib.util.find_spec("pygls") is None:
        raise MissingDependency("the language server needs pygls", hint=install("lsp"))
    from egshape.editor.server import server

    declare_ops(ops)
    server(tuple(str(each.absolute()) for each in model or ()), not no_tests).start_io()
