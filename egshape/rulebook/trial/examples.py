"""The examples of rules over tensors, through the engine with all rules in force.

A rewrite must fire on its example and make the stated right side equal to the left one; a type rule must give the
stated type with the type from the graph held back; an obligation must be just what is stated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from egshape.decide import reason
from egshape.decide.context import Context
from egshape.decide.reason import Entry, Given, Reason
from egshape.dims import Dim, const, symbol
from egshape.egraph.obligations import Walk, Walker
from egshape.egraph.program import Program
from egshape.egraph.saturate import Session
from egshape.errors import EgshapeError
from egshape.facts import Relation
from egshape.ir.graph import Value
from egshape.ir.types import TensorType
from egshape.ops import REGISTRY
from egshape.rulebook.trial.bounds import bounded
from egshape.rulebook.trial.compute import Case, differences, points
from egshape.rulelang.examples import Apply, Constant, Leaf, Line, build_example, read_example
from egshape.rulelang.rulefile import Example, Rule

LARGEST = 2**31 - 1
COUNTER_SEEDS = 8
"""With how many arrays a counter-example is given the chance to be false."""


@dataclass(frozen=True)
class Derived:
    """What the rules made of an example: matches by rule, rules that united tensors, whether both sides are equal,
    and whether the engine came to an end."""

    matches: Mapping[str, int]
    why: frozenset[str]
    same: bool
    ended: bool
    grew: str


def is_term(line: Line) -> bool:
    """Whether what stands right of the arrow is a term."""
    return isinstance(line.right, Leaf | Constant | Apply)


def derive(line: Line, program: Program, *, obligations: bool) -> Derived:
    """Saturate a block that computes both sides, believing what is given, and what its ops imply if asked to."""
    block, values = build_example(line, REGISTRY)
    context = Context()
    believed: list[tuple[Relation, Reason]] = [
        (Relation("<=", symbol(each.name), const(LARGEST)), Entry()) for each in block.symbols
    ]
    believed += [(relation, Given()) for relation in line.given]
    context.assume_all(believed)
    with bounded(program, block, context) as (opened, budget):
        implied = opened.load()
        walker = Walker(block, context, frozenset(), REGISTRY, {}, believed, True)
        opened.believe(walker.run(implied if obligations else ()), budget)
        saturated = opened.saturate(program.phases, budget)
        class_of = saturated.snapshot.mapping("Node")
        classes = {class_of[saturated.encoding.node_of[value]] for value in values}
        why = frozenset(rule for _, _, rule in saturated.snapshot.table("why"))
        return Derived(
            dict(saturated.matches),
            why,
            len(values) == 2 and len(classes) == 1,
            saturated.status == "saturated",
            saturated.grew_most,
        )


def inferred(line: Line, program: Program) -> tuple[Mapping[str, int], TensorType | None]:
    """Matches, and the type that rules alone give the left side: the type from the graph is held back."""
    block, (value,) = build_example(line, REGISTRY, right=False)
    types = tuple(name for name in program.phases if name.startswith("tensor.types"))
    with bounded(program, block, Context()) as (opened, budget):
        _hold_back(opened, value)
        opened.load()
        opened.believe(Walk(Context()), budget)
        saturated = opened.saturate(types or program.phases, budget)
        snapshot = saturated.snapshot
        cls = snapshot.mapping("Node")[saturated.encoding.node_of[value]]
        dtype = snapshot.mapping("dtype_of").get(cls)
        shapes = saturated.describer.shapes(snapshot, saturated.describer.dims(snapshot))
        shape = shapes.get(snapshot.mapping("ShapeOf").get(cls, -1))
        known = TensorType(dtype, shape) if dtype is not None and shape is not None else None
        return dict(saturated.matches), known


def _hold_back(opened: Session, value: Value) -> None:
    """Give the node of a value no type."""
    typed = opened.encoder.typed

    def all_but_one(number: int, dtype: str, shape: tuple[Dim, ...] | None) -> None:
        if opened.encoder.out.values[number] is not value:
            typed(number, dtype, shape)

    opened.encoder.typed = all_but_one  # type: ignore[method-assign]


def implied(line: Line, program: Program) -> set[tuple[str, frozenset[str]]]:
    """The obligations of the left side: kinds with the sides as text."""
    block, _ = build_example(line, REGISTRY, right=False)
    with bounded(program, block, Context()) as (opened, _):
        return {relation_key(each.relation) for each in opened.load()}


def relation_key(relation: Relation) -> tuple[str, frozenset[str]]:
    """A relation up to the order of equal sides, and up to what is added to both sides."""
    difference = relation.lhs - relation.rhs
    sides = (difference, -difference) if relation.kind == "==" else (difference,)
    return relation.kind, frozenset(map(str, sides))


# -- what is wrong ----


def of_rewrite(rule: Rule, program: Program, tolerance: float | None) -> Iterator[str]:
    """What is wrong with the examples of a rule that rewrites."""
    for example, line in _lines(rule):
        if isinstance(line, str):
            yield line
        elif example in rule.examples:
            yield from _rewrite_example(rule, example, line, program, tolerance)
        else:
            yield from _rewrite_counter(rule, example, line, program)


def _lines(rule: Rule) -> Iterator[tuple[Example, Line | str]]:
    for example in (*rule.examples, *rule.counters):
        try:
            line = read_example(example, REGISTRY)
            build_example(line, REGISTRY)
        except EgshapeError as error:
            yield example, str(error)
        else:
            yield example, line


def _rewrite_example(
    rule: Rule, example: Example, line: Line, program: Program, tolerance: float | None
) -> Iterator[str]:
    if not is_term(line):
        yield f"{example.where}: what stands right of => is no term"
        return
    derived = derive(line, program, obligations=True)
    if not derived.ended:
        yield f"{example.where}: the rules do not end on the example; {derived.grew or rule.name} grew most"
    if not fired(rule, derived.matches):
        yield f"{example.where}: the rule does not fire on its example (is its left side what another rule drops?)"
    elif rule.name not in {reason.Rule.of(label).name for label in derived.why}:
        yield f"{example.where}: the rule fires on its example and unites nothing"
    elif not derived.same:
        yield f"{example.where}: the rules do not make {example.after} equal to the left side"
    count, text = both_sides(line, tolerance)
    if not count:
        yield f"{example.where}: no sizes were found at which the left side runs"
    elif text:
        yield f"{example.where}: the example itself is false: {text}"


def _rewrite_counter(rule: Rule, example: Example, line: Line, program: Program) -> Iterator[str]:
    derived = derive(line, program, obligations=False)
    if not is_term(line):
        if fired(rule, derived.matches):
            yield f"{example.where}: the rule fires on its counter-example"
    elif derived.same:
        yield f"{example.where}: the rules make {example.after} equal to the counter-example's left side"
    elif not any(both_sides(line, None, seed)[1] for seed in range(COUNTER_SEEDS)):
        yield f"{example.where}: the counter-example is true at all sizes that were tried, so it shows nothing"


def both_sides(line: Line, tolerance: float | None, seed: int = 0) -> tuple[int, str]:
    """At how many sizes both sides were computed, and how they differ first ("" if they do not)."""
    block, (left, right) = build_example(line, REGISTRY)
    own, _ = build_example(line, REGISTRY, right=False)
    made = len(own.ops)
    case = Case(block.args, block.ops[:made], block.symbols, line.given, "")
    at = points(case, left, seed)
    found = list(differences(at, left, right, block.ops[made:], tolerance))
    first = next((each for each in found if each is not None), None)
    return len(found), f"at {_sizes(first.sizes)}, {first.text}" if first is not None else ""


def _sizes(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sizes.items()) or "all sizes"


def of_types(rule: Rule, program: Program) -> Iterator[str]:
    """What is wrong with the examples of a rule that states types."""
    for example, line in _lines(rule):
        if isinstance(line, str):
            yield line
            continue
        matches, type = inferred(line, program)
        if example in rule.counters:
            if type == line.right if line.right else fired(rule, matches):
                yield f"{example.where}: the rule says {example.after or 'something'} of its counter-example"
        elif not isinstance(line.right, TensorType):
            yield f"{example.where}: what stands right of => is no type"
        elif not fired(rule, matches):
            yield f"{example.where}: the rule does not fire on its example"
        else:
            _, (value,) = build_example(line, REGISTRY, right=False)
            if type != line.right:
                yield f"{example.where}: the rules say {type}, not {example.after}"
            elif value.type != line.right:
                yield f"{example.where}: the op's shape function says {value.type}, not {example.after}"


def of_obligations(rule: Rule, program: Program) -> Iterator[str]:
    """What is wrong with the examples of a rule that says what an op implies."""
    for example, line in _lines(rule):
        if isinstance(line, str):
            yield line
            continue
        stated = line.right if isinstance(line.right, tuple) else ()
        if example in rule.examples and not stated:
            yield f"{example.where}: what stands right of => states no relation"
        elif implied(line, program) != set(map(relation_key, stated)):
            given = ", ".join(sorted(next(iter(sorted(sides))) for _, sides in implied(line, program))) or "nothing"
            yield f"{example.where}: the rules imply other relations than {example.after or 'none'} ({given})"


def fired(rule: Rule, matches: Mapping[str, int]) -> bool:
    """Whether a rule matched, in either direction."""
    return reason.matched(matches, rule.name) > 0
