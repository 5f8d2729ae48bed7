"""A few random ONNX models against ONNX Runtime; ``python -m tests.fuzz.onnx_equal`` tries many."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tests.fuzz import onnx_equal as fuzz

SEEDS = range(40, 52)


@pytest.mark.long_but("4[0-5]")
@pytest.mark.parametrize("seed", SEEDS)
def test_models(seed: int) -> None:
    wrong, _ = fuzz.try_model(seed, 9, 4)
    assert not wrong, wrong


def test_models_are_made_and_run() -> None:
    """Most seeds give a model that runs at several sizes, 0 or 1 among them at times."""
    made = [found for seed in range(20) if (found := fuzz.model_of(seed, 6)) is not None]
    assert len(made) > 15
    sizes = {size for each in made for feed in each.feeds for array in feed.values() for size in array.shape}
    assert {0, 1} <= sizes and len({node.op_type for each in made for node in each.model.graph.node}) > 20


def test_a_wrong_result_is_found_and_cut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    made = fuzz.model_of(3, 8)
    assert made is not None
    right = fuzz.interpret
    monkeypatch.setattr(
        fuzz,
        "interpret",
        lambda graph, feed: [
            array + np.ones((), array.dtype) if array.dtype.kind == "f" else ~array for array in right(graph, feed)
        ],
    )
    assert "interpreted at" in fuzz.fault_of(made, False)[0]
    small, fault = fuzz.smaller(made, False)
    assert "interpreted at" in fault and len(small.model.graph.node) <= 3
