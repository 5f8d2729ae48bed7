"""Load a block into the engine, walk its obligations, and saturate: phase 1 sizes, phase 2 tensors with the exchange."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from egshape.dims import Dim, const
from egshape.egraph.encode import Encoder, Encoding
from egshape.egraph.engine import POOL, Budget, Engine, Phase, Piece, Snapshot
from egshape.egraph.host import Host
from egshape.egraph.obligations import Obligation, Walk, read_obligations
from egshape.egraph.rules import LoadedRules, load_rulesets
from egshape.egraph.schema import MAX_RANK, declarations, load_rules
from egshape.ir.graph import Block, Value
from egshape.ir.types import numpy_dtype
from egshape.ops import REGISTRY
from egshape.ops.base import Registry

TENSOR_RULESETS = ("tensor.types", "tensor.reshape", "tensor.transpose", "tensor.broadcast", "tensor.slice",
                   "tensor.neutral")
FUEL = 6
"""How many elementwise ops a reshape, transpose or broadcast may be moved below (ends the hoisting rules)."""

MAX_ROUNDS = 12


@dataclass(frozen=True, slots=True)
class Program:
    """The engine's program: all pieces, and the rules in it."""

    pieces: tuple[Piece, ...]
    rules: LoadedRules
    phases: tuple[str, ...]


@lru_cache(maxsize=8)
def program(extra: tuple[str, ...] = (), explain: bool = True) -> Program:
    """The shipped rulesets and ``extra`` rule files as one program. Raises EgshapeError for a wrong file."""
    loaded = load_rulesets(("shape.dim", "shape.obligations", *TENSOR_RULESETS, *extra), instrument=explain,
                           preludes={"prelude.tensor": declarations(REGISTRY)})
    load = tuple(Piece(text, "<load rules>") for text in load_rules(REGISTRY))
    own = tuple(name for name in loaded.names() if not name.startswith(("shape.", "prelude.")))
    return Program((*loaded.pieces, *load), loaded, own)


@dataclass
class Saturated:
    """What came out of the engine for one block."""

    snapshot: Snapshot
    encoding: Encoding
    host: Host
    status: str
    nodes: int
    matches: Mapping[str, int]
    seconds_by_rule: Mapping[str, float]
    grew_most: str


class Session:
    """One block in one scope of an engine."""

    def __init__(self, engine: Engine, block: Block, registry: Registry, normal: Callable[[Dim], Dim]) -> None:
        self.engine = engine
        self.block = block
        self.registry = registry
        self.encoder = Encoder(registry)
        self.host = Host(self.encoder, registry, normal)
        self.matches: Counter[str] = Counter()

    def load(self) -> list[Obligation]:
        """Load the block and give the obligations of its ops, in program order."""
        zero, one = const(0), const(1)
        self.encoder.block(self.block)
        tables = self.encoder.out.tables
        tables["axis"] += [(k,) for k in range(MAX_RANK)]
        for rank in range(MAX_RANK + 1):
            tables["in_unit"].append((rank, self.encoder.shape((zero,) * rank), self.encoder.shape((one,) * rank)))
        for table in ("in_broadcast_in_dim", "in_transpose", "in_reshape"):
            tables["in_fuel"] += [(row[0], FUEL) for row in tables[table]]
        self._flush()
        self.engine.step("shape.obligations")
        return read_obligations(self.engine, self.encoder.out.dims)

    def _flush(self) -> None:
        """Hand all pending rows to the engine and turn them into terms."""
        tables = self.encoder.out.tables
        pending = {name: rows for name, rows in tables.items() if rows}
        if not pending:
            return
        for name, rows in pending.items():
            self.engine.load_table(name, rows)
        tables.clear()
        self.engine.step("load")
        self.engine.step("prelude.shape")

    def believe(self, walk: Walk) -> None:
        """Phase 1's result: sizes in normal form are equal, shape tensors are their elements."""
        tables = self.encoder.out.tables
        normal = self.host.normal
        for dim in list(self.encoder.out.dims.values()):
            reduced = normal(dim)
            if reduced is not dim:
                self.encoder.know(reduced)
                tables["in_eq"].append((dim.id, reduced.id))
        for value, elements in walk.elements.items():
            node = self.encoder.out.node_of.get(value)
            if node is not None:
                self._elements(node, value, elements)
        self._flush()

    def _elements(self, node: int, value: Value, elements: np.ndarray) -> None:
        flat, dtype = list(elements.reshape(-1)), value.type.dtype
        static = tuple(elements.shape)
        tables = self.encoder.out.tables
        if all(isinstance(item, bool) for item in flat):
            number = self.encoder.constant(np.array(flat, np.bool_).reshape(static), "i1")
            tables["in_constant"].append((node, number))
            return
        if not all(isinstance(item, Dim) for item in flat) or len(flat) > MAX_RANK or dtype == "i1":
            return
        sizes = tuple(self.host.normal(item) for item in flat)
        tables["in_dims_of"].append((node, self.encoder.shape(sizes), self.encoder.axes(static), dtype))
        numbers = [size.const for size in sizes]
        if all(number is not None for number in numbers):
            array = np.array(numbers, dtype=object).astype(np.int64).astype(numpy_dtype(dtype)).reshape(static)
            tables["in_constant"].append((node, self.encoder.constant(array, dtype)))

    def saturate(self, phases: Sequence[str], budget: Budget) -> Saturated:
        """Run the tensor rulesets and the exchange in turn until neither has anything new."""
        deadline = budget.until()
        limited = Budget(nodes=budget.nodes, memory_mb=budget.memory_mb, deadline=deadline)
        status, grew = "saturated", ""
        seconds: defaultdict[str, float] = defaultdict(float)
        snapshot = self.engine.read()
        self.host.round(snapshot, self.encoder.out.tables)
        for _ in range(MAX_ROUNDS):
            self._flush()
            run = self.engine.saturate([Phase(name, 1) for name in phases], limited)
            self.matches.update(run.matches)
            for step in run.growth:
                seconds[step.rule] += step.seconds
            grew = run.grew_most or grew
            snapshot = self.engine.read()
            if run.status == "budget" or time.monotonic() > deadline:
                status = "budget"
                break
            self.host.round(snapshot, self.encoder.out.tables)
            if not any(self.encoder.out.tables.values()):
                break
        return Saturated(snapshot, self.encoder.out, self.host, status, self.engine.size(), dict(self.matches),
                         dict(seconds), grew)


@contextmanager
def session(prog: Program, block: Block, registry: Registry, normal: Callable[[Dim], Dim]) -> Iterator[Session]:
    """A session on a pooled engine that is given back at the end."""
    with POOL.lend(prog.pieces) as engine:
        yield Session(engine, block, registry, normal)

