"""StableHLO as a format: text, bytecode, and what ``jax.export`` gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from egshape.atomic import write_atomic
from egshape.errors import InvalidInput
from egshape.frontends.frontend import Cost, Forms, Parts, Rank, Writing, as_read
from egshape.ir.graph import Graph

_BYTECODE = b"ML\xefR"


@dataclass(frozen=True)
class StableHlo:
    """``.mlir`` and ``.stablehlo`` are text, ``.mlirbc`` bytecode; each reads both."""

    name: str = "stablehlo"
    forms: tuple[str, ...] = ("mlir", "mlirbc", "stablehlo")
    objects: str = "a jax.export.Exported"

    def recognises(self, model: object) -> bool:
        """A ``jax.export.Exported``."""
        return hasattr(model, "mlir_module_serialized")

    def begins(self, data: bytes) -> bool:
        """MLIR's bytecode."""
        return data.startswith(_BYTECODE)

    def read(self, source: Path | bytes, name: str, forms: Forms | None) -> Graph:
        """Of ``forms`` ranks are heard: all inputs are tensors. Raises as ``convert.read``."""
        from egshape.frontends import stablehlo

        if isinstance(source, Path):
            try:
                source = source.read_bytes()
            except OSError as error:
                raise InvalidInput(f"cannot be read: {error.strerror}", where=str(source)) from None
        ranks = {key: form.axes for key, form in (forms or {}).items() if isinstance(form, Rank)}
        graph = stablehlo.read(source, name, ranks)
        return graph if self.begins(source) else replace(graph, own=Parts(graph.body, self.kinds(source)[1]))

    def beside(self, path: Path) -> tuple[Path, ...]:
        """One file holds all."""
        return ()

    def read_object(self, model: object, forms: Forms | None, names: Sequence[str] = ()) -> Graph:
        """Raises as ``convert.from_exported``."""
        from egshape.frontends import stablehlo

        return stablehlo.from_exported(model, names)

    def save(self, graph: Graph, path: Path, form: str, how: Writing) -> tuple[str, ...]:
        """There is no choice in how. Raises as ``emit.write``."""
        from egshape.frontends.stablehlo import emit

        text = emit.write(graph)
        write_atomic(path, emit.bytecode(text) if form == "mlirbc" else text)
        return emit.unheld(graph)

    def in_part(self, graph: Graph, result: Graph) -> tuple[Graph, tuple[str, ...]] | None:
        """A program is read in one way."""
        return None

    def kinds(self, model: Graph | Path | bytes) -> tuple[str, Counter[str]]:
        """Statements, but for what ends a region or function."""
        from egshape.frontends.stablehlo import statements

        known = as_read(model) if isinstance(model, Graph) else None
        return "statements", known or statements.kinds(model)

    def titles(self, graph: Graph) -> Mapping[str, str]:
        """None: its ops are ours."""
        return {}

    def nodes(self, graph: Graph) -> Mapping[str, str]:
        """Its parts are ops of ours."""
        return {}

    def cost(self, graph: Graph) -> Cost:
        """Statements of the text, and calls."""
        from egshape.frontends.stablehlo import emit

        return Cost(emit.statements(graph), "statements")
