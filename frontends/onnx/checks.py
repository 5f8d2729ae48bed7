"""Checks of a model: the nodes that stand for them, and the texts that the metadata lists.

A check node is a Gather from a table of one at a place that a condition chooses, or a Reshape to a shape that it
chooses where no tensor has the other (``emit_checks`` writes them): whatever made such a node, it is a check of the
condition."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import permutations
from math import prod

from egshape.dims import Dim, const, maximum, minimum, parse
from egshape.dims.forms import total
from egshape.errors import EgshapeError
from egshape.facts import Relation, parse_facts
from egshape.facts.intervals import Ranges, normalized
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.program import Choice
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.size_terms import forms, plan
from egshape.ir.builder import small
from egshape.ir.graph import NOWHERE, Block, Location, Op, Value
from egshape.ops.checks import format_message
from egshape.ops.conditions import negated

CHECKS = "egshape.checks"
"""The metadata key that lists, as a JSON list of texts, the checks that no node makes."""

TITLE = "check: "
"""How the names of check nodes begin."""

NO_SIZE = 2**62 + 2**31 - 1
"""No tensor has so many elements; nor, as a rule, as many as a runtime would take that cuts it to 32 bits."""

_PLACE = "at "
"""How the line of a check's text begins that says where in the source it comes from."""

_FACT = "assumed: "
"""How the line begins that says which fact a user assumed."""

_BRACED = re.compile(r"\{([^{}]*)\}")


def described(op: Op) -> str:
    """What a check says where it fails, sizes in braces by name, the fact that it states, and where it comes from: the
    text of its node."""
    message = format_message(op.attrs["message"], [f"{{{size}}}" for size in op.attrs["args"]])
    lines = ((_FACT, op.attrs.get("fact", "")), (_PLACE, str(op.location)))
    return "\n".join((message, *(f"{key}{text}" for key, text in lines if text)))


def _read(text: str, known: set[str]) -> tuple[str, tuple[Dim, ...], Location, str]:
    """Message, the sizes that fill it, location, and fact of a check's text."""
    head, place = _cut(text, _PLACE)
    first, fact = _cut(head, _FACT)
    args: list[Dim] = []

    def numbered(match: re.Match[str]) -> str:
        try:
            size = parse(match[1])
        except EgshapeError:
            return match[0]
        if size.const is not None or not size.symbols() <= known:
            return match[0]
        args.append(size)
        return f"{{{len(args) - 1}}}"

    message = _BRACED.sub(numbered, first)
    return message, tuple(args), Location(name=place) if place else NOWHERE, fact


def _cut(text: str, key: str) -> tuple[str, str]:
    """A text without its last line, and what this says behind the key; "" if it is another."""
    first, found, last = text.rpartition(f"\n{key}")
    return (first, last) if found else (text, "")


def require(s: Scope, condition: Value, wanted: bool, message: str, args: tuple[Dim, ...] = (), fact: str = "") -> None:
    """A check that a condition, a boolean of one element, is as wanted: of sizes where it is one of these."""
    known = s.items(condition)
    if known and isinstance(known[0], Relation):
        relate(s, known[0] if wanted else negated(known[0]), message, args, fact)
        return
    pred = condition if condition.type.rank == 0 else s.one("reshape", (condition,), shape=())
    s.add("check", (pred if wanted else s.one("not", (pred,)),), {"message": message, "args": args})


def some(s: Scope, size: Dim, results: Dim, what: str) -> None:
    """A check, unless it surely holds, that an axis has an element where there are results."""
    needed = Relation("<=", minimum(results, const(1)), size)
    if s.decide(needed.kind, needed.lhs, needed.rhs) is not True:
        relate(s, needed, f"{what} of an axis of size {{0}}, which has no element", (size,))


def relate(s: Scope, relation: Relation, message: str, args: tuple[Dim, ...] = (), fact: str = "") -> None:
    """A check of sizes, which what follows may rely on; of a fact that a user assumed."""
    s.add(
        "check",
        (),
        {
            "relation": relation.kind,
            "sides": (relation.lhs, relation.rhs),
            "message": message,
            "args": args,
            "fact": fact,
        },
    )
    if s.certain:
        s.program.bounds.learn(relation)
        s.program.decided.clear()


def distances(ranges: Ranges, count: int) -> list[int]:
    """How far 0, 1, 2 and so on are from the nearest of some intervals."""
    return [min(max((lo or 0) - n, 0 if hi is None else n - hi, 0) for lo, hi in ranges) for n in range(count)]


def distance_read(s: Scope, node: Node, x: Value, indices: Value) -> Value | None:
    """How far a size is from a list of intervals, where a node reads that in a table, which ends with the last one: a
    size past it is rejected; or where the last one begins, if it has no end: what is read there is at most that. None
    for a node that reads something else."""
    table, sizes = s.numbers(x), s.dims(indices)
    if not table or table[-1] or x.type.rank != 1 or x.type.dtype != "i64" or sizes is None or len(sizes) != 1:
        return None
    (size,), ranges = sizes, normalized([(n, n) for n, distance in enumerate(table) if distance == 0])
    last = Relation("<=", size, const(len(table) - 1))
    whole = _clipped(size, len(table) - 1)
    if whole is not None:
        size, ranges = whole, (*ranges[:-1], (ranges[-1][0], None))
    if size.const is not None or len(ranges) < 2 or list(table) != distances(ranges, len(table)):
        return None
    if s.decide("<=", const(0), size) is not True:
        return None
    if whole is None:
        with _stated(s, node) as (message, args, fact):
            relate(s, last, message, args, fact)
    parts = tuple(part for part in Relation("in", size, const(0), "", ranges).parts() if part != last)
    gaps = [part.lhs if part.kind == "==" else maximum(part.lhs - part.rhs, 0) for part in parts]
    found = s.vector([total(gaps)], "i64", None if indices.type.rank else ())
    s.program.lists[found] = parts
    return found


