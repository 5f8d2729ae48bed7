"""``egshape.torch.export``: a module of PyTorch as a graph in which every size stays open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from egshape.adapters.torch_arguments import arguments_of, by_argument
from egshape.adapters.torch_roads import Asked, exported
from egshape.adapters.torch_small import Small
from egshape.frontends.torch.frontend import needed
from egshape.ir.graph import Graph


def export(
    model: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    trained: bool = False,
    whole: bool = False,
) -> Graph:
    """The graph of a ``torch.nn.Module`` for every size of the axes that ``dynamic_shapes`` names, 0 and 1 among them.

    Args:
        args: example arguments; their sizes should be different and above 1.
        kwargs: the same by name.
        dynamic_shapes: as ``torch.export`` takes it: for each argument, by name or in order, its open axes. An axis is
            a string, too: equal names are equal sizes, and ``"2*n"`` twice another one, which the graph checks.
        trained: parameters are inputs of the graph, after the model's, so that no rule uses their values, and
            parameters of the module that ``egshape.torch.module`` makes of it.
        whole: ops such as attention and convolutions stay one each, and go out as they came where the graph becomes a
            program of torch again; no rule looks into them.

    The roads that torch has are tried in turn: sizes without a value, which nothing can be specialised to; the same,
    where those of inputs are taken to be above 0 where torch asks; sizes that are treated as if they could be 0 and 1;
    sizes as ``torch.export`` takes them, where it decides what happens below
    2. Sizes 0 and 1 that the program of the others refuses are exported apart: where both programs turn out to be the
    same, the refusal goes, else the graph chooses between them (but for ``trained`` and ``whole``). The notes of the
    graph (``graph.metadata["notes"]``) say which road was taken, and what else a size must fulfil is a check. Raises
    Unsupported with torch's reason if none works, and InvalidInput for ``dynamic_shapes`` of a wrong form.

    Examples:
        >>> import torch
        >>> import egshape
        >>> model = torch.nn.Linear(4, 2)
        >>> graph = egshape.torch.export(model, (torch.ones(3, 4),), dynamic_shapes=({0: "batch"},))
        >>> [str(each.type) for each in graph.outputs]
        ['f32[batch, 2]']
    """
    needed()
    given = arguments_of(model, args, kwargs or {})
    asked = Asked(
        model, tuple(args), dict(kwargs or {}), by_argument(dynamic_shapes, list(given)), trained=trained, whole=whole
    )
    return exported(asked).graph if trained or whole else Small().complete(asked)
