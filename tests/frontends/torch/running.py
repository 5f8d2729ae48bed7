"""Modules of torch exported, loaded, run, and compared with eager."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import egshape
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret

torch = pytest.importorskip("torch", reason="torch is not installed: the tests of its frontend do not run")


class Call(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def exported(model: Any, args: Sequence[Any], axes: Sequence[Sequence[int]] = ()) -> Any:
    """An exported program whose listed axes are open, argument by argument."""
    module = model if isinstance(model, torch.nn.Module) else Call(model)
    shapes: Any = tuple(dict.fromkeys(each, torch.export.Dim.AUTO) for each in axes)
    if axes and isinstance(module, Call):
        shapes = (shapes,)
    return torch.export.export(module, tuple(args), dynamic_shapes=shapes if axes else None)


def loaded(model: Any, args: Sequence[Any], axes: Sequence[Sequence[int]] = ()) -> Graph:
    """The graph of a model whose listed axes are open, argument by argument."""
    return egshape.load(exported(model, args, axes))


def tensors_of(found: Any) -> list[Any]:
    """The tensors of a result, flattened."""
    return [each for each in torch.utils._pytree.tree_leaves(found) if isinstance(each, torch.Tensor)]


def same(graph: Graph, model: Any, args: Sequence[Any], target: str = "interpret") -> None:
    """The graph gives what the model gives, dtype and shape included."""
    with torch.no_grad():
        wanted = tensors_of(model(*args))
    arrays = [each.numpy() for each in tensors_of(args)]
    if target == "interpret":
        given: Any = interpret(graph, arrays)
    else:
        given = egshape.compile(graph, target=target)(*arrays)
    results = list(given) if isinstance(given, list | tuple) else [given]
    assert len(results) >= len(wanted)
    for one, two in zip(wanted, results, strict=False):
        assert two.dtype == one.numpy().dtype
        assert two.shape == tuple(one.shape)
        np.testing.assert_allclose(two, one.numpy(), rtol=1e-4, atol=1e-5, equal_nan=True)
