"""The sample models, and the example of our own, through the whole road: load, optimize, save, reload, run.

XLA compiles for each size, so only the first and the last size go through it; EGSHAPE_MODELS=all runs all."""

from __future__ import annotations

import functools
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")

from egshape import api
from egshape.adapters.xla import run_stablehlo, verify_stablehlo
from egshape.errors import CheckFailed, EgshapeError, Unsupported
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from egshape.ir.points import points_of
from egshape.ir.types import numpy_dtype
from egshape.validate import validate

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "encoder.mlir"
ALL = os.environ.get("EGSHAPE_MODELS") == "all"
TOLERANCE = 1e-4
NOT_IN_ONNX = {
    "convnet": "the op reduce_window",
    "moe_topk": "the op .* results",
    "nonzero_size": "the op .*",
    "while_decode": "the op reduce with 2 results",
}
"""What stands in the way of a model as ONNX."""

Arrays = list[np.ndarray]


@dataclass(frozen=True)
class Journey:
    """A model at every station: as it came, optimized, as it was saved, and loaded from there."""

    text: str
    graph: Graph
    result: api.Result
    saved: str
    again: Graph


@functools.lru_cache
def travelled(path: Path) -> Journey:
    """Load, optimize, save and reload a model, once for all tests of a process."""
    graph = api.load(path)
    result = api.optimize(graph)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "saved.mlir"
        api.save(result.graph, target)
        return Journey(path.read_text(), graph, result, target.read_text(), api.load(target))


@pytest.fixture
def journey(model_name: str, shared_models: Path) -> Journey:
    return travelled(shared_models / f"{model_name}.mlir")


@pytest.fixture
def cases(model_name: str, shared_models: Path, journey: Journey) -> list[tuple[Arrays, Arrays]]:
    """Inputs and expected outputs, a pair for each size."""
    with np.load(shared_models / f"{model_name}.npz") as file:
        count = len({key.partition("_")[0] for key in file.files})
        return [
            (
                [file[f"case{case}_in{place}"] for place in range(len(journey.graph.inputs))],
                [file[f"case{case}_out{place}"] for place in range(len(journey.graph.outputs))],
            )
            for case in range(count)
        ]


