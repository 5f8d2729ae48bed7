"""A graph as a module of torch: calls of ATen in a ``torch.fx.GraphModule``, called as the graph is."""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from egshape.dims import symbol
from egshape.errors import EgshapeError, Unsupported
from egshape.frontends.bounds import Bounds
from egshape.frontends.torch import (  # noqa: F401  (these declare what writes the ops)
    emit_contraction,
    emit_control,
    emit_elementwise,
    emit_folds,
    emit_indexing,
    emit_moves,
)
from egshape.frontends.torch.axes import label_of
from egshape.frontends.torch.emit import Emitter, named
from egshape.frontends.torch.held import NEW, Held
from egshape.frontends.torch.types import tensor_of
from egshape.ir.calls import in_line, values_of
from egshape.ir.expand import with_requirements
from egshape.ir.graph import Graph, Value
from egshape.ir.types import dtype_name


@dataclass(frozen=True)
class Written:
    """A graph as calls of torch: what it is written with, and the graph's inputs that are arguments, by their names
    there."""

    emitter: Emitter
    arguments: Mapping[str, Value]
    held: Mapping[str, Any]
    notes: tuple[str, ...]


def written(graph: Graph) -> Written:
    """A graph as calls of torch. Raises Unsupported for an op that torch has no form of, naming it and its place."""
    import torch

    unranked = next((each for each in values_of(graph.body) if each.type.shape is None), None)
    if unranked is not None:
        raise Unsupported(f"%{unranked.name} has no rank", where=graph.name, hint='say it: --annotate "x: f32[n, 4]"')
    bounds = Bounds()
    for fact in graph.facts.statements():
        bounds.learn(fact)
    trusting = graph.metadata.get("format") == "torch"
    body = in_line(graph.body, lambda op: op.name == "call" or (op.name == "composite" and not _whole(op)))
    kept = {op for op in body.walk() if op.name == "check"}
    if not graph.checked:
        body = with_requirements(replace(graph, body=body)).body
    e = Emitter(torch.fx.Graph(), bounds, kept, trusting=trusting)
    held = graph.own.tensors if isinstance(graph.own, Held) else {}
    arguments, notes, nodes = _inputs(e, graph, held)
    e.enter(body, nodes)
    _derived(e, graph, nodes)
    results = e.block(body, nodes)
    buffers = {value.name: node for value, node in zip(graph.inputs, nodes, strict=True) if value.name in held}
    rows = [(name, _apart(e, node, buffers)) for name, node in zip(graph.output_names, results, strict=True)]
    for name, node in rows:
        if _buffer(name) in held:
            e.effect("copy_.default", buffers[_buffer(name)], node)
    own = {name: node for name, node in rows if _buffer(name) not in held}
    e.graph.output(_shaped(own))
    e.graph.lint()
    return Written(e, arguments, held, notes)


def _whole(op: Any) -> bool:
    return str(op.attrs["name"]).startswith("aten.")


def _buffer(output: str) -> str:
    return output.removesuffix(NEW) if output.endswith(NEW) else ""


def _apart(e: Emitter, node: Any, buffers: Mapping[str, Any]) -> Any:
    """A result; what lies in a buffer that the module holds is copied, since that may change."""
    under = node
    while under.op == "call_function" and emit_control.views(under):
        under = under.args[0]
    return e.call("clone.default", node) if under in buffers.values() else node


def _shaped(results: Mapping[str, Any]) -> Any:
    """Results as the module gives them: one, a tuple, or by name where the names are of a model."""
    if any(name != f"out{place}" for place, name in enumerate(results)):
        return dict(results)
    return next(iter(results.values())) if len(results) == 1 else tuple(results.values())


def _inputs(e: Emitter, graph: Graph, held: Mapping[str, Any]) -> tuple[dict[str, Value], tuple[str, ...], list[Any]]:
    """A node for each input: an argument, or a tensor that the module holds."""
    arguments: dict[str, Value] = {}
    notes, nodes = [], {}
    for value in graph.inputs:
        if value.name in held:
            continue
        wanted = name = _identifier(value.name)
        while name in arguments:
            name = f"{wanted}_{len(arguments)}"
        if name != value.name:
            notes.append(f"the input {value.name} is written as {name}: a name of torch is one of Python")
        nodes[value] = e.graph.placeholder(name)
        arguments[name] = value
    for value in graph.inputs:
        if value.name in held:
            nodes[value] = e.attribute(value.name)
    return arguments, tuple(notes), [nodes[value] for value in graph.inputs]


def _identifier(text: str) -> str:
    """A text as a name of Python."""
    name = named(text).replace(".", "_")
    return f"_{name}" if name[:1].isdigit() or keyword.iskeyword(name) else name


def _derived(e: Emitter, graph: Graph, nodes: Sequence[Any]) -> None:
    """Assertions that axes of inputs are what sizes of others make them."""
    for value, node in zip(graph.inputs, nodes, strict=True):
        for axis, size in enumerate(value.type.shape or ()):
            if size.const is None and label_of(size) is None:
                before = len(e.graph.nodes)
                e.sizes([symbol(name) for name in sorted(size.symbols())])
                message = f"axis {axis} of {value.name} is not {size}"
                e.same(e.call("sym_size.int", node, axis), e.size(size), message)
                e.checks += len(e.graph.nodes) - before


def module(graph: Graph) -> Any:
    """A graph as a ``torch.fx.GraphModule`` of ATen ops, which shares its constants, and takes arguments in order or by
    name. Raises Unsupported for an op that torch has no form of."""
    found = written(graph)
    out = assembled(found.emitter, found.held)
    out.register_forward_pre_hook(Fits(found.arguments), with_kwargs=True)
    return out


def assembled(e: Emitter, held: Mapping[str, Any]) -> Any:
    """What an emitter wrote as a module."""
    import torch

    root: dict[str, Any] = {name: tensor_of(array, dtype_name(array.dtype)) for name, array in e.constants.items()}
    root |= {name: assembled(child, {}) for name, child in e.modules.items()}
    root |= held
    return torch.fx.GraphModule(root, e.graph, "Graph")


class Fits:
    """Looks at the arguments of a call before it: their number, dtypes, ranks and sizes are those of the graph."""

    def __init__(self, arguments: Mapping[str, Value]) -> None:
        self._wanted = {
            name: (value.type.dtype, value.type.shape, str(value.type)) for name, value in arguments.items()
        }

    def __call__(self, module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raises EgshapeError for arguments that do not fit."""
        from egshape.frontends.torch.types import dtype_of

        given = {**dict(zip(self._wanted, args, strict=False)), **kwargs}
        if len(args) + len(kwargs) != len(self._wanted) or given.keys() != self._wanted.keys():
            raise _fault(
                f"takes {', '.join(self._wanted)}, got {len(args)} arguments and {', '.join(kwargs) or 'none'} by name"
            )
        sizes: dict[str, Any] = {}
        for name, (dtype, shape, shown) in self._wanted.items():
            tensor = given[name]
            if dtype_of(tensor.dtype) != dtype or (shape is not None and tensor.dim() != len(shape)):
                raise _fault(f"input {name} is {shown}, got {dtype_of(tensor.dtype)}{list(tensor.shape)}")
            for size, found in zip(shape or (), tensor.shape, strict=False):
                label = label_of(size)
                wanted = size.const if label is None else sizes.setdefault(label, found)
                if wanted is not None and wanted != found:
                    raise _fault(f"input {name} is {shown}, got {list(tensor.shape)}, and {size} is {wanted}")


def _fault(message: str) -> EgshapeError:
    return EgshapeError(message, code="input")
