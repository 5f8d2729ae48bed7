"""Compiled functions behind one that takes and gives other arrays than native code does: texts, for instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from egshape.errors import EgshapeError
from egshape.ir.graph import Graph
from egshape.runtime.core.names import ordered
from egshape.runtime.core.profile import Memory
from egshape.runtime.core.shown import described


class WrappedFunction:
    """What the function of a graph says of itself, and how its inputs are named; ``function`` does the work.

    It can be pickled where ``function`` can: it holds no graph."""

    def __init__(self, graph: Graph, function: Any) -> None:
        self._function = function
        self._inputs = {value.name: f"{value.name}: {value.type}" for value in graph.inputs}
        self._outputs = [f"{name}: {value.type}" for name, value in zip(graph.output_names, graph.outputs, strict=True)]
        self.manifest: dict[str, Any] = function.manifest

    def __repr__(self) -> str:
        return described(
            f"{type(self).__name__} for {self.manifest.get('target', 'llvm')}",
            self.manifest["name"],
            list(self._inputs.values()),
            self._outputs,
            self.checks,
            str(self.memory),
            [row["target"] for row in self.manifest["host_calls"]],
        )

    @property
    def checks(self) -> list[str]:
        """As of ``CompiledFunction``."""
        found: list[str] = self._function.checks
        return found

    @property
    def memory(self) -> Memory:
        """As of ``CompiledFunction``."""
        found: Memory = self._function.memory
        return found

    def ordered(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """The inputs of a call in order. Raises what is wrong with their number or names."""
        return ordered(inputs, named, self._inputs, _fault)


def _fault(message: str, code: str, where: str) -> EgshapeError:
    return EgshapeError(message, where=where, code=code)
