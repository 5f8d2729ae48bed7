"""Which missing facts would help: each candidate is tried, and said to help only if the result was better with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import isqrt

from egshape.decide.context import Context
from egshape.dims import Atom, Dim, FloorDiv, const, symbol
from egshape.dims.core import of_atom
from egshape.egraph.checks import GIVEN
from egshape.egraph.cost import LAUNCH, CostModel, likely_sizes
from egshape.egraph.obligations import Check
from egshape.errors import EgshapeError, UndefinedSize
from egshape.facts import Facts, Relation, parse_facts
from egshape.facts.absorb import linear_symbol
from egshape.hints import option
from egshape.ir.graph import Graph, Op, Value, blocks_of, dims_of, relation_of
from egshape.ops import REGISTRY
from egshape.optimizing import Result, optimize
from egshape.pipeline import entry_facts
from egshape.reasons.replay import Key, key_of
from egshape.report import AdviceRow, AdviceTable

TRIALS = 40
SECONDS = 30.0
_MULTIPLES = (8, 16)
_UNCOUNTED = frozenset(("check",))


@dataclass(frozen=True)
class Advice:
    """A fact that would help, the option that passes it, and what it removes.

    ops_removed: ops other than checks. checks_removed: conditions that need no longer be checked, the fact's own
    not counted. bytes_saved: bytes read and written at the likely sizes, regions counted once. checks: the conditions
    on sizes that need no longer be checked, as text."""

    fact: str
    flag: str
    ops_removed: int
    checks_removed: int
    bytes_saved: int
    checks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Advised:
    """The advice, the best first; how many candidates were tried of how many; the sizes at which bytes count;
    the candidates that save nothing."""

    advice: tuple[Advice, ...]
    tried: int
    candidates: int
    likely: dict[str, int]
    useless: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measure:
    """What is compared: ops, conditions still checked, bytes moved."""

    ops: int
    checks: frozenset[Key]
    bytes: int


def advise(graph: Graph, facts: Facts | None = None, limit: int = 10) -> list[Advice]:
    """The facts that would help most, the best first: by bytes saved, then ops, then checks.

    facts: what is known already, beside the graph's own facts. Raises EgshapeError as ``optimize`` does."""
    return list(advise_within(graph, facts, limit).advice)


def advise_within(
    graph: Graph,
    facts: Facts | None = None,
    limit: int = 10,
    seconds: float = SECONDS,
    trials: int = TRIALS,
    on_trial: Callable[[int, int, str], None] | None = None,
) -> Advised:
    """``advise`` under limits; ``on_trial`` is told (number, how many, fact) before each trial."""
    deadline = time.monotonic() + seconds
    before = optimize(graph, facts=facts, validate=False)
    rows = _equal_axes(before.source)
    single = list(_candidates(before, rows))
    wanted = [*((each,) for each in single), *_together(rows, single)]
    found: list[tuple[Facts, Advice]] = []
    useless: list[str] = []
    tried = 0
    for fact in wanted[:trials]:
        if time.monotonic() > deadline:
            break
        if on_trial is not None:
            on_trial(tried, min(len(wanted), trials), _text(fact))
        tried += 1
        each = _tried(before, fact, facts)
        if each is not None:
            found.append((Facts().with_relations(fact), each))
        else:
            useless.append(_text(fact))
    found.sort(key=lambda pair: (*(-n for n in _gains(pair[1])), len(pair[1].fact), pair[1].fact))
    best = _least_demanding(found)
    return Advised(tuple(best[:limit]), tried, len(wanted), before.optimized.likely, tuple(useless))


def table(found: Advised) -> AdviceTable:
    """The advice as a table that can be written as JSON."""
    rows = tuple(AdviceRow(**asdict(each)) for each in found.advice)
    return AdviceTable(
        advice=rows, tried=found.tried, candidates=found.candidates, likely=found.likely, useless=found.useless
    )


def _gains(advice: Advice) -> tuple[int, int, int]:
    return advice.bytes_saved, advice.ops_removed, advice.checks_removed


def _least_demanding(found: list[tuple[Facts, Advice]]) -> list[Advice]:
    """Without facts that ask for more than another one (or the same in more words) and save no more."""
    out = []
    for number, (fact, advice) in enumerate(found):
        enough = (
            weaker
            for place, (weaker, other) in enumerate(found)
            if place != number
            and all(a >= b for a, b in zip(_gains(other), _gains(advice), strict=True))
            and _implies(fact, weaker)
            and (place < number or not _implies(weaker, fact))
        )
        if next(enough, None) is None:
            out.append(advice)
    return out


def _implies(one: Facts, two: Facts) -> bool:
    context = Context(one)
    return all(context.decide(each) == "proved" for each in two.statements())


def _text(fact: Sequence[Relation]) -> str:
    return "; ".join(map(str, fact))


