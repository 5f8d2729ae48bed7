"""Functions: a ``call`` holds what it calls as a region in the sizes of the caller, and calls of regions that are equal
but for the names of sizes are calls of one function, which is optimized, counted and written once. Any call can stand
in line instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any, NamedTuple

from egshape.dims import Dim, symbol
from egshape.ir.graph import Attr, Block, Op, SymbolDef, Value, blocks_of, dims_of
from egshape.ir.keys import region_key
from egshape.ir.types import TensorType


def function_key(call: Op) -> Any:
    """What two calls of one function have in common; a region that captures values is a function with these."""
    (region,) = call.regions
    return call.attrs["name"], region.keep("key", lambda: key_at(region, {}))


def key_at(function: Block, sizes: Mapping[str, Dim]) -> Any:
    """The key of a function with ``sizes`` in the place of symbols, which are numbered then."""
    names = _numbered(function, sizes)
    renamed = {name: sizes.get(name, symbol(name)).substitute(names) for name in size_names(function)}
    captures = function.captures()
    return captures, region_key(function, captures, renamed)


def size_names(function: Block, sizes: Mapping[str, Dim] | None = None) -> tuple[str, ...]:
    """The sizes that a function is made of, in one order for all calls of it; ``sizes`` are in the place of symbols."""
    dims: tuple[Dim, ...] = function.keep("sizes", lambda: tuple(dict.fromkeys(_sizes(function))))
    found = (dim.substitute(sizes) for dim in dims) if sizes else dims
    return tuple(dict.fromkeys(name for dim in found for name in sorted(dim.symbols())))


def _numbered(function: Block, sizes: Mapping[str, Dim] | None = None) -> dict[str, Dim]:
    return {name: symbol(f"s{place}") for place, name in enumerate(size_names(function, sizes))}


def written(block: Block, seen: set[Any] | None = None) -> Iterator[Op]:
    """``Block.visible`` with the ops of each function once."""
    seen = set() if seen is None else seen
    for op in block.ops:
        yield op
        if is_call(op):
            key = function_key(op)
            if key in seen:
                continue
            seen.add(key)
        for region in () if op.attrs.get("whole") else op.regions:
            yield from written(region, seen)


def shared(block: Block) -> Block:
    """The block with the calls in line whose function nothing else calls."""
    return placed_once(block)[0]


def placed_once(block: Block) -> Placed:
    """The same, as ``placed`` gives it."""
    times: Counter[Any] = Counter()

    def count_in(block: Block) -> None:
        for op in block.ops:
            if is_call(op):
                times[function_key(op)] += 1
                if times[function_key(op)] > 1:
                    continue  # what it calls is counted
            for region in op.regions:
                count_in(region)

    count_in(block)
    if 1 not in times.values():
        return Placed(block, {})
    return placed(block, lambda op: is_call(op) and times[function_key(op)] == 1)


class Placed(NamedTuple):
    """A block with regions in line, and what stands in it for values that are no longer there: others, which may be
    gone in their turn."""

    block: Block
    now: Mapping[Value, Value]


def in_line(block: Block, chosen: Callable[[Op], bool]) -> Block:
    """The block with the regions of the chosen ops, those inside of regions too, in their places: calls and composites
    whose sizes are the caller's. Where a region defines sizes, or is for operands of other types, the op stays."""
    return placed(block, chosen).block


def placed(block: Block, chosen: Callable[[Op], bool], free: bool = False) -> Placed:
    """The same, with what stands for what. ``free``: names of the ops' results are free for values of their regions."""
    work = _InLine(block, chosen, free)
    return Placed(work.block(block), work.now)


class _InLine:
    def __init__(self, block: Block, chosen: Callable[[Op], bool], free: bool) -> None:
        self.now: dict[Value, Value] = {}
        self._defining = _defining(block)
        """Values whose axes define symbols: the ops that give them stay."""
        self._chosen = chosen
        self._free = free
        self._same: dict[Value, Value] = {}
        """What stands for results of ops in whose place their regions are."""
        self._taken = Counter(_names(block))

    def block(self, block: Block) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            self._put(op, ops)
        results = tuple(self._same.get(value, value) for value in block.results)
        symbols = tuple(replace(each, value=self._same.get(each.value, each.value)) for each in block.symbols)
        return Block(block.args, tuple(ops), results, symbols)

    def _put(self, op: Op, ops: list[Op]) -> None:
        operands = tuple(self._same.get(value, value) for value in op.operands)
        if not self._chosen(op) or not self._fits(op, operands):
            ops.append(replace(op, operands=operands, regions=tuple(map(self.block, op.regions))))
            return
        (source,) = op.regions
        if self._free:
            self._taken.subtract(value.name for value in op.results)
        region = substitute(source, {}, self._name)
        self.now.update(zip(values_of(source), values_of(region), strict=True))
        self._same.update(zip(region.args, operands, strict=True))
        for inner in region.ops:
            self._put(inner, ops)
        for value, result in zip(region.results, op.results, strict=True):
            self._same[result] = self._same.get(value, value)
        self.now.update((each, self._same[each]) for each in (*region.args, *op.results))

    def _fits(self, op: Op, operands: tuple[Value, ...]) -> bool:
        (region,) = op.regions
        return (
            not region.symbols
            and self._defining.isdisjoint(op.results)
            and all(arg.type == value.type for arg, value in zip(region.args, operands, strict=True))
        )

    def _name(self, wanted: str) -> str:
        """A name for a value that leaves its region: its own, unless the block has it elsewhere too."""
        if self._taken[wanted] <= 1:
            self._taken[wanted] = 1
            return wanted
        self._taken[wanted] -= 1
        name = next(name for name in (f"{wanted}_{k}" for k in count(1)) if not self._taken[name])
        self._taken[name] = 1
        return name


