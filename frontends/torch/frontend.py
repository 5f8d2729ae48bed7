"""PyTorch as a format: files of ``torch.export.save``, and ``torch.export.ExportedProgram``."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

from egshape.errors import EgshapeError, InvalidInput, MissingDependency, ParseError
from egshape.facts import Facts
from egshape.frontends.frontend import Cost, Forms, Parts, Writing, as_read, keeps_whole
from egshape.hints import install
from egshape.ir.graph import Graph

_ARCHIVE = b"PK\x03\x04"
"""How a zip file begins."""


@dataclass(frozen=True)
class Torch:
    """Programs of ``torch.export``."""

    name: str = "torch"
    forms: tuple[str, ...] = ("pt2",)
    objects: str = "a torch.export.ExportedProgram"

    def recognises(self, model: object) -> bool:
        """A ``torch.export.ExportedProgram``."""
        return type(model).__name__ == "ExportedProgram" and type(model).__module__.startswith("torch.")

    def begins(self, data: bytes) -> bool:
        """An archive: no other format of models is one."""
        return data.startswith(_ARCHIVE)

    def read(self, source: Path | bytes, name: str, forms: Forms | None) -> Graph:
        """Raises MissingDependency without torch, ParseError for what is no exported program, else as
        ``read_object``."""
        from egshape.frontends.torch.saving import FACTS

        extra = {FACTS: ""}
        exported = _loaded(source, name, extra)
        try:
            held = Facts.from_json(extra[FACTS]) if extra[FACTS] else Facts()
        except EgshapeError as error:
            raise type(error)(f"{FACTS}: {error.message}", where=name, hint=error.hint, code=error.code) from None
        return self._graph(exported, Path(name).stem, held)

    def beside(self, path: Path) -> tuple[Path, ...]:
        """One file holds all."""
        return ()

    def read_object(self, model: Any, forms: Forms | None, names: Sequence[str] = ()) -> Graph:
        """Raises Unsupported for what has no graph, naming the node and the model's line."""
        return self._graph(model, "model", Facts())

    def _graph(self, exported: Any, name: str, held: Facts) -> Graph:
        from egshape.frontends.torch.convert import read

        graph = read(exported, name, whole=keeps_whole(), held=held)
        return replace(graph, own=replace(graph.own, parts=Parts(graph.body, _calls(exported.graph_module))))

    def save(self, graph: Graph, path: Path, form: str, how: Writing) -> tuple[str, ...]:
        """Raises MissingDependency without torch, else as ``saving.save``."""
        needed()
        from egshape.frontends.torch import saving

        return saving.save(graph, path)

    def in_part(self, graph: Graph, result: Graph) -> tuple[Graph, tuple[str, ...]] | None:
        """A program is read in one way."""
        return None

    def kinds(self, model: Graph | Path | bytes) -> tuple[str, Counter[str]]:
        """Calls, those of graphs inside too."""
        known = as_read(model) if isinstance(model, Graph) else None
        if known is not None:
            return "calls", known
        needed()
        from egshape.frontends.torch.module import module

        return "calls", _calls(module(model) if isinstance(model, Graph) else _loaded(model, "model").graph_module)

    def titles(self, graph: Graph) -> Mapping[str, str]:
        """Calls, whose names torch numbers: ``layer_norm_3``."""
        ops = (op for op in graph.body.walk() if op.name != "constant" and op.location.name)
        return {str(op.location): re.sub(r"(_\d+)?(_default)?$", "", op.location.name) for op in ops}

    def nodes(self, graph: Graph) -> Mapping[str, str]:
        """Its parts are ops of ours."""
        return {}

    def cost(self, graph: Graph) -> Cost:
        """Nodes, those of regions too, but for checks; and the bytes of tensors. Without torch ops of ours."""
        needed()
        from egshape.frontends.torch.module import written

        return written(graph).emitter.cost()


def _calls(root: Any) -> Counter[str]:
    graphs = [each.graph for each in root.modules() if hasattr(each, "graph")]
    names = (node.target for graph in graphs for node in graph.nodes if node.op == "call_function")
    return Counter(str(getattr(name, "__name__", name)) for name in names)


def _loaded(source: Path | bytes, name: str, extra: dict[str, str] | None = None) -> Any:
    """The exported program of a file; ``extra``: further files of it, which are read into the dict."""
    torch = needed()
    if isinstance(source, Path) and not source.is_file():
        raise InvalidInput("there is no such file", where=str(source))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # torch's own, of what pytree calls a leaf
            return torch.export.load(BytesIO(source) if isinstance(source, bytes) else source, extra_files=extra)
    except Exception as error:  # zipfile's, json's and torch's own, by version
        raise ParseError(
            f"is no program that torch.export.save wrote: {error}",
            where=name,
            hint=f"torch {torch.__version__} reads it; a file of another version may be too new",
        ) from None


def needed() -> Any:
    """The module torch. Raises MissingDependency where it is not installed."""
    try:
        import torch
        import torch.export
    except ImportError:
        raise MissingDependency("torch is not installed", hint=install("torch")) from None
    return torch
