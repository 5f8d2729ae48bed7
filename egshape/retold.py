"""What the stages gave, told of the values that a graph came with, where they worked on other ones: on layers that
stood as calls for a while, on what became of a block before; and where values of the result were made anew behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from egshape.egraph.outcome import Outcome, Reason, Scope
from egshape.ir.calls import substitute, values_of
from egshape.ir.graph import Block, Location, Op, Value
from egshape.repeats import blamed, in_place, is_layer

Standing = dict[Value, Value]


def moved(outcome: Outcome, now: Mapping[Value, Value]) -> Outcome:
    """An outcome whose result has other values. ``now``: what stands for those that are gone."""
    if not now:
        return outcome
    return replace(outcome, standing={old: _last(now, new) for old, new in outcome.standing.items()})


def _last(now: Mapping[Value, Value], value: Value) -> Value:
    while now.get(value, value) is not value:
        value = now[value]
    return value


# -- layers that stood as calls ----


def put_in_line(outcome: Outcome, block: Block, source: Block, called: Block) -> tuple[Block, Outcome]:
    """What became of ``block``, with its layers in line again, and the outcome told of its values: while it went
    through the stages its layers were calls in ``source``, and they still are in what came out, ``called``."""
    standing = _of_calls(outcome, source, called)
    named, copies = _as_written(outcome, source, called, standing)
    lined = in_place(named)
    found = moved(replace(outcome, standing=standing), {**copies, **lined.now})
    return _of_ops(lined.block, _of_layers(found, block, source, lined.block), blamed(source))


def _of_ops(
    lined: Block, outcome: Outcome, said: Mapping[tuple[str, str], tuple[str, Location]]
) -> tuple[Block, Outcome]:
    """A block and an outcome in which what layers require of sizes is required by ops in them. ``said``: how and where,
    by how and where it is said of the layers."""
    ops, checks = list(lined.ops), list(outcome.checks)
    for at, op in enumerate(ops):
        if op.name == "check" and (found := said.get((str(op.location), op.attrs["message"]))):
            ops[at] = replace(op, attrs={**op.attrs, "message": found[0]}, location=found[1])
    for at, check in enumerate(checks):
        if found := said.get((check.location, check.message)):
            checks[at] = replace(check, message=found[0], location=str(found[1]))
    return replace(lined, ops=tuple(ops)), replace(outcome, checks=tuple(checks))


def _of_calls(outcome: Outcome, source: Block, called: Block) -> Standing:
    """What stands for the values inside of layers, which are calls in ``source`` and in ``called``, what became of it:
    each in what became of its own call, if that is still one."""
    standing = dict(outcome.standing)
    first = {
        new: old
        for each in outcome.functions
        for new, old in zip(values_of(each.block), values_of(each.done), strict=True)
    }
    for call, became in _became(outcome, source, called):
        inside = () if became is None else values_of(became.regions[0])
        now = {first[value]: value for value in inside if value in first}
        for value in values_of(call.regions[0]):
            new = standing.pop(value, None)
            if new in now:
                standing[value] = now[new]
    return standing


def _as_written(
    outcome: Outcome, source: Block, called: Block, standing: Standing
) -> tuple[Block, Mapping[Value, Value]]:
    """The block ``called`` whose layers have the names and locations that the layers came with, which are calls in
    ``source``; with what its values became."""
    sources = {value: each.source for each in outcome.functions for value in _given(each.block)}
    copies: Standing = {}
    regions: dict[Op, Block] = {}
    for call, became in _became(outcome, source, called):
        if became is None or became in regions:
            continue
        first = next((sources[value] for value in _given(became.regions[0]) if value in sources), None)
        if first is None:  # nothing is left in it
            continue
        outside = dict(zip(call.regions[0].results, call.results, strict=True))
        names: dict[str, str] = {}
        for value in values_of(call.regions[0]):
            if value in standing:
                names.setdefault(standing[value].name, outside.get(value, value).name)
        (region,) = became.regions
        pairs = zip(first.walk(), call.regions[0].walk(), strict=True)
        places = {one.location: other.location for one, other in pairs}
        copy = substitute(region, {}, partial(_renamed, names))
        copies.update(zip(values_of(region), values_of(copy), strict=True))
        regions[became] = _located(copy, places)
    ops = (replace(op, regions=(regions[op],)) if op in regions else op for op in called.ops)
    return replace(called, ops=tuple(ops)), copies


def _became(outcome: Outcome, source: Block, called: Block) -> Iterator[tuple[Op, Op | None]]:
    """The layers of ``source`` with what became of each as a call of ``called``, None where it is gone."""
    made = {value: op for op in called.ops if is_layer(op) for value in op.results}
    for call in filter(is_layer, source.ops):
        new = map(outcome.standing.get, call.results)
        yield call, next((made[value] for value in new if value in made), None)


def _given(block: Block) -> Iterator[Value]:
    """The values that the ops of a block and of the regions inside give, in one order for copies."""
    return (value for op in block.walk() for value in op.results)


def _of_layers(outcome: Outcome, block: Block, source: Block, lined: Block) -> Outcome:
    """An outcome of ``block``, whose layers were calls while it went through the stages as ``source``, and are in line
    in what became of it."""
    layers = [op for op in source.ops if is_layer(op)]
    outside = {inner: value for call in layers for inner, value in _borders(call)}
    standing = outcome.standing
    whole = {value: standing[inner] for inner, value in outside.items() if inner in standing} | dict(standing)
    there = frozenset(values_of(lined))
    names = {inner.name: value.name for inner, value in outside.items()}
    places = _places(block)
    return replace(
        outcome,
        standing={old: new for old, new in whole.items() if new in there and old not in outside},
        reasons=tuple(
            each._replace(
                value=names.get(each.value, each.value),
                location=places.get(names.get(each.value, each.value), each.location),
                other=names.get(each.other, each.other),
            )
            for each in outcome.reasons
        ),
        scopes=tuple(_scopes(outcome.scopes, block, layers, outside)),
        functions=(),
    )


def _borders(call: Op) -> Iterator[tuple[Value, Value]]:
    """What a layer takes and gives, by the values of it and by those of the block."""
    (region,) = call.regions
    yield from zip(region.args, call.operands, strict=True)
    yield from zip(region.results, call.results, strict=True)


def _renamed(names: Mapping[str, str], name: str) -> str:
    return names.get(name, name)


def _located(block: Block, places: Mapping[Location, Location]) -> Block:
    """The block whose ops have the locations that others became."""
    ops = (
        replace(
            op,
            location=places.get(op.location, op.location),
            regions=tuple(_located(region, places) for region in op.regions),
        )
        for op in block.ops
    )
    return replace(block, ops=tuple(ops))


def _places(block: Block) -> dict[str, str]:
    """The location of each value's op, by the value's name."""
    return {value.name: str(op.location) for op in block.walk() for value in op.results}


def _scopes(
    scopes: Sequence[Scope], block: Block, layers: Sequence[Op], outside: Mapping[Value, Value]
) -> Iterator[Scope]:
    """The scopes of the block and of the regions in it; what is known in those of layers is known in the block's."""
    regions = {call.regions[0] for call in layers}
    elements = {
        outside.get(value, value): each
        for scope in scopes
        if scope.block in regions
        for value, each in scope.elements.items()
    }
    for number, scope in enumerate(scopes):
        if number == 0:
            yield Scope(block, scope.sizes, elements | dict(scope.elements))
        elif scope.block not in regions:
            yield scope


