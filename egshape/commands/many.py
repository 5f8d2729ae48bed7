"""A command on one model as a command on any number of them."""

from __future__ import annotations

import functools
import glob
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from egshape.commands import record
from egshape.commands.spread import spread
from egshape.commands.terminal import bar, put, say
from egshape.commands.work import Done, Task
from egshape.errors import EgshapeError
from egshape.show import print_table

ModelsArg = Annotated[
    list[str],
    typer.Argument(metavar="MODEL", help="Model files, patterns such as 'models/**/*.onnx', or - for standard input."),
]
JobsOpt = Annotated[
    int | None,
    typer.Option("--jobs", min=1, metavar="N", help="Of many models: how many at once; by default one a processor."),
]
ClusterOpt = Annotated[
    str | None,
    typer.Option(
        "--cluster", metavar="ADDRESS", help="Of many models: a Dask scheduler whose workers do them; local starts one."
    ),
]


Suffix = str | Callable[[Path, Mapping[str, Any]], Path]


def of_many(command: Callable[..., None], **suffixes: Suffix) -> Callable[..., None]:
    """The command on any number of models. ``suffixes``: its options that name a file to write, each with the suffix
    that it has, "" for the model's own, or what makes its path of the model's and the options; of many models they name
    a folder."""

    @functools.wraps(command)
    def many(models: list[str], jobs: int | None = None, cluster: str | None = None, **options: Any) -> None:
        folders = [name for name in suffixes if options.get(name) is not None and _is_folder(options[name])]
        if len(models) == 1 and not folders and not _is_pattern(models[0]) and cluster is None:
            command(models[0], **options)
            return
        found = _found(models)
        target = command.__module__, command.__name__
        tasks = [Task(target, model, each, tuple(files)) for model, each, files in _each(found, options, suffixes)]
        raise typer.Exit(_do(tasks, options, jobs or os.cpu_count() or 1, cluster))

    _, *others = inspect.signature(command, eval_str=True).parameters.values()
    del many.__wrapped__
    models = inspect.Parameter("models", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=ModelsArg)
    more = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation, default=None)
        for name, annotation in (("jobs", JobsOpt), ("cluster", ClusterOpt))
    ]
    required = [each for each in others if each.default is each.empty]
    many.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [models, *required, *(each for each in others if each not in required), *more]
    )
    many.__annotations__ = {each.name: each.annotation for each in many.__signature__.parameters.values()}  # type: ignore[attr-defined]
    return many


def _is_folder(target: str | Path) -> bool:
    """Whether a target is said to be one; one model does not go to a folder by mistake."""
    return str(target).endswith(os.sep)


def _is_pattern(model: str) -> bool:
    return model != "-" and glob.has_magic(model) and not Path(model).exists()


def _found(models: Sequence[str]) -> list[str]:
    """The files that names and patterns stand for, each once, as they were given. Raises EgshapeError for a pattern
    that no file has."""
    out: dict[str, None] = {}
    for model in models:
        files = sorted(each for each in glob.glob(model, recursive=True) if Path(each).is_file())
        if _is_pattern(model) and not files:
            raise EgshapeError("no file has such a name", where=model, hint="look at the pattern", code="usage")
        if model == "-":
            raise EgshapeError("standard input is one model", where="-", hint="give only -", code="usage")
        out.update(dict.fromkeys(files if _is_pattern(model) else [model]))
    return list(out)


