"""Whether results are right: the groups of ``benchmarks.cuda`` that time nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cuda import torch as cuda_torch
from benchmarks.cuda.bench import Bench, listed
from benchmarks.cuda.rows import INDEX, POISON, Case, Context, Row, functions
from benchmarks.cuda.weights import named
from benchmarks.tools.equal import fault
from egshape.runtime.core.errors import RunError
from egshape.runtime.cuda.function import CudaFunction

Array = np.ndarray[Any, np.dtype[Any]]
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
TOOL_SECONDS, FOUND = 120.0, 9
LOOSE = {"f32": 1e-4}
"""The tolerance for whole cases; that of 16 bits is the case's own."""


def checked(bench: Bench, function: CudaFunction, path: Path, relative: float | None = None) -> str:
    """What is wrong with the results for stored inputs; "" if nothing. Each set is given as arrays of the host, with
    outputs that are poisoned; then three times for results on the device, so that a graph is captured and launched."""
    with np.load(path) as stored:
        arrays = {
            key.removesuffix("_bf16"): stored[key].view(named("bfloat16")) if key.endswith("_bf16") else stored[key]
            for key in stored.files
        }
    for number in range(1 + max((int(key.partition("_")[0]) for key in arrays), default=-1)):
        inputs, outputs, wide = (_listed_arrays(arrays, f"{number}_{part}") for part in ("in", "out", "wide"))
        rejected, before = f"{number}_error" in arrays, list[Array]()
        for device in (False, True, True, True):
            out = (
                None
                if device or rejected
                else [_poisoned(each, late) for each, late in zip(outputs, _late(function), strict=True)]
            )
            try:
                found = [np.asarray(each) for each in listed(function(*inputs, out=out, device=device))]
            except RunError as error:
                if rejected:
                    continue
                return f"{_shapes(inputs)}: {error}"
            if rejected:
                return f"{_shapes(inputs)}: runs, though the interpreter rejects it"
            if (
                device
                and len(before) == len(found)
                and any(a.tobytes() != b.tobytes() for a, b in zip(before, found, strict=True))
            ):
                return f"{_shapes(inputs)}: bits differ from run to run"
            before = found if device else []
            wrong = fault(
                [_typed(each, like) for each, like in zip(found, outputs, strict=True)], outputs, wide or None, relative
            )
            if wrong:
                return f"{_shapes(inputs)}, device={device}: {wrong}"
    return ""


def _listed_arrays(arrays: Mapping[str, Array], head: str) -> list[Array]:
    found = list[Array]()
    while f"{head}{len(found)}" in arrays:
        found.append(arrays[f"{head}{len(found)}"])
    return found


def _late(function: CudaFunction) -> list[bool]:
    return [bool(port["late"]) for port in function.manifest["outputs"]]


def _poisoned(like: Array, late: bool) -> Array | None:
    found = np.empty_like(like, order="C")
    found.reshape(-1).view(np.uint8)[...] = POISON
    return None if late else found


def _typed(found: Array, like: Array) -> Array:
    """bf16 comes back as two bytes where nothing names it."""
    return found.view(like.dtype) if found.dtype.kind == "V" and found.itemsize == like.itemsize else found


def _shapes(arrays: Sequence[Array]) -> str:
    return f"inputs {[list(each.shape) for each in arrays][:4]}"


# -- groups ------------------------------------------------------------------------------------------------------------


def check(context: Context) -> Iterator[Row]:
    """Results of all cases, of sample models and of every op, at all sizes that are stored."""
    folder, bench = context.bench.folder, context.bench
    for case in stored_cases(bench):
        if context.begins(case["name"]):
            rows = (
                Row("check", case["name"], kind, "WRONG" if said else "ok", said)
                for kind, said in verdicts(bench, case)
            )
            yield from context.guarded("check", case["name"], rows)
    yield from _stored(context, folder, "models.json", "model ", 1e-4)
    for kind in ("op", "program"):
        if (folder / f"{kind}s.tar.xz").exists():
            with tempfile.TemporaryDirectory() as room, tarfile.open(folder / f"{kind}s.tar.xz") as archive:
                archive.extractall(room, filter="data")
                yield from _stored(context, Path(room), INDEX, f"{kind} ", 3e-5 if kind == "program" else None)


def stored_cases(bench: Bench) -> list[Case]:
    """The cases of which results are stored."""
    return [case for case in json.loads((bench.folder / "cases.json").read_text()) if case["check"]]


def verdicts(bench: Bench, case: Case) -> Iterator[tuple[str, str]]:
    """What is wrong with each variant of a case that needs no facts, as the sizes that are stored are such that none
    hold."""
    for kind, function in functions(bench, case).items():
        if not case["needs"][kind]:
            yield kind, checked(bench, function, bench.folder / case["check"], LOOSE.get(case["dtype"], case["wrong"]))