# -- what went through the stages before ----


def twice(before: Outcome, after: Outcome, block: Block, source: Block) -> Outcome:
    """What the stages gave of ``source``, and then ``after`` of ``block``, which is what became of it, or a part of
    that: its checks are known."""
    inside = {value for op in block.walk() for value in op.results}
    standing = {
        old: after.standing.get(new, new)
        for old, new in before.standing.items()
        if new in after.standing or new not in inside
    }
    told = tuple(_told(before.standing, after.reasons, block, source)) if after.reasons else ()
    found = before.then(replace(after, standing={}, reasons=told))
    return replace(found, checks=before.checks, standing=standing)


def _told(standing: Mapping[Value, Value], reasons: Sequence[Reason], block: Block, source: Block) -> Iterator[Reason]:
    """Reasons of values of the block as reasons of those that they stand for; of a value that was made on the way, of
    what the op that reads it stands for."""
    values = {value.name: value for value in values_of(block)}
    places = {value: str(op.location) for op in source.walk() for value in op.results}
    stood: dict[Value, list[Value]] = {}
    for old, new in standing.items():
        if old in places:
            stood.setdefault(new, []).append(old)
    told = dict(stood)
    for op in reversed(block.ops):
        known = next((told[each] for each in op.results if each in told), [])
        for operand in op.operands:
            told.setdefault(operand, known)
    for each in reasons:
        value = values.get(each.value)
        if value is None:
            continue
        term = values.get(each.other)
        others = [old.name for old in stood.get(term, ())] if term is not None else []
        other = each.other if each.other in others else next(iter(others), "")
        for old in told.get(value, ()):
            yield each._replace(value=old.name, location=places[old], other=other, made=each.made or value not in stood)
