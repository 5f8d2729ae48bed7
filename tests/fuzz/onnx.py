"""Mutated ONNX models: each loads, or ends with one error that is the file's fault, in bounded time and memory.

    python -m tests.fuzz.onnx [--count 20000] [--seed 0] [--optimize 10] [--models zoo|nodes|own] [FILE.onnx ...]

Models: the small ones of the zoo's cache (without a cache our own below), or the models of one node that ONNX tests
its ops with. A mutant is its seed: ``--seed N --count 1`` runs one again. Some are optimized and written too, and run
beside the mutant where ONNX's checker takes that and ONNX Runtime runs it. All in child processes, so that a crash is
found and not suffered.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import egshape
from egshape.api import shapes_table
from egshape.errors import EgshapeError, InternalError
from egshape.ir.graph import Graph
from tests.fuzz.onnx_changes import mutate

SMALL = 1_500_000
"""Bytes of a model that is mutated."""

SECONDS = 20
"""Of processor time for a mutant, comparing it left out."""

MEMORY = 4 << 30
BATCH = 500
"""Mutants for each child process."""


@dataclass(frozen=True)
class Fault:
    """A mutant that ended in the wrong way."""

    seed: int
    model: str
    what: str

    def __str__(self) -> str:
        return f"seed {self.seed} ({self.model}): {self.what}"


# -- models --------------------------------------------------------------------------------------------------------


def own_models() -> dict[str, bytes]:
    """Two models that need no cache: shape arithmetic around a product, and a condition around a slice."""
    f = TensorProto.FLOAT
    x = helper.make_tensor_value_info("x", f, ["batch", "length", 8])
    node = helper.make_node
    weights = [numpy_helper.from_array(np.ones((8, 8), np.float32), "w")]
    weights += [
        numpy_helper.from_array(np.array(v, np.int64), k)
        for k, v in {"zero": 0, "heads": [2], "four": [4], "two": [2], "axis": [0], "ends": [1]}.items()
    ]
    shapes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["b"], axis=0),
        node("Unsqueeze", ["b", "axis"], ["b1"]),
        node("Slice", ["s", "ends", "two"], ["l"]),
        node("Concat", ["b1", "l", "heads", "four"], ["t"], axis=0),
        node("MatMul", ["x", "w"], ["h"]),
        node("Reshape", ["h", "t"], ["r"]),
        node("Transpose", ["r"], ["q"], perm=[0, 2, 1, 3]),
        node("Softmax", ["q"], ["y"], axis=-1),
    ]
    graph = helper.make_graph(shapes, "heads", [x], [helper.make_tensor_value_info("y", f, None)], weights)
    out = [helper.make_tensor_value_info("o", f, None)]
    then = helper.make_graph([node("Slice", ["x", "axis", "ends"], ["o"])], "then", [], out)
    other = helper.make_graph([node("Pad", ["x", "pads"], ["o"], mode="edge")], "else", [], out)
    branch = [
        node("If", ["c"], ["h"], then_branch=then, else_branch=other),
        node("NonZero", ["h"], ["n"]),
        node("Cast", ["n"], ["y"], to=f),
    ]
    pads = numpy_helper.from_array(np.array([0, 0, 1, 0, 0, 1], np.int64), "pads")
    inputs = [x, helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    conditional = helper.make_graph(
        branch, "branch", inputs, [helper.make_tensor_value_info("y", f, None)], [*weights, pads]
    )
    opset = [helper.make_opsetid("", 17)]
    return {g.name: helper.make_model(g, opset_imports=opset).SerializeToString() for g in (graph, conditional)}


def zoo_models() -> dict[str, bytes]:
    """The small models of the zoo's cache."""
    from benchmarks.zoo import fetch

    return {model.name: path.read_bytes() for model, path in fetch.models() if model.bytes <= SMALL}


