"""rules playground: a rule and a small program edited in a page, and the e-graph after each step."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from egshape.commands.files import declare_ops, read_bytes
from egshape.commands.options import OpsOpt
from egshape.commands.terminal import put
from egshape.errors import EgshapeError


def playground(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="A rule file to begin with.")] = None,
    program: Annotated[
        str, typer.Option("--program", metavar="TERM", help="A program to begin with, as examples are written.")
    ] = "",
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="0 takes a free one.")] = 0,
    ops: OpsOpt = None,
) -> None:
    """Play with a rule in a page.

    It is served on this machine only. Ctrl-C ends it."""
    from egshape.editor import playground_server
    from egshape.editor.playground import PROGRAM, RULE

    declare_ops(ops)
    rule = RULE if file is None else read_bytes(file).decode(errors="replace")
    try:
        served = playground_server.server(port, rule, program or PROGRAM)
    except OSError as error:
        raise EgshapeError(
            f"port {port} cannot be used: {error.strerror}", hint="leave --port out", code="usage"
        ) from None
    put(f"http://{playground_server.HOST}:{served.server_port}/")
    sys.stdout.flush()  # what waits for the address may be a pipe
    with contextlib.suppress(KeyboardInterrupt), served:
        served.serve_forever()
