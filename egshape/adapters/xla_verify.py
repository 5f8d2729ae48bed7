"""Two StableHLO programs side by side in XLA on the CPU, each made static for the sizes that are tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from egshape.adapters.beside import Ports
from egshape.adapters.onnx_verify import Compared, Runtime, compare_models
from egshape.adapters.xla import for_each_sizes
from egshape.facts import Facts
from egshape.ir.graph import Graph

_DRAWS = 3

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
    runtime = Runtime("XLA", "jaxlib", Session, (names, list(graph.output_names)), "stablehlo", _DRAWS, ("extreme",))
    return compare_models(
        original, written, graph, facts, result=result, seconds=SECONDS, excluding=True, runtime=runtime
    )


class Session(Ports):
    """A program, compiled once for each sizes."""

    def __init__(self, program: str | bytes, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        text = program if isinstance(program, bytes) else Path(program).read_bytes()
        self._run = for_each_sizes(text, "the program")
        super().__init__(inputs, outputs)

    def run(self, _: None, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The outputs for these inputs. Raises EgshapeError where XLA refuses the program at their sizes."""
        return self._run([arrays[name] for name in self._inputs])
