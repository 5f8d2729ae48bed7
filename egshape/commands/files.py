"""Files that commands read and write: models, facts, arrays."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from egshape.commands.terminal import say
from egshape.errors import CheckFailed, EgshapeError, OutputsDiffer, ParseError, TypeMismatch

if TYPE_CHECKING:
    from egshape.adapters.onnx_verify import Compared
    from egshape.annotation import Annotation
    from egshape.api import Result
    from egshape.facts import Facts
    from egshape.ir.graph import Graph
    from egshape.limits import Deadlines
    from egshape.observed import Observed

Read = TypeVar("Read")

STDIN = "<stdin>"
"""What messages and places call standard input."""


def load_model(
    model: str,
    format: str | None,
    ops: Sequence[Path] | None = None,
    annotate: Sequence[str] | None = None,
    annotate_file: Path | None = None,
    assume: Sequence[str] | None = None,
    output: str | None = None,
) -> Graph:
    """The graph of a model; ``ops`` are files with the custom ops that it has, ``annotate`` and the lines of
    ``annotate_file`` types that are said of its values. What is assumed and said decides which rank or dtype custom ops
    give where their shape functions leave it open, and the branch of an ``If`` whose branches differ in rank; the
    program then checks it. Annotations say it of tensors without a
    rank. ``output``: where it goes; what becomes a program of torch again keeps the ops of torch whole."""
    from egshape import api
    from egshape.annotate import annotate as annotated
    from egshape.annotate import sizes_said
    from egshape.facts import Facts
    from egshape.frontends.frontend import kept_whole
    from egshape.models import load_bytes, ranks_said
    from egshape.ops.shape_function import assuming

    declare_ops(ops)
    said = _types(annotate or (), annotate_file)
    if model == "-" and format is None:
        raise EgshapeError("a model from standard input needs --format", where="-", code="usage")
    known = Facts.parse(*(assume or ()), assumed=True)
    goes_to = (format or Path(model).suffix.removeprefix(".")) if output == "-" else Path(output or "").suffix[1:]
    with assuming(known), assuming(sizes_said(said)), kept_whole(goes_to == "pt2"):
        if model == "-":
            graph = load_bytes(sys.stdin.buffer.read(), format, ranks_said(said), STDIN)
        else:
            graph = api.load(model, format, ranks_said(said))
    return annotated(graph, said) if said else graph


def _types(texts: Sequence[str], file: Path | None) -> dict[str, Annotation]:
    """The types by the names of their values. Raises EgshapeError, with the option or the line of the file, for a text
    that is none, that names no value, or a value that was spoken of before."""
    from egshape.annotation import named

    lines = [] if file is None else read_bytes(file).decode(errors="replace").splitlines()
    said = [(f"--annotate {text!r}", text) for text in texts]
    said += [(f"{file}:{number}", line.partition("#")[0]) for number, line in enumerate(lines, start=1)]
    types: dict[str, Annotation] = {}
    for where, text in said:
        if not text.strip():
            continue
        try:
            name, type = named(text)
        except ParseError as error:
            raise placed(error, where) from None
        if not name or name in types:
            raise EgshapeError(
                f"says a second type of {name}" if name else "does not say of which value",
                where=where,
                hint="say one type of each value, as NAME: TYPE, such as x: f32[n, 4*m]",
                code="usage",
            )
        types[name] = type
    return types


def declare_ops(files: Sequence[Path] | None) -> None:
    """Run the Python files that declare custom ops, and read those that declare them as text (``.egg``)."""
    import runpy

    import egshape

    for file in files or ():
        if not file.is_file():
            raise EgshapeError("cannot be read: there is no such file", where=str(file), code="read")
        if file.suffix == ".egg":
            egshape.custom_ops(file)
            continue
        try:
            runpy.run_path(str(file))
        except EgshapeError:
            raise
        except Exception as error:
            raise EgshapeError(f"does not run: {type(error).__name__}: {error}", where=str(file), code="ops",
                               hint="it must declare ops with @egshape.custom_op") from error  # fmt: skip


def read_facts(path: Path | None, likely: Path | None = None) -> Facts | None:
    """The facts of a file, with likely sizes of a file of observed ones."""
    from egshape.facts import Facts

    found = None if path is None else _placed_in(path, Facts.from_json)
    if likely is None:
        return found
    return read_observed(likely).facts().merge(found or Facts())


def read_observed(path: Path) -> Observed:
    """Sizes that a running program has seen."""
    from egshape.observed import Observed

    return _placed_in(path, Observed.from_json)


def _placed_in(path: Path, read: Callable[[bytes], Read]) -> Read:
    """What is read from a file, whose name errors say."""
    try:
        return read(read_bytes(path))
    except EgshapeError as error:
        raise placed(error, str(path)) from error


def placed(error: EgshapeError, where: str) -> EgshapeError:
    """The same error, said of a place inside ``where``."""
    if where in error.where:
        return error
    inner = f"{where}: {error.where}" if error.where else where
    return type(error)(error.message, where=inner, hint=error.hint, code=error.code)


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise EgshapeError(f"cannot be read: {error.strerror}", where=str(path), code="read") from error


def run_artifact(path: str, inputs: Path, threads: int | None) -> dict[str, np.ndarray[Any, Any]]:
    """The results of a compiled program by name. Raises EgshapeError with what its runtime reports."""
    from egshape.runtime import load
    from egshape.runtime.core.errors import RunError

    try:
        function = load(path, threads)
        ports = function.manifest["inputs"]
        arrays = read_arrays(inputs, {port["name"]: port["dtype"] for port in ports})
        found = function(*(arrays[port["name"]] for port in ports))
    except RunError as error:
        kind = CheckFailed if error.code == "check" else EgshapeError
        raise kind(error.message, where=error.where, code=error.code) from None
    names = [port["name"] for port in function.manifest["outputs"]]
    return dict(zip(names, found if isinstance(found, tuple) else (found,), strict=True))


def read_arrays(path: Path, dtypes: Mapping[str, str]) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of ``path``, one for each input, checked by name; ``dtypes``: those of the inputs."""
    wanted = list(dtypes)
    content = io.BytesIO(read_bytes(path))
    if not zipfile.is_zipfile(content):
        raise ParseError("is no .npz file", where=str(path), hint="numpy.savez writes one, keyed by input names")
    content.seek(0)
    try:
        with np.load(content, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, AttributeError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ParseError(f"is no .npz file: {error}", where=str(path)) from error
    problems = [f"{name} is missing" for name in wanted if name not in arrays]
    problems += [f"{name} is no input" for name in arrays if name not in wanted]
    if problems:
        raise TypeMismatch("; ".join(problems), where=str(path), hint=f"the inputs are {', '.join(wanted)}")
    return {name: _with_dtype(arrays[name], dtype) for name, dtype in dtypes.items()}


def _with_dtype(array: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """bf16 and the 8-bit floats come out of an .npz as raw bytes; give them their type back."""
    from egshape.ir.types import TEXT, numpy_dtype

    if dtype == TEXT and array.dtype.kind == "U":
        return array.astype(object)
    if array.dtype.kind != "V" or array.dtype.itemsize != numpy_dtype(dtype).itemsize:
        return array
    return array.view(numpy_dtype(dtype))


def check_target(
    output: str | Path | None, *, model: bool = True, source: str = "", **others: str | Path | None
) -> None:
    """Raises EgshapeError, before any work is done, where a file cannot be written; ``model``: its name says a
    format; ``source``: a model, which something else must not be written over; ``others``: further files that it must
    not be, by what they are. Says that a folder will be made for it."""
    from egshape.frontends.registry import form_of

    if output is None or output == "-":
        return
    path = Path(output)
    if model:
        form_of(path)
    elif path.is_dir():
        raise EgshapeError("is a folder", where=str(path), hint="give a file name", code="usage")
    for what, other in (("model", source), *others.items()):
        if other and is_same(str(other), path):
            raise EgshapeError(
                f"would be written over the {what}", where=str(path), hint="give another name", code="usage"
            )
    folder = next(each for each in path.absolute().parents if each.exists())
    if not folder.is_dir():
        raise EgshapeError(f"cannot be written: {folder} is no folder", where=str(path), code="write")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise EgshapeError(f"cannot be written: no permission to write to {folder}", where=str(path), code="write")
    if not path.parent.exists():
        say(f"egshape: note: the folder {path.parent} is missing and will be made")


def is_same(model: str, path: str | Path) -> bool:
    """Whether a file to write is the model's own; neither need be there."""
    one, two = Path(model), Path(path)
    if "-" in (model, str(path)):
        return False
    return two.samefile(one) if one.exists() and two.exists() else one.absolute() == two.absolute()


def save_model(
    result: Result,
    target: Path,
    original: Path | None,
    opset: int | None,
    external_data: bool | None,
    checks: str,
    xla: bool = False,
    deadlines: Deadlines | None = None,
) -> tuple[str, ...]:
    """Write a result, with its weights in a file of their own if ``external_data``; what the file does not hold, as
    notes. An ONNX model or an exported program of torch that came from ``original``, of the same format, is run beside
    it first, and not kept if it differs; a program of StableHLO with ``xla``. ``deadlines``: the comparison's."""
    from egshape import api

    if original is None or (runtime_of(original, target, xla) is None):
        return api.save(result.graph, target, opset=opset, external_data=external_data, checks=checks)
    from egshape.frontends.onnx import saving

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".egshape.") as folder:
            written = Path(folder) / target.name
            notes = api.save(result.graph, written, opset=opset, external_data=external_data, checks=checks)
            _verify(original, written, target, result, deadlines, excluding=checks == "nodes" and not notes)
            saving.move(written, target)
    except OSError as error:
        raise EgshapeError(f"cannot be written: {error.strerror or error}", where=str(target), code="write") from error
    return notes


_VERIFIED = {".onnx": "ONNX Runtime", ".pt2": "torch", ".mlir": "XLA", ".mlirbc": "XLA"}
"""The formats whose models run in a runtime of their own."""

_MODULES = {"ONNX Runtime": "onnxruntime", "torch": "torch", "XLA": "jax"}


def runtime_of(original: Path, target: Path, xla: bool) -> str | None:
    """The runtime in which a model that was written is compared with its original, None if there is none."""
    one, two = _VERIFIED.get(original.suffix), _VERIFIED.get(target.suffix)
    return one if one == two and (one != "XLA" or xla) else None


def prepare_runtime(model: str, output: str | None, xla: bool) -> None:
    """Start the process in which a model will be compared, while the model is read and optimized. Raises EgshapeError
    where XLA is asked for and cannot compare."""
    from egshape import guest
    from egshape.adapters.onnx_verify import is_installed

    runtime = None if model == "-" or output in (None, "-") else runtime_of(Path(model), Path(str(output)), xla)
    if xla and runtime != "XLA":
        raise EgshapeError(
            "compares two files of StableHLO",
            where="--verify xla",
            hint="give a MODEL and an OUT that end in .mlir or .mlirbc",
            code="usage",
        )
    if runtime is not None and is_installed(_MODULES[runtime]):
        guest.prepare("egshape.adapters.beside", _MODULES[runtime])


def _side_by_side(original: Path, written: Path, result: Result, *, excluding: bool) -> Compared | None:
    """The models run in their own runtime, None where it is not installed."""
    from egshape.adapters import onnx_verify

    graph, facts, after = result.source, result.facts, result.graph
    if original.suffix == ".pt2":
        from egshape.adapters.torch_verify import compare_programs

        return compare_programs(original, written, graph, facts, excluding=excluding, result=after)
    if _VERIFIED[original.suffix] == "XLA":
        from egshape.adapters.xla_verify import compare_texts

        return compare_texts(original, written, graph, facts, result=after)
    if not onnx_verify.available():
        return None
    return onnx_verify.compare_models(original, written, graph, facts, excluding=excluding, result=after)


def _verify(
    original: Path, written: Path, target: Path, result: Result, deadlines: Deadlines | None, *, excluding: bool
) -> None:
    """Raises EgshapeError where the models differ; says where nothing could be compared."""
    from egshape.limits import Deadlines, LimitReached, Limits, holding
    from egshape.validate import late

    limits = deadlines or Deadlines.of(Limits())
    try:
        with holding(limits.end, limits.memory_mb):
            difference, said = _found(original, written, result, excluding=excluding)
    except LimitReached as reached:
        difference, said = "", late(reached.limit)
    if difference:
        raise OutputsDiffer(
            f"is not written, since it differs from the original: {difference}",
            where=str(target),
            hint="a fault of egshape; please report it (--no-verify writes the model all the same)",
        )
    say(f"egshape: note: {said}")


def _found(original: Path, written: Path, result: Result, *, excluding: bool) -> tuple[str, str]:
    """How the models differ, and what was compared."""
    from egshape import api
    from egshape.validate import compare

    found = _side_by_side(original, written, result, excluding=excluding)
    if found is not None:
        difference, skipped = found.difference, found.skipped
        done = f"compared in {_VERIFIED[original.suffix]} at {len(found.sizes)} sizes"
        done += f", {len(found.rejected)} more rejected as the facts want" if found.rejected else ""
    else:
        verdict = compare(result.source, api.load(written), result.facts, seconds=10)
        difference, skipped = "; ".join(verdict.differences), verdict.skipped
        done = f"compared in the interpreter at {verdict.accepted} sizes"
    return difference, done + (f"; {skipped}" if skipped else "")


def saved_bytes(graph: Graph, format: str, opset: int | None, checks: str) -> tuple[bytes, tuple[str, ...]]:
    """A graph in a format, and what that does not hold, as notes."""
    from egshape import api

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        notes = api.save(graph, path, format=format, opset=opset, external_data=False, checks=checks)
        return path.read_bytes(), notes
