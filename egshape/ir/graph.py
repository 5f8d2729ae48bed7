"""The graph: SSA ops over values, in blocks; a region is a block of its own.

A block owns the symbols that its values define: a symbol is the size of an axis of a value, or an element of an
integer value (a data-dependent size). Everything is immutable once built; ``ir.builder`` builds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from egshape.dims import Dim
from egshape.facts import Facts, Relation
from egshape.ir import display
from egshape.ir.types import TensorType

Attr = Any
"""An attribute: str, int, float, bool, None, a tuple of attributes, a Dim, a numpy array (constants only)."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a value or op comes from in the user's program."""

    file: str = ""
    line: int = 0
    column: int = 0
    name: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "") if self.file else ""
        return f"{self.name} ({where})" if self.name and where else self.name or where


NOWHERE = Location()


class Value:
    """An SSA value: a name without the leading %, and a type. Compared by identity."""

    __slots__ = ("name", "type")

    def __init__(self, name: str, type: TensorType) -> None:
        self.name = name
        self.type = type

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


@dataclass(frozen=True, slots=True)
class SymbolDef:
    """What binds a symbol when the graph runs: the size of ``axis`` of ``value``, or the integer that stands at flat
    index ``element`` of ``value``."""

    name: str
    value: Value
    axis: int | None = None
    element: int | None = None
    offset: int = 0
    """Added to the element, so that a possibly negative one (padding) gives a size."""


@dataclass(frozen=True, eq=False, slots=True)
class Op:
    """One operation. ``name`` is a declared op (``egshape.ops``); ``requires`` are relations on sizes on which the
    inferred types rely (an i32 shape computation that must not wrap), to be proved or checked at this place."""

    name: str
    operands: tuple[Value, ...]
    attrs: Mapping[str, Attr]
    results: tuple[Value, ...]
    regions: tuple[Block, ...] = ()
    location: Location = NOWHERE
    requires: tuple[Relation, ...] = ()

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    def captures(self) -> tuple[Value, ...]:
        """What the regions read of the blocks around them, each value once."""
        return tuple(dict.fromkeys(value for region in self.regions for value in region.captures()))

    def reads(self) -> tuple[Value, ...]:
        """What the op reads, the captures of its regions included."""
        return (*self.operands, *self.captures())


@dataclass(frozen=True, eq=False, slots=True)
class Block:
    """A straight line of ops with arguments and results. Ops may read values of enclosing blocks."""

    args: tuple[Value, ...]
    ops: tuple[Op, ...]
    results: tuple[Value, ...]
    symbols: tuple[SymbolDef, ...] = ()
    derived: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)
    """What follows from the rest and was asked before: ``keep``."""

    def keep(self, what: Any, derive: Callable[[], Any]) -> Any:
        """What ``derive`` gives of this block, which never changes; it is asked once."""
        if what not in self.derived:
            self.derived[what] = derive()
        return self.derived[what]

    def walk(self) -> Iterator[Op]:
        """Every op of the block and of the regions inside, in program order."""
        for op in self.ops:
            yield op
            for region in op.regions:
                yield from region.walk()

    def visible(self) -> Iterator[Op]:
        """``walk`` without the regions of ops that go out as one (a composite's ``whole``)."""
        for op in self.ops:
            yield op
            for region in () if op.attrs.get("whole") else op.regions:
                yield from region.visible()

    def captures(self) -> tuple[Value, ...]:
        """Values of enclosing blocks that this block or a region inside reads, in order of first use."""
        defined: set[Value] = set(self.args)
        seen: dict[Value, None] = {}

        def read(value: Value) -> None:
            if value not in defined:
                seen.setdefault(value)

        for op in self.ops:
            for operand in op.operands:
                read(operand)
            for region in op.regions:
                for value in region.captures():
                    read(value)
            defined.update(op.results)
        for value in (*self.results, *(definition.value for definition in self.symbols)):
            read(value)
        return tuple(seen)

    def readers(self) -> Counter[Value]:
        """How often each value is read: by ops, once by each region that reads it, as a result, and as a symbol."""
        read = Counter(value for op in self.ops for value in op.operands)
        read.update(value for op in self.ops for region in op.regions for value in region.captures())
        read.update((*self.results, *(each.value for each in self.symbols)))
        return read


@dataclass(frozen=True, eq=False, slots=True)
class Graph:
    """A model: named inputs and outputs, a body, and the facts that came with it.

    ``metadata`` keeps what a frontend needs to write the model back (format, module attributes, ...).

    Examples:
        >>> import egshape
        >>> from egshape.frontends.builder import Network
        >>> net = Network()
        >>> x = net.input("x", ["n", 4])
        >>> net.graph(y=net.transpose(x, [1, 0]))
        <Graph network: (x: f32[n, 4]) -> (f32[4, n]), 1 ops>
    """

    name: str
    body: Block
    output_names: tuple[str, ...]
    facts: Facts = field(default_factory=Facts)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    functions: tuple[Graph, ...] = ()
    """The other public functions of the model, each a graph of its own; a call of the graph runs none of them."""
    optimized: bool = False
    """Whether it is what ``egshape.optimize`` gave, so that it need not be optimized again."""
    checked: bool = False
    """Whether all that its ops require of sizes is proved, or stands in it as a check; not so where it was left as it
    came."""
    own: Any = None
    """The model of which it was read, for the frontend that reads and writes it (``frontends/onnx/own.py``)."""

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The inputs; a value's name is the input's name."""
        return self.body.args

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values returned, in output order (a value may be returned twice)."""
        return self.body.results

    @property
    def ops(self) -> tuple[Op, ...]:
        """The ops of the body."""
        return self.body.ops

    def annotate(self, value: str, type: str) -> Graph:
        """The graph with checks that a value (an input, an output, ``%name`` inside) has a type such as
        ``f32[n, 4*m]``: see ``egshape.annotate``."""
        found: Graph = display.annotated(self, value, type)
        return found

    def __str__(self) -> str:
        return display.text(self)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{value.name}: {value.type}" for value in self.inputs)
        outputs = ", ".join(str(value.type) for value in self.outputs)
        return f"<{type(self).__name__} {self.name}: ({inputs}) -> ({outputs}), {display.counted(self)}>"

    def _repr_html_(self) -> str:
        return display.html(self)


def blocks_of(block: Block) -> list[Block]:
    """A block and all those of the regions inside, outer ones first."""
    return [block, *(inner for op in block.ops for region in op.regions for inner in blocks_of(region))]


def relation_of(op: Op) -> Relation | None:
    """What a check says of sizes; None of another op, and of a check of data."""
    if op.name != "check" or op.attrs["relation"] == "value":
        return None
    return Relation(op.attrs["relation"], *op.attrs["sides"])


def dims_of(attr: Attr) -> Iterator[Dim]:
    """Every Dim inside an attribute."""
    if isinstance(attr, Dim):
        yield attr
    elif isinstance(attr, tuple):
        for item in attr:
            yield from dims_of(item)
