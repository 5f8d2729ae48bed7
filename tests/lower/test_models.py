"""The sample models, each compiled once and run at all of its sizes."""

import json

import numpy as np
import pytest

import egshape
from tests.lower.checking import call, compiled


@pytest.mark.parametrize("optimized", [False, True])
def test_model(model_name, shared_models, optimized):
    graph = egshape.load(shared_models / f"{model_name}.mlir")
    if optimized:
        limits = egshape.Limits(seconds=20)
        graph = egshape.optimize(graph, limits=limits, validate=False, explain=False).graph
    function = compiled(graph)
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
