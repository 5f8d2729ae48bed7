"""Programs of any declared op, drawn from its contract alone: an application that the contract's examples show, its
sizes, dtypes and numbers drawn anew, between ops that make its operands and read its result. An op of a user is drawn
so too."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from egshape.dims import Dim, const, symbol
from egshape.errors import EgshapeError
from egshape.ir.graph import Graph
from egshape.ir.types import TensorType
from egshape.ops import REGISTRY, OpDecl
from egshape.ops.base import Registry
from egshape.rulelang.contract import ContractExample
from egshape.rulelang.examples import Apply, Leaf, Line, Term, build_example, read_example
from egshape.rulelang.rulefile import Example
from tests.conditions.judges import trials
from tests.fuzz.differential import compare
from tests.fuzz.engine import optimized

SIZES: tuple[Dim, ...] = (*map(symbol, "abcd"), *map(const, (0, 1, 2, 3)))
DTYPES = ("f32", "i32", "i64", "f64", "i1", "i8", "ui8", "f16", "bf16", "c64")
ATTEMPTS = 60


def drawable(registry: Registry = REGISTRY) -> Iterator[str]:
    """The ops whose contracts show an application that can run anywhere, and ends."""
    for decl in registry:
        if not decl.traits.foreign and decl.traits.regions != "loop" and any(_shown(decl)):
            yield decl.name


def _shown(decl: OpDecl) -> Iterator[ContractExample]:
    examples = () if decl.contract is None else decl.contract.text.examples
    yield from (each for each in examples if each.kind in ("example", "implies"))


def declared_program(name: str, seed: int, registry: Registry = REGISTRY) -> Graph:
    """A program of one op."""
    rng = random.Random(f"{name} {seed}")
    decl = registry[name]
    shown = list(_shown(decl))
    for _ in range(ATTEMPTS):
        each = rng.choice(shown)
        left = read_example(Example(each.before, "", "", each.where), registry).left
        if not isinstance(left, Apply):
            continue
        term = _Drawn(rng).term(replace(left, op=name))
        whole = term if decl.effect else _read(rng, term)
        try:
            block, _ = build_example(Line(whole, (), None), registry, right=False)
        except EgshapeError:
            continue  # the contract refuses what was drawn
        return Graph("g", block, tuple(f"out{number}" for number in range(len(block.results))))
    raise AssertionError(f"nothing that {name} takes was drawn")


class _Drawn:
    """Draws the sizes, dtypes and numbers of a term."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.sizes: dict[str, Dim] = {}
        self.kept = rng.random() < 0.5
        self.dtype = rng.choice(DTYPES)

    def dim(self, dim: Dim) -> Dim:
        for name in dim.symbols():
            self.sizes.setdefault(name, self.rng.choice(SIZES))
        return dim.substitute({name: self.sizes[name] for name in dim.symbols()})

    def term(self, term: Term) -> Term:
        if isinstance(term, Leaf):
            return Leaf(term.name, self.type(term.type))
        if not isinstance(term, Apply):
            return term
        operands = tuple(map(self.operand, term.operands))
        regions = tuple(each if isinstance(each, str) else self.term(each) for each in term.regions)
        return Apply(term.op, operands, {key: self.attribute(item) for key, item in term.attrs.items()}, regions)

    def type(self, type: TensorType) -> TensorType:
        dtype = self.dtype if type.dtype == "f32" and not self.kept else type.dtype
        return TensorType(dtype, tuple(map(self.dim, type.dims)))

    def operand(self, term: Term) -> Term:
        """What is read is now and then what an op gives."""
        drawn = self.term(term)
        if not isinstance(drawn, Leaf) or self.rng.random() < 0.6:
            return drawn
        if drawn.type.rank and self.rng.random() < 0.5:
            return Apply("reverse", (drawn,), {"dims": (self.rng.randrange(drawn.type.rank),)}, ())
        return Apply("multiply", (drawn, drawn), {}, ())

    def attribute(self, item: Any) -> Any:
        if isinstance(item, tuple):
            return tuple(map(self.attribute, item))
        if isinstance(item, Dim):
            moved = self.rng.choice((-1, 0, 1)) if self.rng.random() < 0.2 else 0
            return self.dim(item) + moved
        return self.dtype if item == "f32" and not self.kept else item


def _read(rng: random.Random, term: Term) -> Term:
    """The op as it stands, or what reads its result."""
    if rng.random() < 0.5:
        return term
    return Apply(*rng.choice((("add", (term, term)), ("maximum", (term, term)), ("abs", (term,)))), {}, ())


def difference(graph: Graph, seed: int) -> str:
    """How a program and what it is optimized to differ, at sizes that it takes and at some that it rejects."""
    result = optimized(graph)
    if result is None:
        wrong: Sequence[str] = [str(each) for each in trials(graph, seed) if each.accepted]
        return f"refused, but it runs at {wrong[0]}\n{graph}" if wrong else ""
    if result.report.status == "fallback":
        return f"fallback: {'; '.join(result.report.notes)}\n{graph}"
    found = (compare(graph, result.graph, trial.arrays) for trial in trials(graph, seed))
    return next(filter(None, found), "")


def kinds(graph: Graph, seed: int) -> Mapping[bool, int]:
    """At how many sizes a program runs, and at how many it does not."""
    found = [trial.accepted for trial in trials(graph, seed)]
    return {kind: found.count(kind) for kind in (True, False)}
