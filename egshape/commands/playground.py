"""rules playground: a rule and a small program edited in a page, and the e-graph after each step."""

from __future__ import annotations

import contextlib
import sys
import webbrowser
from collections.abc import Callable
from http.server import HTTPServer
from pathlib import Path
from typing import Annotated

import typer

from egshape.commands.files import declare_ops, read_bytes
from egshape.commands.options import OpsOpt
from egshape.commands.terminal import put
from egshape.errors import EgshapeError

PortOpt = Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="0 takes a free one.")]


def playground(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A rule file to begin with.")] = None,
    program: Annotated[
        str, typer.Option("--program", metavar="TERM", help="A program to begin with, as examples are written.")
    ] = "",
    port: PortOpt = 0,
    ops: OpsOpt = None,
) -> None:
    """Play with a rule in a page.

    It is served on this machine only. Ctrl-C ends it."""
    with served(file, program, port, ops) as server:
        until_ended(server)


def served(file: Path | None, program: str, port: int, ops: list[Path] | None) -> HTTPServer:
    """The playground on a port, begun with a rule file and a program where they are given."""
    from egshape.editor import playground_server
    from egshape.editor.playground import PROGRAM, RULE

    declare_ops(ops)
    rule = RULE if file is None else read_bytes(file).decode(errors="replace")
    return opened(lambda port: playground_server.server(port, rule, program or PROGRAM), port)


def opened(make: Callable[[int], HTTPServer], port: int) -> HTTPServer:
    """A server on a port, or an error that says why not."""
    try:
        return make(port)
    except OSError as error:
        raise EgshapeError(
            f"port {port} cannot be used: {error.strerror}", hint="leave --port out", code="usage"
        ) from None


def until_ended(server: HTTPServer, browser: bool = False) -> None:
    """Say where a server is, open its page if wanted, and serve until Ctrl-C."""
    from egshape.viz.local import HOST

    address = f"http://{HOST}:{server.server_port}/"
    put(address)
    sys.stdout.flush()  # what waits for the address may be a pipe
    if browser:
        webbrowser.open(address)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
