"""Every tensor rule: its examples and counter-examples through the engine, and both sides run in numbers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from egshape.dims import Dim, const, symbol
from egshape.egraph.engine import Budget
from egshape.egraph.examples import Apply, Constant, Leaf, Line, build_example, read_example
from egshape.egraph.obligations import Walk, Walker
from egshape.egraph.rules import Example, Rule
from egshape.egraph.saturate import Program, Session, program, session
from egshape.errors import EgshapeError
from egshape.facts import Relation
from egshape.ir.graph import Block, Graph, Value
from egshape.ir.interpret import interpret
from egshape.ir.types import TensorType, is_float, numpy_dtype
from egshape.ops import REGISTRY
from egshape.pipeline import LARGEST_SIZE
from egshape.prove.context import Context

PROGRAM: Program = program()
RULES = [rule for rule in PROGRAM.rules.rules if rule.ruleset.startswith("tensor.")]
TYPES = [rule for rule in RULES if rule.ruleset == "tensor.types"]
REWRITES = [rule for rule in RULES if rule.ruleset != "tensor.types"]
SIZES = (0, 1, 2, 3, 7)
RUNS = 60
TRIALS = 40
SPECIAL = {
    "float": (np.nan, -0.0, 0.0, np.inf, -np.inf, 1.0, -1.5, 3.25),
    "int": (0, -1, 1, 7, -128, 127, 5, -3),
    "bool": (True, False, True),
}


@dataclass(frozen=True)
class Derived:
    """What the shipped rules made of an example: matches by rule, rules that united tensors, both sides equal."""

    matches: Mapping[str, int]
    why: frozenset[str]
    same: bool


def derive(line: Line, *, obligations: bool) -> Derived:
    """Saturate a block that computes both sides, believing what is given, and what its ops imply if asked to."""
    block, values = build_example(line, REGISTRY)
    context = Context()
    believed = [(Relation("<=", symbol(each.name), const(LARGEST_SIZE)), "entry") for each in block.symbols]
    believed += [(relation, "given") for relation in line.given]
    context.assume_all(believed)
    with session(PROGRAM, block, REGISTRY, str, context) as opened:
        implied = opened.load()
        walker = Walker(block, context, frozenset(), REGISTRY, {}, believed, True)
        opened.believe(walker.run(implied if obligations else ()), Budget(seconds=10))
        saturated = opened.saturate(PROGRAM.phases, Budget(seconds=10))
        assert saturated.status == "saturated"
        class_of = saturated.snapshot.mapping("Node")
        classes = {class_of[saturated.encoding.node_of[value]] for value in values}
        why = frozenset(rule for _, _, rule in saturated.snapshot.table("why"))
        return Derived(dict(saturated.matches), why, len(values) == 2 and len(classes) == 1)


# -- in numbers ----


class NegativeSize(Exception):
    """No such array."""


def sizes_of(line: Line) -> Iterator[dict[str, int]]:
    """Sizes of the symbols at which the givens hold."""
    block, _ = build_example(line, REGISTRY)
    names = sorted({each.name for each in block.symbols})
    tuples = list(itertools.product(SIZES, repeat=len(names)))
    random.Random(0).shuffle(tuples)
    for values in tuples:
        sizes = dict(zip(names, values, strict=True))
        if all(relation.holds(sizes) for relation in line.given):
            yield sizes


def data(type: TensorType, sizes: Mapping[str, int], seed: int) -> np.ndarray:
    """An array full of special values, in an order that depends on the seed."""
    shape = tuple(dim.evaluate(sizes) for dim in type.dims)
    if min(shape, default=0) < 0:
        raise NegativeSize
    kind = "float" if is_float(type.dtype) else "bool" if type.dtype == "i1" else "int"
    choices = random.Random(seed)
    items = [choices.choice(SPECIAL[kind]) for _ in range(int(np.prod(shape)))]
    return np.array(items).astype(numpy_dtype(type.dtype)).reshape(shape)


def run(block: Block, sizes: Mapping[str, int], seed: int) -> list[np.ndarray]:
    """The block's results at some sizes. Raises EgshapeError where an op does not accept them."""
    graph = Graph("example", block, tuple(f"out{k}" for k in range(len(block.results))))
    inputs = [data(arg.type, sizes, 100 * seed + place) for place, arg in enumerate(block.args)]
    with np.errstate(all="ignore"):
        return interpret(graph, inputs)