def _stored(context: Context, folder: Path, index: str, head: str, relative: float | None) -> Iterator[Row]:
    """A row for each artifact of a folder that is wrong, and one for all that are right."""
    right, path, bench = 0, folder / index, context.bench

    def rows(name: str, each: Mapping[str, str]) -> Iterator[Row]:
        said = checked(bench, bench.load(folder / each["file"]), folder / each["check"], relative)
        if said:
            yield Row("check", name, status="WRONG", note=said)

    for each in json.loads(path.read_text()) if path.exists() else ():
        name = head + each["name"]
        if context.begins(name):
            found = list(context.guarded("check", name, rows(name, each)))
            yield from found
            right += not found
    if right:
        yield Row("check", f"all other {head.strip()}s", values={"right": right})


def streams(context: Context) -> Iterator[Row]:
    """Results that do not depend on who queued what where: inputs that are still being made on another stream, results
    that are read on another stream, threads with a stream each."""
    bench, torch = context.bench, context.bench.torch
    if torch is None or not bench.real:
        yield Row("streams", "streams", status="skipped", note="needs torch on a device")
        return
    for case in context.cases("bandwidth"):
        if case["kind"] in ("softmax", "columns"):
            yield from context.guarded("streams", case["name"], _on_streams(context, case))


def _on_streams(context: Context, case: Case) -> Iterator[Row]:
    bench, torch = context.bench, context.bench.torch
    eager = cuda_torch.function(torch, case["kind"], case["options"], {})
    for name, run in (("other producer", _producer), ("other reader", _reader), ("threads", _threads)):
        said = run(torch, case, bench, functions(bench, case)[""], eager)
        yield Row("streams", case["name"], name, "WRONG" if said else "ok", said)


def _rounds(torch: Any, case: Case, bench: Bench, function: CudaFunction, eager: Any, stream: Any, own: Any) -> str:
    """Rounds of a producer on ``stream``, the function on its own stream or on ``own``, a reader on ``stream``."""
    sizes, bad = case["points"][1], 0.0
    for seed in range(20):
        with torch.cuda.stream(stream):
            items = [each * (seed + 1) for each in bench.drawn(case["inputs"], sizes, seed)]
            made = torch.from_dlpack(function(*items) if own is None else function(*items, stream=own))
            copied = made.clone()
            wanted = eager(*items)
            del made, items
            bad = max(bad, float((copied - wanted).double().norm() / wanted.double().norm()))
    return "" if bad <= case["wrong"] else f"{bad:.1e} from torch's"


def _producer(torch: Any, case: Case, bench: Bench, function: CudaFunction, eager: Any) -> str:
    return _rounds(torch, case, bench, function, eager, torch.cuda.Stream(), None)


def _reader(torch: Any, case: Case, bench: Bench, function: CudaFunction, eager: Any) -> str:
    return _rounds(torch, case, bench, function, eager, torch.cuda.Stream(), torch.cuda.Stream())


def _threads(torch: Any, case: Case, bench: Bench, function: CudaFunction, eager: Any) -> str:
    said = list[str]()

    def run() -> None:
        try:
            said.append(_reader(torch, case, bench, function, eager))
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")

    workers = [threading.Thread(target=run) for _ in range(4)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    return "; ".join(filter(None, said))


def sanitizer(context: Context, program: str = "compute-sanitizer") -> Iterator[Row]:
    """A sample under compute-sanitizer's tools, the library's products left out."""
    folder = context.bench.folder
    for tool in filter(context.begins, TOOLS):
        left = min(TOOL_SECONDS, context.until - time.monotonic())
        if left < 10:
            yield Row("sanitizer", tool, status="skipped", note="no time is left")
            continue
        command = [
            program,
            "--tool",
            tool,
            "--error-exitcode",
            str(FOUND),
            sys.executable,
            "-m",
            "benchmarks.cuda",
            str(folder),
            "--sample",
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=left, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            yield Row("sanitizer", tool, status="skipped", note=f"{type(error).__name__}: {str(error)[:150]}")
            continue
        lines = [line for line in done.stdout.splitlines() + done.stderr.splitlines() if line.strip()]
        context.keep(f"{tool}\n" + "\n".join(lines[:60]) + "\n")
        summary = next((line.strip("= ") for line in reversed(lines) if "SUMMARY" in line), "no summary")
        status = {0: "ok", FOUND: "WRONG"}.get(done.returncode, "error")
        yield Row("sanitizer", tool, status=status, note=f"{summary}; exit {done.returncode}")


def sample(bench: Bench) -> list[str]:
    """What the sanitizer watches: small sizes of all cases; what is wrong with their results."""
    return [
        f"{case['name']} [{kind}]: {said}"
        for case in stored_cases(bench)
        for kind, said in verdicts(bench, case)
        if said
    ]


WHOLE: Mapping[str, Callable[[Context], Iterator[Row]]] = {"check": check, "streams": streams, "sanitizer": sanitizer}
"""The rows of groups that are no list of cases."""