def node_models() -> dict[str, bytes]:
    """The models of ONNX's own tests of its ops."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case.model.SerializeToString() for case in collect_testcases(None)}


# -- runs ----------------------------------------------------------------------------------------------------------


class _TooSlow(BaseException):
    """No code under test catches this by accident."""


def _late(signum: int, frame: FrameType | None) -> None:
    raise _TooSlow


def try_mutant(seed: int, models: dict[str, bytes], optimize: int) -> Fault | None:
    """Read the mutant of a seed, and optimize it if the seed is a multiple of ``optimize``: its fault, if any."""
    rng = random.Random(seed)
    name = rng.choice(sorted(models))
    mutant = mutate(models[name], rng)
    before = signal.signal(signal.SIGPROF, _late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        graph = egshape.load(mutant, format="onnx")
        if optimize and seed % optimize == 0:
            wrong = _use(graph, mutant)
            return Fault(seed, name, wrong) if wrong else None
    except InternalError as error:
        return Fault(seed, name, str(error)[:300])
    except EgshapeError as error:
        return None if len(str(error)) < 2000 else Fault(seed, name, f"a message of {len(str(error))} letters")
    except _TooSlow:
        return Fault(seed, name, f"not done after {SECONDS} s")
    except BaseException as error:
        return Fault(seed, name, f"{type(error).__name__}: {str(error)[:300]}")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return None


def _use(graph: Graph, mutant: bytes) -> str:
    """Optimize a mutant, tabulate its shapes, write it, and compare what was written: what is wrong, if anything."""
    found = egshape.optimize(graph, limits=egshape.Limits(seconds=5))
    if found.report.status == "fallback":
        return "; ".join(found.report.notes)[:500]
    shapes_table(graph)
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "m.onnx"
        egshape.save(found.graph, written)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            onnx.checker.check_model(mutant, full_check=True)
        except Exception:  # the checker's errors have no common class
            return ""
        onnx.checker.check_model(written)
        return _differs(graph, mutant, written)


def _differs(graph: Graph, mutant: bytes, written: Path) -> str:
    from egshape.adapters import onnx_verify

    if not onnx_verify.available():
        return ""
    try:
        return onnx_verify.compare_models(mutant, written, graph, graph.facts, wanted=3, seconds=4).difference[:500]
    except Exception as error:  # ONNX Runtime does not take the mutant
        if type(error).__module__.startswith("onnxruntime"):
            return ""
        raise


def _child(first: int, count: int, optimize: int, kind: str, files: Sequence[str]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    models = _models(kind, files)
    for seed in range(first, first + count):
        print(f"@{seed}", flush=True)
        fault = try_mutant(seed, models, optimize)
        if fault is not None:
            print(f"!{fault}", flush=True)


def _models(kind: str, files: Sequence[str]) -> dict[str, bytes]:
    if files:
        return {Path(file).name: Path(file).read_bytes() for file in files}
    if kind == "nodes":
        return node_models()
    return (zoo_models() if kind == "zoo" else {}) or own_models()


def run(first: int, count: int, optimize: int, kind: str, files: Sequence[str]) -> list[str]:
    """Try mutants in child processes: the faults, a crash of a child among them."""
    found, seed, end = [], first, first + count
    while seed < end:
        size = min(BATCH, end - seed)
        command = [
            sys.executable,
            "-m",
            "tests.fuzz.onnx",
            "--child",
            f"--seed={seed}",
            f"--count={size}",
            f"--optimize={optimize}",
            f"--models={kind}",
            *files,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        faults = [line[1:] for line in lines if line.startswith("!")]
        reached = max((int(line[1:]) for line in lines if line.startswith("@")), default=seed)
        if done.returncode != 0:
            faults.append(f"seed {reached}: the process ended with {done.returncode}: {done.stderr.strip()[-200:]}")
            size = reached + 1 - seed
        found += faults
        seed += size
        said = f"{seed - first} of {count} mutants, {len(found)} faults"
        print("\n".join([*faults, said]), file=sys.stderr, flush=True)
    return found


def main() -> int:
    """Fuzz, print the faults."""
    parser = argparse.ArgumentParser(description="Mutated ONNX models through load and optimize.")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--optimize", type=int, default=10, help="optimize every so-manieth mutant, 0 for none")
    parser.add_argument("--models", choices=("zoo", "nodes", "own"), default="zoo")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child(options.seed, options.count, options.optimize, options.models, options.files)
        return 0
    found = run(options.seed, options.count, options.optimize, options.models, options.files)
    print("\n".join(found) or f"no fault in {options.count} mutants")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
