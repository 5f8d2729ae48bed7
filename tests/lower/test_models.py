"""The sample models, each compiled once and run at all of its sizes."""

import pytest

import egshape
from tests.lower.checking import check_model, compiled


@pytest.mark.long_but("*-True")
@pytest.mark.parametrize("optimized", [False, True])
def test_model(model_name, shared_models, optimized):
    graph = egshape.load(shared_models / f"{model_name}.mlir")
    if optimized:
        limits = egshape.Limits(seconds=20)
        graph = egshape.optimize(graph, limits=limits, validate=False, explain=False).graph
    function = compiled(graph)
    check_model(function, model_name, shared_models)
