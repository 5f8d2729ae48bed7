"""Shape inference over real models: how many tensors have all of their sizes in the input symbols, and are they right.

Three answer: onnx.shape_inference (with data propagation), ONNX Runtime's symbolic inference, and ``egshape shapes``.
Every answer is evaluated at the points of the model's plan and held against the sizes that ONNX Runtime really had: one
that differs at any point is **wrong**. A tensor of the model that egshape's program no longer has, because it is a
constant or plain arithmetic of sizes, is **folded**.
"""

from __future__ import annotations

import contextlib
import io
import math
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from benchmarks.zoo import measures
from benchmarks.zoo.inputs import UNKNOWN, Plan
from benchmarks.zoo.measures import Seen

Sizes = Mapping[str, int]
Shape = Sequence[int | str | None]
Answer = dict[str, Shape]
"""Tensor to its sizes: numbers, expressions, None where unknown."""

_WORDS = {"floor": math.floor, "ceiling": math.ceil, "Max": max, "Min": min, "Mod": lambda a, b: a % b, "abs": abs}
"""What sympy prints, as Python; only texts that consist of these, names, numbers and operators are evaluated."""


@dataclass(frozen=True)
class Coverage:
    """One model, one inference: of ``tensors`` results, how many are ``expressed``, ``wrong``, ``folded``.

    ``invented`` counts symbols that no input has; for egshape these are the named data-dependent sizes, and a size
    over them counts as expressed.
    """

    model: str
    inference: str
    tensors: int
    expressed: int
    wrong: int
    folded: int
    invented: int
    seconds: float
    error: str


def coverages(name: str, path: Path, plan: Plan) -> list[Coverage]:
    """What each inference says about a model."""
    seen = measures.observe(path, plan).points
    bare, full = measures.skeleton(path), onnx.load(path)
    known = {x for x in seen[0] if all(x in point for point in seen)}
    made = [x for node in bare.graph.node if node.op_type != "Constant" for x in node.output if x in known]
    symbols = _rename(full)
    points = [{symbols[s]: n for s, n in probe.sizes.items() if s in symbols} for probe in plan.probes]
    found = [_peer(name, kind, infer, full, made, seen, points) for kind, infer in _PEERS.items()]
    del full
    return [*found, _own(name, path, plan, made, seen)]


def _rename(model: onnx.ModelProto) -> dict[str, str]:
    """Give every symbol of the inputs a plain name, the same for all tools: s0, s1, ..."""
    symbols: dict[str, str] = {}
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value") or dim.dim_value < 0:
                key = dim.dim_param if dim.dim_param not in UNKNOWN else f"{value.name}.{axis}"
                dim.dim_param = symbols.setdefault(key, f"s{len(symbols)}")
    for value in model.graph.output:
        # An exporter's guess about its outputs is no inference.
        value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    return symbols


