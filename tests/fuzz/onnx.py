"""Mutated ONNX models: each loads, or ends with one error that is the file's fault, in bounded time and memory.

    python -m tests.fuzz.onnx [--count 20000] [--seed 0] [--optimize 10] [FILE.onnx ...]

Without files the models of the zoo's cache are taken that are small, and without these the ones below. A mutant is its
seed: ``--seed N --count 1`` runs one again. Mutants run in child processes, so that a crash is found and not suffered.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import egshape
from egshape.errors import EgshapeError, InternalError

SMALL = 1_500_000
"""Bytes of a model that is mutated."""

SECONDS = 20
MEMORY = 4 << 30
BATCH = 500
"""Mutants for each child process."""

_NUMBERS = (-(2**63), -(2**31), -7, -1, 0, 1, 2, 3, 4, 7, 100, 2**31 - 1, 2**31, 2**62, 2**63 - 1)
_OPS = ("Add", "MatMul", "Concat", "Reshape", "Slice", "Gather", "Shape", "Expand", "Transpose", "If", "Conv", "Pad",
        "Unsqueeze", "Squeeze", "ConstantOfShape", "Split", "LSTM", "Resize", "Range", "Cast", "Where", "Loop", "TopK",
        "NonZero", "ReduceSum", "Softmax", "Gemm", "QuantizeLinear", "Identity", "Nonsense")
_NAMES = ("", "?", "n", "a + b", "n // 0", "(", "n*n*n", "%", "x.0", "-1", "n" * 300)


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
    weights += [numpy_helper.from_array(np.array(v, np.int64), k) for k, v in
                {"zero": 0, "heads": [2], "four": [4], "two": [2], "axis": [0], "ends": [1]}.items()]
    shapes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["b"], axis=0),
              node("Unsqueeze", ["b", "axis"], ["b1"]), node("Slice", ["s", "ends", "two"], ["l"]),
              node("Concat", ["b1", "l", "heads", "four"], ["t"], axis=0), node("MatMul", ["x", "w"], ["h"]),
              node("Reshape", ["h", "t"], ["r"]), node("Transpose", ["r"], ["q"], perm=[0, 2, 1, 3]),
              node("Softmax", ["q"], ["y"], axis=-1)]
    graph = helper.make_graph(shapes, "heads", [x], [helper.make_tensor_value_info("y", f, None)], weights)
    out = [helper.make_tensor_value_info("o", f, None)]
    then = helper.make_graph([node("Slice", ["x", "axis", "ends"], ["o"])], "then", [], out)
    other = helper.make_graph([node("Pad", ["x", "pads"], ["o"], mode="edge")], "else", [], out)
    branch = [node("If", ["c"], ["h"], then_branch=then, else_branch=other), node("NonZero", ["h"], ["n"]),
              node("Cast", ["n"], ["y"], to=f)]
    pads = numpy_helper.from_array(np.array([0, 0, 1, 0, 0, 1], np.int64), "pads")
    inputs = [x, helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    conditional = helper.make_graph(branch, "branch", inputs, [helper.make_tensor_value_info("y", f, None)],
                                    [*weights, pads])
    opset = [helper.make_opsetid("", 17)]
    return {g.name: helper.make_model(g, opset_imports=opset).SerializeToString() for g in (graph, conditional)}


def zoo_models() -> dict[str, bytes]:
    """The small models of the zoo's cache."""
    from benchmarks import fetch

    return {model.name: path.read_bytes() for model, path in fetch.models() if model.bytes <= SMALL}


# -- mutations -----------------------------------------------------------------------------------------------------


def mutate(content: bytes, rng: random.Random) -> bytes:
    """A model with one to four changes: to its bytes, or to what they mean."""
    if rng.random() < 0.25:
        return _damage(bytearray(content), rng)
    model = onnx.ModelProto()
    model.ParseFromString(content)
    for _ in range(rng.randint(1, 4)):
        rng.choice(_CHANGES)(model, rng)
    return bytes(model.SerializeToString())