def verdicts(line: Line) -> Iterator[tuple[dict[str, int], str]]:
    """For sizes at which the left side runs: "" if the right side gives the same bits, else how it differs."""
    left, _ = build_example(line, REGISTRY, right=False)
    both, _ = build_example(line, REGISTRY)
    known = list(sizes_of(line))
    count = 0
    for seed, sizes in itertools.product(range(TRIALS), known):
        try:
            run(left, sizes, seed)
        except (EgshapeError, NegativeSize):
            continue
        try:
            one, two = run(both, sizes, seed)
        except EgshapeError as error:
            yield sizes, f"the right side fails: {error}"
            continue
        same = one.dtype == two.dtype and one.shape == two.shape and bits(one) == bits(two)
        yield sizes, "" if same else f"{one.tolist()} is not {two.tolist()}"
        count += 1
        if count == RUNS:
            return


def bits(array: np.ndarray) -> bytes:
    """The bytes of an array, all NaNs alike: which NaN an op gives is not specified."""
    if array.dtype.kind in "fV":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return np.ascontiguousarray(array).tobytes()


def is_term(line: Line) -> bool:
    return isinstance(line.right, Leaf | Constant | Apply)


def where(rule: Rule, example: Example) -> str:
    return f"{rule.name} at {example.where}"


@pytest.mark.parametrize("rule", REWRITES, ids=lambda rule: rule.name)
def test_rule(rule: Rule) -> None:
    assert rule.examples, f"{rule.name} at {rule.where} has no example"
    for example in rule.examples:
        line = read_example(example, REGISTRY)
        assert is_term(line), f"{where(rule, example)}: the right side of the example is no term"
        derived = derive(line, obligations=True)
        assert derived.matches.get(rule.name, 0) > 0, f"{where(rule, example)}: the rule does not fire"
        assert rule.name in derived.why, f"{where(rule, example)}: the log has no reason of that name"
        assert derived.same, f"{where(rule, example)}: not derived"
        found = list(verdicts(line))
        assert found, f"{where(rule, example)}: no sizes at which the left side runs"
        wrong = [f"at {sizes}: {text}" for sizes, text in found if text]
        assert not wrong, f"{where(rule, example)}: {wrong[0]}"


@pytest.mark.parametrize(
    ("rule", "example"),
    [pytest.param(rule, each, id=f"{rule.name}: {each.before}") for rule in REWRITES for each in rule.counters],
)
def test_counter(rule: Rule, example: Example) -> None:
    line = read_example(example, REGISTRY)
    if is_term(line):
        assert not derive(line, obligations=False).same, f"{where(rule, example)}: derived"
        assert any(text for _, text in verdicts(line)), f"{where(rule, example)}: true at all sampled sizes"
    else:
        assert not derive(line, obligations=False).matches.get(rule.name, 0), f"{where(rule, example)}: the rule fires"


# -- types ----


def inferred(line: Line) -> tuple[Mapping[str, int], TensorType | None]:
    """Matches, and the type that rules alone give the left side: the type from the graph is held back."""
    block, (value,) = build_example(line, REGISTRY, right=False)
    with session(PROGRAM, block, REGISTRY, str, Context()) as opened:
        hold_back(opened, value)
        opened.load()
        opened.believe(Walk(Context()), Budget(seconds=10))
        saturated = opened.saturate(("tensor.types",), Budget(seconds=10))
        snapshot = saturated.snapshot
        cls = snapshot.mapping("Node")[saturated.encoding.node_of[value]]
        dtype = snapshot.mapping("dtype_of").get(cls)
        shapes = saturated.host.shapes(snapshot, saturated.host.dims(snapshot))
        shape = shapes.get(snapshot.mapping("ShapeOf").get(cls))
        complete = dtype is not None and shape is not None
        return dict(saturated.matches), TensorType(dtype, shape) if complete else None