def _by_onnx(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def _by_ort(model: onnx.ModelProto) -> onnx.ModelProto:
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    # it leaves files where it is called
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        return SymbolicShapeInference.infer_shapes(model, auto_merge=True)


_PEERS: Mapping[str, Callable[[onnx.ModelProto], onnx.ModelProto]] = {"onnx": _by_onnx, "ort symbolic": _by_ort}


def _peer(
    name: str,
    kind: str,
    infer: Callable[[onnx.ModelProto], onnx.ModelProto],
    model: onnx.ModelProto,
    made: Sequence[str],
    seen: Sequence[Mapping[str, Seen]],
    points: Sequence[Sizes],
) -> Coverage:
    started = time.perf_counter()
    try:
        done = infer(model)
    except BaseException as error:  # one of them panics
        said = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
        return Coverage(name, kind, len(made), 0, 0, 0, 0, time.perf_counter() - started, said)
    seconds = time.perf_counter() - started
    answer: Answer = {}
    for value in [*done.graph.value_info, *done.graph.output]:
        kindof = value.type.tensor_type
        if value.type.HasField("tensor_type") and kindof.HasField("shape"):
            answer[value.name] = [
                d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in kindof.shape.dim
            ]
    inputs = set(points[0])
    invented = {s for shape in answer.values() for dim in shape if isinstance(dim, str) for s in _names(dim)} - inputs
    expressed = [x for x in made if x in answer and all(_covered(dim, inputs) for dim in answer[x])]
    wrong = sum(_is_wrong(answer[x], [point[x] for point in seen], points) for x in expressed)
    return Coverage(name, kind, len(made), len(expressed), wrong, 0, len(invented), seconds, "")


def _names(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_][\w.]*", text)) - _WORDS.keys()


def _covered(dim: int | str | None, inputs: set[str]) -> bool:
    return isinstance(dim, int) or (dim is not None and _names(dim) <= inputs)


def _is_wrong(shape: Shape, seen: Iterable[Seen], points: Iterable[Sizes]) -> bool:
    return any(tuple(_value(dim, point) for dim in shape) != at.shape for at, point in zip(seen, points, strict=True))


def _value(dim: int | str | None, point: Sizes) -> int | None:
    if not isinstance(dim, str):
        return dim
    try:
        return int(eval(dim, {"__builtins__": {}}, {**_WORDS, **point}))
    except (ArithmeticError, SyntaxError, NameError, TypeError):
        return None


def _own(name: str, path: Path, plan: Plan, made: Sequence[str], seen: Sequence[Mapping[str, Seen]]) -> Coverage:
    import egshape
    from egshape.api import shapes_table
    from egshape.dims import parse
    from egshape.errors import EgshapeError

    started = time.perf_counter()
    try:
        graph = egshape.load(path)
        rows = shapes_table(graph).values
    except EgshapeError as error:
        return Coverage(name, "egshape", len(made), 0, 0, 0, 0, time.perf_counter() - started, str(error)[:160])
    seconds = time.perf_counter() - started
    answer = {row.name.removeprefix("%"): row.shape for row in rows}
    points = [_bound(answer, probe.sizes, point) for probe, point in zip(plan.probes, seen, strict=True)]
    there = [x for x in made if x in answer]
    whole = [x for x in there if answer[x] is not None]
    wrong = sum(_own_wrong(answer[x] or (), [point[x] for point in seen], points) for x in whole)
    inputs = {s for value in graph.inputs for dim in value.type.shape or () for s in dim.symbols()}
    invented = {s for row in rows for text in row.shape or () for s in parse(text).symbols()} - inputs
    folded = len(made) - len(there)
    return Coverage(name, "egshape", len(made), len(whole) + folded, wrong, folded, len(invented), seconds, "")


def _bound(answer: Mapping[str, Sequence[str] | None], sizes: Sizes, seen: Mapping[str, Seen]) -> dict[str, int]:
    """The plan's sizes, and those of symbols that hang on data: where one first stands alone is its definition."""
    from egshape.dims import parse, symbol

    bound = dict(sizes)
    for name, shape in answer.items():
        if name in seen and shape is not None and len(shape) == len(seen[name].shape):
            for text, size in zip(shape, seen[name].shape, strict=True):
                dim = parse(text)
                names = dim.symbols()
                if len(names) == 1 and dim == symbol(next(iter(names))):
                    bound.setdefault(next(iter(names)), size)
    return bound


def _own_wrong(shape: Sequence[str], seen: Iterable[Seen], points: Iterable[Mapping[str, int]]) -> bool:
    from egshape.dims import parse

    for at, point in zip(seen, points, strict=True):
        try:
            if tuple(parse(text).evaluate(point) for text in shape) != at.shape:
                return True
        except (KeyError, ArithmeticError):
            return True
    return False


def summary(found: Iterable[Coverage]) -> str:
    """A Markdown table, a line a model."""
    by_model: dict[str, dict[str, Coverage]] = {}
    for entry in found:
        by_model.setdefault(entry.model, {})[entry.inference] = entry
    kinds = [*_PEERS, "egshape"]
    lines = ["\n### Tensors with every size in input symbols\n", f"| model | tensors | {' | '.join(kinds)} |"]
    lines.append("|---" * (len(kinds) + 2) + "|")
    for model, cells in by_model.items():
        texts = [_cell(cells[kind]) if kind in cells else "" for kind in kinds]
        lines.append(f"| {model} | {next(iter(cells.values())).tensors} | {' | '.join(texts)} |")
    return "\n".join(lines)


def _cell(entry: Coverage) -> str:
    if entry.error:
        return f"fails: {entry.error[:60]}"
    share = 100 * entry.expressed / max(entry.tensors, 1)
    more = [f"{entry.folded} folded"] if entry.folded else []
    more += [f"{entry.invented} invented"] if entry.invented else []
    more += [f"**{entry.wrong} wrong**"] if entry.wrong else []
    return f"{share:.0f} %" + (f" ({', '.join(more)})" if more else "")
