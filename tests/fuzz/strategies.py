"""hypothesis strategies for random programs: every decision is drawn, so that a failure shrinks."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from egshape.ir.graph import Graph
from egshape.ir.verify import verify
from tests.fuzz.maker import Maker
from tests.fuzz.pieces import steps


@dataclass(frozen=True)
class Drawn:
    """A chooser that asks hypothesis."""

    draw: st.DrawFn

    def randint(self, low: int, high: int) -> int:
        """An integer from low to high."""
        return self.draw(st.integers(low, high))


@st.composite
def programs(draw: st.DrawFn, most: int = 5) -> tuple[Maker, Graph]:
    """A maker, which knows sizes at which its program runs, and the program."""
    maker = Maker(Drawn(draw))
    steps(maker, maker.chooser.randint(1, most))
    graph = maker.graph()
    verify(graph)
    return maker, graph