def _tried(before: Result, fact: Sequence[Relation], facts: Facts | None) -> Advice | None:
    """What facts save together, None if nothing, or if no sizes satisfy them."""
    text = _text(fact)
    try:
        after = optimize(before.source, (text,), facts=facts, validate=False)
        if after.report.status == "fallback" or not all(_is_likely(each, after.optimized.likely) for each in fact):
            return None
    except EgshapeError:
        return None
    return saving(before, after, text)


def saving(before: Result, after: Result, fact: str) -> Advice | None:
    """What the second result, with these facts, saves against the first, None if it saves nothing or costs more."""
    likely = likely_sizes(after.derived, list(after.optimized.likely))  # what checks make of the fact counts too
    own = {key_of(each) for each in parse_facts(fact) if isinstance(each, Relation)}
    old, new = measure(before, likely), measure(after, likely, own)
    removed = old.ops - new.ops, len(old.checks) - len(new.checks)
    texts = {key_of(check.relation): str(check.relation) for check in _kept(before) if check.relation is not None}
    gone = tuple(text for key, text in texts.items() if key in old.checks - new.checks)
    advice = Advice(fact, option("--assume", fact), *removed, old.bytes - new.bytes, gone)
    if min(advice.ops_removed, advice.bytes_saved) < 0:
        return None
    return advice if advice.ops_removed or advice.bytes_saved or advice.checks_removed >= _fewest(fact) else None


def _fewest(fact: str) -> int:
    """The checks that a fact which removes nothing else must remove: its own takes the place of one. An upper bound
    may take the place of a single one: it says in plain words what an overflow check is about."""
    relations = [each for each in parse_facts(fact) if isinstance(each, Relation)]
    bounds = sum(each.kind == "<=" and each.rhs.const is not None for each in relations)
    return len(relations) + 1 - bounds


def _is_likely(fact: Relation, likely: dict[str, int]) -> bool:
    """Whether a fact holds at the likely sizes: one that does not would be advice against the data."""
    try:
        return fact.holds(likely)
    except (UndefinedSize, KeyError):
        return False


def measure(result: Result, likely: dict[str, int], own: Iterable[Key] = ()) -> Measure:
    """Ops, checks and bytes of a result at the likely sizes.

    own: conditions of assumed facts, not counted unless the model checks them too (it then still does)."""
    ops = [op for op in result.graph.body.walk() if op.name not in _UNCOUNTED]
    model = CostModel(likely)
    checks: set[Key] = set()
    asked = {
        key_of(check.relation)
        for check in result.optimized.outcome.checks
        if check.index != GIVEN and check.relation is not None
    }
    for number, op in enumerate(op for op in result.graph.body.walk() if op.name == "check"):
        relation = relation_of(op)
        if relation is None:
            checks.add(("data", number))
            continue
        key = key_of(relation)
        if key in asked or key not in set(own):
            checks.add(key)
    return Measure(len(ops), frozenset(checks), round(sum(_moved(op, model) for op in ops)))


def _moved(op: Op, model: CostModel) -> float:
    """The bytes that an op reads and writes, by the cost model of extraction, without the launch."""
    cost = model.node(op.name, _bytes(op.results, model), _bytes(op.operands, model))
    return max(cost - LAUNCH, 0.0)


def _bytes(values: Iterable[Value], model: CostModel) -> float:
    return sum(model.bytes(value.type.dtype, value.type.shape or ()) for value in values)


# -- candidates ----------------------------------------------------------------------------------------------------


def candidates(result: Result) -> Iterator[Relation]:
    """Facts worth a trial, the most promising first, each once; none that is known or refuted already."""
    return _candidates(result, _equal_axes(result.source))


def _candidates(result: Result, rows: Sequence[Sequence[Relation]]) -> Iterator[Relation]:
    context = Context()
    context.assume_all(entry_facts(result.source, result.facts))
    inputs = {each.name for each in result.source.body.symbols if each.value in result.source.inputs}
    seen: set[Key] = set()
    for fact in (
        *from_checks(result),
        *(fact for row in rows for fact in row),
        *_multiples(result.source),
        *_not_one(result),
    ):
        key = key_of(fact)
        if key in seen or not fact.symbols() or not fact.symbols() <= inputs:
            continue
        seen.add(key)
        checked = any(check.relation is not None and key_of(check.relation) == key for check in _kept(result))
        if not checked and context.decide(fact) == "unknown":
            yield fact


def _together(rows: Sequence[Sequence[Relation]], single: Sequence[Relation]) -> Iterator[tuple[Relation, ...]]:
    """Equalities that are worth a trial together: all axes of two shapes that meet, then any two of the single ones."""
    open_ = {key_of(each) for each in single}
    seen: set[frozenset[Key]] = set()
    equal = [each for each in single if each.kind == "==" and _is_plain(each.lhs) and _is_plain(each.rhs)]
    for facts in (*rows, *combinations(equal, 2)):
        wanted = tuple({key_of(each): each for each in facts if key_of(each) in open_}.values())
        keys = frozenset(map(key_of, wanted))
        if len(wanted) > 1 and keys not in seen:
            seen.add(keys)
            yield wanted


def _kept(result: Result) -> list[Check]:
    return [check for check in result.optimized.outcome.checks if check.status == "kept"]


