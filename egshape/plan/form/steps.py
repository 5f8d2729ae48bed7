"""What every part of planning writes with: steps, buffers, loops around stores, and what reading a value costs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from egshape.dims import Dim, Relu, product, relu, symbol
from egshape.dims.core import is_nonnegative, is_positive
from egshape.errors import Unsupported
from egshape.facts import Relation
from egshape.ir.calls import substitute
from egshape.ir.graph import Block, Graph, Op, SymbolDef, Value
from egshape.ops import REGISTRY
from egshape.ops.traits import Effort
from egshape.plan.analysis.conditions import may_run
from egshape.plan.analysis.elements import ZERO, Indices, is_elementwise, place
from egshape.plan.form.collapse import collapsed
from egshape.plan.form.epilogue import Readers
from egshape.plan.form.movement import READERS
from egshape.plan.form.predicate_split import split_predicates
from egshape.plan.form.reader import Reader
from egshape.plan.form.tiles import tiled
from egshape.plan.ir.loops import Buffer, Kernel, Loop, Stmt, Store, linear
from egshape.plan.ir.program import CheckSizes, Copy, Run, Step
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import dims

_EFFORT: Mapping[Effort, int] = {"light": 1, "division": 3, "function": 8}
_FREE = frozenset(("constant", "iota", "dims", "get_dimension_size"))


class Cluster(Protocol):
    """Ops that are planned together, where the last of them stands."""

    @property
    def ops(self) -> tuple[Op, ...]:
        """In order."""

    def emit(self, p: Steps) -> None:
        """Add the kernels."""


Find = Callable[["Steps", Block, int, Readers, Collection[Op], Collection[Value]], Cluster]
"""The cluster of the product at a place of a block: of which op reads what, of ops and values that others took."""


@dataclass(frozen=True)
class Target:
    """What a plan asks of the machine that it is made for, beyond loops: the planner tests nothing else.
    ``plan/targets.py`` names the machines that there are."""

    in_order: bool
    """Whether a thread runs the rounds of a nest in order, and a nest may be cut into pieces; else the rounds of all
    loops around an element run at the same time."""
    moves_memory: bool
    """Whether results may lie where an input lies that is given away, and a loop may exchange memory from round to
    round."""
    is_product: Callable[[Steps, Op], bool]
    """Whether an op is computed as a product."""
    product: Find
    """The cluster of a product, or of the attention that begins with it."""
    widening: Callable[[Block], Iterable[Op]]
    """Ops that widen bytes which products read as they are."""
    laid_out: Callable[[Graph], Graph]
    """The graph with the layouts that products want."""
    functions: Callable[[Graph], Graph]
    """The graph with functions of its own in the place of formulas for them."""
    recurrences: Callable[[Steps, Block], Iterable[Cluster]]
    """Loops of a block that are planned as kernels, with what is planned with them."""
    in_parts: bool = False
    """Whether a program on many images is run on some of them after the others."""
    tiles: Collection[str] = ()
    """The floats whose products are best made of bf16, which it multiplies by tiles."""
    widens: bool = False
    """Whether f16 are widened so fast that products best read constants of f16 as they are."""


class Steps(Reader, ABC):
    """Collects the steps of a program that runs on ``target``."""

    def __init__(self, graph: Graph, target: Target, facts: str = "all") -> None:
        super().__init__(READERS, facts)
        self.graph = graph
        self.target = target
        self.steps: list[Step] = []
        self.definitions: dict[Value, list[SymbolDef]] = {}
        self.costs: dict[Value, tuple[int, int]] = {}
        self.outputs: dict[Value, Buffer] = {}
        self.readers: dict[Block, Readers] = {}
        self.clusters: dict[Op, Cluster] = {}
        self.packed: dict[tuple[object, ...], Buffer] = {}
        """Constant right operands of products in panels."""
        self.appended: dict[Op, Buffer] = {}
        """Concatenations that append to what a loop carries, whose size is a symbol of its own."""
        self.donated: dict[Value, Buffer] = {}
        """Inputs that are given back changed, and the buffers of the outputs (plan/form/donated.py)."""
        self.waiting: set[Value] = set()
        """Results of row kernels that are not written yet."""
        self.buffer_names: Counter[str] = Counter()
        self.position = graph.body, 0
        """The op that is planned now: its block and its number there."""

    @abstractmethod
    def block(self, block: Block) -> None:
        """Plan the ops of a block in order."""

    def check(self, step: CheckSizes) -> None:
        """Add a check unless the sizes show by their form that it holds, or it follows from earlier ones."""
        gap = step.rhs - step.lhs
        if (step.relation == "==" and gap is ZERO) or (step.relation == "<=" and _never_below(gap)):
            return
        if step.relation in ("<", "!=") and is_positive(gap):
            return
        relation = Relation(step.relation, step.lhs, step.rhs)
        if not self.known.implies(relation):
            self.steps.append(step)
            self.known.checked(relation)

    def settled(self, block: Block, entry: Container[str] | None = None) -> Block:
        """A block with what is checked to be equal to other sizes that are known where it begins in its place, or, of
        the graph itself, to sizes of the inputs."""
        same = {
            name: size
            for name, size in self.known.same().items()
            if entry is None or all(each in entry for each in (name, *size.symbols()))
        }
        if not same:
            return block
        left = tuple(each for each in block.symbols if each.name not in same)
        found = substitute(replace(block, symbols=left), {}, sizes=same)
        # an op that is refused at all such sizes is planned for others: what is checked before it ends the program
        return found if all(map(may_run, found.walk())) else block

    # -- buffers --------------------------------------------------------------------------------------------------

    def new_buffer(self, value: Value) -> Buffer:
        """The buffer that a value is going to be written to; it is where the value lies from now on."""
        if value in self.outputs:
            return self.outputs[value]
        return self.scratch(value.name, value.type.dtype, product(sizes_of(value)))

    def scratch(self, name: str, dtype: str, size: Dim) -> Buffer:
        """A buffer of the program's own."""
        self.buffer_names[name] += 1
        return Buffer(f"{name}.{self.buffer_names[name]}", dtype, size, "temp")

    def buffer(self, value: Value) -> Buffer:
        """The buffer of a value, which is computed now if it has none."""
        value = self.resolved(value)
        if value not in self.places:
            op = self.producers[value]
            if op.name == "constant":
                return self.constant(op)
            inner = self.resolved(op.operands[0]) if op.name == "reshape" and value not in self.outputs else None
            if inner is not None and (inner in self.places or self.arrays.of(inner) is not None):
                self.places[value] = self.buffer(inner)
            elif value not in self.outputs and self.arrays.of(value) is not None:
                self.places[value] = self.folded(value)
            else:
                target = self.new_buffer(value)
                self.store(value, target)
                self.places[value] = target
        return self.places[value]

    def store(self, value: Value, target: Buffer) -> None:
        """Write a value to a buffer."""
        value = self.resolved(value)
        sizes = sizes_of(value)
        if value in self.places:
            self.steps.append(Copy(self.places[value], target))
            return
        self.start()
        at, wrap = self.nest(sizes)
        self.elements(value, target, wrap([Store(target, linear(at, sizes), self.read(value, at))]))

    def elements(self, value: Value, target: Buffer, nest: Sequence[Stmt]) -> None:
        """Add the loops that store each element of a value once."""
        op = self.producers[value]
        pieces = self.known.forms and self.target.in_order  # a thread of a GPU has its own test, a block its tile
        for part in collapsed(split_predicates(nest)) if pieces else nest:
            self.run(op.name, (tiled(part) if pieces else part,), (target,), once=True, where=place(op))

    def nest(self, sizes: Sequence[Dim]) -> tuple[Indices, _Wrap]:
        """Loop indices over the sizes, and what puts statements into these loops; 0 along what always is 1, as a reader
        of it says."""
        names = [None if self.known.is_one(size) else self.name("i") for size in sizes]
        at = tuple(ZERO if name is None else symbol(name) for name in names)
        return at, _Wrap(tuple((name, size) for name, size in zip(names, sizes, strict=True) if name is not None))

    def run(
        self,
        label: str,
        body: Sequence[Stmt],
        outputs: tuple[Buffer, ...],
        private: tuple[Buffer, ...] = (),
        once: bool = False,
        where: str = "",
    ) -> None:
        """Add a kernel; ``private``: scratch that each iteration of its outer loops writes before it reads; ``once``:
        each element of the outputs is stored by one of these iterations; ``where``: the op that it computes, if that
        is not the one that is planned now."""
        same = Moved(self.known.same()).body(tuple(body))
        merged = collapsed(same) if self.known.forms else same
        names = {name for dim in dims(merged) for name in dim.symbols()}
        block, number = self.position
        where = where or (place(block.ops[number]) if block.ops else "")
        self.steps.append(Run(Kernel(label, merged, outputs, private, once, self.known.bounds(sorted(names)), where)))

    def cost(self, value: Value) -> tuple[int, int]:
        """Work to read an element of a value, and the number of ops in its expression."""
        value = self.resolved(value)
        if value in self.places:
            return 0, 0
        if value not in self.costs:
            op = self.producers[value]
            inner = [self.cost(x) for x in op.operands]
            own = _EFFORT[REGISTRY[op.name].traits.effort] if is_elementwise(op) else 0
            own += 2 if op.name in ("gather", "dynamic_slice", "dynamic_update_slice") else 0
            self.costs[value] = own + sum(c for c, _ in inner), (op.name not in _FREE) + sum(t for _, t in inner)
        return self.costs[value]

    @contextmanager
    def branch(self) -> Iterator[list[Step]]:
        """Collect steps that may not run: what gets a buffer inside has none outside."""
        steps, places, costs, known = self.steps, dict(self.places), dict(self.costs), self.known
        self.steps, self.known = [], known.copy()
        yield self.steps
        self.steps, self.places, self.costs, self.known = steps, places, costs, known


