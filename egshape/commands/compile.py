"""compile: a model as native code in a file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from egshape.commands.files import load_model, read_facts
from egshape.commands.optimizing import limits_of, optimized
from egshape.commands.options import (
    AnnotateFileOpt,
    AnnotateOpt,
    AssumeOpt,
    FactsOpt,
    FormatOpt,
    LikelyOpt,
    MemoryOpt,
    ModelArg,
    NodesOpt,
    OpsOpt,
    RulesOpt,
    SecondsOpt,
)
from egshape.commands.terminal import put
from egshape.errors import EgshapeError
from egshape.show import print_table

if TYPE_CHECKING:
    from egshape.runtime import CompiledFunction


class Native(StrEnum):
    """What native code runs on."""

    llvm = "llvm"
    cuda = "cuda"


class Emit(StrEnum):
    """What is written instead of an artifact."""

    c = "c"


def compile(
    model: ModelArg,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE.egx", help="With --emit c a folder.")],
    target: Annotated[Native, typer.Option("--target", help="What the code runs on.")] = Native.llvm,
    threads: Annotated[int, typer.Option("--threads", min=1, max=1024, help="Threads that it uses at most.")] = 1,
    architecture: Annotated[
        list[str] | None,
        typer.Option("--architecture", metavar="SM", help="Of devices, such as sm_90; may be repeated."),
    ] = None,
    emit: Annotated[Emit | None, typer.Option("--emit", help="c: a header and a shared library.")] = None,
    assume: AssumeOpt = None,
    annotate: AnnotateOpt = None,
    annotate_file: AnnotateFileOpt = None,
    facts: FactsOpt = None,
    likely: LikelyOpt = None,
    rules: RulesOpt = None,
    seconds: SecondsOpt = None,
    nodes: NodesOpt = None,
    memory: MemoryOpt = None,
    no_optimize: Annotated[bool, typer.Option("--no-optimize", help="Compile the graph as it is.")] = False,
    expand_signature: Annotated[
        bool,
        typer.Option(
            "--expand-signature", help="Each independent size is a scalar argument too, each other one a result."
        ),
    ] = False,
    ops: OpsOpt = None,
    format: FormatOpt = None,
) -> None:
    """Compile MODEL once for every size, to a file that `egshape run` and `egshape.runtime.load` take.

    The file holds native code for this computer's processor, and kernels of a device for --target cuda: give it only to
    those who would run your programs, and run only files from those whose programs you would run."""
    from egshape.adapters import native
    from egshape.signature import with_sizes

    if emit is None and output.is_dir():
        raise EgshapeError("is a folder", where=str(output), hint="give a file name such as model.egx", code="usage")
    graph = load_model(model, format, ops, annotate, annotate_file, assume)
    if not no_optimize:
        graph = optimized(
            graph, assume, facts=read_facts(facts, likely), rules=rules, limits=limits_of(seconds, nodes, memory)
        ).graph
    elif assume or facts or likely or rules:
        raise EgshapeError(
            "--assume, --facts, --likely-from and --rules go with optimizing",
            hint="leave out --no-optimize",
            code="usage",
        )
    if expand_signature:
        graph = with_sizes(graph)
    if architecture and target is not Native.cuda:
        raise EgshapeError("--architecture goes with --target cuda", hint="leave it out", code="usage")
    if target is Native.cuda:
        from egshape.adapters import cuda

        made: CompiledFunction = cuda.compile_function(graph, architecture)
    else:
        made = native.compile_function(graph, threads)
    written = made.save(output, "egx" if emit is None else "c")
    print_table(("file", "bytes"), [(str(path), str(path.stat().st_size)) for path in written])
    put(f"memory: {made.memory}")
