"""Values in buffers of a bounded size (``set_dimension_size``), with all that is computed from them, as functions.

The elements behind the size of such a value stay in its buffer, in XLA, and are seen again where it grows: what it is
cannot be said by its elements. So the ops on them are carried through together, as they came, and run by XLA: a call of
a function that holds them, whose types outside are those of plain tensors wherever the program gives none out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from egshape.frontends.stablehlo.single import bind, captured, inside

_RESIZE = "stablehlo.set_dimension_size"
_MARK = "egshape.bounded"
"""The attribute of a function that was made here."""


def is_outlined(op: Any, functions: Mapping[str, Any]) -> bool:
    """Whether an op calls a function that was made here."""
    callee = functions.get(op.attributes["callee"].value) if op.name == "func.call" else None
    return callee is not None and _MARK in callee.attributes


def outline(hlo: SimpleNamespace, module: Any) -> None:
    """Put the ops on values of bounded size into functions, one for each function that has such ops."""
    functions = [view.operation for view in module.body.operations if view.operation.name == "func.func"]
    named = {op.attributes["sym_name"].value: op for op in functions}
    taken, giving = set(named), _giving(named)
    for function in functions:
        blocks = list(function.regions[0].blocks) if function.regions else []
        if len(blocks) == 1 and _MARK not in function.attributes:
            ops = [view.operation for view in blocks[0].operations][:-1]
            if any(_resizes(op, giving) for op in ops):
                _move(hlo, module, blocks[0], ops, _chosen(hlo, ops, giving), _fresh(taken))


def _giving(functions: Mapping[str, Any]) -> set[str]:
    """The functions that resize a value and give one of bounded size: their calls are such ops too. Those that were
    made here hold all that is done with what they give."""
    found = set[str]()
    while True:
        more = {
            name
            for name, function in functions.items()
            if name not in found
            and _MARK not in function.attributes
            and "bounds<" in str(function.attributes["function_type"])
            and any(_resizes(op, found) for op in inside(function))
        }
        if not more:
            return found
        found |= more


def _fresh(taken: set[str]) -> str:
    name, count = "set_dimension_size", 0
    while name in taken:
        count += 1
        name = f"set_dimension_size_{count}"
    taken.add(name)
    return name


def _resizes(op: Any, giving: Collection[str]) -> bool:
    """Whether an op makes values of bounded size, or has one inside that does."""
    return any(
        each.name == _RESIZE or (each.name == "func.call" and each.attributes["callee"].value in giving)
        for each in (op, *inside(op))
    )


def _reads(op: Any) -> Iterable[Any]:
    return (*op.operands, *captured(op))


def _chosen(hlo: SimpleNamespace, ops: Sequence[Any], giving: Collection[str]) -> set[int]:
    """The places of the ops on values of bounded size, and of those between them."""
    tainted, chosen = set[Any](), set[int]()
    for place, op in enumerate(ops):
        if _resizes(op, giving) or any(value in tainted for value in _reads(op)):
            chosen.add(place)
            tainted.update(value for value in op.results if not _is_static(hlo, value))
    after, before = set[Any](), set[Any]()
    behind, ahead = set[int](), set[int]()
    for place, op in enumerate(ops):
        if place in chosen or any(value in after for value in _reads(op)):
            behind.add(place)
            after.update(op.results)
    for place in reversed(range(len(ops))):
        op = ops[place]
        if place in chosen or any(value in before for value in op.results):
            ahead.add(place)
            before.update(_reads(op))
    return chosen | (behind & ahead)


def _is_static(hlo: SimpleNamespace, value: Any) -> bool:
    type = value.type
    return isinstance(type, hlo.ir.RankedTensorType) and type.has_static_shape


def _move(hlo: SimpleNamespace, module: Any, block: Any, ops: Sequence[Any], chosen: set[int], name: str) -> None:
    """Move ops into a function, and call it behind all that they do not need to come after."""
    own = [ops[place] for place in sorted(chosen)]
    made = {value for op in own for value in op.results}
    given = list(dict.fromkeys(value for op in own for value in _reads(op) if value not in made))
    fixed = [value for value in given if getattr(value.owner, "name", "") == "stablehlo.constant"]
    given = [value for value in given if value not in fixed]
    rest = [op for place, op in enumerate(ops) if place not in chosen]
    *_, end = (view.operation for view in block.operations)
    read = {value for op in (*rest, end) for value in _reads(op)}
    found = [value for op in own for value in op.results if value in read]
    with own[0].context, own[0].location:
        call = _function(hlo, module, end, name, own, given, fixed, found)
    behind = set(found)
    for op in rest:
        if any(value in behind for value in _reads(op)):
            behind.update(op.results)
            op.move_before(end)
    for old, new in zip(found, call.results, strict=True):
        old.replace_all_uses_with(new)
    for op in reversed(own):
        op.erase()


def _function(
    hlo: SimpleNamespace,
    module: Any,
    end: Any,
    name: str,
    own: Sequence[Any],
    given: Sequence[Any],
    fixed: Sequence[Any],
    found: Sequence[Any],
) -> Any:
    """A function of copies of ops, and its call in front of ``end``."""
    ir, func = hlo.ir, hlo.func
    types = [value.type for value in found]
    with ir.InsertionPoint(module.body):
        function = func.FuncOp(name, ([value.type for value in given], types), visibility="private")
        function.attributes[_MARK] = ir.UnitAttr.get()
    inner = function.add_entry_block()
    stands = dict(zip(given, inner.arguments, strict=True))
    with ir.InsertionPoint(inner):
        for value in fixed:
            stands[value] = value.owner.clone().results[0]
        for op in own:
            copy = op.clone()
            for place, value in enumerate(list(copy.operands)):
                copy.operands[place] = stands.get(value, value)
            bind(copy, stands)
            stands.update(zip(op.results, copy.results, strict=True))
        func.ReturnOp([stands[value] for value in found])
    with ir.InsertionPoint(end):
        return func.CallOp(types, name, list(given))
