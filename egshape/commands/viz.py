"""viz: pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from egshape.atomic import write_atomic
from egshape.commands.files import load_model
from egshape.commands.optimizing import optimized
from egshape.commands.options import AssumeOpt, FormatOpt, ModelArg, Stage
from egshape.commands.terminal import put
from egshape.errors import EgshapeError


def viz(
    model: ModelArg,
    stage: Annotated[
        Stage, typer.Option("--stage", help="The graph as it came in, or as it goes out.")
    ] = Stage.input,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE.dot|.svg")] = None,
    assume: AssumeOpt = None,
    format: FormatOpt = None,
) -> None:
    """Draw MODEL with its shapes; Graphviz text on stdout without -o."""
    from egshape import api

    if output is not None and output.suffix not in {".dot", ".svg"}:
        raise EgshapeError("can be written as .dot or .svg", where=str(output), code="usage")
    graph = load_model(model, format)
    if stage is Stage.output:
        graph = optimized(graph, assume).graph
    text = api.to_dot(graph)
    if output is None:
        put(text)
    else:
        write_atomic(output, _svg(text) if output.suffix == ".svg" else text)


def _svg(dot: str) -> bytes:
    try:
        import graphviz

        rendered: bytes = graphviz.Source(dot).pipe(format="svg")
    except ImportError as error:
        raise EgshapeError(
            "drawing .svg needs graphviz", hint='pip install "egshape[viz]"', code="dependency"
        ) from error
    except graphviz.ExecutableNotFound as error:
        raise EgshapeError(
            "drawing .svg needs Graphviz's dot program",
            hint="install Graphviz, or write .dot",
            code="dependency",
        ) from error
    return rendered
