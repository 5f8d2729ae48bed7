"""What one trial of rules may take: a rule that is tried out may well be one that never ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from egshape.decide.context import Context
from egshape.egraph.budget import Budget, Stop
from egshape.egraph.process import Allowance
from egshape.egraph.program import Program
from egshape.egraph.saturate import Session, session
from egshape.ir.graph import Block
from egshape.limits import LimitReached, holding, resident_mb
from egshape.ops import REGISTRY

SECONDS, LAST, NODES, MEMORY_MB = 10.0, 15.0, 50_000, 1024


class Exploding(Exception):
    """The rules were stopped at a limit; ``stop`` names it and the rule that grew most."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(str(stop))
        self.stop = stop


@contextmanager
def bounded(
    program: Program, block: Block, context: Context, share: float = 1.0, until: float = float("inf")
) -> Iterator[tuple[Session, Budget]]:
    """A session for a trial, and the budget of what is done in it: a share of the time, all of the memory. until: a
    `time.monotonic()` value at which it must end in any case.

    Raises Exploding where Python meets a limit."""
    now, memory = time.monotonic(), resident_mb() + MEMORY_MB
    last = min(now + share * LAST, until)
    budget = Budget(nodes=NODES, memory_mb=memory, deadline=min(now + share * SECONDS, until), last=last)
    try:
        with holding(last, memory), session(program, block, REGISTRY, str, context, Allowance(last, memory)) as opened:
            yield opened, budget
    except LimitReached as reached:
        raise Exploding(Stop(reached.limit, "", "")) from None
