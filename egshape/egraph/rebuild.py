"""Turn the chosen e-nodes back into a block.

Order of the result: first the kept checks on sizes known at entry, in program order, so that every op stands after all
facts that its rewriting may have used; then checks on data and effects, each after just what it needs; then outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np

from egshape.dims import Dim, const, is_nonnegative
from egshape.dims import symbol as dim_of
from egshape.egraph.effects import is_opaque_effect
from egshape.egraph.encode import Call, Encoding, attribute
from egshape.egraph.extract import Extraction
from egshape.egraph.obligations import Check
from egshape.ir.functions import function_parts
from egshape.ir.graph import NOWHERE, Block, Location, Op, SymbolDef, Value
from egshape.ir.types import TensorType
from egshape.limits import tick
from egshape.ops.base import Registry
from egshape.rulelang.provenance import NAME_STRIDE
from egshape.rulelang.schema import constructor

SPLAT_LIMIT = 1 << 14
"""A static broadcast of a scalar constant with at most this many elements is written as one constant."""

RegionRebuilder = Callable[[Op, Block, Mapping[Value, Value]], Block]


class Names:
    """A supply of names, each given once."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    def take(self, names: Iterable[str]) -> None:
        """These names are given elsewhere."""
        self._taken.update(names)

    def release(self, names: Iterable[str]) -> None:
        """What had these names is made anew."""
        for name in names:
            del self._taken[name]

    def fresh(self, wanted: str) -> str:
        """The name that is wanted, with a number behind it where it is taken."""
        self._taken[wanted] += 1
        times = self._taken[wanted]
        return wanted if times == 1 else self.fresh(f"{wanted}_{times}")


