"""shapelib list, check: shape functions in Python, and whether they are right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from egshape.commands.terminal import put
from egshape.show import print_table

app = typer.Typer(help="Shape functions of common ops, in Python.", no_args_is_help=True)

FileArg = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="A Python file that declares some. Default: the library.")
]


@app.command("list")
def list_(file: FileArg = None) -> None:
    """List shape functions with what each is."""
    from egshape.shapelib.library import entries

    found = entries(file)
    print_table(("op", "is", "cases"), [(each.name, each.about, str(len(each.cases))) for each in found.values()])


@app.command()
def check(file: FileArg = None) -> None:
    """Compare shape functions with what ops give.

    At small sizes, 0 and 1 too; those of the library also with torch, ONNX and ONNX Runtime, where these are
    installed. The exit code is 1 where one differs."""
    from egshape.shapelib.library import entries, mismatch
    from egshape.shapelib.peers import peers

    found, asked = entries(file), [] if file else peers()
    wrong = [why for each in found.values() if (why := mismatch(each, asked))]
    for why in wrong:
        put(why)
    put(f"{len(found) - len(wrong)} right, {len(wrong)} wrong")
    for peer in asked:
        put(f"{len(found.keys() & set(peer.ops))} of them are known to {peer.name} too")
    raise typer.Exit(1 if wrong else 0)
