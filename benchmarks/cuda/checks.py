"""What ``benchmarks.cuda`` holds results against, made where egshape is whole: arrays from the interpreter, in the
graph's own precision and in f64; the sample models; a program for every op."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import egshape
from benchmarks.cuda.rows import INDEX
from egshape.errors import Unsupported
from egshape.ir.graph import Graph
from egshape.runtime.core.function import CompiledFunction

Array = np.ndarray[Any, np.dtype[Any]]
Compiler = Callable[[Graph], CompiledFunction]
SIZES = (0, 1, 2, 33)
TYPES = ("f32", "i32")
OPS = 10
"""Ops of a random program."""
LARGEST = 1e4
Stored = tuple[str, Graph, Sequence[Sequence[Array]]]
"""A program's name, its graph, the inputs whose results are stored."""


def store(path: Path, graph: Graph, sets: Sequence[Sequence[Array]]) -> int:
    """Write inputs, results and, where they can be had, those in f64; for inputs that the graph rejects, that it does.
    How many sets there are."""
    from tests.lower.oracle import expected, widened

    wide, arrays = widened(graph), dict[str, Array]()
    for number, inputs in enumerate(sets):
        found = expected(graph, wide, inputs)
        arrays |= named_arrays(f"{number}_in", inputs)
        if found.error is not None:
            arrays[f"{number}_error"] = np.zeros(0)
            continue
        arrays |= named_arrays(f"{number}_out", found.narrow)
        arrays |= named_arrays(f"{number}_wide", found.wide or ())
    _write(path, arrays)
    return len(sets)


def named_arrays(head: str, arrays: Sequence[Array]) -> dict[str, Array]:
    """Arrays by names that begin with ``head``; bf16, which the format lacks, as ui16 whose name says so."""
    return {
        f"{head}{k}_bf16" if array.dtype.name == "bfloat16" else f"{head}{k}": array.view(np.uint16)
        if array.dtype.name == "bfloat16"
        else array
        for k, array in enumerate(arrays)
    }


def _write(path: Path, arrays: dict[str, Array]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    held: Any = arrays
    np.savez_compressed(path, **held)


def models(folder: Path, source: Path, compile: Compiler) -> int:
    """The sample models of a folder, with the results that are stored there and those in f64. How many there are."""
    from tests.lower.oracle import expected, widened

    rows = []
    for name, about in json.loads((source / "index.json").read_text()).items():
        graph = egshape.load(source / f"{name}.mlir")
        compile(egshape.optimize(graph, validate=False, explain=False).graph).save(folder / f"model_{name}.egx")
        arrays, wide = dict[str, Array](), widened(graph)
        with np.load(source / f"{name}.npz") as stored:
            for number in range(len(about["cases"])):
                for part in ("in", "out"):
                    keys = [key for key in stored.files if key.startswith(f"case{number}_{part}")]
                    arrays |= {key.removeprefix("case"): stored[key] for key in keys}
                inputs = [arrays[f"{number}_in{k}"] for k in range(len(graph.inputs))]
                arrays |= named_arrays(f"{number}_wide", expected(graph, wide, inputs).wide or ())
        _write(folder / f"model_{name}.npz", arrays)
        rows.append({"name": name, "file": f"model_{name}.egx", "check": f"model_{name}.npz"})
    (folder / "models.json").write_text(json.dumps(rows))
    return len(rows)


def ops(
    folder: Path, compile: Compiler, names: Sequence[str] = (), dtypes: Sequence[str] = TYPES
) -> tuple[int, list[str]]:
    """A program for every op and dtype, with results at several sizes, in one compressed archive. How many there are,
    and those that are left out as they are not compiled."""
    from egshape.ops import REGISTRY
    from tests.lower.opcases import cases

    found = (case for op in names or [decl.name for decl in REGISTRY] for case in cases(op, dtypes))
    return _archive(
        folder / "ops.tar.xz",
        compile,
        ((str(case), case.graph, [case.arrays(n) for n in SIZES if n <= case.most]) for case in found),
    )


def programs(folder: Path, compile: Compiler, seeds: Iterable[int]) -> tuple[int, list[str]]:
    """Random programs with results, as ``ops``."""
    from tests.fuzz.engine import program
    from tests.fuzz.maker import arrays_at, bearable, variations

    def made() -> Iterator[Stored]:
        for seed in seeds:
            maker, graph = program(seed, (), OPS)
            points = [each for each in variations(maker, seed, 3) if bearable(graph, each[0])]
            yield f"seed {seed}", graph, [list(map(_modest, arrays_at(graph, *each, seed))) for each in points]

    return _archive(folder / "programs.tar.xz", compile, made())


def _modest(array: Array) -> Array:
    """Floats without the largest ones: a sum of those is finite or not by the order in which it is taken."""
    if array.dtype.kind != "f":
        return array
    return np.where(np.isfinite(array), np.clip(array, -LARGEST, LARGEST), array).astype(array.dtype)


def _archive(path: Path, compile: Compiler, programs: Iterable[Stored]) -> tuple[int, list[str]]:
    rows, refused = list[dict[str, str]](), list[str]()
    with tarfile.open(path, "w:xz") as archive, TemporaryDirectory() as room:
        for name, graph, sets in programs:
            file = f"program{len(rows)}"
            try:
                compile(graph).save(Path(room, f"{file}.egx"))
            except Unsupported:
                refused.append(name)
                continue
            store(Path(room, f"{file}.npz"), graph, sets)
            for each in (f"{file}.egx", f"{file}.npz"):
                archive.add(Path(room, each), each)
                Path(room, each).unlink()
            rows.append({"name": name, "file": f"{file}.egx", "check": f"{file}.npz"})
        data = json.dumps(rows).encode()
        entry = tarfile.TarInfo(INDEX)
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return len(rows), refused
