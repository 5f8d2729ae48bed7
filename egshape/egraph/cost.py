"""The cost model of extraction: bytes moved and arithmetic by kind at the likely sizes, plus a launch for each kernel.

A launch counts as ``LAUNCH`` bytes (about 2 us at 10 GB/s), arithmetic as the bytes that are moved meanwhile. An op
reads its operands and writes its result; a reshape moves nothing; constants and sizes are nearly free. Sizes are taken
at each symbol's likely value: the first one that the facts give, else 64 clipped to its range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from egshape.dims import Dim
from egshape.errors import EgshapeError
from egshape.facts import Facts, Relation
from egshape.facts.intervals import contains
from egshape.facts.store import SymbolFacts
from egshape.ir.builder import small
from egshape.ir.graph import Block, Graph, Op, Value, dims_of
from egshape.ir.types import itemsize
from egshape.ops import REGISTRY
from egshape.ops.base import Registry
from egshape.ops.traits import WEIGHTS, Cost
from egshape.ops.work import steps, weight

LAUNCH = 20_000.0
HOST = 1_000.0
"""An operation on sizes, which needs no kernel: in an attribute, of a check, or of shape code."""
SHAPE_CODE = HOST + 1.0
"""An op of shape code: sizes that are known as such are preferred to it."""

CHECK = 4 * HOST
"""A check beside the operations on its sizes: it compares, and may fail."""

PER_BYTE = 6
"""So many units of ``WEIGHTS`` take as long as a byte (0.1 ns)."""

ROUNDS = 16
"""Assumed rounds of a loop."""

DEFAULT_LIKELY = 64
_PLAIN = Cost()
MAX_BYTES = 1e15
_OWN = {"Node": Cost(fixed=0.0), "Proj": Cost(fixed=0.0)}
"""Constructors of the e-graph's own."""

HEAVY = 10_000.0
"""What a byte of a constant counts where constants would make the file grow: more than any op that computes them."""

LIGHT = 512
"""Constants of up to so many bytes, such as lists of sizes, never count as growth."""


def likely_sizes(facts: Facts, symbols: Sequence[str], free: Mapping[str, int] | None = None) -> dict[str, int]:
    """The size at which each symbol is taken: its first likely value that it may have, else what an equation with such
    sizes alone gives (m of `a*b == m`), else what ``free`` says (64 where it says nothing) clipped to its range, and
    moved to what its divisor leaves."""
    free = free or {}
    equations = _by_equations(facts, symbols)
    out = {}
    for name in symbols:
        expected = _expected(facts.symbol(name))
        if expected is None:
            expected = equations.get(name)
        out[name] = _default(facts.symbol(name), free.get(name, DEFAULT_LIKELY)) if expected is None else expected
    return out


def _expected(known: SymbolFacts) -> int | None:
    """The first likely value that is in the ranges and the residue class."""
    divisor, rest = known.divisor
    return next((each for each in known.likely if each % divisor == rest and contains(known.ranges, each)), None)


def _default(known: SymbolFacts, free: int) -> int:
    low, high = known.ranges[0] if known.ranges else (None, None)
    value = max(free, low or 0)
    value = value if high is None else min(value, high)
    divisor, rest = known.divisor
    near = (value - (value - rest) % divisor, value + (rest - value) % divisor)  # at most it, at least it
    return next((each for each in near if contains(known.ranges, each) and each >= 0), value)


def _by_equations(facts: Facts, symbols: Sequence[str]) -> dict[str, int]:
    """The sizes that equations between symbols give to those without a likely one."""
    wanted = set(symbols)
    known = {each.name: size for each in facts.symbols if (size := _expected(each)) is not None}
    equations = [each for each in facts.relations if each.kind == "=="]
    for _ in equations:  # each round gives a size to one more symbol at least, or ends
        found: dict[str, int] = {}
        for each in equations:
            unknown = each.symbols() - known.keys()
            if len(unknown) == 1 and unknown.isdisjoint(found):
                (name,) = unknown
                size = _solved(each, name, known)
                if size is not None and contains(facts.symbol(name).ranges, size):
                    found[name] = size
        if not found:
            break
        known |= found
    return {name: size for name, size in known.items() if name in wanted}


def _solved(equation: Relation, name: str, known: Mapping[str, int]) -> int | None:
    """The size of a symbol in an equation with no other unknown one that is linear in it, None if there is none."""
    try:
        low, high = ((equation.lhs - equation.rhs).evaluate({**known, name: size}) for size in (0, 1))
        slope = high - low
        size = -low // slope if slope and not low % slope else -1
        return size if size >= 0 and equation.holds({**known, name: size}) else None
    except EgshapeError:
        return None


