"""Ops that are text alone: a contract with a body."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import egshape
from egshape.cli import main
from egshape.dims import const
from egshape.errors import CheckFailed, EgshapeError
from egshape.ir.text import parse_graph
from egshape.ir.types import TensorType
from egshape.ops import REGISTRY

FOLDER = Path(__file__).parent / "written"
DOCS = Path(__file__).parents[2] / "docs" / "rules.md"

GRAPH = """graph f(%x: f32[n], %y: f32[m], %z: f32[n, k], %c: f32[]) {
  symbols n = size(%x, 0), m = size(%y, 0), k = size(%z, 1)
  %0: f32[n, m] = outer_sum(%x, %y)
  %1: f32[n, k] = pad_to(%0, %c) {length=<n, k>}
  %2: f32[n, k] = add(%1, %z)
  return %2 as out
}
"""


@pytest.fixture
def declared() -> Iterator[None]:
    for name in ("outer_sum", "pad_to"):
        assert egshape.custom_ops(FOLDER / f"{name}.egg") == (name,)
    yield
    for name in ("outer_sum", "pad_to"):
        REGISTRY.drop(name)


def inputs(n: int, m: int, k: int) -> list[np.ndarray]:
    shapes = ((n,), (m,), (n, k), ())
    return [np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1 for shape in shapes]


def wanted(n: int, m: int, k: int) -> np.ndarray:
    x, y, z, c = inputs(n, m, k)
    out = np.full((n, k), c, np.float32)
    out[:, :m] = x[:, None] + y
    return out + z


def test_each_is_short_and_stands_in_the_docs() -> None:
    texts = [path.read_text() for path in FOLDER.glob("*.egg")]
    assert len(texts) == 4 and all(len(text.splitlines()) < 30 for text in texts)
    assert (FOLDER / "outer_sum.egg").read_text() in DOCS.read_text()


@pytest.mark.parametrize("sizes", [(3, 2, 4), (1, 1, 1), (0, 2, 2), (2, 0, 3)])
def test_a_program_of_them(declared: None, sizes: tuple[int, int, int]) -> None:
    graph = parse_graph(GRAPH)
    result = egshape.optimize(graph)
    assert {op.name for op in result.graph.body.walk()} >= {"outer_sum", "pad_to"}
    for each in (graph, result.graph):
        for target in ("interpret", "llvm"):
            run = egshape.compile(each, target, optimize=False)
            assert np.array_equal(run(*inputs(*sizes)), wanted(*sizes))


def test_bad_sizes_are_refused_everywhere(declared: None) -> None:
    graph = parse_graph(GRAPH)
    result = egshape.optimize(graph)
    assert [check.text for check in result.report.checks] == ["m <= k"]
    for each in (graph, result.graph):
        for target in ("interpret", "llvm"):
            with pytest.raises(CheckFailed):
                egshape.compile(each, target, optimize=False)(*inputs(2, 4, 3))
    decl = REGISTRY["pad_to"]
    with pytest.raises(EgshapeError, match="axis 0 of size 3 is longer than 2"):
        decl.shape(TensorType("f32", (const(3),)), TensorType("f32", ()), length=(const(2),))


def test_the_commands_read_them(declared: None, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    model = tmp_path / "m.mlir"
    model.write_text(
        "func.func @f(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?x?xf32> {\n"
        "  %0 = stablehlo.custom_call @outer_sum(%x, %y) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?x?xf32>\n"
        "  return %0 : tensor<?x?xf32>\n}\n"
    )
    assert main(["shapes", str(model), "--ops", str(FOLDER / "outer_sum.egg")]) == 0
    assert "f32[arg0.0, arg1.0]" in capsys.readouterr().out


def test_elements_are_said_too(tmp_path: Path) -> None:
    file = tmp_path / "half_up.egg"
    file.write_text(
        "; half_up(x): (x + 1) / 2    of our own\n(contract half_up ((x T))\n  :dtype (dtype x)\n  :shape (shape x)\n"
        "  :elements ((half_up (quotient (+ (fit x) 1) 2) none))\n  :body (divide (add x 1) 2))\n"
        ";; example  half_up(x: i32[n])  =>  i32[n]\n;; gives    half_up(dims([n, 4], [2], i32))  =>  [cdiv(n, 2), 2]\n"
    )
    assert egshape.custom_ops(file) == ("half_up",)
    REGISTRY.drop("half_up")


MORE = """graph f(%x: f32[n, m]) {
  symbols n = size(%x, 0), m = size(%x, 1)
  %0: f32[n, m] = rotate(%x) {by=<2>}
  %1: f32[n] = rows_mean(%0)
  return %1 as out
}
"""


@pytest.mark.parametrize("target", ["interpret", "llvm"])
def test_numbers_and_empty_lists_in_bodies(target: str) -> None:
    """The init value of a reduce is a scalar, the divisor a number in each element."""
    names = [name for each in ("rotate", "rows_mean") for name in egshape.custom_ops(FOLDER / f"{each}.egg")]
    try:
        run = egshape.compile(egshape.optimize(parse_graph(MORE)).graph, target, optimize=False)
        for n, m in ((3, 2), (2, 1)):
            x = np.arange(n * m, dtype=np.float32).reshape(n, m)
            assert np.array_equal(run(x), np.roll(x, -2, 0).mean(1))
        for n, m in ((2, 0), (1, 2), (0, 0)):
            with pytest.raises(CheckFailed):
                run(np.zeros((n, m), np.float32))
    finally:
        for name in names:
            REGISTRY.drop(name)


GOOD = """; twice(x): x + x    of our own
(contract twice ((x T))
  :dtype (dtype x)
  :shape (shape x)
  :body (add x x))
;; example  twice(x: [n])  =>  f32[n]
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  :body (add x x)", "", "has no body"),
        ("(add x x)", "(ad x x)", "no op is named ad"),
        ("(add x x)", "(add x y)", "y is no operand"),
        ("(add x x)", "(transpose x :permutations (list 0))", "transpose has no attribute permutations"),
        ("(add x x)", "(transpose x :permutation)", "has no expression"),
        ("(add x x)", "(reshape x :shape (list 1 (size x 0)))", "gives f32[1, n], the contract says f32[n]"),
        ("=>  f32[n]", "=>  f32[n, 1]", "gives f32[n]"),
        ("twice(x: [n])  =>  f32[n]", "twice(x: [n], 3)  =>  f32[n]", "twice"),
        ("(contract twice", "(contract Twice", "is not made of small letters"),
    ],
)
def test_what_is_wrong_is_said_and_declares_nothing(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "twice.egg"
    file.write_text(GOOD)
    assert egshape.custom_ops(file) == ("twice",)
    REGISTRY.drop("twice")
    assert GOOD.count(old) == 1
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(EgshapeError) as error:
        egshape.custom_ops(file)
    assert message in str(error.value)
    assert "twice" not in REGISTRY
