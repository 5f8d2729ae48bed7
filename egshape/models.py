"""Models in and out: what is loaded becomes a Graph, and a Graph is saved, in any format that there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from egshape.annotation import Annotation
from egshape.egraph.engine import POOL
from egshape.egraph.snapshot import without_collecting
from egshape.errors import InvalidInput, Unsupported
from egshape.frontends import registry
from egshape.frontends.frontend import Forms, Rank, Writing
from egshape.ir.expand import expand
from egshape.ir.graph import Graph

Model = str | Path | bytes | Any
"""What ``load`` takes: a path, bytes, or a model object (``jax.export.Exported``, ``onnx.ModelProto``)."""


def ranks_said(said: Mapping[str, Annotation]) -> dict[str, Rank]:
    """What types that are said of values tell ``load``."""
    return {name: Rank(len(type.shape)) for name, type in said.items() if name and type.shape is not None}


def load(
    model: Model | Graph, format: str | None = None, forms: Forms | None = None, names: Sequence[str] = ()
) -> Graph:
    """Load a model: a path (``.mlir``, ``.mlirbc``, ``.onnx``), bytes, with a ``format`` where they do not say theirs,
    a ``jax.export.Exported``, or an ``onnx.ModelProto``. A Graph is given back as it is.

    ``forms``: of inputs of an ONNX model that are no tensors, by name: the length of a sequence; for an optional value
    ``"tensor"``, a length, or None for one that is left out. Of values whose rank nothing tells, ``Rank(axes)``.

    ``names``: what the inputs of an ``Exported`` are called, of all that its function takes; it does not say them.

    The graph's ``facts`` hold what came with the model. Raises EgshapeError naming file, place, cause and way out.

    Examples:
        >>> import egshape
        >>> text = b"graph f(%x: f32[n, 4]) { symbols n = size(%x, 0)  %0: f32[n, 4] = negate(%x)  return %0 as y }"
        >>> egshape.load(text, "egs")
        <Graph f: (x: f32[n, 4]) -> (f32[n, 4]), 1 ops>
    """
    POOL.prepare()  # what optimizes the model starts while it is read
    with without_collecting():
        return _loaded(model, format, forms, names)


def _loaded(model: Model | Graph, format: str | None, forms: Forms | None, names: Sequence[str]) -> Graph:
    if isinstance(model, str | Path):
        if model == "" or "\0" in str(model):
            kind = "holds a character 0" if model else "is an empty file name"
            raise InvalidInput(kind, where=repr(model), hint="give the name of a file")
        path = Path(model)
        return registry.of_form(registry.form_of(path, format)).read(path, path.name, forms)
    if isinstance(model, bytes):
        return load_bytes(model, format, forms)
    if isinstance(model, Graph):
        return model
    frontend = registry.of_object(model)
    if frontend is not None:
        return frontend.read_object(model, forms, names)
    hint = f"give a path, bytes, {' or '.join(each.objects for each in registry.FRONTENDS if each.objects)}"
    if isinstance(getattr(model, "graph", None), Graph):
        hint = "give its .graph, or its .source"
    elif callable(model):
        hint = "export a function of JAX first: jax.export.export(jax.jit(f))(*types)"
    raise Unsupported(f"cannot load a {type(model).__name__}", hint=hint)


def load_bytes(data: bytes, format: str | None = None, forms: Forms | None = None, name: str = "model") -> Graph:
    """Load the content of a model's file. ``name``: what messages and places call it. Raises as ``load``."""
    asked = registry.of_form(registry.form_of(Path("model"), format)) if format else registry.of_bytes(data)
    with without_collecting():
        graph = asked.read(data, name, forms)
    return replace(graph, name="model") if graph.name == name else graph


def save_graph(graph: Graph, path: Path, format: str | None, how: Writing) -> tuple[str, ...]:
    """Write a graph (``egshape.save``). Raises EgshapeError."""
    form = registry.form_of(path, format)
    return registry.of_form(form).save(expand(graph, keep=True), path, form, how)