class CostModel:
    """Costs of e-nodes, and of graphs; sizes are evaluated once each. Costs are whole numbers, so that sums of the same
    ones are equal in any order."""

    def __init__(self, likely: Mapping[str, int], registry: Registry = REGISTRY) -> None:
        self._likely = likely
        self._registry = registry
        self._costs: dict[str, Cost] = {**_OWN, **{decl.name: decl.traits.cost for decl in registry if not decl.custom}}
        self._sizes: dict[int, float] = {}

    def size(self, dim: Dim) -> float:
        """A size at the likely values; unknown symbols count 64, an undefined size too."""
        known = self._sizes.get(dim.id)
        if known is None:
            env = {name: self._likely.get(name, DEFAULT_LIKELY) for name in dim.symbols()}
            try:
                known = float(min(max(dim.evaluate(env), 0), MAX_BYTES))
            except EgshapeError:
                known = float(DEFAULT_LIKELY)
            self._sizes[dim.id] = known
        return known

    def bytes(self, dtype: str, shape: Sequence[Dim]) -> float:
        """Bytes of a tensor at the likely sizes."""
        total = float(itemsize(dtype))
        for dim in shape:
            total *= self.size(dim)
        return min(total, MAX_BYTES)

    def node(self, function: str, written: float, read: float, work: float = 0.0) -> float:
        """Cost of one e-node that writes and reads so many bytes, and computes what takes as long as ``work`` bytes."""
        cost = self._costs.get(function, _PLAIN)
        if cost.fixed is not None:
            return cost.fixed
        if cost.reads == "operands":
            return LAUNCH + written + read + work
        moved = written if cost.reads == "nothing" else 2.0 * written * cost.strided
        return LAUNCH + moved + work

    def small(self, function: str) -> float:
        """Cost of one e-node of shape code, which reads and writes a few integers."""
        return min(SHAPE_CODE, self.node(function, 0.0, 0.0))

    def elementwise(self, function: str, dtype: str, written: float) -> float:
        """What a function of elements computes, as bytes, where its result has so many."""
        decl = self._registry[function.partition(".")[0]]
        return float(WEIGHTS[decl.traits.effort] * written // (PER_BYTE * itemsize(dtype)))

    def work(self, op: Op) -> float:
        """What an op computes, as bytes; of one whose regions are programs what these cost, of branches the dearest."""
        decl = self._registry[op.name]
        if not decl.nested:
            each = weight(op, self._registry)
            return min(each * steps(op, self._registry).at(self.size) // PER_BYTE, MAX_BYTES) if each else 0.0
        if op.attrs.get("whole"):  # one kernel
            return sum(self.work(inner) for region in op.regions for inner in region.ops)
        every = [self.block(region) for region in op.regions]
        if decl.traits.regions == "branch":
            return max(every, default=0.0)
        return min((ROUNDS if decl.traits.regions == "loop" else 1) * sum(every), MAX_BYTES)

    def op(self, op: Op) -> float:
        """Cost of an op of a graph, as that of its e-node; of a check nothing, see ``checks``."""
        if op.name == "check":
            return 0.0
        if all(small(value.type) for value in (*op.operands, *op.results)):
            return self.small(op.name)
        written = self._moved(op.results)
        return self.node(op.name, written, self._moved(dict.fromkeys(op.operands)), self.work(op))

    def block(self, block: Block) -> float:
        """Cost of all ops of a block, those of their regions too."""
        return sum(map(self.op, block.ops))

    def graph(self, graph: Graph) -> float:
        """Cost of a graph: its ops, and each operation on sizes that their attributes need, once."""
        return self.block(graph.body) + HOST * _operations(op for op in graph.body.walk() if op.name != "check")

    def checks(self, graph: Graph) -> float:
        """Cost of the checks of a graph, which an op may make by itself that needs what they say."""
        every = list(graph.body.walk())
        others = [op for op in every if op.name != "check"]
        return CHECK * (len(every) - len(others)) + HOST * (_operations(every) - _operations(others))

    def _moved(self, values: Iterable[Value]) -> float:
        types = (value.type for value in values)
        return sum(self.bytes(type.dtype, type.shape or ()) for type in types)


def _operations(ops: Iterable[Op]) -> int:
    """How many different operations on sizes the attributes of ops need."""
    dims = {dim for op in ops for attr in op.attrs.values() for dim in dims_of(attr) if dim.const is None}
    seen, stack, count = set(dims), list(dims), 0
    while stack:
        dim = stack.pop()
        factors = sum(len(monomial) + (coefficient not in (1, -1)) for monomial, coefficient in dim.terms)
        count += factors - 1  # n terms need n - 1 sums, and m factors of each m - 1 products
        for atom in dim.atoms():
            inner = [each for each in atom.args if each not in seen and each.const is None]
            count += bool(atom.args)
            seen.update(inner)
            stack += inner
    return count