def _damage(content: bytearray, rng: random.Random) -> bytes:
    kind = rng.randrange(4)
    at = rng.randrange(len(content))
    if kind == 0:
        return bytes(content[:at])
    if kind == 1:
        del content[at : at + rng.randint(1, 64)]
    elif kind == 2:
        content[at:at] = content[: rng.randint(1, 64)]
    else:
        # The structure is near the ends and between weights: most bytes in the middle are numbers.
        for _ in range(rng.randint(1, 8)):
            content[rng.randrange(min(len(content), 4000))] = rng.randrange(256)
    return bytes(content)


def _nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Every node, those of subgraphs included."""
    found, graphs = [], [model.graph]
    while graphs:
        graph = graphs.pop()
        found += graph.node
        graphs += [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return found


def _any_node(model: onnx.ModelProto, rng: random.Random) -> onnx.NodeProto:
    return rng.choice(_nodes(model) or [onnx.NodeProto()])


def _attribute(model: onnx.ModelProto, rng: random.Random) -> None:
    having = [node for node in _nodes(model) if node.attribute]
    if not having:
        return
    held = rng.choice(rng.choice(having).attribute)
    kind = rng.randrange(4)
    if kind == 0:
        held.name += "x"
    elif kind == 1:
        held.i, held.type = rng.choice(_NUMBERS), onnx.AttributeProto.INT
    elif held.ints:
        held.ints[rng.randrange(len(held.ints))] = rng.choice(_NUMBERS)
    elif held.type == onnx.AttributeProto.INT:
        held.i = rng.choice(_NUMBERS)
    else:
        held.s, held.type = rng.choice(_NAMES).encode(), onnx.AttributeProto.STRING


def _operand(model: onnx.ModelProto, rng: random.Random) -> None:
    node, others = _any_node(model, rng), [name for other in _nodes(model) for name in (*other.input, *other.output)]
    if not node.input:
        return
    at, kind = rng.randrange(len(node.input)), rng.randrange(4)
    if kind == 0:
        del node.input[at]
    elif kind == 1:
        node.input.append(rng.choice(others))
    else:
        node.input[at] = rng.choice([*others, "", "nowhere"]) if kind == 2 else rng.choice(list(node.input))


def _result(model: onnx.ModelProto, rng: random.Random) -> None:
    node = _any_node(model, rng)
    if node.output:
        node.output[rng.randrange(len(node.output))] = rng.choice(
            ["", "fresh", *(name for other in _nodes(model) for name in other.output)])


def _op(model: onnx.ModelProto, rng: random.Random) -> None:
    _any_node(model, rng).op_type = rng.choice(_OPS)


def _domain(model: onnx.ModelProto, rng: random.Random) -> None:
    _any_node(model, rng).domain = rng.choice(("", "ai.onnx", "com.microsoft", "nowhere"))


def _order(model: onnx.ModelProto, rng: random.Random) -> None:
    nodes = list(model.graph.node)
    kind = rng.randrange(3)
    if kind == 0:
        rng.shuffle(nodes)
    elif nodes and kind == 1:
        del nodes[rng.randrange(len(nodes))]
    elif nodes:
        nodes.append(rng.choice(nodes))
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)


def _weight(model: onnx.ModelProto, rng: random.Random) -> None:
    tensors = [*model.graph.initializer, *(a.t for node in _nodes(model) for a in node.attribute if a.HasField("t"))]
    if not tensors:
        return
    small = [tensor for tensor in tensors if tensor.ByteSize() < 200]
    tensor = rng.choice(small or tensors)
    kind = rng.randrange(5)
    if kind == 0 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(_NUMBERS)
    elif kind == 1:
        tensor.data_type = rng.randrange(25)
    elif kind == 2:
        tensor.name = rng.choice([other.name for other in tensors])
    elif tensor.data_type == TensorProto.INT64 and tensor.raw_data:
        held = bytearray(tensor.raw_data)
        at = 8 * rng.randrange(max(len(held) // 8, 1))
        held[at : at + 8] = rng.choice(_NUMBERS).to_bytes(8, "little", signed=True)
        tensor.raw_data = bytes(held)
    elif tensor.int64_data:
        tensor.int64_data[rng.randrange(len(tensor.int64_data))] = rng.choice(_NUMBERS)


def _input(model: onnx.ModelProto, rng: random.Random) -> None:
    values = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    if not values:
        return
    value = rng.choice(values)
    kind, tensor = rng.randrange(5), value.type.tensor_type
    if kind == 0:
        value.name = rng.choice(["", "fresh", *(other.name for other in values)])
    elif kind == 1:
        tensor.elem_type = rng.randrange(25)
    elif kind == 2:
        tensor.ClearField("shape")
    elif kind == 3 and tensor.shape.dim:
        rng.choice(tensor.shape.dim).dim_value = rng.choice(_NUMBERS)
    elif tensor.shape.dim:
        rng.choice(tensor.shape.dim).dim_param = rng.choice(_NAMES)


def _opset(model: onnx.ModelProto, rng: random.Random) -> None:
    for entry in model.opset_import:
        entry.version = rng.choice((1, 6, 7, 9, 10, 11, 12, 13, 15, 18, 20, 23, 99))


_CHANGES: tuple[Callable[[onnx.ModelProto, random.Random], None], ...] = (
    *((_attribute, _operand, _weight) * 3), *((_op, _result, _input) * 2), _domain, _order, _opset)


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
    before = signal.signal(signal.SIGALRM, _late)
    signal.alarm(SECONDS)
    try:
        graph = egshape.load(mutant, format="onnx")
        if optimize and seed % optimize == 0:
            egshape.optimize(graph, limits=egshape.Limits(seconds=5))
    except InternalError as error:
        return Fault(seed, name, str(error)[:300])
    except EgshapeError as error:
        return None if len(str(error)) < 2000 else Fault(seed, name, f"a message of {len(str(error))} letters")
    except _TooSlow:
        return Fault(seed, name, f"not done after {SECONDS} s")
    except BaseException as error:
        return Fault(seed, name, f"{type(error).__name__}: {str(error)[:300]}")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return None


def _child(first: int, count: int, optimize: int, files: Sequence[str]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    models = _models(files)
    for seed in range(first, first + count):
        print(f"@{seed}", flush=True)
        fault = try_mutant(seed, models, optimize)
        if fault is not None:
            print(f"!{fault}", flush=True)


def _models(files: Sequence[str]) -> dict[str, bytes]:
    if files:
        return {Path(file).name: Path(file).read_bytes() for file in files}
    return zoo_models() or own_models()


def run(first: int, count: int, optimize: int, files: Sequence[str]) -> list[str]:
    """Try mutants in child processes: the faults, a crash of a child among them."""
    found, seed, end = [], first, first + count
    while seed < end:
        size = min(BATCH, end - seed)
        command = [sys.executable, "-m", "tests.fuzz.onnx", "--child", f"--seed={seed}", f"--count={size}",
                   f"--optimize={optimize}", *files]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        found += [line[1:] for line in lines if line.startswith("!")]
        reached = max((int(line[1:]) for line in lines if line.startswith("@")), default=seed)
        if done.returncode != 0:
            found.append(f"seed {reached}: the process ended with {done.returncode}: {done.stderr.strip()[-200:]}")
            size = reached + 1 - seed
        seed += size
        print(f"{seed - first} of {count} mutants, {len(found)} faults", file=sys.stderr, flush=True)
    return found


def main() -> int:
    """Fuzz, print the faults."""
    parser = argparse.ArgumentParser(description="Mutated ONNX models through load and optimize.")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--optimize", type=int, default=10, help="optimize every so-manieth mutant, 0 for none")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child(options.seed, options.count, options.optimize, options.files)
        return 0
    found = run(options.seed, options.count, options.optimize, options.files)
    print("\n".join(found) or f"no fault in {options.count} mutants")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
