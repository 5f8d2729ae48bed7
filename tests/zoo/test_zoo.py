"""A few fetched models through load, optimize and save: whole, and with less shape work than before."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import egshape
from benchmarks.zoo import fetch, measures
from benchmarks.zoo import rows as zoo
from benchmarks.zoo.plans import plan_of

QUICK = ("silero_vad_16k_op15", "silero_vad_16k_sequence", "bert", "gpt2-cache", "unet")
FOUND = {model.name: path for model, path in fetch.models()}


@pytest.mark.parametrize("name", QUICK)
def test_whole(name: str, tmp_path: Path) -> None:
    if name not in FOUND:
        pytest.skip(f"{name} is not in {fetch.cache_folder()} (python -m benchmarks.zoo.fetch brings it)")
    path, target = FOUND[name], tmp_path / "out.onnx"
    egshape.save(egshape.optimize(egshape.load(path), validate=False).graph, target)
    plan = plan_of(path, fetch.cache_folder())
    assert len(plan.probes) >= 4
    assert zoo.find_fault(target, path, plan, zoo.outputs_at(path, plan)) == ""
    before, after = measures.skeleton(path), measures.skeleton(target)
    assert measures.shape_nodes(after) <= measures.shape_nodes(before) // 2
    small, distinct = measures.small_tensors(after, measures.observe(target, plan))
    assert small <= max(1.6 * distinct, 2), f"{small} small tensors hold {distinct} values"