def hold_back(opened: Session, value: Value) -> None:
    """Give the node of a value no type."""
    typed = opened.encoder.typed

    def all_but_one(number: int, dtype: str, shape: tuple[Dim, ...] | None) -> None:
        if opened.encoder.out.values[number] is not value:
            typed(number, dtype, shape)

    opened.encoder.typed = all_but_one  # type: ignore[method-assign]


@pytest.mark.parametrize("rule", TYPES, ids=lambda rule: rule.name)
def test_type_rule(rule: Rule) -> None:
    for example in rule.examples:
        line = read_example(example, REGISTRY)
        matches, type = inferred(line)
        assert isinstance(line.right, TensorType), f"{where(rule, example)}: the right side is no type"
        assert matches.get(rule.name, 0) > 0, f"{where(rule, example)}: the rule does not fire"
        assert type == line.right, where(rule, example)
        _, (value,) = build_example(line, REGISTRY, right=False)
        assert value.type == line.right, f"{where(rule, example)}: the op's shape function says {value.type}"
    for example in rule.counters:
        line = read_example(example, REGISTRY)
        matches, type = inferred(line)
        wrong = type == line.right if line.right else matches.get(rule.name, 0)
        assert not wrong, f"{where(rule, example)}: derived"


def test_guarded_rules_have_a_reason_and_a_counter() -> None:
    for rule in RULES:
        if rule.guards or "when" in rule.text:
            assert rule.sound, f"{rule.name} at {rule.where}"
            assert rule.counters, f"{rule.name} at {rule.where}"


def test_sampling_sees_a_wrong_equation() -> None:
    """The numbers tell -0.0 from 0.0, and a square transpose from none."""
    for before, after in (("add(x: [a], broadcast_in_dim(const(f32, 0.0), [], [a]))", "x"),
                          ("transpose(x: [a, a], [1, 0])", "x")):
        line = read_example(Example(before, after, "", "here"), REGISTRY)
        assert any(text for _, text in verdicts(line))


# -- obligations ----


def implied(line: Line) -> set[tuple[str, frozenset[str]]]:
    """The obligations of the left side: kinds with the sides as text."""
    block, _ = build_example(line, REGISTRY, right=False)
    with session(PROGRAM, block, REGISTRY, str, Context()) as opened:
        return {key(each.relation) for each in opened.load()}


def key(relation: Relation) -> tuple[str, frozenset[str]]:
    """A relation up to the order of equal sides, and up to what is added to both sides."""
    difference = relation.lhs - relation.rhs
    sides = (difference, -difference) if relation.kind == "==" else (difference,)
    return relation.kind, frozenset(map(str, sides))


OBLIGATIONS = [rule for rule in PROGRAM.rules.rules if rule.ruleset == "shape.obligations"]


@pytest.mark.parametrize("rule", OBLIGATIONS, ids=lambda rule: rule.name)
def test_obligation(rule: Rule) -> None:
    assert rule.sound or not rule.guards, f"{rule.name} at {rule.where}: no reason"
    assert rule.counters, f"{rule.name} at {rule.where}: no counter-example"
    for example in rule.examples:
        line = read_example(example, REGISTRY)
        assert isinstance(line.right, tuple), f"{where(rule, example)}: the right side states no relation"
        assert implied(line) == set(map(key, line.right)), where(rule, example)
        refused_where_false(line, where(rule, example))
    for example in rule.counters:
        line = read_example(example, REGISTRY)
        stated = line.right if isinstance(line.right, tuple) else ()
        assert implied(line) == set(map(key, stated)), where(rule, example)


def refused_where_false(line: Line, at: str) -> None:
    """The op gives a result at some sampled sizes, and at none where a stated relation is false."""
    block, _ = build_example(line, REGISTRY, right=False)
    assert isinstance(line.right, tuple)
    runs = 0
    for sizes in itertools.islice(sizes_of(line), 150):
        holds = all(relation.holds(sizes) for relation in line.right)
        try:
            run(block, sizes, 0)
        except (EgshapeError, NegativeSize):
            continue
        runs += 1
        assert holds, f"{at}: the op accepts {sizes}"
    assert runs, f"{at}: no sizes at which the op runs"