class Rebuilder:
    """Rebuilds one block from an extraction."""

    def __init__(
        self,
        block: Block,
        extraction: Extraction,
        registry: Registry,
        captured: Mapping[Value, Value],
        regions: RegionRebuilder,
        fresh: Callable[[str], str],
        elements: Mapping[Value, np.ndarray],
        same: Mapping[str, Dim],
        outside: Callable[[Dim], Dim] | None = None,
        refine_signature: bool = False,
    ) -> None:
        self.block = block
        self.extraction = extraction
        self.terms = extraction.terms
        self.encoding: Encoding = self.terms.encoding
        self.registry = registry
        self.normal = self.terms.normal
        self.regions = regions
        self._elements = elements
        self._same = same
        self._own_symbols: dict[Value, frozenset[str]] = {}
        for symbol in block.symbols:
            if symbol.axis is not None:
                known = self._own_symbols.get(symbol.value, frozenset())
                self._own_symbols[symbol.value] = known | {symbol.name}
        self.args = tuple(
            Value(arg.name, self._refined(arg.type) if refine_signature else arg.type) for arg in block.args
        )
        self._of_leaf: dict[Value, Value] = {**captured, **dict(zip(block.args, self.args, strict=True))}
        self._built: dict[int, Value] = {}
        self._calls: dict[int, tuple[Value, ...]] = {}
        self._written: set[tuple[int, tuple[int, ...]]] = set()
        """Calls, by number and what they read."""
        self._as_they_came: set[Op] = set()
        self._made: dict[Value, Value] = {}
        """Results of calls, read or not: each keeps the symbols that its axes define."""
        self._ops: list[Op] = []
        self._name = fresh
        self._uses: Counter[int] = Counter()
        self._first = self._first_values()
        self._returned = (
            {self.terms.class_of(value): self._seen_outside(value.type, outside) for value in block.results}
            if outside is not None
            else {}
        )
        self._name_of = self.terms.snapshot.mapping("nm")

    def _refined(self, type: TensorType) -> TensorType:
        """The type with the sizes that became numbers."""
        if type.shape is None:
            return type
        forms = [(dim, self.normal(dim)) for dim in type.shape]
        return TensorType(type.dtype, tuple(form if form.const is not None else dim for dim, form in forms))

    def _first_values(self) -> dict[int, int]:
        """The first node with a value of each class: it gives the class its name and location."""
        first: dict[int, int] = {}
        for node, cls in self.terms.class_of_node.items():
            if self.encoding.values[node] is not None and node < first.get(cls, 1 << 60):
                first[cls] = node
        return first

    # -- the whole block -----------------------------------------------------------------------------------------

    def run(self, checks: Sequence[Check], effects: Sequence[tuple[int, Op]]) -> Block:
        """The rebuilt block. ``checks`` are those kept, ``effects`` ops that must stay, with their index."""
        for cls in self.extraction.used():
            self._uses.update(self.extraction.chosen[cls].reads)
        self._uses.update(self.extraction.roots)
        entry = [check for check in checks if check.entry and check.relation is not None]
        ordered: list[tuple[int, Check | Op]] = [(check.index, check) for check in checks if check not in entry]
        ordered += effects
        for check in entry:
            self._check(check)
        for _, each in sorted(ordered, key=lambda pair: pair[0]):
            if isinstance(each, Check):
                self._check(each)
            elif is_opaque_effect(each, self.registry):
                if not any(self.terms.class_of(value) in self._built for value in each.results):
                    self._effect(each)
            else:
                self.value(self.terms.class_of(each.results[0]))
                if not self._stands(each):  # what it gives is taken from elsewhere
                    self._effect(each)
        results = tuple(self.value(self.terms.class_of(value)) for value in self.block.results)
        self._unused_sizes()
        return Block(self.args, tuple(self._ops), results, self._symbols())

    def standing(self) -> dict[Value, Value]:
        """What the rebuilt block computes in the place of each value of the original one."""
        found = ((value, self._built.get(self.terms.class_of(value))) for value in self.encoding.node_of)
        return {value: new for value, new in found if new is not None}

    def _unused_sizes(self) -> None:
        """A size that data gives must not be negative, also where the op that asked for it is gone: that is sure of the
        size of an axis only, or of one that comes of the same data, not of one that is an element or that a check or a
        sum speaks of."""
        axes = {dim for op in self._ops for value in op.results for dim in value.type.shape or ()}
        asked = [
            each for each in self.block.symbols if each.element is not None and each.value in self.encoding.node_of
        ]
        used = {self._bound(symbol) for symbol in asked if dim_of(symbol.name) in axes}
        tied = set(self._tied())
        for symbol in asked:
            if self._bound(symbol) in used or self._same.get(symbol.name) in axes or dim_of(symbol.name) in tied:
                continue
            assert symbol.element is not None
            if self._is_size(symbol.value, symbol.element, symbol.offset):
                continue
            self.value(self.terms.class_of(symbol.value))
            attrs = {
                "relation": "<=",
                "sides": (const(0), dim_of(symbol.name)),
                "args": (),
                "message": f"the size {symbol.name} is negative",
                "fact": "",
            }
            self._ops.append(Op("check", (), attrs, (), (), NOWHERE))

    def _tied(self) -> Iterator[Dim]:
        """What kept checks say to be equal to sizes of axes of arguments."""
        given = {
            symbol.name for symbol in self.block.symbols if symbol.axis is not None and symbol.value in self.block.args
        }
        for op in self._ops:
            if op.name == "check" and op.attrs["relation"] == "==":
                for one, two in permutations(op.attrs["sides"]):
                    if two.symbols() <= given and is_nonnegative(two):
                        yield one

    def _bound(self, symbol: SymbolDef) -> tuple[int, int | None, int]:
        """What a symbol stands for, the same for all that stand for one element."""
        return self.terms.class_of(symbol.value), symbol.element, symbol.offset

    def _is_size(self, value: Value, element: int, offset: int) -> bool:
        """True for an offset element, which cannot be negative, and one that is a known size."""
        return bool(offset) or value in self._elements

    def _symbols(self) -> tuple[SymbolDef, ...]:
        """The symbols of the arguments, and those defined by values that the block still computes."""
        out = []
        for symbol in self.block.symbols:
            if symbol.value in self._of_leaf:
                out.append(replace(symbol, value=self._of_leaf[symbol.value]))
                continue
            node = self.encoding.node_of.get(symbol.value)
            value = None if node is None else self._built.get(self.terms.class_of_node[node])
            value = self._made.get(symbol.value, value)
            if value is not None:
                out.append(replace(symbol, value=value))
        return tuple(out)

    def _check(self, check: Check) -> None:
        if check.relation is None:
            assert check.op is not None
            operands = tuple(self.value(self.terms.class_of(value)) for value in check.op.operands)
            self._ops.append(replace(check.op, operands=operands))
            return
        sides = (check.relation.lhs, check.relation.rhs)
        for cls in self.terms.size_reads(sides):
            self.value(cls)
        attrs = {
            "relation": check.relation.kind,
            "sides": sides,
            "message": check.message,
            "args": check.args,
            "fact": check.fact,
        }
        location = check.op.location if check.op is not None else Location(name=check.location)
        self._ops.append(Op("check", (), attrs, (), (), location))

    def _stands(self, op: Op) -> bool:
        """Whether control flow, or an op that is equal to it, was written; of another op, whether it was itself."""
        if op not in self.encoding.call_of:
            return op in self._as_they_came
        return (self.encoding.call_of[op], tuple(map(self.terms.class_of, op.reads()))) in self._written

    def _effect(self, op: Op) -> None:
        self._as_they_came.add(op)
        for cls in self.terms.held_reads(op):
            self.value(cls)
        operands = tuple(self.value(self.terms.class_of(value)) for value in op.operands)
        results = []
        for value in op.results:
            new = self._result(value, self._name(value.name))
            results.append(new)
            self._built.setdefault(self.terms.class_of(value), new)
        captured = {value: self.value(self.terms.class_of(value)) for value in op.captures()}
        regions = tuple(self.regions(op, region, captured) for region in op.regions)
        self._ops.append(replace(op, operands=operands, results=tuple(results), regions=regions))

    def _result(self, value: Value, name: str) -> Value:
        """A new value for the result of a call; an axis that defines a symbol keeps it."""
        type = value.type
        if type.shape is None:
            return Value(name, type)
        own = self._own_symbols.get(value, frozenset())
        dims = tuple(dim if dim.symbols() & own else self.normal(dim) for dim in type.shape)
        return Value(name, TensorType(type.dtype, dims))

    # -- values --------------------------------------------------------------------------------------------------

    def value(self, cls: int) -> Value:
        """The value of a class, built with all that it reads (without recursion: graphs are deep)."""
        stack = [cls]
        while stack:
            tick()
            top = stack[-1]
            if self._done(top):
                stack.pop()
                continue
            waiting = [read for read in self._needs(top) if not self._done(read)]
            if waiting:
                stack.extend(reversed(waiting))
            else:
                stack.pop()
                self._build(top)
        return self._built[cls]

    def _done(self, cls: int) -> bool:
        return cls in self._built or cls in self._calls

    def _needs(self, cls: int) -> tuple[int, ...]:
        chosen = self.extraction.chosen[cls]
        if chosen.node.function == "concatenate":
            items, _ = self._pieces(cls)
            return tuple(items)
        return () if self._splat(cls) is not None else chosen.reads

    def _pieces(self, cls: int) -> tuple[list[int], int]:
        """The operands of a concatenation, with inner ones on the same axis that nobody else reads taken apart.

        One that stands twice in a concatenation is read twice: apart, a chain of such ones would double each time."""
        items, dim = self.extraction.chosen[cls].node.args
        out: list[int] = []
        first = self.terms.items(items)
        repeated = {item for item, times in Counter(first).items() if times > 1}
        stack = list(reversed(first))
        while stack:
            item = stack.pop()
            inner = self.extraction.chosen[item].node
            if (
                inner.function == "concatenate"
                and inner.args[1] == dim
                and self._uses[item] == 1
                and item not in repeated
            ):
                parts = self.terms.items(inner.args[0])
                repeated |= {part for part, times in Counter(parts).items() if times > 1}
                stack.extend(reversed(parts))
            else:
                out.append(item)
        return out, dim

    def _build(self, cls: int) -> None:
        node = self.extraction.chosen[cls].node
        name, args = node.function, node.args
        if name == "Node":
            value = self.encoding.values[args[0]]
            assert value is not None
            if value in self._of_leaf:
                self._built[cls] = self._of_leaf[value]
            else:
                self._effect(self.encoding.op_of_node[args[0]][1])
        elif name == "Call":
            read, sizes = self.terms.items(args[1]), self.terms.shape(args[2])
            self._call(cls, self.encoding.calls[args[0]], read, sizes)
            self._written.add((args[0], tuple(read)))
        elif name == "Proj":
            self._built[cls] = self._calls[args[0]][args[1]]
        elif name in ("Unary", "Binary", "Ternary"):
            op, attrs = function_parts(args[0], self.registry)
            self._emit(cls, op, [self._built[arg] for arg in args[1:]], attrs)
        elif name == "concatenate":
            items, dim = self._pieces(cls)
            self._emit(cls, name, [self._built[item] for item in items], {"dim": dim})
        elif (splat := self._splat(cls)) is not None:
            self._emit(cls, "constant", [], {"value": splat})
        else:
            self._own(cls, name, args)

    def _own(self, cls: int, name: str, args: Sequence[Any]) -> None:
        decl = self.registry[name]
        form = constructor(decl)
        operands: list[Value] = []
        for sort, arg in zip(form.operands, args, strict=False):
            if sort == "T":
                operands.append(self._built[arg])
            else:
                operands += [self._built[item] for item in self.terms.items(arg)]
        attrs = {}
        for attr, arg in zip(decl.attrs, args[len(form.operands) :], strict=True):
            attrs[attr.name] = attribute(self.encoding, self.terms.shape, name, attr.kind, arg)
        self._emit(cls, name, operands, attrs)

    def _splat(self, cls: int) -> np.ndarray | None:
        """The array of a static broadcast of a scalar constant, None for anything else."""
        node = self.extraction.chosen[cls].node
        if node.function != "broadcast_in_dim":
            return None
        scalar = self.extraction.chosen[node.args[0]].node
        if scalar.function != "constant" or self.encoding.constants[scalar.args[0]].shape:
            return None
        sizes = [dim.const for dim in self._type(cls).dims]
        if any(size is None for size in sizes):
            return None
        static = [size for size in sizes if size is not None]
        if np.prod(static, dtype=float) > SPLAT_LIMIT:
            return None
        return np.full(static, self.encoding.constants[scalar.args[0]])

    def _seen_outside(self, type: TensorType, outside: Callable[[Dim], Dim]) -> TensorType:
        """A region's result has the type that it has outside, where the region's own facts do not hold."""
        return type if type.shape is None else TensorType(type.dtype, tuple(map(outside, type.shape)))

    def _type(self, cls: int) -> TensorType:
        if cls in self._returned:
            return self._returned[cls]
        terms = self.terms
        return TensorType(terms.dtype_of[cls], terms.shape(terms.shape_of[cls]))

    def _emit(self, cls: int, name: str, operands: Sequence[Value], attrs: Mapping[str, Any]) -> None:
        value = Value(self._label(cls), self._type(cls))
        self._built[cls] = value
        self._ops.append(Op(name, tuple(operands), dict(attrs), (value,), (), self._location(cls)))

    def _call(self, cls: int, call: Call, items: Sequence[int], sizes: Sequence[Dim]) -> None:
        op = self._original(cls, call) or call.op  # ops that are equal but for their operands are one to encode
        values = [self._built[item] for item in items]
        count = len(values) - call.captures
        attrs = dict(op.attrs)
        place = 0
        for name, length in zip(call.sizes, call.lengths, strict=True):
            attrs[name] = tuple(sizes[place : place + length])
            place += length
        captured = dict(zip(op.captures(), values[count:], strict=True))
        regions = tuple(self.regions(op, region, captured) for region in op.regions)
        named = len(op.results) == 1 and cls in self._first
        results = tuple(
            self._result(value, self._label(cls) if named else self._name(value.name)) for value in op.results
        )
        self._made.update(zip(op.results, results, strict=True))
        location = self._location(cls) if named else op.location
        self._ops.append(Op(op.name, tuple(values[:count]), attrs, results, regions, location))
        self._calls[cls] = results
        if len(results) == 1:
            self._built[cls] = results[0]

    def _original(self, cls: int, call: Call) -> Op | None:
        """The block's op that is this call, with regions of its own, if one is."""
        found = self.encoding.op_of_node.get(self._first.get(cls, -1))
        number = None if found is None else self.encoding.call_of.get(found[1])
        return found[1] if found is not None and number is not None and self.encoding.calls[number] is call else None

    # -- names ---------------------------------------------------------------------------------------------------

    def _label(self, cls: int) -> str:
        node = self._first.get(cls)
        value = None if node is None else self.encoding.values[node]
        return self._name(value.name if value is not None else f"{self._base(cls)}_")

    def _base(self, cls: int) -> str:
        """The name of the value from whose rewriting this one came."""
        number = self._name_of.get(cls, 0) % NAME_STRIDE
        value = self.encoding.values[number] if number < len(self.encoding.values) else None
        return value.name if value is not None else "v"

    def _location(self, cls: int) -> Location:
        node = self._first.get(cls, self._name_of.get(cls, 0) % NAME_STRIDE)
        found = self.encoding.op_of_node.get(node)
        return found[1].location if found is not None else NOWHERE
