"""Who finds which sizes are equal and which checks hold: the compiled rules with the theory alone, or the rules in the
engine alone. Over models, the optimizer's goldens, random programs, and questions as `egshape prove --file` takes them.

    python -m benchmarks.who_decides [--models FOLDER] [--questions CASES.tsv] [--random 200] [--write]

--write puts the table into docs/rules-alone.md. Differences are listed with the step of the one that finds it."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import egshape
from egshape.api import Result
from egshape.decide.context import Context
from egshape.dims import Dim
from egshape.dims.core import natural_key
from egshape.egraph.ask import Decide, EngineContext
from egshape.egraph.program import program as load_program
from egshape.errors import Contradiction, EgshapeError
from egshape.facts import Relation, parse_facts, parse_relation
from egshape.ir.graph import Graph
from egshape.ir.text import parse_graph
from tests.cases.test_cases import AFTER, CASES, facts
from tests.fuzz.engine import program

PAGE = Path(__file__).resolve().parents[1] / "docs" / "rules-alone.md"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"
ALONE: tuple[Decide, Decide] = ("rules", "engine")
MOST_SIZES = 60
"""Distinct sizes of one program of which all pairs are asked about."""

Question = tuple[str, Graph, tuple[str, ...]]


@dataclass
class Tally:
    """Of programs of one kind: how many, the facts that both find, and those that one of them misses, with the step of
    the other."""

    programs: int = 0
    both: Counter[str] = field(default_factory=Counter)
    missed: dict[Decide, Counter[str]] = field(default_factory=lambda: {each: Counter() for each in ALONE})
    listed: list[str] = field(default_factory=list)


def models(folder: Path) -> Iterator[Question]:
    """All StableHLO models of a folder."""
    for path in sorted(folder.glob("*.mlir")):
        yield path.stem, egshape.load(path), ()


def goldens() -> Iterator[Question]:
    """The optimizer's goldens, with what they assume."""
    for path in CASES:
        before = path.read_text().partition(AFTER)[0]
        text = "".join(line for line in before.splitlines(keepends=True) if not line.startswith("#"))
        yield path.stem, parse_graph(text), tuple(facts(before))


def drawn(count: int) -> Iterator[Question]:
    """Random programs."""
    for seed in range(count):
        yield f"seed {seed}", program(seed)[1], ()


def compared(questions: Iterable[Question]) -> Tally:
    """What both find of programs, and what one of them alone does."""
    tally = Tally()
    for name, graph, assume in questions:
        try:
            found = {each: egshape.optimize(graph, assume, validate=False, decide=each) for each in ALONE}
        except EgshapeError:  # refused: a check of it is false at every size
            continue
        tally.programs += 1
        kept = frozenset().union(*map(unproved, found.values()))
        one, other = (statements(found[each], graph, kept) for each in ALONE)
        tally.both.update(kind for kind, _ in one & other)
        for by, missing in ((ALONE[0], other - one), (ALONE[1], one - other)):
            for kind, text in sorted(missing):
                tally.missed[by][kind] += 1
                finder = found[ALONE[1 - ALONE.index(by)]]
                tally.listed.append(f"{name}: {by} misses {text} ({kind}; {_step(finder, text)})")
    return tally


def asked(path: Path) -> Tally:
    """What both say of questions about sizes alone."""
    tally, loaded = Tally(), load_program()
    for line in path.read_text().splitlines()[1:]:
        name, _, givens, goal, _ = line.split("\t")
        tally.programs += 1
        given = [each for each in parse_facts(givens) if isinstance(each, Relation)]
        answers: dict[Decide, str] = {}
        for each, context in zip(ALONE, (Context(), EngineContext(loaded, natural_key)), strict=True):
            try:
                context.assume_all([(relation, None) for relation in given])
                answers[each] = context.decide(parse_relation(goal))
            except Contradiction:
                answers[each] = "inconsistent"
        if answers["rules"] == answers["engine"]:
            tally.both["check"] += answers["rules"] != "unknown"
            continue
        for by in ALONE:
            if answers[by] == "unknown":
                tally.missed[by]["check"] += 1
                text = f"{goal} given {givens}" if givens.strip() else goal
                tally.listed.append(f"{name}: {by} misses `{text}`")
    return tally


def unproved(result: Result) -> frozenset[Relation]:
    """The conditions on sizes that a result still checks."""
    kept = (check.relation for check in result.optimized.outcome.checks if check.status == "kept")
    return frozenset(each for each in kept if each is not None)


def statements(result: Result, graph: Graph, checks: frozenset[Relation]) -> frozenset[tuple[str, str]]:
    """What a result holds to be so: equal sizes of the program, and those of some checks that hold."""
    known = result.optimized.sizes
    forms: dict[Dim, list[Dim]] = {}
    for dim in sizes_of(graph):
        forms.setdefault(known.normal_form(dim), []).append(dim)
    equal = {("equal", f"{a} == {b}") for same in forms.values() for a, b in combinations(same, 2)}
    stated = {check.relation for check in result.optimized.outcome.checks if check.op is not None and check.relation}
    return frozenset(equal | {("check", str(each)) for each in (checks | stated) - unproved(result)})


def sizes_of(graph: Graph) -> list[Dim]:
    """The distinct sizes of the values of a graph's own block, in order."""
    values = (*graph.inputs, *(value for op in graph.body.ops for value in op.results))
    return list(dict.fromkeys(dim for value in values for dim in value.type.shape or ()))[:MOST_SIZES]


def _step(finder: Result, text: str) -> str:
    """The last step by which a statement is found."""
    try:
        why = finder.explain_fact(text).why
    except EgshapeError:
        return "in a region"
    return f"by {why[-1].rule}" if why else "by the arithmetic of the exchange"


def table(found: dict[str, Tally]) -> str:
    """The table and the differences, as Markdown."""
    lines = [
        "| programs | | equal, for both | decided, by both | missed by compiled rules | missed by the engine |",
        "|---|---|---|---|---|---|",
    ]
    for kind, tally in found.items():
        missed = [f"{tally.missed[each]['equal']} + {tally.missed[each]['check']}" for each in ALONE]
        cells = (kind, tally.programs, tally.both["equal"], tally.both["check"], *missed)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    listed = [f"- {line}" for tally in found.values() for line in tally.listed]
    return "\n".join([*lines, "", *(listed or ["No differences."])])


def write(text: str) -> None:
    """Put the table into its page."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--questions", type=Path)
    parser.add_argument("--random", type=int, default=200)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    found = {"goldens": compared(goldens()), "random programs": compared(drawn(options.random))}
    if options.models is not None:
        found["models"] = compared(models(options.models))
    if options.questions is not None:
        found["questions"] = asked(options.questions)
    text = table(found)
    print(text)
    if options.write:
        write(text)


if __name__ == "__main__":
    main()