def from_checks(result: Result) -> Iterator[Relation]:
    """Facts from which a check that is kept follows: bounds for one that says that numbers fit, equal sizes for a
    broadcast, whole multiples for a division."""
    for check in _kept(result):
        relation = check.relation
        if relation is None:
            continue
        if relation.kind in ("<=", "<"):
            yield from _bounds(relation)
        if relation.kind == "==":
            yield from _factors(relation)


def _bounds(relation: Relation) -> Iterator[Relation]:
    """n <= M // k for k*n <= M; for a product of several sizes, each at most the root."""
    dim = relation.rhs - relation.lhs
    most = dim.terms[-1][1] if dim.terms and not dim.terms[-1][0] else 0
    large = [(mono, -c) for mono, c in dim.terms if mono and c < 0]
    if len(large) != 1 or most <= 0 or len(large) + 1 != len(dim.terms):
        return
    mono, factor = large[0]
    names = [atom for atom, power in mono if power == 1]
    room = most // factor
    if len(names) == len(mono) == 1:
        yield Relation("<=", of_atom(names[0]), const(room))
    elif len(names) == len(mono):
        yield Relation("<=", _product(names), const(room))
        yield from (Relation("<=", of_atom(each), const(isqrt(room))) for each in names)


def _factors(relation: Relation) -> Iterator[Relation]:
    """For (p - 1)*(p - q) == 0, and other equations: the sizes of the two sides are equal, or one."""
    names = sorted(relation.symbols())
    if len(names) == 2:
        yield Relation("==", symbol(names[0]), symbol(names[1]))
    for name in names:
        yield Relation("<=", const(2), symbol(name))


def _product(atoms: Iterable[Atom]) -> Dim:
    out = const(1)
    for atom in atoms:
        out = out * of_atom(atom)
    return out


def _meeting(graph: Graph) -> Iterator[Sequence[tuple[Dim, ...]]]:
    """Shapes that meet in one op, and those of inputs of one rank."""
    for block in blocks_of(graph.body):
        for op in block.ops:
            shapes = [value.type.shape for value in op.operands if value.type.shape]
            if any(attr.kind == "sizes" for attr in REGISTRY[op.name].attrs):
                shapes = [*shapes, *(value.type.shape for value in op.results if value.type.shape)]
            yield shapes
    by_rank: dict[int, list[tuple[Dim, ...]]] = {}
    for value in graph.inputs:
        if value.type.shape:
            by_rank.setdefault(len(value.type.shape), []).append(value.type.shape)
    yield from by_rank.values()


def _equal_axes(graph: Graph) -> list[list[Relation]]:
    """For any two shapes that meet, equal sizes at each place, of which one may be a number that says more than 0 and 1
    do."""
    return [
        [
            Relation("==", *((a, b) if a.symbols() else (b, a)))
            for a, b in zip(one, two, strict=False)
            if a is not b and _is_plain(a) and _is_plain(b) and (a.symbols() or b.symbols())
        ]
        for shapes in _meeting(graph)
        for one, two in combinations(shapes, 2)
    ]


def _is_plain(dim: Dim) -> bool:
    """Whether a size is a multiple of one symbol, or a number above 1."""
    plain = linear_symbol(dim)
    return dim.const > 1 if dim.const is not None else plain is not None and plain[2] == 0


def _multiples(graph: Graph) -> Iterator[Relation]:
    """Symbols that are divided are multiples of the divisor, and of 8 and 16; those that a reshape splits too."""
    divided: dict[tuple[str, int], None] = {}
    split: dict[str, None] = {}
    for op in graph.body.walk():
        dims = [dim for attr in op.attrs.values() for dim in dims_of(attr)]
        dims += [dim for value in op.results for dim in value.type.shape or ()]
        for dim in dims:
            divided.update(dict.fromkeys(_divisions(dim)))
        if op.name == "reshape" and op.operands[0].type.shape:
            split.update(dict.fromkeys(sorted(name for dim in op.operands[0].type.shape for name in dim.symbols())))
    for name, divisor in divided:
        yield Relation("==", symbol(name) % divisor, const(0))
    for name in dict.fromkeys([*(name for name, _ in divided), *split]):
        for divisor in _MULTIPLES:
            yield Relation("==", symbol(name) % divisor, const(0))


def _divisions(dim: Dim) -> Iterator[tuple[str, int]]:
    """(symbol, k) for each division by a number k inside of a size."""
    for atom in dim.atoms():
        if isinstance(atom, FloorDiv) and atom.den.const and atom.den.const > 1:
            yield from ((name, atom.den.const) for name in sorted(atom.num.symbols()))
        for part in atom.args:
            yield from _divisions(part)


def _not_one(result: Result) -> Iterator[Relation]:
    """Each size of an input is at least 1, at least 2, or just 1."""
    names = [each.name for each in result.source.body.symbols if each.value in result.source.inputs]
    for name in names:
        yield Relation("<=", const(1), symbol(name))
    for name in names:
        yield Relation("<=", const(2), symbol(name))
