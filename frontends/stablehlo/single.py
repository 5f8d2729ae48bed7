"""An op as a module of its own: how an op that egshape does not know is kept, run and written back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from egshape.frontends.stablehlo.parse import context_of, libraries

_SYMBOL = re.compile(r'(?<!custom_call )@(?:([A-Za-z_][\w$.]*)|"((?:[^"\\]|\\.)*)")')
"""A function of the module; what a call of foreign code names is none, though it looks like one."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|%[\w$.-]+')


def single(hlo: SimpleNamespace, op: Any, symbols: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]]:
    """The text of a module whose ``main`` is one op, and the values around that its regions read: the arguments of
    ``main`` are the op's operands and these. ``symbols`` are the functions (and meshes) that an op may name."""
    ir, func = hlo.ir, hlo.func
    outer = captured(op)
    given = [*op.operands, *outer]
    with op.context, ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ([value.type for value in given], [value.type for value in op.results]))
            for name in _named(str(op), symbols):
                symbols[name].clone()
        block = main.add_entry_block()
        with ir.InsertionPoint(block):
            copy = op.clone()
            func.ReturnOp(list(copy.results))
        for place, argument in enumerate(list(block.arguments)[: len(op.operands)]):
            copy.operands[place] = argument
        bind(copy, dict(zip(outer, list(block.arguments)[len(op.operands) :], strict=True)))
        return module.operation.get_asm(use_local_scope=True), outer


def inside(op: Any) -> list[Any]:
    """The ops in the regions of an op, at any depth."""
    return [
        found
        for region in op.regions
        for block in region.blocks
        for view in block.operations
        for found in (view.operation, *inside(view.operation))
    ]


def captured(op: Any) -> tuple[Any, ...]:
    """The values around that the regions of an op read."""
    inner = inside(op)
    own = {value for each in inner for value in each.results}
    for each in (op, *inner):
        own.update(value for region in each.regions for block in region.blocks for value in block.arguments)
    return tuple(dict.fromkeys(value for each in inner for value in each.operands if value not in own))


def bind(op: Any, stands: Mapping[Any, Any]) -> None:
    """Let the regions of an op read other values."""
    for each in inside(op):
        for place, value in enumerate(list(each.operands)):
            if value in stands:
                each.operands[place] = stands[value]


def _named(text: str, symbols: Mapping[str, Any]) -> list[str]:
    """The symbols that a text names, and those that these name."""
    found: dict[str, None] = {}
    pending = [text]
    while pending:
        for plain, quoted in _SYMBOL.findall(pending.pop()):
            name = plain or quoted
            if name in symbols and name not in found:
                found[name] = None
                pending.append(str(symbols[name]))
    return list(found)


@dataclass(frozen=True)
class Parts:
    """The op of a module that ``single`` made, in pieces: what stands between operands and signature, and what it
    names."""

    name: str
    middle: str
    given: tuple[str, ...]
    """Types of the operands."""
    types: tuple[str, ...]
    """Types of the results."""
    functions: Mapping[str, str]


def parts(text: str) -> Parts:
    """Take a module of one op apart, in MLIR's generic form."""
    hlo = libraries()
    with context_of(hlo) as context:
        module = hlo.ir.Module.parse(text, context)
        ops = {view.operation.attributes["sym_name"].value: view.operation for view in module.body.operations}
        main = ops.pop("main")
        op = main.regions[0].blocks[0].operations[0].operation
        # As a part of main: shown alone, an op whose regions see nothing around names its values anew.
        shown = main.get_asm(print_generic_op_form=True, use_local_scope=True, assume_verified=True)
        shown = shown[: shown.rindex('"func.return"')]
        results = tuple(str(value.type) for value in op.results)
        listed = results[0] if len(results) == 1 else f"({', '.join(results)})"
        given = tuple(str(value.type) for value in op.operands)
        tail = f" : ({', '.join(given)}) -> {listed}"
        begin = shown.index(")", shown.index(f'"{op.name}"(')) + 1
        return Parts(
            op.name,
            shown[begin : shown.rindex(tail)],
            given,
            results,
            {name: each.get_asm(use_local_scope=True) for name, each in ops.items()},
        )


def renamed(text: str, values: Mapping[str, str], prefix: str) -> str:
    """A text with other names for its values: as ``values`` says, else with a prefix."""

    def name(found: re.Match[str]) -> str:
        word = found.group(0)
        return word if word.startswith('"') else values.get(word, f"%{prefix}{word[1:]}")

    return _TOKEN.sub(name, text)


def with_symbols(text: str, names: Mapping[str, str]) -> str:
    """A text with other names for functions."""

    def name(found: re.Match[str]) -> str:
        return names.get(found[1] or found[2], found[0])

    return _SYMBOL.sub(name, text)
