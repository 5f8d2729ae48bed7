"""Random ONNX models, optimized and compiled, against ONNX Runtime on the model as it was made.

    python -m tests.fuzz.onnx_equal [--count 2000] [--seed 0] [--nodes 14] [--compile 2] [--save FOLDER]

A model is its seed. Where ONNX Runtime runs it, ONNX Runtime must run what ``optimize`` wrote of it, our interpreter
must run it as it was read, and the native code what was optimized, with equal results: at the sizes it was made for and
at others, 0 and 1 among them. A model that fails is cut down to the nodes that one wrong output needs."""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import numpy as np
import onnx

import egshape
from egshape.errors import EgshapeError
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from tests.fuzz.onnx_maker import SIZES, SYMBOLS, Maker, outputs, session
from tests.fuzz.onnx_pieces import make

SECONDS = 90
BATCH = 100
"""Models for each child process."""

TOLERANCE = 2e-4
"""Relative to the largest element."""

MORE = 3
"""Sizes at which a model is run beside those that it was made at."""

STRICTER = ("needed by Reshape with -1",)
"""What egshape rejects and ONNX Runtime takes, with a message that says so: a target of Reshape whose computed size is
0, which copies another, beside a -1. Such sizes are left out."""

Feed = dict[str, np.ndarray]


@dataclass(frozen=True)
class Made:
    """A model and the arrays at which it is run."""

    model: onnx.ModelProto
    feeds: Sequence[Feed]


def model_of(seed: int, nodes: int) -> Made | None:
    """The model of a seed, None if nothing came of it."""
    rng = random.Random(seed)
    maker = Maker(rng)
    make(maker, rng.randint(3, nodes))
    made = [value for value in maker.pool if value.inner]
    last = [value for value in made if value.name not in maker.read]
    if not last:
        return None
    wanted = rng.sample(last, min(len(last), 4))
    wanted += [value for value in rng.sample(made, min(len(made), 2)) if value not in wanted]
    feeds = list(maker.feeds)
    if not maker.fixed:
        sizes = SIZES if maker.empty else SIZES[1:]
        feeds += [_feed(maker, {name: rng.choice(sizes) for name in SYMBOLS}) for _ in range(MORE)]
    return Made(maker.finish(wanted), feeds)


def _feed(maker: Maker, sizes: dict[str, int]) -> Feed:
    """Inputs at other sizes, in the range of those that were made."""
    out = {}
    for name, axes in maker.axes.items():
        held = maker.feeds[0][name]
        shape = [sizes[axis] if isinstance(axis, str) else axis for axis in axes]
        like = np.concatenate([feed[name].reshape(-1) for feed in maker.feeds] or [held.reshape(-1)])
        low, high = (like.min(), like.max()) if like.size else (0, 1)
        out[name] = maker.data(held.dtype.str, shape, int(low), int(high), bool(np.any(like != np.round(like))))
    return out


# -- one model -----------------------------------------------------------------------------------------------------


def fault_of(made: Made, native: bool) -> tuple[str, int]:
    """What is wrong with how a model is treated ("" if nothing), and at how many sizes ONNX Runtime ran it."""
    data = made.model.SerializeToString()
    try:
        theirs = session(data)
    except Exception:  # the runtime's errors have no common class
        return "", 0
    runs = [(feed, found) for feed in made.feeds if not isinstance(found := outputs(theirs, feed), str)]
    names = [each.name for each in made.model.graph.output]
    try:
        graph = egshape.load(data, format="onnx")
        result = egshape.optimize(graph, limits=egshape.Limits(seconds=20))
    except EgshapeError as error:
        return f"refused: {type(error).__name__}: {error}"[:600], len(runs)
    if result.report.status == "fallback":
        return f"fallback: {result.report.notes}"[:600], len(runs)
    common = []
    for feed, found in runs:
        said = _interpreted(graph, feed)
        if isinstance(said, str) and any(each in said for each in STRICTER):
            continue
        if isinstance(said, str):
            return f"the interpreter rejects {_sizes(feed)}: {said}"[:600], len(runs)
        if difference := _difference(names, found, said):
            return f"interpreted at {_sizes(feed)}: {difference}", len(runs)
        common.append((feed, found))
    return (
        _written(result.graph, common, names) or (_compiled(result.graph, common, names) if native else ""),
        len(common),
    )


