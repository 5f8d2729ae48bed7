"""Elementwise work with reshapes, transposes and broadcasts between is one kernel, at every size."""

from collections.abc import Callable, Sequence
from functools import reduce
from random import Random

import pytest

from egshape.dims import Dim, const, product, symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Value
from egshape.plan.ir.program import Copy, Run
from egshape.plan.targets import plan
from tests.fuzz.differential import data, graph_of
from tests.lower.checking import check

A, B, C, D = map(symbol, "abcd")
SIZES = ((1, 1, 1, 1), (2, 3, 5, 7), (0, 3, 2, 2), (3, 1, 4, 1), (9, 33, 2, 5), (2, 40, 17, 1))


class Program:
    """A graph in the making, whose first input says the sizes."""

    def __init__(self) -> None:
        self.b = BlockBuilder()
        self.inputs = [self.b.arg("sizes", "f32", [None] * 4, list("abcd"))]

    def arg(self, *sizes: Dim | int) -> Value:
        self.inputs.append(self.b.arg(f"x{len(self.inputs)}", "f32", [_dim(size) for size in sizes]))
        return self.inputs[-1]

    def reshape(self, x: Value, *sizes: Dim | int) -> Value:
        return self.b.one("reshape", [x], {"shape": tuple(map(_dim, sizes))})

    def turn(self, x: Value, *permutation: int) -> Value:
        return self.b.one("transpose", [x], {"permutation": permutation})

    def spread(self, x: Value, axis: int, *sizes: Dim | int) -> Value:
        return self.b.one("broadcast_in_dim", [x], {"dims": (axis,), "shape": tuple(map(_dim, sizes))})

    def work(self, x: Value, name: str = "abs") -> Value:
        return self.b.one(name, [x])

    def add(self, x: Value, y: Value) -> Value:
        return self.b.one("add", [x, y])

    def kernels(self, *results: Value) -> list[str]:
        steps = plan(graph_of(self.b, *results)).steps
        assert not any(isinstance(step, Copy) for step in steps)
        return [step.kernel.label for step in steps if isinstance(step, Run)]

    def check(self, *results: Value, sizes: Sequence[Sequence[int]] = SIZES) -> None:
        points = [dict(zip("abcd", numbers, strict=True)) for numbers in sizes]
        shapes = ([[dim.evaluate(point) for dim in value.type.dims] for value in self.inputs] for point in points)
        check(
            graph_of(self.b, *results), *([data("f32", shape, 1) for shape in each] for each in shapes), tolerance=1e-5
        )


def _dim(size: Dim | int) -> Dim:
    return const(size) if isinstance(size, int) else size


def merged_and_turned(p: Program) -> Value:
    x = p.reshape(p.work(p.arg(A, B, C)), A, B * C)
    return p.work(p.turn(x, 1, 0), "exponential")


def regrouped(p: Program) -> Value:
    x = p.reshape(p.work(p.turn(p.arg(B * C, A), 1, 0)), A * B, C)
    return p.work(p.turn(x, 1, 0), "tanh")


def known_numbers(p: Program) -> Value:
    x = p.reshape(p.work(p.turn(p.arg(A, 24, 6), 0, 2, 1)), A * 36, 4)
    return p.work(p.turn(x, 1, 0), "tanh")


def heads(p: Program) -> Value:
    x = p.reshape(p.turn(p.work(p.arg(A, B, C, D)), 0, 2, 1, 3), A, C, B * D)
    return p.work(p.add(x, p.spread(p.arg(B * D), 2, A, C, B * D)), "tanh")


def bias_below(p: Program) -> Value:
    x = p.add(p.arg(A, B, C), p.spread(p.arg(C), 2, A, B, C))
    return p.work(p.turn(p.reshape(x, A, B * C), 1, 0))


def reshaped_three_times(p: Program) -> Value:
    x = p.reshape(p.work(p.turn(p.arg(A, B, C), 0, 2, 1)), A * C, B)
    x = p.reshape(p.work(p.turn(x, 1, 0), "tanh"), B * A, C)
    return p.work(p.reshape(p.turn(x, 1, 0), C * B * A), "exponential")


def flat_all_the_way(p: Program) -> Value:
    x = p.reshape(p.work(p.reshape(p.work(p.arg(A, B * C)), A * B, C), "tanh"), B, A * C)
    return p.work(x, "exponential")


def split_again(p: Program) -> Value:
    x = p.reshape(p.work(p.turn(p.arg(A, B, C), 2, 1, 0)), C * B * A)
    return p.work(p.turn(p.reshape(p.work(x), C, B * A), 1, 0), "exponential")


ONE = [
    merged_and_turned,
    regrouped,
    known_numbers,
    heads,
    bias_below,
    reshaped_three_times,
    flat_all_the_way,
    split_again,
]


@pytest.mark.parametrize("make", ONE, ids=lambda make: make.__name__)
def test_is_one_kernel(make: Callable[[Program], Value]) -> None:
    program = Program()
    out = make(program)
    assert len(program.kernels(out)) == 1
    program.check(out)


def test_axes_that_no_loop_can_count() -> None:
    """[a, b] read as [b, a] and turned: no loops are as fine as both."""
    program = Program()
    x = program.reshape(program.work(program.turn(program.arg(B, A), 1, 0)), B, A)
    out = program.work(program.turn(x, 1, 0), "tanh")
    assert len(program.kernels(out)) == 2
    program.check(out)


def test_what_is_read_twice_is_computed_once() -> None:
    program = Program()
    x = program.work(program.turn(program.arg(A, B), 1, 0), "exponential")
    flat = program.reshape(x, A * B)
    program.check(program.work(flat, "tanh"), program.add(x, x))


@pytest.mark.parametrize("seed", range(12))
def test_any_chain(seed: int) -> None:
    """Random reshapes to groups of axes, transposes, work, and a broadcast here and there."""
    random, program = Random(seed), Program()
    axes: list[list[Dim]] = [[each] for each in (A, B, C, D)]
    x = program.arg(*(axis[0] for axis in axes))
    for _ in range(random.randint(3, 9)):
        step = random.choice(("turn", "reshape", "work", "add"))
        if step == "turn":
            order = random.sample(range(len(axes)), len(axes))
            x, axes = program.turn(x, *order), [axes[k] for k in order]
        elif step == "reshape":
            parts = reduce(list.__add__, axes, list[Dim]())
            cuts = sorted(random.sample(range(1, len(parts)), random.randint(0, len(parts) - 1)))
            axes = [parts[i:j] for i, j in zip([0, *cuts], [*cuts, len(parts)], strict=True)]
            x = program.reshape(x, *map(product, axes))
        elif step == "work":
            x = program.work(x, random.choice(("abs", "tanh", "negate")))
        else:
            axis = random.randrange(len(axes))
            row = program.arg(product(axes[axis]))
            x = program.add(x, program.spread(row, axis, *map(product, axes)))
    program.check(program.work(x, "tanh"), sizes=((2, 3, 4, 2), (1, 2, 1, 3), (0, 2, 2, 2), (3, 5, 2, 7)))
