"""Two exported programs side by side in torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from egshape.adapters.beside import Ports
from egshape.adapters.onnx_verify import Compared, Runtime, compare_models
from egshape.errors import EgshapeError
from egshape.facts import Facts
from egshape.frontends.torch.held import NEW
from egshape.frontends.torch.host import TRUSTING
from egshape.frontends.torch.types import array_of, tensor_of
from egshape.ir.graph import Graph
from egshape.ir.types import dtype_name
from egshape.validate import trusting


def compare_programs(
    original: Path, written: Path, graph: Graph, facts: Facts, *, excluding: bool, result: Graph | None = None
) -> Compared:
    """As ``compare_models``, for files of ``torch.export.save``."""
    trusts = trusting(graph)
    if trusts:
        return Compared(skipped=f"{trusts} may end the process for inputs that are not a program's own")
    names = [value.name for value in graph.inputs]
    runtime = Runtime("torch", "torch", Session, (names, list(graph.output_names)), "torch")
    return compare_models(
        original, written, graph, facts, excluding=excluding, runtime=runtime, result=result, seconds=30.0
    )


class Session(Ports):
    """An exported program, run by arrays in the order of a graph's inputs: arguments, and buffers that it changes."""

    def __init__(self, path: str, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        import torch

        self._program = torch.export.load(path)
        parts = [each for each in self._program.graph_module.modules() if isinstance(each, torch.fx.GraphModule)]
        for node in (node for part in parts for node in part.graph.nodes):
            if str(node.target).removeprefix("aten.") in TRUSTING:
                raise EgshapeError(f"{node.target} uses wrong memory for inputs that are not a program's own")
        self._module = self._program.module()
        self._buffers = dict(self._module.named_buffers())
        super().__init__(inputs, outputs)

    def run(self, _: None, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The outputs for these inputs."""
        import torch
        from torch.utils import _pytree as pytree

        def tensor(name: str) -> Any:
            return tensor_of(np.array(arrays[name]), dtype_name(arrays[name].dtype))

        given = iter([name for name in self._inputs if name not in self._buffers])
        examples, kwargs = self._program.example_inputs
        args, named = pytree.tree_map_only(torch.Tensor, lambda _: tensor(next(given)), (examples, kwargs))
        with torch.no_grad():
            for name in self._inputs:
                if name in self._buffers:
                    self._buffers[name].copy_(tensor(name))
            found = self._module(*args, **named)
            leaves = [each for each in pytree.tree_leaves(found) if each is not None]
            results = iter([each if isinstance(each, torch.Tensor) else torch.tensor(each) for each in leaves])
            changed = {f"{name}{NEW}": buffer for name, buffer in self._buffers.items() if name in self._inputs}
            return [array_of(changed[name] if name in changed else next(results)) for name in self._outputs]
