"""Two StableHLO programs side by side in XLA on the CPU, each made static for the sizes that are tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from egshape.adapters.onnx_verify import Compared, Runtime, compare_models
from egshape.adapters.xla import run_stablehlo
from egshape.facts import Facts
from egshape.ir.graph import Graph

SECONDS = 60.0
"""Two compilations for each of a few sizes, at most."""


def compare_texts(
    original: str | Path | bytes,
    written: str | Path | bytes,
    graph: Graph,
    facts: Facts,
    *,
    result: Graph | None = None,
) -> Compared:
    """As ``compare_models``, for StableHLO as text or bytecode. Sizes that facts exclude are rejected too."""
    names = [value.name for value in graph.inputs]
    runtime = Runtime("XLA", "jaxlib", Session, (names, list(graph.output_names)), "stablehlo")
    return compare_models(
        original, written, graph, facts, result=result, seconds=SECONDS, excluding=True, runtime=runtime
    )


@dataclass(frozen=True)
class Port:
    """An input or output."""

    name: str


class Session:
    """A program, compiled for the sizes of each run."""

    def __init__(self, program: str | bytes, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self._program = program if isinstance(program, bytes) else Path(program).read_bytes()
        self._inputs = inputs
        self._outputs = outputs

    def get_inputs(self) -> list[Port]:
        """The inputs of the graph."""
        return [Port(name) for name in self._inputs]

    def get_outputs(self) -> list[Port]:
        """The outputs of the graph."""
        return [Port(name) for name in self._outputs]

    def run(self, _: None, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The outputs for these inputs. Raises EgshapeError where XLA refuses the program at their sizes."""
        return run_stablehlo(self._program, [arrays[name] for name in self._inputs])
