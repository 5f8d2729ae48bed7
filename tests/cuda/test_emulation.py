"""Kernels mapped to blocks and threads, run on the CPU in both orders: the sample models give what they should."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the emulation runs through LLVM (extra llvm)")

import egshape
from tests.cuda.emulate import emulated
from tests.lower.checking import call


@pytest.mark.parametrize("reverse", [False, True])
def test_model(model_name: str, shared_models: Path, reverse: bool) -> None:
    graph = egshape.load(shared_models / f"{model_name}.mlir")
    graph = egshape.optimize(graph, validate=False, explain=False).graph
    function = emulated(graph, 64, reverse)
    cases = json.loads((shared_models / "index.json").read_text())[model_name]["cases"]
    with np.load(shared_models / f"{model_name}.npz") as stored:
        for number in range(len(cases)):
            inputs = [stored[f"case{number}_in{k}"] for k in range(len(function.manifest["inputs"]))]
            for k, found in enumerate(call(function, inputs)):
                wanted = stored[f"case{number}_out{k}"]
                assert found.dtype == wanted.dtype and found.shape == wanted.shape
                if found.dtype.kind == "f":
                    scale = np.abs(wanted).max(initial=1e-30)
                    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * scale)
                else:
                    np.testing.assert_array_equal(found, wanted)
