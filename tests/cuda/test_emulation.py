"""Kernels mapped to blocks and threads, run on the CPU in both orders: the sample models give what they should."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("llvmlite", reason="the emulation runs through LLVM (extra llvm)")

import egshape
from tests.cuda.emulate import emulated
from tests.lower.checking import check_model


@pytest.mark.long_but("mlp_concat_split-*")
@pytest.mark.parametrize("reverse", [False, True])
def test_model(model_name: str, shared_models: Path, reverse: bool) -> None:
    graph = egshape.load(shared_models / f"{model_name}.mlir")
    graph = egshape.optimize(graph, validate=False, explain=False).graph
    function = emulated(graph, 64, reverse)
    check_model(function, model_name, shared_models)