class _Wrap:
    """Puts statements into a nest of loops."""

    def __init__(self, loops: tuple[tuple[str, Dim], ...]) -> None:
        self.loops = loops

    def __call__(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        for name, size in reversed(self.loops):
            body = (Loop(name, size, tuple(body)),)
        return tuple(body)


def sizes_of(value: Value) -> tuple[Dim, ...]:
    """The sizes of a value. Raises Unsupported for one of no rank, or of complex numbers."""
    if value.type.shape is None:
        raise Unsupported(
            f"%{value.name} has no rank, native code needs one",
            where=f"%{value.name}",
            hint="the target 'interpret' runs it",
        )
    if value.type.dtype in ("c64", "c128"):
        raise Unsupported(
            f"complex numbers ({value.type}) are not compiled",
            where=f"%{value.name}",
            hint="the target 'interpret' runs it",
        )
    return value.type.shape


def _never_below(gap: Dim) -> bool:
    """Whether the form of a difference shows that it is not negative, or that of both parts where it is a minimum."""
    if is_nonnegative(gap):
        return True
    for mono, factor in gap.terms:
        if factor == -1 and len(mono) == 1 and isinstance(mono[0][0], Relu) and mono[0][1] == 1:
            rest = gap + relu(mono[0][0].arg)
            return is_nonnegative(rest) and is_nonnegative(rest - mono[0][0].arg)
    return False
