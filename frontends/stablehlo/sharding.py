"""Shardings: what a program says of devices. Each stands as an op of its own that gives its operand, a composite, where
it was said: of an op's results, of what a function takes and gives, of a value (`sdy.sharding_constraint`,
`custom_call @Sharding`). Rewrites see that op, and none looks through it; so it stays wherever what it speaks of is
read. Those of `main` stand in its signature."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from egshape.errors import ParseError
from egshape.frontends.stablehlo.attributes import Opaque
from egshape.frontends.stablehlo.emit_text import string
from egshape.frontends.stablehlo.node import Node
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Location, Op, Value

SHARDY, GSPMD = "sdy.sharding", "mhlo.sharding"
"""The attributes of ops, arguments and results."""
CONSTRAINT, CALL = "sdy.sharding_constraint", "Sharding"
"""What says the same of a value."""

_PER_VALUE = re.compile(r"#sdy\.sharding_per_value<\[(.*)\]>\Z", re.DOTALL)
_OPEN, _CLOSE = "<[{(", ">]})"


def is_sharding(op: Any) -> bool:
    """Whether a custom call of the target `Sharding` says one sharding of one value and nothing else."""
    held = op.attributes
    said = {str(key) for key in held if not (key == "backend_config" and str(held[key]) == '""')}
    same = len(op.operands) == len(op.results) == 1 and op.operands[0].type == op.results[0].type
    return same and said <= {"call_target_name", "api_version", GSPMD, "has_side_effect"} and GSPMD in said


def of_value(builder: BlockBuilder, node: Node, x: Value) -> Value:
    """What `sdy.sharding_constraint` or `custom_call @Sharding` gives."""
    if node.name == CONSTRAINT:
        return _put(builder, x, CONSTRAINT, node.attributes["sharding"].text, node.location)
    return _put(builder, x, CALL, node.attributes[GSPMD], node.location)


def of_results(builder: BlockBuilder, node: Node, results: Sequence[Value | None]) -> Sequence[Value | None]:
    """The results of an op, behind what it says of their shardings."""
    if node.name == CONSTRAINT or node.attributes.get("call_target_name") == CALL:
        return results
    for name, each in ((SHARDY, CONSTRAINT), (GSPMD, CALL)):
        if name in node.attributes and results:
            texts = _texts(node.attributes[name], len(results), str(node.location))
            results = [
                value if value is None else _put(builder, value, each, text, node.location)
                for value, text in zip(results, texts, strict=True)
            ]
    return results


def of_values(
    builder: BlockBuilder, values: Sequence[Value | None], attributes: Sequence[Mapping[str, Any]], location: Location
) -> list[Value | None]:
    """Arguments or results of a function that is called, behind what it says of each."""
    out = list(values)
    for place, held in enumerate(attributes):
        for name, each in ((SHARDY, CONSTRAINT), (GSPMD, CALL)):
            value = out[place]
            if name in held and value is not None:
                (text,) = _texts(held[name], 1, str(location))
                out[place] = _put(builder, value, each, text, location)
    return out


def written(op: Op, operands: str, signature: str) -> str | None:
    """A constraint as MLIR; None for another composite."""
    if op.attrs["name"] not in (CONSTRAINT, CALL):
        return None
    ((_, sharding),) = op.attrs["attrs"]
    if op.attrs["name"] == CONSTRAINT:
        return f'"{CONSTRAINT}"({operands}) <{{sharding = {sharding}}}> : {signature}'
    held = f'backend_config = "", {GSPMD} = {string(sharding)}'
    return f"stablehlo.custom_call @{CALL}({operands}) {{{held}}} : {signature}"


def _put(builder: BlockBuilder, x: Value, name: str, text: str, location: Location) -> Value:
    """The value itself: a composite, so that what it says of devices stays where it is said."""
    inner = builder.child()
    region = inner.finish([inner.arg(None, x.type.dtype, x.type.shape)])
    attrs = {"name": name, "attrs": (("sharding", text),)}
    return builder.one("composite", (x,), attrs, regions=(region,), location=location)


def _texts(held: Any, count: int, where: str) -> list[str]:
    """The sharding of each of ``count`` values in an attribute.

    Raises ParseError where it does not say as many."""
    text = held.text if isinstance(held, Opaque) else str(held)
    found = _PER_VALUE.match(text)
    if found:
        texts = [f"#sdy.sharding{each}" for each in _parts(found[1])]
    elif text.startswith("{{"):
        texts = list(_parts(text[1:-1]))
    else:  # one of several results that names devices by axis can be of one of them only
        texts = [text] * (1 if "=" in text else count)
    if len(texts) != count:
        raise ParseError(
            f"a sharding speaks of {len(texts)} values, but there are {count}: {text}",
            where=where,
            hint="write one sharding for each result",
        )
    return texts


def _parts(text: str) -> Iterator[str]:
    """What stands between the commas that no bracket encloses."""
    depth, start = 0, 0
    plain = text.replace("<=", "__").replace("->", "__")  # an arrow is no bracket
    for place, letter in enumerate(plain):
        depth += (letter in _OPEN) - (letter in _CLOSE)
        if letter == "," and not depth:
            yield text[start:place].strip()
            start = place + 1
    if text[start:].strip():
        yield text[start:].strip()
