"""Functions through the stages: what the calls in a block call is optimized once. Where they agree in their sizes it is
under what is known of sizes in the block; else under what all of them hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from egshape.decide.reason import Believed, Semantics
from egshape.dims import Dim, symbol
from egshape.egraph.outcome import Became, Outcome, Reason, Scope
from egshape.facts import Relation
from egshape.ir.calls import function_key, is_call, key_at, made_sizes, size_names, substitute, values_of
from egshape.ir.graph import Block, Op, blocks_of


@dataclass(frozen=True)
class _Site:
    """A call: its region, what the sizes of that are in normal form, the function that it is then, the sizes of that in
    order, and what the function requires of them."""

    region: Block
    normal: Mapping[str, Dim]
    key: object
    sizes: tuple[str, ...]
    held: tuple[Relation, ...]

    def sizes_of(self, other: _Site) -> dict[str, Dim]:
        """The sizes of another call of the function by those of this one."""
        return dict(zip(self.sizes, map(symbol, other.sizes), strict=True))


class Functions:
    """The functions that a block calls, each once."""

    def __init__(self, block: Block, normal: Callable[[Dim], Dim], fresh: Callable[[str], str]) -> None:
        """``normal``: the normal form of sizes. ``fresh`` gives names."""
        self._sites = {op: _site(op, normal) for op in block.ops if is_call(op)}
        self._fresh = fresh
        self._done: dict[object, tuple[_Site, Block]] = {}

    def calls(self, op: Op) -> bool:
        """Whether an op of the block is a call."""
        return op in self._sites

    def again(self, call: Op) -> Became | None:
        """A copy of what became of a function that an earlier call calls too; None for the first one."""
        site = self._sites[call]
        if site.key not in self._done:
            return None
        first, done = self._done[site.key]
        own = {name: symbol(self._fresh(name)) for name in made_sizes(done)}
        return Became(first.region, done, substitute(done, {}, self._fresh, first.sizes_of(site) | own))

    def apart(self, call: Op) -> tuple[Block, Sequence[Believed]] | None:
        """The function of calls that differ in their sizes, and what holds in all of them; None where they agree."""
        site = self._sites[call]
        others = [other for other in self._all(site) if other.sizes != site.sizes]
        if not others:
            return None
        why = Semantics("call", location=str(call.location))
        held = set(site.held)
        for other in others:
            held &= {each.substitute(other.sizes_of(site)) for each in other.held}
        return substitute(site.region, {}, sizes=site.normal), [(each, why) for each in site.held if each in held]

    def keep(self, call: Op, source: Block, done: Block, known: Outcome, reasons: Sequence[Reason]) -> Outcome:
        """Note what became of a function, whose ``source`` went through the stages, with ``reasons``. What is ``known``
        of its values, of those in all calls of it."""
        site = self._sites[call]
        self._done[site.key] = site, done
        copies = [op.regions[0] for op, other in self._sites.items() if other.key == site.key]
        moved = [_moved(known, reasons, source, copy) for copy in copies if copy is not source]
        return Outcome(
            standing={old: new for each in moved for old, new in each.standing.items()},
            reasons=tuple(reason for each in moved for reason in each.reasons),
            scopes=tuple(scope for each in moved for scope in each.scopes),
            functions=(Became(site.region, done, done),),
        )

    def _all(self, site: _Site) -> list[_Site]:
        return [each for each in self._sites.values() if each.key == site.key]


def _site(call: Op, normal: Callable[[Dim], Dim]) -> _Site:
    (region,) = call.regions
    made = made_sizes(region)
    normed = {name: normal(symbol(name)) for name in size_names(region) if name not in made}
    sizes = {name: size for name, size in normed.items() if size is not symbol(name)}
    names = tuple(name for name in size_names(region, sizes) if name not in made)
    held = tuple(each.substitute(sizes) for each in call.requires)
    key = (call.attrs["name"], key_at(region, sizes)) if sizes else function_key(call)
    known = frozenset(names)
    return _Site(region, sizes, key, names, tuple(each for each in held if each.symbols() <= known))


def _moved(known: Outcome, reasons: Sequence[Reason], source: Block, other: Block) -> Outcome:
    """What is known of the values of a function, of those in another copy of it."""
    values = dict(zip(values_of(source), values_of(other), strict=True))
    names = {old.name: new.name for old, new in values.items()}
    places = {value.name: str(op.location) for op in other.walk() for value in op.results}
    blocks = dict(zip(blocks_of(source), blocks_of(other), strict=True))
    scopes = tuple(
        Scope(blocks[each.block], each.sizes, {values.get(value, value): item for value, item in each.elements.items()})
        for each in known.scopes
        if each.block in blocks
    )
    told = (
        each._replace(
            value=names[each.value],
            location=places.get(names[each.value], each.location),
            other=names.get(each.other, each.other),
        )
        for each in reasons
        if each.value in names
    )
    standing = {values[old]: new for old, new in known.standing.items() if old in values}
    return Outcome(standing=standing, reasons=tuple(told), scopes=scopes)