def _clipped(size: Dim, most: int) -> Dim | None:
    """The size of which this is the smaller one, it or a number."""
    term = plan(size)
    if term.kind != "minimum":
        return None
    return next((one for one, other in permutations(term.operands) if other.const == most), None)


def only_row(s: Scope, node: Node, x: Value, indices: Value, axis: int) -> bool:
    """Whether a node reads the only row of a table at a place that a condition chooses, one there and one outside:
    then the condition is checked. So is that a computed place that is not negative is 0."""
    if x.type.dims[axis].const != 1:
        return False
    choice, parts = s.program.choices.get(indices), s.program.lists.get(indices)
    if parts is not None:
        with _stated(s, node) as (message, args, fact):
            for part in parts:
                relate(s, part, message, args, fact)
        s.program.spent.add(indices)
        return True
    if choice is None:
        return _only_place(s, node, indices)
    return _chosen(s, node, choice, [len(place) == 1 and -1 <= place[0] < 1 for place in choice.numbers])


def only_target(s: Scope, node: Node, target: Value) -> list[Dim] | None:
    """The one of two target shapes, between which a condition chooses, that a tensor can have; the condition is then
    checked. None where a condition does not choose so."""
    choice = s.program.choices.get(target)
    if choice is None:
        return None
    fits = [not (all(size > 0 for size in sizes) and prod(sizes) >= NO_SIZE) for sizes in choice.numbers]
    return [const(size) for size in choice.numbers[fits.index(True)]] if _chosen(s, node, choice, fits) else None


def _chosen(s: Scope, node: Node, choice: Choice, fits: Sequence[bool]) -> bool:
    """Whether one of the two numbers between which a condition chooses fits; the condition is then checked."""
    if fits[0] == fits[1]:
        return False
    with _stated(s, node) as (message, args, fact):
        require(s, choice.condition, fits[0], message, args, fact)
    s.program.spent.update((choice.condition, *(each for each, held in s.program.choices.items() if held is choice)))
    return True


def _only_place(s: Scope, node: Node, indices: Value) -> bool:
    found = s.dims(indices)
    if found is None or len(found) != 1 or found[0].const is not None or s.decide("<=", const(0), found[0]) is not True:
        return False
    alike = list(forms("==", found[0], const(0)))
    kind, lhs, rhs = next((each for each in alike if each[0] == "<="), alike[0])
    with _stated(s, node) as (message, args, fact):
        relate(s, Relation(kind, lhs, rhs), message, args, fact)
    s.program.spent.add(indices)
    return True


@contextmanager
def _stated(s: Scope, node: Node) -> Iterator[tuple[str, tuple[Dim, ...], str]]:
    """What a check node says: its message, the sizes that fill it, the fact; the scope is at its place meanwhile."""
    own = str(node.proto.name).startswith(TITLE)
    text = str(node.proto.doc_string) if own else ""
    message, args, location, fact = _read(text or f"{node.location} is asked for what is not there", s.known_symbols())
    held = s.location
    s.location = location if own else held
    try:
        yield message, args, fact
    finally:
        s.location = held


_PURE = frozenset(
    (
        "constant",
        "dims",
        "compare",
        "select",
        "not",
        "or",
        "and",
        "add",
        "subtract",
        "multiply",
        "divide",
        "minimum",
        "maximum",
        "reshape",
        "broadcast_in_dim",
        "remainder",
    )
)
"""Ops on small integers that give a result whatever these are."""


def without_spent(block: Block, spent: Collection[Value]) -> Block:
    """A block without the arithmetic of nodes that became checks, where nothing else reads it."""
    read = block.readers()
    gone, ops = set(spent), list[Op]()
    for op in reversed(block.ops):
        made = bool(op.results) and all(value in gone and not read[value] and small(value.type) for value in op.results)
        if made and op.name in _PURE and not op.requires:
            read.subtract(op.operands)
            gone.update(op.operands)
        else:
            ops.append(op)
    return replace(block, ops=tuple(reversed(ops)))


# -- the metadata --------------------------------------------------------------------------------------------------


def listed(text: str) -> list[Relation]:
    """The checks in the metadata's text. Raises EgshapeError where it is no JSON list of statements on sizes."""
    try:
        texts = json.loads(text)
    except ValueError as error:
        raise EgshapeError(f"no JSON: {error}", code="parse") from None
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise EgshapeError("not a list of texts", code="parse")
    return [fact for each in texts for fact in parse_facts(each) if isinstance(fact, Relation)]


def add_listed(s: Scope, relations: Iterable[Relation]) -> list[Relation]:
    """Add the checks whose sizes are known by now; gives the others."""
    known = s.known_symbols()
    left = []
    for relation in relations:
        if not relation.symbols() <= known:
            left.append(relation)
            continue
        for divisor in (need.one for need in relation.conditions()):
            relate(s, Relation("!=", divisor, const(0)), f"the check {relation} divides by 0")
        for part in relation.parts():
            relate(s, part, f"the check {relation} fails")
    return left
