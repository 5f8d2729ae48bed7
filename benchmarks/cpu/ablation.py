"""What proved shape facts are worth: the same networks through the same back end with facts off (the graph as it came,
no two sizes of different ops taken as equal), the graph rewritten only, facts on, and with facts that a user states too
(divisibility, ranges). Alternating runs, one process.

    python -m benchmarks.cpu.ablation [--case softmax] [--threads 1] [--rounds 15] [--markdown]

Ratios are the time with facts off over the time of the column: above 1, the facts help."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import egshape
from benchmarks.cpu.__main__ import agree, bound
from benchmarks.cpu.networks import WORKLOADS, Point, Workload
from benchmarks.tools.machine import measured_on
from benchmarks.tools.timing import Samples, Table, sampled, shown


@dataclass(frozen=True)
class Variant:
    """What is told to the optimizer and to the back end. ``facts`` is the option of ``egshape.compile``."""

    name: str
    facts: str
    rewritten: bool = True
    stated: bool = False


VARIANTS = (
    Variant("facts off", "none", rewritten=False),
    Variant("rewritten", "none"),
    Variant("facts on", "shape"),
    Variant("user facts", "all", stated=True),
)


def compiled(workload: Workload, variant: Variant, threads: int) -> Callable[..., object]:
    """The network as a variant has it."""
    graph = workload.build().graph()
    if variant.rewritten:
        assume = workload.facts if variant.stated else ()
        graph = egshape.optimize(graph, assume=assume, validate=False, explain=False).graph
    return egshape.compile(graph, target="llvm", threads=threads, facts=variant.facts, optimize=False)


def fitting(workload: Workload) -> Sequence[Point]:
    """The points at which the user's facts hold: elsewhere that variant rejects the sizes."""
    facts = [fact for fact in workload.facts if not fact.startswith("likely")]

    def holds(point: Point) -> bool:
        given = [f"{name} == {size}" for name, size in point.sizes.items()]
        return all(egshape.prove(fact, given=given).status == "proved" for fact in facts)

    return [point for point in workload.points if holds(point)]


def rows(
    workload: Workload, threads: int, rounds: int, seconds: float, *, best: bool = False
) -> Sequence[tuple[str, Samples]]:
    """The time of each variant at each point."""
    built = workload.build()
    made = {variant.name: compiled(workload, variant, threads) for variant in VARIANTS}
    out = []
    for point in fitting(workload):
        arrays = built.arrays(point.sizes)
        agree(workload.label(point), made, arrays)
        runs = {name: bound(run, arrays) for name, run in made.items()}
        out.append((workload.label(point), sampled(runs, rounds, seconds, best=best)))
    return out


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="", help="only workloads whose name contains this")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=8.0, help="for each row, at most")
    parser.add_argument("--all", action="store_true", help="BERT-base too")
    parser.add_argument("--best", action="store_true", help="shortest samples, not medians: for a busy machine")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    first, *others = (variant.name for variant in VARIANTS)
    print(measured_on([], options.threads))
    table = Table(["case", first, *others], markdown=options.markdown)
    for workload in WORKLOADS:
        if options.case in workload.name and (workload.quick or options.all):
            for name, found in rows(workload, options.threads, options.rounds, options.seconds, best=options.best):
                table.row([name, shown(found.typical(first)), *(f"{found.ratio(first, each):.2f}" for each in others)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