def assert_close(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> None:
    """Equal within 1e-4, relative to each element or to a tenth of the largest one."""
    assert len(found) == len(wanted)
    for one, two in zip(found, wanted, strict=True):
        assert (one.dtype, one.shape) == (two.dtype, two.shape)
        if two.dtype.kind in "iub":
            np.testing.assert_array_equal(one, two)
        else:
            largest = float(np.max(np.abs(two), initial=0.0, where=np.isfinite(two)))
            np.testing.assert_allclose(one, two, rtol=TOLERANCE, atol=TOLERANCE * largest / 10)


def first_and_last(cases: Sequence[tuple[Arrays, Arrays]]) -> Sequence[tuple[Arrays, Arrays]]:
    return cases if ALL else [cases[0], cases[-1]]


def messages(program: str) -> list[str]:
    """The messages of all shape assertions of a program."""
    found = re.findall(r'@shape_assertion\(.*?error_message = "((?:[^"\\]|\\.)*)"', program)
    return [re.sub(r"\\([0-9A-F]{2})", lambda code: chr(int(code[1], 16)), text) for text in found]


def rejected_inputs(journey: Journey, most: int) -> Iterator[tuple[dict[str, int], Arrays]]:
    """Zeros of sizes that the original rejects."""
    graph = journey.graph
    for point in points_of(graph, journey.result.graph, journey.result.facts):
        shapes = [tuple(dim.evaluate(point.env) for dim in value.type.dims) for value in graph.inputs]
        arrays = [
            np.zeros(shape, numpy_dtype(value.type.dtype)) for shape, value in zip(shapes, graph.inputs, strict=True)
        ]
        try:
            interpret(graph, arrays)
        except EgshapeError:
            yield point.sizes, arrays
            most -= 1
        if most == 0:
            return


def test_is_optimized(journey: Journey) -> None:
    report = journey.result.report
    assert report.status == "saturated", report.notes
    assert report.notes == ()
    assert report.ops.after.total < report.ops.before.total


def test_interpreter_gives_the_expected(journey: Journey, cases: list[tuple[Arrays, Arrays]]) -> None:
    for inputs, outputs in cases:
        for graph in (journey.graph, journey.result.graph, journey.again):
            assert_close(interpret(graph, inputs), outputs)


@pytest.mark.long_but("bert_plain", "while_decode", "nonzero_size", "moe_topk", "convnet")
def test_xla_gives_the_expected(journey: Journey, cases: list[tuple[Arrays, Arrays]]) -> None:
    verify_stablehlo(journey.saved)
    for inputs, outputs in first_and_last(cases):
        assert_close(run_stablehlo(journey.saved, inputs), outputs)


def test_as_onnx_it_gives_the_expected(
    journey: Journey, cases: list[tuple[Arrays, Arrays]], model_name: str, tmp_path: Path
) -> None:
    """As it came, and optimized, in ONNX Runtime; or one error that names the op that ONNX has not."""
    ort = pytest.importorskip("onnxruntime", reason="ONNX needs the extra onnx")
    for graph in (journey.graph, journey.result.graph):
        if model_name in NOT_IN_ONNX:
            with pytest.raises(Unsupported, match=NOT_IN_ONNX[model_name]):
                api.save(graph, tmp_path / "m.onnx")
            continue
        api.save(graph, tmp_path / "m.onnx")
        session = ort.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
        for inputs, outputs in cases:
            fed = {value.name: array for value, array in zip(graph.inputs, inputs, strict=True)}
            found = session.run(None, {info.name: fed[info.name] for info in session.get_inputs()})
            assert_close(found, outputs)


def test_saved_model_is_the_same_again(journey: Journey) -> None:
    assert journey.again.output_names == journey.graph.output_names
    assert [value.name for value in journey.again.inputs] == [value.name for value in journey.graph.inputs]
    assert validate(journey.graph, journey.again, journey.graph.facts) == []


def test_no_assertion_is_lost(journey: Journey) -> None:
    rows = {row.message: row for row in journey.result.report.checks}
    saved = messages(journey.saved)
    stated = messages(journey.text)
    assert stated
    for message in stated:
        row = rows[message]
        if row.status == "proved":
            assert row.why, f"proved without a reason: {message}"
        else:
            assert message in saved
    assert {row.status for row in rows.values()} <= {"proved", "kept"}


@pytest.mark.long_but("bert_plain", "while_decode", "nonzero_size", "moe_topk", "convnet")
def test_what_was_rejected_is_rejected_by_xla(journey: Journey) -> None:
    count = 0
    for sizes, arrays in rejected_inputs(journey, 30 if ALL else 3):
        try:
            run_stablehlo(journey.saved, arrays)
        except (CheckFailed, Unsupported):
            count += 1
        else:
            pytest.fail(f"XLA runs the saved program at {sizes}")
    assert count


def test_every_size_is_one_of_the_inputs(journey: Journey) -> None:
    """Each value has a rank, and each size an expression over the sizes of input axes."""
    for graph in (journey.graph, journey.result.graph):
        known = {each.name for each in graph.body.symbols if each.value in graph.inputs}
        for op in graph.body.walk():
            for value in op.results:
                assert value.type.shape is not None
                assert all(dim.symbols() <= known for dim in value.type.shape), value


def test_the_same_bytes_every_time(model_name: str, shared_models: Path, journey: Journey) -> None:
    from egshape.frontends.stablehlo.emit import write

    other = api.optimize(api.load(shared_models / f"{model_name}.mlir"), validate=False)
    assert write(other.graph) == journey.saved


@pytest.mark.parametrize(("batch", "length"), [(1, 1), (3, 5)])
def test_our_example(batch: int, length: int) -> None:
    journey = travelled(EXAMPLE)
    assert journey.result.report.status == "saturated"
    sizes = {"b": batch, "s": length, "arg1.0": batch, "arg1.1": length}
    random = np.random.default_rng(0)
    inputs = [
        random.standard_normal([dim.evaluate(sizes) for dim in value.type.dims]).astype(numpy_dtype(value.type.dtype))
        for value in journey.graph.inputs
    ]
    wanted = run_stablehlo(journey.text, inputs)
    assert_close(run_stablehlo(journey.saved, inputs), wanted)
    for graph in (journey.graph, journey.result.graph, journey.again):
        assert_close(interpret(graph, inputs), wanted)


def test_our_example_loses_no_assertion() -> None:
    test_no_assertion_is_lost(travelled(EXAMPLE))
    test_every_size_is_one_of_the_inputs(travelled(EXAMPLE))