def _each(
    models: Sequence[str], options: Mapping[str, Any], suffixes: Mapping[str, Suffix]
) -> list[tuple[str, dict[str, Any], list[str]]]:
    """Of each model its path, its options and those that are files to write. Raises EgshapeError where they are for one
    model only, or two models would go to one file."""
    given = [name for name in suffixes if options.get(name) is not None]
    for name in given:
        if str(options[name]) == "-" or Path(options[name]).is_file():
            raise EgshapeError(
                "many models go to a folder", where=str(options[name]), hint="name a folder, such as out/", code="usage"
            )
    top = os.path.commonpath([Path(model).absolute().parent for model in models])
    out, taken = [], dict[Path, str]()
    for model in models:
        inside = Path(model).absolute().relative_to(top)
        mine = dict(options)
        for name in given:
            path = Path(options[name]) / _target(inside, suffixes[name], options)
            if taken.setdefault(path, model) != model or path.absolute() == Path(model).absolute():
                other = "itself" if taken[path] == model else taken[path]
                raise EgshapeError(
                    f"would be written to {path}, as {other}" if other != "itself" else "would be written to itself",
                    where=model,
                    hint="give another folder, or these models in a command of their own",
                    code="usage",
                )
            mine[name] = type(options[name])(path)
        out.append((model, mine, given))
    return out


def _target(model: Path, suffix: Suffix, options: Mapping[str, Any]) -> Path:
    if callable(suffix):
        return suffix(model, options)
    return model.with_suffix(suffix) if suffix else model


def _do(tasks: Sequence[Task], options: Mapping[str, Any], jobs: int, cluster: str | None) -> int:
    """Do all that was not done before, say what became of each; the exit code."""
    folder = Path(options["output"]) if options.get("output") is not None else None
    _make({Path(task.options[name]).parent for task in tasks for name in task.outputs})
    ended = {number: done for number, task in enumerate(tasks) if folder and (done := record.found(folder, task))}
    rest = [number for number in range(len(tasks)) if number not in ended]
    with bar("models") as shown:
        shown(len(ended), len(tasks), "")
        for place, done in spread([tasks[number] for number in rest], jobs, cluster):
            number = rest[place]
            ended[number] = done
            if folder is not None:
                record.keep(folder, tasks[number], done)
            shown(len(ended), len(tasks), tasks[number].model)
    _say([(task, ended[number]) for number, task in enumerate(tasks)], options, folder is not None)
    return max(done.code for done in ended.values())


def _make(folders: Iterable[Path]) -> None:
    """Make the folders of the results. Raises EgshapeError where that cannot be done."""
    missing = [folder for folder in sorted(folders) if not folder.exists()]
    try:
        for folder in missing:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EgshapeError(f"cannot be made: {error.strerror}", where=str(folder), code="write") from error
    if missing:
        more = f" and {len(missing) - 1} more were" if len(missing) > 1 else " was"
        say(f"egshape: note: the folder {missing[0]}{more} made")


def _say(ended: Sequence[tuple[Task, Done]], options: Mapping[str, Any], written: bool) -> None:
    """What became of each model, in their order: a table where files were written, else what the command printed."""
    for task, done in ended:
        for line in done.err.splitlines():
            said = line.removeprefix("egshape: ").removeprefix(f"{task.model}: ")
            say(f"{task.model}: {said}")
        if options.get("as_json"):
            put(json.dumps({"model": task.model, "code": done.code, "result": _json(done.out)}))
        elif not written:
            put(f"# {task.model}")
            sys.stdout.write(done.out)
    quiet = options.get("quiet")
    if written and not options.get("as_json") and not quiet:
        rows = [(task.model, _ended(done), f"{done.seconds:.2f}", _first(task, done)) for task, done in ended]
        print_table(("model", "ended", "seconds", "result"), rows)
    worst = [done for _, done in ended if done.code]
    if len(ended) > 1 and not (quiet and not worst):
        stood = sum(done.stands for _, done in ended)
        say(
            f"egshape: {len(ended) - len(worst)} of {len(ended)} models done"
            + (f", {stood} of them before" if stood else "")
        )


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text or None


def _ended(done: Done) -> str:
    return ("stands" if done.stands else "done") if not done.code else f"failed ({done.code})"


def _first(task: Task, done: Done) -> str:
    """The first line of what a command printed that is none of a table, or why it failed."""
    lines = done.err.splitlines()[::-1] if done.code else [line for line in done.out.splitlines() if "\t" not in line]
    line = next(iter(lines), "")
    return line.removeprefix("egshape: ").removeprefix(f"{task.model}: ")
