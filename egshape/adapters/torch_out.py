"""``egshape.torch.module``: a graph as a module of PyTorch."""

from __future__ import annotations

from typing import Any

from egshape.errors import InvalidInput
from egshape.frontends.torch.frontend import needed
from egshape.ir.expand import expand
from egshape.ir.graph import Graph
from egshape.result import Optimization


def module(graph: Graph | Optimization) -> Any:
    """A graph, or a result's, as a ``torch.fx.GraphModule`` of ATen ops, called with tensors in order or by name.

    It gives one tensor, a tuple, or a dict where outputs have names. Constants are buffers on the memory that they
    have; buffers that the program changes, and the parameters of ``egshape.torch.export(..., trained=True)``, are those
    of the model. Gradients are followed where ops of torch have them. Sizes that the graph refuses are refused by an
    error with the message of the check. Raises MissingDependency without torch, and Unsupported for an op that torch
    has no form of, naming it and its place.

    Examples:
        >>> import torch
        >>> import egshape
        >>> graph = egshape.torch.export(torch.nn.ReLU(), (torch.ones(3, 4),), dynamic_shapes=({0: "n"},))
        >>> egshape.torch.module(egshape.optimize(graph))(-torch.ones(2, 4)).sum().item()
        0.0
    """
    needed()
    from egshape.frontends.torch.module import module as made

    found = graph.graph if isinstance(graph, Optimization) else graph
    if not isinstance(found, Graph):
        raise InvalidInput(
            f"module takes a Graph or a Result, got a {type(graph).__name__}", hint="egshape.load reads a model"
        )
    return made(expand(found, keep=True))
