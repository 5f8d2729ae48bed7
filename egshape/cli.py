"""The command line: thin over ``egshape.api``.

Results go to stdout, notes and progress to stderr. Exit 0: done; 1: the answer is no; 2: the input is wrong.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import numpy as np
import typer

from egshape import __version__
from egshape.atomic import write_atomic
from egshape.errors import EgshapeError, ParseError, TypeMismatch
from egshape.show import history, print_table, summary, verdict
from egshape.trace import Tracer

if TYPE_CHECKING:
    from egshape.api import Limits, Result
    from egshape.facts import Facts
    from egshape.ir.graph import Graph
    from egshape.report import Explanation, ShapeTable

app = typer.Typer(
    name="egshape",
    help="Shape reasoning and rewriting for tensor programs with symbolic sizes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)



class Target(StrEnum):
    """Where a graph runs."""

    interpret = "interpret"
    llvm = "llvm"


class Stage(StrEnum):
    """Which graph to draw."""

    input = "input"
    output = "output"


ModelArg = Annotated[str, typer.Argument(metavar="MODEL", help="A model file, or - for standard input.")]
FormatOpt = Annotated[
    str | None,
    typer.Option("--format", metavar="FORMAT", help="Format of MODEL, if its name does not say it."),
]
AssumeOpt = Annotated[
    list[str] | None,
    typer.Option("--assume", metavar="FACT", help='A fact to trust, such as "h % 8 == 0"; may be repeated.'),
]
FactsOpt = Annotated[Path | None, typer.Option("--facts", metavar="F.json", help="Facts to trust, as JSON.")]
RulesOpt = Annotated[
    list[Path] | None,
    typer.Option("--rules", metavar="F.egg", help="A ruleset of your own; may be repeated."),
]
SecondsOpt = Annotated[float | None, typer.Option("--seconds", min=0, help="Time budget.")]
NodesOpt = Annotated[int | None, typer.Option("--nodes", min=1, help="Budget of e-nodes.")]
MemoryOpt = Annotated[int | None, typer.Option("--memory", min=1, metavar="MB", help="Memory budget.")]
JsonOpt = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. ``argv`` defaults to the process's own arguments."""
    try:
        app(args=list(argv) if argv is not None else None, prog_name="egshape")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except EgshapeError as error:
        _say(f"egshape: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BaseException as error:  # a panic of the engine is no Exception
        if os.environ.get("EGSHAPE_TRACEBACK"):
            raise
        _say(
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
        _print(__version__)
        raise typer.Exit


@app.command()
def optimize(
    model: ModelArg,
    output: Annotated[str | None, typer.Option("-o", "--output", metavar="OUT", help="- is stdout.")] = None,
    assume: AssumeOpt = None,
    facts: FactsOpt = None,
    rules: RulesOpt = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="R.json", help="Report to write.")
    ] = None,
    seconds: SecondsOpt = None,
    nodes: NodesOpt = None,
    memory: MemoryOpt = None,
    no_validate: Annotated[
        bool, typer.Option("--no-validate", help="Do not compare both programs at a few small sizes.")
    ] = False,
    refine_signature: Annotated[
        bool, typer.Option("--refine-signature", help="Let proved sizes change the types of the inputs.")
    ] = False,
    format: FormatOpt = None,
) -> None:
    """Make MODEL smaller without changing what it computes."""
    from egshape import api

    started = time.perf_counter()
    graph = _load(model, format)
    result = _optimize(
        graph,
        assume,
        facts=_read_facts(facts),
        rules=rules,
        limits=_limits(seconds, nodes, memory),
        validate=not no_validate,
        refine_signature=refine_signature,
    )
    seconds_taken = time.perf_counter() - started
    if output == "-":
        sys.stdout.buffer.write(_saved_bytes(result.graph, format or Path(model).suffix.removeprefix(".")))
    elif output is not None:
        api.save(result.graph, output)
    if report is not None:
        write_atomic(report, result.report.model_dump_json(indent=2) + "\n")
    (_say if output == "-" else _print)("\n".join(summary(result.report, seconds_taken)))


