"""compile: a model as native code in a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from egshape.atomic import write_atomic
from egshape.commands.files import check_target, load_model, read_facts
from egshape.commands.optimizing import limits_of, optimized
from egshape.commands.options import (
    AnnotateFileOpt,
    AnnotateOpt,
    AssumeOpt,
    FactsOpt,
    FormatOpt,
    JsonOpt,
    LikelyOpt,
    MemoryOpt,
    ModelArg,
    NodesOpt,
    OpsOpt,
    QuietOpt,
    RulesOpt,
    SecondsOpt,
    ShareLayersOpt,
    TrustRulesOpt,
)
from egshape.commands.terminal import put
from egshape.errors import EgshapeError
from egshape.show import print_table

if TYPE_CHECKING:
    from egshape.facts import Facts
    from egshape.ir.graph import Graph
    from egshape.lower.weights import Interned
    from egshape.runtime import CompiledFunction, VersionedFunction


class Native(StrEnum):
    """What native code runs on."""

    llvm = "llvm"
    cuda = "cuda"


class Emit(StrEnum):
    """What is written instead of an artifact."""

    c = "c"


def compile(
    model: ModelArg,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE.egx", help="With --emit c a folder, or NAME.h in one.")
    ],
    target: Annotated[Native, typer.Option("--target", help="What the code runs on.")] = Native.llvm,
    threads: Annotated[
        int, typer.Option("--threads", metavar="N", min=1, max=1024, help="Threads that it uses at most.")
    ] = 1,
    architecture: Annotated[
        list[str] | None,
        typer.Option("--architecture", metavar="SM", help="Of devices, such as sm_90; may be repeated."),
    ] = None,
    emit: Annotated[Emit | None, typer.Option("--emit", help="c: a header and a shared library.")] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="With --emit c: what the C functions and files are called.")
    ] = None,
    assume: AssumeOpt = None,
    annotate: AnnotateOpt = None,
    annotate_file: AnnotateFileOpt = None,
    facts: FactsOpt = None,
    likely: LikelyOpt = None,
    rules: RulesOpt = None,
    trust_rules: TrustRulesOpt = False,
    seconds: SecondsOpt = None,
    nodes: NodesOpt = None,
    memory: MemoryOpt = None,
    share_layers: ShareLayersOpt = False,
    no_optimize: Annotated[bool, typer.Option("--no-optimize", help="Compile the graph as it is.")] = False,
    expand_signature: Annotated[
        bool,
        typer.Option(
            "--expand-signature", help="Each independent size is a scalar argument too, each other one a result."
        ),
    ] = False,
    versions: Annotated[
        list[str] | None,
        typer.Option(
            "--versions",
            metavar="K|FACTS",
            help='How many guards are chosen at most, or a guard such as "n == 1", which may be repeated.',
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Say the memory of a call as a formula over sizes too.")
    ] = False,
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
    ops: OpsOpt = None,
    format: FormatOpt = None,
) -> None:
    """Compile MODEL once for every size, to a file.

    `egshape run` and `egshape.runtime.load` take the file. It holds native code for this computer's processor, and
    kernels of a device for --target cuda: give it only to those who would run your programs, and run only files from
    those whose programs you would run."""
    from egshape.commands.answers import Compiled, File, Version
    from egshape.signature import with_sizes

    if emit is None and name is not None:
        raise EgshapeError("--name goes with --emit c", hint="leave it out", code="usage")
    if emit is not None and output.suffix == ".h" and not output.is_dir():
        if name is not None and name != output.stem:
            raise EgshapeError(f"-o {output} and --name {name} are two names", hint="leave --name out", code="usage")
        output, name = output.parent, output.stem
    if emit is None:
        check_target(output, model=False, source=model)
    if no_optimize and (assume or facts or likely or rules or versions or share_layers):
        raise EgshapeError(
            "--assume, --facts, --likely-from, --rules, --share-layers and --versions go with optimizing",
            hint="leave out --no-optimize",
            code="usage",
        )
    if versions and (emit is not None or expand_signature):
        raise EgshapeError(
            "--versions makes an artifact of the model's own signature",
            hint="leave out --emit and --expand-signature",
            code="usage",
        )
    if architecture and target is not Native.cuda:
        raise EgshapeError("--architecture goes with --target cuda", hint="leave it out", code="usage")
    graph = load_model(model, format, ops, annotate, annotate_file, assume)
    header: Path | None = None
    if emit is not None:
        from egshape.lower.emit_c import c_name

        graph = graph if name is None else replace(graph, name=name)
        header = output / f"{c_name(graph.name)}.h"
        _check_header(header, model)
    known = read_facts(facts, likely)
    weights: Interned = {}  # of all versions

    def function(*more: str) -> CompiledFunction:
        """Native code of the model where more holds."""
        each = graph
        if not no_optimize:
            limits = limits_of(seconds, nodes, memory)
            trusted = [*(assume or ()), *more]
            each = optimized(
                graph,
                trusted,
                facts=known,
                rules=rules,
                trust_rules=trust_rules,
                limits=limits,
                share_layers=share_layers,
            ).graph
        if expand_signature:
            each = with_sizes(each)
        if target is Native.cuda:
            from egshape.adapters import cuda

            return cuda.compile_function(each, architecture)
        from egshape.adapters import native

        return native.compile_function(each, threads, weights=weights)

    made: Any = _with_versions(graph, versions, assume, known, function) if versions else function()
    written = made.save(output, "egx" if emit is None else "c")
    if header is not None:
        write_atomic(header, f"{header.read_text()}{_source(header, model)}\n")
    told = Compiled(
        files=tuple(map(File.of, written)),
        versions=tuple(Version(guard=each.guard, code_bytes=each.code) for each in (made.versions if versions else ())),
        memory=str(made.memory),
    )
    if as_json:
        put(told.model_dump_json())
        return
    if quiet:
        return
    print_table(("file", "bytes"), [(each.file, str(each.bytes)) for each in told.files])
    if told.versions:
        rows = [(each.guard or "any other size", str(each.code_bytes)) for each in told.versions]
        print_table(("version", "bytes of code"), rows)
    put(f"memory: {told.memory if verbose else made.memory.in_short()}")


def compiled_as(model: Path, options: Mapping[str, Any]) -> Path:
    """Where one of many models goes: an artifact, or a header that names what is called as its file is."""
    if options.get("emit") is None:
        return model.with_suffix(".egx")
    from egshape.lower.emit_c import c_name

    if options.get("name") is not None:
        raise EgshapeError("--name is the name of one model", hint="leave it out: files give the names", code="usage")
    return model.with_name(f"{c_name(model.stem)}.h")


_FROM = "/* compiled from "


def _source(header: Path, model: str) -> str:
    """The line of a header that says which model it is of."""
    where = "standard input" if model == "-" else os.path.relpath(model, header.parent)
    return f"{_FROM}{where.replace('*/', '* /')} */"


def _check_header(header: Path, model: str) -> None:
    """Raises EgshapeError where the header of another model has the name."""
    try:
        held = [line for line in header.read_text().splitlines() if line.startswith(_FROM)]
    except (OSError, ValueError):
        return
    if held and held[-1] != _source(header, model):
        other = held[-1].removeprefix(_FROM).removesuffix(" */")
        raise EgshapeError(
            f"{model} and {os.path.normpath(header.parent / other)} would both be {header}",
            where=model,
            hint="--name chooses another name; another folder does, too",
            code="usage",
        )


def _with_versions(
    graph: Graph, asked: list[str], assume: list[str] | None, known: Facts | None, function: Callable[..., Any]
) -> VersionedFunction:
    """The function with versions for guards, or for a number of those that are proposed and seen to be faster."""
    from egshape.adapters.versioned import versioned
    from egshape.facts import Facts
    from egshape.versions import chosen

    if len(asked) > 1 or not asked[0].isdecimal():
        return versioned(graph, asked, function)
    facts = (known or Facts()).with_text(*(assume or ()), assumed=True)
    return chosen(graph, int(asked[0]), facts, function)
