"""Formulas as ops: the same value, and the same places without one, as in Python; and graphs that hold their sizes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from itertools import count
from math import gcd, isqrt, lcm
from pathlib import Path

import numpy as np
import pytest

import egshape
from egshape.dims import Dim, const, symbol
from egshape.dims.pure import MOST, Formula, meaning, read_formula
from egshape.errors import CheckFailed, EgshapeError, ParseError, Unsupported
from egshape.ir.builder import BlockBuilder
from egshape.ir.expand import expand
from egshape.ir.formula import Number, Writer
from egshape.ir.graph import Block, Graph
from egshape.ops import REGISTRY

SIZES = Path(__file__).resolve().parents[2] / "examples" / "sizes"
A, B, Z = symbol("a"), symbol("b"), symbol("z")
# The two largest Fibonacci numbers of 63 bits make the most steps; others are where 64 bits or a root end.
EDGES = (0, 1, 2, 3, 61, 62, 63, 2**31, 2**32, 2**62, MOST, 3037000499**2, 3037000499**2 - 1,
         7540113804746346429, 4660046610375530309)  # fmt: skip
TEXTS = {
    "sum": "a + b",
    "difference": "a - b",
    "product": "a * b",
    "quotient": "a // b",
    "rest": "a % b",
    "cubes": "a*a*a - b*b*a + 7*a*b - 3",
    "signs": "-a // -b + a % -b + b % 7 - a // -3",
    "choice": "(a//b if b else a) * (a > 3 and b < 9 or 7) - (not a)*(b % -3)",
    "chain": "1 <= a < 100//b < 50",
    "lazy": "a and 10 // b or not b",
    "calls": "math.gcd(a, b, 12) + math.lcm(a % 10, b % 10, 3) + max(a, b, 3) - min(-a, b) + abs(a - b) % 9",
    "bits": "pow2(a % 70) + (a - b).bit_length()",
    "lines": """
        if a < b:
            a, b = b, a
            c = a // b
        else:
            c = b - a
            b = a % b
        for i in range(5):
            c = c*3 + i
            if c % 7 == 2: c -= b // (a - 3)
        return c""",
}


def numbers(rng: random.Random, signed: bool) -> int:
    number = rng.choice((rng.getrandbits(rng.randint(0, 63)), rng.choice(EDGES), rng.randint(0, 12)))
    return rng.choice((1, -1)) * number if signed else number


def computed(writer: Writer, number: Number, sizes: Mapping[Dim, int]) -> int:
    """A number by the references of the ops that were written."""
    values = {}
    for op in writer.ops:
        attrs = dict(op.attrs)
        if op.name == "constant":
            values[op.result] = attrs["value"]
            continue
        if op.name == "dims":
            attrs["elements"] = tuple(sizes[each] for each in attrs["elements"])
        values[op.result] = REGISTRY[op.name].reference(*(values[each] for each in op.operands), **attrs)
    return number.low if number.value is None else int(values[number.value].item())


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("name", sorted(TEXTS))
def test_ops_compute_what_python_computes(name: str, signed: bool) -> None:
    formula, fresh = read_formula(TEXTS[name], "ab"), map(str, count())
    sizes, writer = (A - Z, B - Z) if signed else (A, B), Writer(lambda: next(fresh))
    found, defined = writer.apply(formula, [writer.size(each) for each in sizes])
    rng, said = random.Random(name), set[bool]()
    for _ in range(150):
        given = dict(zip(sizes, (numbers(rng, signed), numbers(rng, signed)), strict=True))
        wanted = formula(*given.values())
        said.add(wanted is None)
        assert bool(computed(writer, defined, given)) == (wanted is not None), given
        if wanted is not None:
            assert computed(writer, found, given) == wanted and found.low <= wanted <= found.high, given
    assert False in said


OWN: dict[str, Callable[..., int]] = {
    "bit_length": int.bit_length,
    "math.gcd": gcd,
    "math.isqrt": isqrt,
    "math.lcm": lcm,
    "pow2": lambda n: 1 << n,
}


@pytest.mark.parametrize("name", sorted(OWN))
def test_functions_mean_what_python_means(name: str) -> None:
    formula, rng = meaning(name), random.Random(name)
    pairs = [tuple(EDGES[-2:])] + [(numbers(rng, True), numbers(rng, True)) for _ in range(400)]
    for pair in pairs:
        args = pair[: len(formula.params)]
        try:
            wanted = OWN[name](*args) if name != "pow2" or args[0] < 64 else MOST + 1
        except ValueError:
            wanted = MOST + 1
        assert formula(*args) == (wanted if wanted <= MOST else None), args


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("while n: n = n - 1\nreturn n", "'while n:' is no part"),
        ("for i in range(n): n += i\nreturn n", "'for i in range.n.:' is no part"),
        ("for i in range(16):\n  for j in range(17): n += i\nreturn n", "'for j in range.17.:' is no part"),
        ("n += 1", "the last line of a formula is 'return VALUE'"),
        ("if n: m = 1\nreturn m", "'m' is no part"),
        ("max = 1\nreturn max", "'max = 1' is no part"),
        ("a, b = n\nreturn a", "'a, b = n' is no part"),
        ("n = n / 2\nreturn n", "'n / 2' is no part"),
        ("import os\nreturn n", "'import os' is no part"),
        ("max(n)", "'max.n.' is no part"),
        ("9223372036854775808", "is no part"),
        ("(" * 500 + "n" + ")" * 500, "cannot read"),
    ],
)
def test_what_is_no_formula_is_named(text: str, said: str) -> None:
    with pytest.raises(ParseError, match=said):
        read_formula(text, ["n"])


def test_what_takes_too_many_ops_is_refused() -> None:
    formula, fresh = read_formula("for i in range(256): n = n + math.gcd(n, i)\nreturn n", "n"), map(str, count())
    with pytest.raises(Unsupported, match="takes more than 20,000 ops"):
        (writer := Writer(lambda: next(fresh))).apply(formula, [writer.size(A)])


# -- graphs ----


@pytest.fixture
def root() -> Callable[[Dim], Dim]:
    with egshape.size_functions(str(SIZES / "isqrt.egg")) as mine:
        return mine["isqrt"]


def iotas(*sizes: Dim, name: str = "f") -> Graph:
    """A graph that gives an iota of each size; its input x has as many elements as a."""
    builder = BlockBuilder()
    builder.arg("x", "f32", [None], ["a"])
    found = [builder.one("iota", (), {"dtype": "i32", "dim": 0, "shape": (each,)}) for each in sizes]
    return Graph(name, builder.finish(found), tuple(f"out{k}" for k in range(len(found))))


@pytest.mark.parametrize("target", ["interpret", "llvm"])
def test_shapes_hold_the_value(root: Callable[[Dim], Dim], target: str) -> None:
    graph = expand(iotas(root(A) + 1, root(A) * root(root(A) + 2)))
    assert not any(size.symbols() & {"a"} for value in graph.outputs for size in value.type.dims)
    assert sum(op.name == "divide" for op in graph.ops) == 2 * 32  # each root once, in 32 rounds
    fn = egshape.compile(graph, target, optimize=False)
    for size in (0, 1, 3, 4, 99):
        one, two = fn(np.ones(size, np.float32))
        assert (len(one), len(two)) == (isqrt(size) + 1, isqrt(size) * isqrt(isqrt(size) + 2))


@pytest.mark.parametrize("target", ["interpret", "llvm"])
def test_an_input_may_have_it_as_its_size(root: Callable[[Dim], Dim], target: str) -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", [None, root(A)], ["a", None])
    graph = expand(Graph("f", builder.finish([builder.one("negate", (x,))]), ("out",)))
    fn = egshape.compile(graph, target, optimize=False)
    assert fn(np.ones((9, 3), np.float32)).shape == (9, 3)
    with pytest.raises(EgshapeError, match="isqrt"):
        fn(np.ones((9, 4), np.float32))


def test_what_has_no_value_is_rejected(root: Callable[[Dim], Dim]) -> None:
    graph = expand(iotas(root(A - 5)))
    fn = egshape.compile(graph, "interpret", optimize=False)
    assert len(fn(np.ones(9, np.float32))) == 2
    with pytest.raises(CheckFailed, match=r"isqrt\(a - 5\) has no value"):
        fn(np.ones(4, np.float32))


def test_an_arm_computes_its_own(root: Callable[[Dim], Dim]) -> None:
    """What has no value in an arm that is not taken is not computed."""
    builder = BlockBuilder()
    builder.arg("x", "f32", [None], ["a"])
    pred = builder.arg("p", "i1", [])
    arms = [builder.child(), builder.child()]
    sizes = (root(A - 5), const(1))
    regions = [
        arm.finish([arm.one("reduce", (arm.one("iota", (), {"dtype": "i32", "dim": 0, "shape": (size,)}),
                                       arm.one("constant", (), {"value": np.array(0, np.int32)})), {"dims": (0,)},
                            regions=[_adds(arm)])])
        for arm, size in zip(arms, sizes, strict=True)
    ]  # fmt: skip
    graph = Graph("f", builder.finish([builder.one("if", (pred,), {}, regions=regions)]), ("out",))
    fn = egshape.compile(expand(graph), "interpret", optimize=False)
    x = np.ones(4, np.float32)
    assert fn(x, np.array(False)) == 0
    with pytest.raises(CheckFailed, match="has no value"):
        fn(x, np.array(True))


def _adds(builder: BlockBuilder) -> Block:
    child = builder.child()
    one, two = (child.arg(None, "i32", ()) for _ in range(2))
    return child.finish([child.one("add", (one, two))])


def test_a_formula_is_read_once() -> None:
    assert isinstance(meaning("pow2"), Formula) and meaning("pow2") is meaning("pow2")