@app.command()
def shapes(
    model: ModelArg, assume: AssumeOpt = None, as_json: JsonOpt = False, format: FormatOpt = None
) -> None:
    """Print the shape of every value of MODEL, and where its sizes come from."""
    from egshape import api

    table: ShapeTable = api.shapes_table(_load(model, format), assume=tuple(assume or ()))
    if as_json:
        _print(table.model_dump_json())
        return
    rows = [
        (
            row.name,
            row.op,
            row.dtype + ("[?]" if row.shape is None else "[" + ", ".join(row.shape) + "]"),
            "; ".join(" ".join(sources) or "-" for sources in row.from_),
            row.location,
        )
        for row in table.values
    ]
    print_table(("value", "op", "type", "from", "location"), rows)


@app.command()
def prove(
    goal: Annotated[str | None, typer.Argument(metavar="GOAL", help='Such as "(a//2)*2 == a - a%2".')] = None,
    given: Annotated[
        list[str] | None, typer.Option("--given", metavar="FACT", help="May be repeated.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="CASES.tsv", help="Questions with columns id, givens, goal, want."),
    ] = None,
    as_json: JsonOpt = False,
) -> None:
    """Decide whether GOAL holds for all sizes that satisfy the given facts."""
    from egshape.prove import prove as decide

    if (goal is None) == (file is None):
        raise EgshapeError("give either a GOAL or --file", code="usage")
    if file is not None:
        right, wrong = _prove_file(file, as_json)
        raise typer.Exit(0 if right and not wrong else 1)
    proof = decide(str(goal), given=list(given or ()))
    if as_json:
        _print(json.dumps(_as_json(proof)))
    else:
        _print("\n".join(verdict(_as_json(proof))))
    raise typer.Exit(0 if proof.status == "proved" else 1)


@app.command()
def explain(
    model: ModelArg,
    a: Annotated[str, typer.Argument(metavar="A", help='A size, "arg0.0"; a value, "%7"; a statement, "b >= 1".')],
    b: Annotated[str | None, typer.Argument(metavar="B", help="The size that should be equal.")] = None,
    assume: AssumeOpt = None,
    check: Annotated[bool, typer.Option("--check", help="Replay the chain; say how each step was checked.")] = False,
    as_json: JsonOpt = False,
    format: FormatOpt = None,
) -> None:
    """Say why two sizes A and B of MODEL are equal, or the statement A holds; or what became of a value A."""
    from egshape.explain import replayed

    result = _optimize(_load(model, format), assume, validate=False)
    if b is None and not _is_statement(a):
        found = result.explain_value(a)
        _print(found.model_dump_json() if as_json else "\n".join(history(found.model_dump(by_alias=True))))
        return
    explanation: Explanation = result.explain_fact(a) if b is None else result.explain(a, b)
    if check:
        explanation = replayed(result, explanation)
    if as_json:
        _print(explanation.model_dump_json())
    else:
        _print("\n".join(verdict(explanation.model_dump(by_alias=True))))
    raise typer.Exit(0 if explanation.status == "proved" else 1)


def _is_statement(text: str) -> bool:
    return any(sign in text for sign in ("<", ">", "=", " in "))


@app.command()
def advise(
    model: ModelArg,
    assume: AssumeOpt = None,
    facts: FactsOpt = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many facts to name.")] = 10,
    seconds: Annotated[float, typer.Option("--seconds", min=0, help="Time for all trials together.")] = 30.0,
    as_json: JsonOpt = False,
    format: FormatOpt = None,
) -> None:
    """Name the facts that would make MODEL smaller or faster if they hold, each tried, the best first."""
    from egshape.advise import advise_within
    from egshape.facts import Facts
    from egshape.report import AdviceRow, AdviceTable

    graph = _load(model, format)
    known = _read_facts(facts) or Facts()
    with _trials() as on_trial:
        found = advise_within(graph, known.with_text(*(assume or ()), assumed=True), limit, seconds, on_trial=on_trial)
    table = AdviceTable(
        advice=tuple(AdviceRow(**asdict(each)) for each in found.advice),
        tried=found.tried,
        candidates=found.candidates,
        likely=found.likely,
    )
    if as_json:
        _print(table.model_dump_json())
        return
    rows = [
        (str(each.bytes_saved), str(each.ops_removed), str(each.checks_removed), each.flag) for each in table.advice
    ]
    print_table(("bytes saved", "ops removed", "checks removed", "option"), rows)
    _say(f"egshape: note: {found.tried} of {found.candidates} facts were tried")


@app.command()
def run(
    model: ModelArg,
    inputs: Annotated[Path, typer.Option("--inputs", metavar="IN.npz", help="Arrays by input name.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="OUT.npz", help="Where the results go.")
    ] = None,
    target: Annotated[Target, typer.Option("--target", help="What runs the graph.")] = Target.interpret,
    no_optimize: Annotated[bool, typer.Option("--no-optimize", help="Run the graph as it is.")] = False,
    format: FormatOpt = None,
) -> None:
    """Run MODEL on the arrays of an .npz file."""
    from egshape import api

    graph = _load(model, format)
    arrays = _read_arrays(inputs, graph)
    if not no_optimize:
        graph = _optimize(graph, None).graph
    results = api.run(graph, arrays, target=target.value)
    named: dict[str, Any] = dict(zip(graph.output_names, results, strict=True))
    if output is not None:
        buffer = io.BytesIO()
        np.savez(buffer, **named)
        write_atomic(output, buffer.getvalue())
    print_table(
        ("output", "dtype", "shape"),
        [(name, str(array.dtype), str(list(array.shape))) for name, array in named.items()],
    )


@app.command()
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
    graph = _load(model, format)
    if stage is Stage.output:
        graph = _optimize(graph, assume).graph
    text = api.to_dot(graph)
    if output is None:
        _print(text)
    else:
        write_atomic(output, _svg(text) if output.suffix == ".svg" else text)


def _load(model: str, format: str | None) -> Graph:
    from egshape import api

    if model != "-":
        return api.load(Path(model), format=format)
    if format is None:
        raise EgshapeError("a model from standard input needs --format", where="-", code="usage")
    return api.load(sys.stdin.buffer.read(), format=format)


def _optimize(graph: Graph, assume: list[str] | None, **options: Any) -> Result:
    from egshape import api

    with _progress() as tracer:
        result = api.optimize(graph, assume=tuple(assume or ()), tracer=tracer, **_given(options))
    for note in result.report.notes:
        _say(f"egshape: note: {note}")
    return result


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, so that the defaults stay where they are declared."""
    return {name: value for name, value in options.items() if value is not None}


def _limits(seconds: float | None, nodes: int | None, memory: int | None) -> Limits:
    from egshape.api import Limits

    return Limits(**_given({"seconds": seconds, "nodes": nodes, "memory_mb": memory}))


@contextmanager
def _progress() -> Iterator[Tracer]:
    """A tracer that moves a progress bar, if somebody watches."""
    with _engine_silenced() as terminal:
        if not terminal.isatty():
            yield Tracer()
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(file=terminal), transient=True) as bar:
            task = bar.add_task("load", total=None)
            yield Tracer(on_stage=lambda stage: bar.update(task, description=stage))


@contextmanager
def _trials() -> Iterator[Callable[[int, int, str], None]]:
    """What moves a progress bar over trials, if somebody watches."""
    with _engine_silenced() as terminal:
        if not terminal.isatty():
            yield lambda number, total, fact: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
        with Progress(*columns, console=Console(file=terminal), transient=True) as bar:
            task = bar.add_task("optimize", total=None)
            yield lambda number, total, fact: bar.update(task, completed=number, total=total, description=fact)


@contextmanager
def _engine_silenced() -> Iterator[TextIO]:
    """Standard error for ourselves: an engine that panics writes a backtrace there before anything can catch it,
    and what it means is said in a note."""
    if os.environ.get("EGSHAPE_TRACEBACK"):
        yield sys.stderr
        return
    sys.stderr.flush()
    with os.fdopen(os.dup(2), "w") as terminal, open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield terminal
        finally:
            os.dup2(terminal.fileno(), 2)


def _read_facts(path: Path | None) -> Facts | None:
    from egshape.facts import Facts

    if path is None:
        return None
    try:
        return Facts.from_json(_read(path))
    except EgshapeError as error:
        raise _at(error, str(path)) from error


def _at(error: EgshapeError, where: str) -> EgshapeError:
    """The same error, said of a place inside ``where``."""
    if where in error.where:
        return error
    inner = f"{where}: {error.where}" if error.where else where
    return type(error)(error.message, where=inner, hint=error.hint, code=error.code)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise EgshapeError(f"cannot be read: {error.strerror}", where=str(path), code="read") from error


def _read_arrays(path: Path, graph: Graph) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of ``path``, one for each input of ``graph``, checked by name."""
    wanted = [value.name for value in graph.inputs]
    try:
        with np.load(io.BytesIO(_read(path)), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, AttributeError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ParseError(f"is no .npz file: {error}", where=str(path)) from error
    problems = [f"{name} is missing" for name in wanted if name not in arrays]
    problems += [f"{name} is no input" for name in arrays if name not in wanted]
    if problems:
        raise TypeMismatch("; ".join(problems), where=str(path), hint=f"the inputs are {', '.join(wanted)}")
    return {value.name: _with_dtype(arrays[value.name], value.type.dtype) for value in graph.inputs}


def _with_dtype(array: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """bf16 and the 8-bit floats come out of an .npz as raw bytes; give them their type back."""
    from egshape.ir.types import numpy_dtype

    if array.dtype.kind != "V" or array.dtype.itemsize != numpy_dtype(dtype).itemsize:
        return array
    return array.view(numpy_dtype(dtype))


def _saved_bytes(graph: Graph, format: str) -> bytes:
    from egshape import api

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        api.save(graph, path, format=format)
        return path.read_bytes()


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


def _prove_file(path: Path, as_json: bool) -> tuple[int, int]:
    """Answer every question of a file; returns how many answers are as wanted, and how many are not."""
    from egshape.prove import prove as decide

    rows = []
    for where, row in _read_cases(path):
        try:
            proof = decide(row["goal"], given=[fact for fact in row["givens"].split(";") if fact.strip()])
        except EgshapeError as error:
            raise _at(error, where) from error
        rows.append({"id": row["id"], "want": row["want"], **_as_json(proof)})
    right = sum(row["status"] == row["want"] for row in rows)
    wrong = len(rows) - right
    if as_json:
        _print(json.dumps({"version": 1, "rows": rows, "right": right, "wrong": wrong}))
    else:
        print_table(
            ("id", "want", "status", "goal"), [(r["id"], r["want"], r["status"], r["goal"]) for r in rows]
        )
        _print(f"{right} right, {wrong} wrong")
    return right, wrong


def _read_cases(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of a tab-separated file with a heading, each with its file:line."""
    try:
        lines = _read(path).decode().splitlines()
    except UnicodeDecodeError as error:
        raise ParseError("is no UTF-8 text", where=str(path)) from error
    heading = lines[0].split("\t") if lines else []
    missing = {"id", "givens", "goal", "want"} - set(heading)
    if missing:
        raise ParseError(f"the heading lacks {', '.join(sorted(missing))}", where=f"{path}:1")
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) != len(heading):
            raise ParseError(f"{len(cells)} columns instead of {len(heading)}", where=f"{path}:{number}")
        yield f"{path}:{number}", dict(zip(heading, cells, strict=True))


def _as_json(proof: Any) -> dict[str, Any]:
    """The JSON of a proof, as ``egshape.prove`` declares it."""
    data: dict[str, Any] = proof.model_dump(mode="json", by_alias=True)
    return data


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