def _defining(block: Block) -> frozenset[Value]:
    inner = (_defining(region) for op in block.ops for region in op.regions)
    own = (each.value for each in block.symbols if each.axis is not None)
    return frozenset(own).union(*inner)


def _names(block: Block) -> Iterator[str]:
    return (value.name for value in values_of(block))


def values_of(block: Block) -> Iterator[Value]:
    """The values that a block and the regions inside define, in one order for blocks of one key."""
    yield from block.args
    for op in block.ops:
        for region in op.regions:
            yield from values_of(region)
        yield from op.results


def substitute(
    block: Block,
    mapping: Mapping[Value, Value],
    name: Callable[[str], str] = str,
    sizes: Mapping[str, Dim] | None = None,
) -> Block:
    """A copy of a block that reads other captured values; its own values are made anew, with names that ``name`` makes
    of theirs, and with ``sizes`` in the place of symbols."""
    size = (lambda dim: dim.substitute(sizes)) if sizes else None
    return _Copier(name, size).block(block, dict(mapping))


def resized(block: Block, size: Callable[[Dim], Dim]) -> Block:
    """A block with other forms of its sizes, but for those of its arguments and symbols; its values are made anew."""
    copier = _Copier(str, size)
    return copier.block(block, dict(zip(block.args, block.args, strict=True)))


class _Copier:
    """Copies blocks. ``size``: what a size becomes; None where all stay."""

    def __init__(self, name: Callable[[str], str], size: Callable[[Dim], Dim] | None) -> None:
        self._name = name
        self._size = size and cache(size)

    def block(self, block: Block, known: dict[Value, Value]) -> Block:
        def fresh(value: Value) -> Value:
            known[value] = Value(self._name(value.name), self._type(value.type))
            return known[value]

        args = tuple(known[value] if value in known else fresh(value) for value in block.args)
        ops = []
        for op in block.ops:
            operands = tuple(known.get(operand, operand) for operand in op.operands)
            regions = tuple(self.block(region, dict(known)) for region in op.regions)
            results = tuple(map(fresh, op.results))
            changed = Op(op.name, operands, op.attrs, results, regions, op.location, op.requires)
            ops.append(self._resized(changed) if self._size else changed)
        symbols = tuple(
            replace(each, name=self._symbol(each.name), value=known.get(each.value, each.value))
            for each in block.symbols
        )
        return Block(args, tuple(ops), tuple(known.get(value, value) for value in block.results), symbols)

    def _symbol(self, name: str) -> str:
        return min(self._size(symbol(name)).symbols()) if self._size else name

    def _resized(self, op: Op) -> Op:
        attrs = {name: self._attr(attr) for name, attr in op.attrs.items()}
        requires = (replace(each, lhs=self._attr(each.lhs), rhs=self._attr(each.rhs)) for each in op.requires)
        return replace(op, attrs=attrs, requires=tuple(requires))

    def _attr(self, attr: Attr) -> Attr:
        if isinstance(attr, Dim):
            return self._size(attr) if self._size else attr
        return tuple(map(self._attr, attr)) if isinstance(attr, tuple) else attr

    def _type(self, type: TensorType) -> TensorType:
        if not self._size or type.shape is None:
            return type
        return TensorType(type.dtype, tuple(map(self._size, type.shape)))


def split(function: Block) -> tuple[tuple[Op, ...], Block]:
    """A function as what it checks of sizes, which its caller can check as well, and a body that may rely on it."""
    checks = tuple(op for op in function.ops if op.name == "check" and op.attrs["relation"] != "value")
    return checks, replace(function, ops=tuple(op for op in function.ops if op not in checks))


def is_call(op: Op) -> bool:
    """Whether an op calls a function."""
    return op.name == "call"


def closed(function: Block, size: TensorType) -> Block:
    """A function that knows of sizes what its arguments tell: those that no axis of them is are arguments too, behind
    the others, tensors of the type ``size``. The same for all calls of it."""
    function = substitute(function, {}, sizes=_numbered(function))
    sizes = [SymbolDef(name, Value(name, size), element=0) for name in unread_sizes(function)]
    args = (*function.args, *(each.value for each in sizes))
    return replace(function, args=args, symbols=(*function.symbols, *sizes))


def unread_sizes(function: Block) -> list[str]:
    """The sizes of the caller that a function needs and no axis of its arguments is."""
    axes = {dim for value in function.args for dim in value.type.shape or ()}
    made = made_sizes(function)
    return [name for name in size_names(function) if name not in made and symbol(name) not in axes]


def made_sizes(function: Block) -> frozenset[str]:
    """The sizes that regions inside of a function define."""
    return frozenset(each.name for block in blocks_of(function) for each in block.symbols)


def _sizes(block: Block) -> Iterator[Dim]:
    for value in values_of(block):
        yield from value.type.shape or ()
    for op in block.walk():
        for attr in op.attrs.values():
            yield from dims_of(attr)


def trimmed(block: Block) -> Block:
    """The block without operands of its calls that their functions do not read."""
    return replace(block, ops=tuple(_trimmed(op) if is_call(op) else op for op in block.ops))


def _trimmed(call: Op) -> Op:
    (region,) = call.regions
    read = region.readers()
    pairs = [pair for pair in zip(region.args, call.operands, strict=True) if read[pair[0]]]
    args, operands = tuple(arg for arg, _ in pairs), tuple(value for _, value in pairs)
    return replace(call, operands=operands, regions=(replace(region, args=args),))