def _interpreted(graph: Graph, feed: Feed) -> list[np.ndarray] | str:
    """What the interpreter makes of the graph: results, or why it rejects it."""
    try:
        with np.errstate(all="ignore"):
            return interpret(graph, [feed[value.name] for value in graph.inputs])
    except EgshapeError as error:
        return f"{error.code}: {error}"


def _written(graph: Graph, runs: Sequence[tuple[Feed, list[np.ndarray]]], names: Sequence[str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        try:
            egshape.save(graph, path)
            written = path.read_bytes()
            onnx.checker.check_model(written)
            ours = session(written)
        except Exception as error:
            return f"written: {type(error).__name__}: {error}"[:600]
    for feed, found in runs:
        got = outputs(ours, feed)
        if isinstance(got, str):
            return f"written at {_sizes(feed)}: fails: {got}"
        if difference := _difference(names, found, got):
            return f"written at {_sizes(feed)}: {difference}"
    return ""


def _compiled(graph: Graph, runs: Sequence[tuple[Feed, list[np.ndarray]]], names: Sequence[str]) -> str:
    try:
        function = egshape.compile(graph, "llvm", optimize=False)
    except EgshapeError as error:
        return f"compiled: {error}"[:600]
    for feed, found in runs:
        try:
            got = function(*(feed[value.name] for value in graph.inputs))
        except EgshapeError as error:
            return f"compiled at {_sizes(feed)}: {error}"[:600]
        if difference := _difference(names, found, list(got) if isinstance(got, tuple) else [got]):
            return f"compiled at {_sizes(feed)}: {difference}"
    return ""


def _sizes(feed: Feed) -> str:
    return " ".join(f"{name}{list(array.shape)}" for name, array in feed.items())


def _difference(names: Sequence[str], wanted: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> str:
    for name, one, two in zip(names, wanted, found, strict=True):
        if one.dtype != two.dtype or one.shape != two.shape:
            return f"{name} is {two.dtype}{list(two.shape)}, not {one.dtype}{list(one.shape)}"
        if one.dtype.kind != "f":
            if not np.array_equal(one, two):
                return f"{name} differs"
            continue
        finite = one[np.isfinite(one)]
        scale = float(np.abs(finite).max(initial=0.0)) + 1e-3
        if not np.allclose(one, two, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True):
            return f"{name} differs by {float(np.nanmax(np.abs(one.astype(float) - two.astype(float)))):.3g}"
    return ""


# -- smaller models ------------------------------------------------------------------------------------------------


def smaller(made: Made, native: bool) -> tuple[Made, str]:
    """The first output or inner value, in order, of which the nodes alone fail too, and how they do."""
    held = [name for node in made.model.graph.node for name in node.output]
    for name in held:
        part = _cone(made.model, name)
        if fault := fault_of(Made(part, made.feeds), native)[0]:
            return Made(part, made.feeds), fault
    return made, fault_of(made, native)[0]


def _cone(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """The nodes that one value needs."""
    part = onnx.ModelProto()
    part.CopyFrom(model)
    needed, nodes = {name}, []
    for node in reversed(model.graph.node):
        if needed & set(node.output):
            nodes.append(node)
            needed |= {
                *node.input,
                *(each for a in node.attribute if a.HasField("g") for inner in a.g.node for each in inner.input),
            }
    del part.graph.node[:], part.graph.output[:], part.graph.initializer[:], part.graph.value_info[:]
    part.graph.node.extend(reversed(nodes))
    part.graph.output.append(onnx.ValueInfoProto(name=name))
    part.graph.initializer.extend(each for each in model.graph.initializer if each.name in needed)
    inputs = [each for each in model.graph.input if each.name in needed]
    del part.graph.input[:]
    part.graph.input.extend(inputs)
    return part


# -- runs ----------------------------------------------------------------------------------------------------------


class _TooSlow(BaseException):
    """No code under test catches this by accident."""


def _late(signum: int, frame: FrameType | None) -> None:
    raise _TooSlow


def try_model(seed: int, nodes: int, compile: int) -> tuple[str, int]:
    """What is wrong with the model of a seed ("" if nothing), and at how many sizes it was run."""
    before = signal.signal(signal.SIGPROF, _late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        made = model_of(seed, nodes)
        return ("", 0) if made is None else fault_of(made, bool(compile) and seed % compile == 0)
    except _TooSlow:
        return f"not done after {SECONDS} s", 0
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:600], 0
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _child(options: argparse.Namespace) -> None:
    for seed in range(options.seed, options.seed + options.count):
        print(f"@{seed}", flush=True)
        fault, ran = try_model(seed, options.nodes, options.compile)
        print(f"={ran}", flush=True)
        if fault:
            print(f"!seed {seed}: {fault}".replace("\n", " "), flush=True)
            if options.save:
                _save(seed, options)


def _save(seed: int, options: argparse.Namespace) -> None:
    """Keep a model that fails, and what is left of it when it is cut down."""
    made = model_of(seed, options.nodes)
    if made is None:
        return
    options.save.mkdir(parents=True, exist_ok=True)
    (options.save / f"{seed}.onnx").write_bytes(made.model.SerializeToString())
    small, fault = smaller(made, True)
    text = onnx.printer.to_text(small.model)
    (options.save / f"{seed}.txt").write_text(f"{fault}\n\n{text}\n")
    (options.save / f"{seed}.small.onnx").write_bytes(small.model.SerializeToString())


def run(options: argparse.Namespace) -> tuple[list[str], int]:
    """Try models in child processes: the faults, and how many runs were compared."""
    found: list[str] = []
    seed, end, compared = options.seed, options.seed + options.count, 0
    with tempfile.TemporaryDirectory() as cache:
        while seed < end:
            size = min(BATCH, end - seed)
            command = [
                sys.executable,
                "-m",
                "tests.fuzz.onnx_equal",
                "--child",
                f"--seed={seed}",
                f"--count={size}",
                f"--nodes={options.nodes}",
                f"--compile={options.compile}",
            ]
            command += [f"--save={options.save}"] if options.save else []
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, env={**os.environ, "EGSHAPE_CACHE": cache}
            )
            lines = done.stdout.splitlines()
            faults = [line[1:] for line in lines if line.startswith("!")]
            compared += sum(int(line[1:]) for line in lines if line.startswith("="))
            reached = max((int(line[1:]) for line in lines if line.startswith("@")), default=seed)
            if done.returncode != 0:
                faults.append(f"seed {reached}: the process ended with {done.returncode}: {done.stderr.strip()[-300:]}")
                size = reached + 1 - seed
            found += faults
            seed += size
            said = f"{seed - options.seed} of {options.count} models, {compared} runs, {len(found)} faults"
            print("\n".join([*faults, said]), file=sys.stderr, flush=True)
    return found, compared


def main() -> int:
    """Fuzz, print the faults."""
    parser = argparse.ArgumentParser(description="Random ONNX models against ONNX Runtime.")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=14, help="at most so many nodes, constants not counted")
    parser.add_argument("--compile", type=int, default=2, help="compile every so-manieth model, 0 for none")
    parser.add_argument("--save", type=Path, default=None, help="a folder for the models that fail")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child(options)
        return 0
    found, compared = run(options)
    print("\n".join(found) or f"no fault in {options.count} models, {compared} runs")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
