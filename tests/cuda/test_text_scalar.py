"""Every elementwise op as printed text, in every dtype, at all pairs of special numbers and some random ones, against
the interpreter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="planning needs the extra llvm")

from egshape.dims import symbol
from egshape.errors import Unsupported
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph
from egshape.ir.types import is_float, itemsize, numpy_dtype
from egshape.lower.cuda.kernel import CudaKernel, kernel
from egshape.ops import REGISTRY
from egshape.plan.gpu.launching import launches
from egshape.plan.ir.launch import Launch
from egshape.plan.ir.loops import Buffer
from egshape.plan.ir.program import Copy, Port, Run
from egshape.plan.targets import plan
from tests.cuda.emulate import likely
from tests.cuda.text import ORDERS, Texts
from tests.fuzz.differential import argument, graph_of
from tests.lower.opcases import ELEMENTWISE, REAL, elementwise
from tests.lower.oracle import expected, fault, widened

OPS = tuple(decl.name for decl in REGISTRY if decl.family in ELEMENTWISE)
WIDTH = 3
"""Elements of a row of an operand."""


def numbers(dtype: str) -> np.ndarray:
    """Special numbers of a dtype and a few others."""
    rng = np.random.default_rng(len(dtype))
    kind = numpy_dtype(dtype)
    if dtype == "i1":
        return np.array([False, True])
    if not is_float(dtype):
        info, bits = np.iinfo(kind), 8 * itemsize(dtype)
        ends = [info.min, info.min + 1, info.max, info.max - 1, info.max // 2 + 1]
        few = [0, 1, 2, 3, 5, 7, 8, bits - 1, bits, bits + 1, 100, *(-np.array([1, 2, 3, 7]) if info.min else [])]
        some = rng.integers(info.min, info.max, 6, dtype=kind, endpoint=True).tolist()
        return np.array([int(x) for x in (*ends, *few, *some)], dtype=object).astype(kind)
    with np.errstate(all="ignore"):
        near = [2.0**k + d for k in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, -0.5, 0, 0.5)]
        size = [
            0,
            1e-45,
            1e-40,
            6e-8,
            1.2e-38,
            5e-324,
            2.3e-308,
            1e-5,
            0.25,
            0.5,
            1,
            1.5,
            2.5,
            3,
            3.1415927,
            10,
            65504,
            65519,
            65520,
            3.4e38,
            1.7e308,
            np.inf,
            *near,
            *np.exp(rng.normal(size=8) * 4),
        ]
        return np.array([*size, *(-np.array(size)), np.nan]).astype(kind)


def operands(graph: Graph) -> list[np.ndarray]:
    """All tuples of numbers."""
    dtypes = [each.type.dtype for each in graph.inputs]
    some = [numbers(dtype) for dtype in dtypes]
    columns = [np.array(each, some[k].dtype) for k, each in enumerate(zip(*product(*some), strict=True))]
    rows = -(-len(columns[0]) // WIDTH)
    return [np.resize(each, (rows, WIDTH)) for each in columns]


@dataclass(frozen=True)
class _Printed:
    """A graph of one op as text; ``steps``: what runs."""

    graph: Graph
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    steps: tuple[Copy | tuple[Launch, CudaKernel], ...]

    def run(self, texts: Texts, arrays: Sequence[np.ndarray], order: str) -> tuple[np.ndarray, ...]:
        """The results."""
        sizes = {"n": len(arrays[0])}
        held: dict[Buffer, np.ndarray] = {
            port.buffer: array.reshape(-1).copy() for port, array in zip(self.inputs, arrays, strict=True)
        }
        for step in self.steps:
            if isinstance(step, Copy):
                held[step.target] = held[step.source].copy()
                continue
            for buffer in step[1].buffers:
                if buffer not in held:
                    held[buffer] = _room(buffer, sizes)
            texts.run_launch(*step, held, sizes, order)
        return tuple(held[port.buffer].reshape([dim.evaluate(sizes) for dim in port.shape]) for port in self.outputs)


def _room(buffer: Buffer, sizes: Mapping[str, int]) -> np.ndarray:
    if buffer.data is not None:
        return buffer.data.reshape(-1).copy()
    room = np.zeros(buffer.size.evaluate(sizes), numpy_dtype(buffer.dtype))
    room.view(np.uint8)[...] = 0xFB
    return room


def printed(graph: Graph) -> _Printed:
    """A graph without control flow as text. Raises Unsupported."""
    program = plan(graph, target="cuda")
    steps: list[Copy | tuple[Launch, CudaKernel]] = []
    for step in program.steps:
        if isinstance(step, Copy):
            steps.append(step)
        elif isinstance(step, Run):
            steps += [(each, kernel(each, "k")) for each in launches(step.kernel, likely)]
    return _Printed(graph, program.inputs, program.outputs, tuple(steps))


def _cases(op: str) -> Iterator[tuple[str, _Printed]]:
    for dtype in REAL:
        graph = elementwise(op, dtype)
        if graph is not None:
            try:
                yield dtype, printed(graph)
            except Unsupported:
                assert op == "digamma" or op in ("real", "imag", "conj", "complex"), f"{op} of {dtype} is not printed"


@pytest.fixture(scope="module")
def cases(texts: Texts) -> dict[str, list[tuple[str, _Printed]]]:
    """Every op in every dtype that it takes, compiled together."""
    found = {op: list(_cases(op)) for op in OPS}
    texts.compile(
        step[1] for each in found.values() for _, one in each for step in one.steps if not isinstance(step, Copy)
    )
    return found


@pytest.mark.long
@pytest.mark.parametrize("op", OPS)
def test_op(op: str, cases: dict[str, list[tuple[str, _Printed]]], texts: Texts) -> None:
    for number, (dtype, case) in enumerate(cases[op]):
        arrays = operands(case.graph)
        with np.errstate(all="ignore"):
            want = expected(case.graph, widened(case.graph), arrays)
            wrong = fault(case.run(texts, arrays, ORDERS[number % 3]), want)
        assert not wrong, f"{op} of {dtype}: {wrong}"


def _made(dtype: str, to: str = "") -> _Printed:
    """Rows in another order, or converted."""
    b = BlockBuilder()
    x = argument(b, "x", dtype, [symbol("n"), WIDTH])
    return printed(graph_of(b, b.one("convert", [x], {"dtype": to}) if to else b.one("reverse", [x], {"dims": (0,)})))


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_halves_that_are_only_moved_keep_their_bits(dtype: str, texts: Texts) -> None:
    case, bits = _made(dtype), np.resize(np.arange(1 << 16, dtype=np.uint16), (21846, WIDTH))
    (found,) = case.run(texts, [bits.view(numpy_dtype(dtype))], "forward")
    np.testing.assert_array_equal(found.view(np.uint16), bits[::-1])


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_conversions_of_halves(dtype: str, texts: Texts) -> None:
    """All numbers of 16 bits, and f32 at and around the middle between each two of them, as numpy rounds."""
    bits = np.resize(np.arange(1 << 16, dtype=np.uint16), (21846, WIDTH)).view(numpy_dtype(dtype))
    (wide,) = _made(dtype, "f32").run(texts, [bits], "backward")
    np.testing.assert_array_equal(wide, bits.astype(np.float32))
    with np.errstate(all="ignore"):
        middle = ((wide.reshape(-1)[:-1].astype(np.float64) + wide.reshape(-1)[1:]) / 2).astype(np.float32)
        near = np.concatenate([middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)])
        near = np.resize(near, (-(-len(near) // WIDTH), WIDTH)).astype(np.float32)
        wanted = near.astype(numpy_dtype(dtype)).astype(np.float32)
    (found,) = _made("f32", dtype).run(texts, [near], "forward")
    np.testing.assert_array_equal(found.astype(np.float32), wanted)
