"""shapelib list, check: shape functions in Python, and whether they are right."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from egshape.commands.options import JsonOpt, QuietOpt
from egshape.commands.terminal import put
from egshape.show import print_table

if TYPE_CHECKING:
    from egshape.commands.answers import ShapeFunctionEntry
    from egshape.shapelib.library import Entry

app = typer.Typer(help="Shape functions of common ops, in Python.", no_args_is_help=True)

FileArg = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="A Python file that declares some. Default: the library.")
]


@app.command("list")
def list_(file: FileArg = None, as_json: JsonOpt = False) -> None:
    """List shape functions with what each is."""
    from egshape.shapelib.library import entries

    found = entries(file)
    if as_json:
        from egshape.commands.answers import ShapeFunctions

        put(ShapeFunctions(functions=tuple(_entry(each) for each in found.values())).model_dump_json())
        return
    print_table(("op", "is", "cases"), [(each.name, each.about, str(len(each.cases))) for each in found.values()])


@app.command()
def check(file: FileArg = None, quiet: QuietOpt = False, as_json: JsonOpt = False) -> None:
    """Compare shape functions with what ops give.

    At small sizes, 0 and 1 too; those of the library also with torch, ONNX and ONNX Runtime, where these are
    installed. The exit code is 1 where one differs."""
    from egshape.shapelib.library import entries, mismatch
    from egshape.shapelib.peers import peers

    found, asked = entries(file), [] if file else peers()
    reasons = {name: mismatch(each, asked) for name, each in found.items()}
    known_to = {peer.name: len(found.keys() & set(peer.ops)) for peer in asked}
    wrong = [why for why in reasons.values() if why]
    if as_json:
        from egshape.commands.answers import ShapeFunctions

        told = tuple(_entry(each, reasons[name]) for name, each in found.items())
        put(ShapeFunctions(functions=told, known_to=known_to).model_dump_json())
    else:
        for why in wrong:
            put(why)
        if not quiet:
            put(f"{len(found) - len(wrong)} right, {len(wrong)} wrong")
            for peer, number in known_to.items():
                put(f"{number} of them are known to {peer} too")
    raise typer.Exit(1 if wrong else 0)


def _entry(each: Entry, wrong: str = "") -> ShapeFunctionEntry:
    from egshape.commands.answers import ShapeFunctionEntry

    return ShapeFunctionEntry(op=each.name, about=each.about, cases=tuple(map(str, each.cases)), wrong=wrong)
