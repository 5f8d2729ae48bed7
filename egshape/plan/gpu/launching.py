"""The launches of a kernel of the plan, one behind the other."""

from __future__ import annotations

from egshape.plan.gpu.attention import split as flash_split
from egshape.plan.gpu.erf import complements
from egshape.plan.gpu.folds import Likely, stages
from egshape.plan.gpu.fused import fused
from egshape.plan.gpu.mapping import THREADS, first_round, launch, leading
from egshape.plan.gpu.narrow import narrowed
from egshape.plan.ir.launch import Launch
from egshape.plan.ir.loops import Attend, Kernel


def launches(kernel: Kernel, likely: Likely, threads: int = THREADS) -> tuple[Launch, ...]:
    """How a kernel runs, in one or more launches one behind the other."""
    loops, body = leading(kernel.body)
    likely = first_round(likely)
    if len(body) == 1 and isinstance(body[0], Attend):
        found = flash_split.launches(kernel, loops, body[0], likely)
    else:
        found = tuple(narrowed(launch(each, likely, threads)) for each in stages(kernel, loops, body, likely))
    return tuple(fused(complements(each)) for each in found)
