"""Programs before and after, word for word, and executed. EGSHAPE_BLESS=1 writes what comes out now.

The same words must come out of every engine version."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import egshape
from egshape.errors import EgshapeError
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from egshape.ir.text import parse_graph, print_graph
from egshape.ir.types import numpy_dtype

CASES = sorted(Path(__file__).parent.glob("*.txt"))
AFTER = "\n=== after ===\n"
ASSUME = "# assume: "
SIZES = (0, 1, 2, 3, 5)


def facts(before: str) -> list[str]:
    return [line.removeprefix(ASSUME) for line in before.splitlines() if line.startswith(ASSUME)]


def choices(graph: Graph) -> Iterator[dict[str, int]]:
    """All symbols of one size, and each apart from the others: what breaks a check is among them."""
    names = [symbol.name for symbol in graph.body.symbols]
    for size in SIZES:
        yield dict.fromkeys(names, size)
    for place in range(len(names)):
        yield {name: 2 if number == place else 4 for number, name in enumerate(names)}


def arrays(graph: Graph, sizes: dict[str, int]) -> list[np.ndarray]:
    random = np.random.default_rng(sum(sizes.values()))
    shapes = [[dim.evaluate(sizes) for dim in value.type.dims] for value in graph.inputs]
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


def run(graph: Graph, inputs: list[np.ndarray]) -> list[bytes] | str:
    """The results' bits, or that a check failed."""
    try:
        return [each.tobytes() for each in interpret(graph, inputs)]
    except EgshapeError:
        return "rejected"


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_case(path: Path) -> None:
    before, _, after = path.read_text().partition(AFTER)
    graph = parse_graph("".join(line for line in before.splitlines(keepends=True) if not line.startswith("#")))
    result = egshape.optimize(graph, assume=facts(before))
    found = print_graph(result.graph)
    assert result.report.status == "saturated", result.report.notes
    if os.environ.get("EGSHAPE_BLESS"):
        path.write_text(before.rstrip("\n") + "\n" + AFTER + found.rstrip("\n") + "\n")
        return
    assert found.strip() == after.strip()
    ran = 0
    for sizes in choices(graph):
        inputs = arrays(graph, sizes)
        was, now = run(graph, inputs), run(result.graph, inputs)
        assert was == now or (now == "rejected" and facts(before)), sizes  # an assumed fact may reject more
        ran += now != "rejected"
    assert ran


def test_there_are_cases() -> None:
    assert len(CASES) >= 40


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_as_onnx(path: Path, tmp_path: Path) -> None:
    """The program in ONNX Runtime gives what the interpreter gives, and rejects what that rejects."""
    ort = pytest.importorskip("onnxruntime", reason="ONNX needs the extra onnx")
    before, _, _ = path.read_text().partition(AFTER)
    graph = parse_graph("".join(line for line in before.splitlines(keepends=True) if not line.startswith("#")))
    egshape.save(graph, tmp_path / "m.onnx")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(str(tmp_path / "m.onnx"), options, providers=["CPUExecutionProvider"])
    for sizes in choices(graph):
        inputs = arrays(graph, sizes)
        try:
            wanted = interpret(graph, inputs)
        except EgshapeError:
            wanted = None
        fed = {
            value.name: array.astype(numpy_dtype(value.type.dtype))
            for value, array in zip(graph.inputs, inputs, strict=True)
        }
        if wanted is None:
            with pytest.raises(Exception, match="Non-zero status code"):
                session.run(None, fed)
            continue
        for one, two in zip(session.run(None, fed), wanted, strict=True):
            assert (one.dtype, one.shape) == (two.dtype, two.shape)
            np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5, err_msg=str(sizes))
