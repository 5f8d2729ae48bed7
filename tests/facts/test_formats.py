"""Each kind of fact through each format: as a fact that a file holds, and as a check that a program makes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import egshape
from egshape.errors import CheckFailed
from egshape.facts import Facts
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret

KINDS = [
    "n in [1,8] or [16,24]",
    "n in {4, 16}",
    "n % 4 == 0",
    "n == 9",
    "n >= 3",
    "n <= 20",
    "n != 7",
    "n < c",
    "n != c",
    "c == 2*n",
    "n*c in [0,9] or [16,64]",
    "n*c % 8 == 0",
    "n - c in [-3,5]",
    "min(n, c) == 3",
    "cdiv(n, 4)*4 == c",
    "n % 2 == 1; n in [1,5] or [9,11]",
]
SIZES = [(n, c) for n in (*range(13), 15, 16, 17, 20, 21, 24, 25) for c in (0, 1, 2, 3, 8, 18)]


def graph() -> Graph:
    b = BlockBuilder()
    x = b.arg("x", "f32", [None, None], ["n", "c"])
    return Graph("g", b.finish([b.one("tanh", (x,))]), ("out0",))


def needed(suffix: str) -> None:
    pytest.importorskip({"onnx": "onnx", "egx": "llvmlite"}.get(suffix, "jaxlib"))


@pytest.mark.parametrize("suffix", ["json", "mlir", "mlirbc", "onnx"])
@pytest.mark.parametrize("text", KINDS)
def test_facts_survive(text: str, suffix: str, tmp_path: Path) -> None:
    facts = Facts.parse(text, "likely n = 8")
    if suffix == "json":
        again = Facts.from_json(facts.to_json())
    else:
        needed(suffix)
        egshape.save(replace(graph(), facts=facts), tmp_path / f"m.{suffix}")
        again = egshape.load(tmp_path / f"m.{suffix}").facts
    assert again.relations == facts.relations
    for name in ("n", "c"):
        one, two = facts.symbol(name), again.symbol(name)
        assert (one.ranges, one.divisor, one.likely) == (two.ranges, two.divisor, two.likely)


@pytest.mark.parametrize("suffix", ["mlir", "onnx", "egx"])
def test_checks_reject_the_same_sizes(suffix: str, tmp_path: Path) -> None:
    needed(suffix)
    for text in KINDS:
        facts = Facts.parse(text)
        result = egshape.optimize(graph(), assume=text, validate=False)
        path = tmp_path / f"m.{suffix}"
        if suffix == "egx":
            function = egshape.compile(result.graph, target="llvm")
        else:
            egshape.save(result.graph, path)
            read = egshape.load(path)

            def function(x: np.ndarray, read: Graph = read) -> object:
                return interpret(read, [x])

        for n, c in SIZES:
            holds = all(fact.holds({"n": n, "c": c}) for fact in facts.statements())
            try:
                function(np.zeros((n, c), np.float32))
                ran = True
            except CheckFailed:
                ran = False
            assert ran == holds, (text, n, c)
