"""What comparisons are, and what a region of scalars amounts to."""

from __future__ import annotations

from egshape.ir.graph import Block
from egshape.ir.types import is_complex, is_float
from egshape.ops.base import REGISTRY


def comparison(dtype: str) -> str:
    """How values of a dtype compare, floats as numbers and not by a total order. StableHLO spec: compare (C3)."""
    if is_float(dtype) or is_complex(dtype):
        return "FLOAT"
    return "UNSIGNED" if dtype == "i1" or dtype.startswith("u") else "SIGNED"


def region_kind(block: Block) -> str | None:
    """The kind of a region, or None if it is none of the known ones.

    A reducer whose body is one op that reduces on its two arguments: the op's name. A comparator that
    is one strict comparison of operand k: ``compare:k:LT:TOTALORDER`` (operand, direction LT or GT, kind;
    a greater-than written with swapped arguments counts as less-than)."""
    if len(block.ops) != 1 or len(block.results) != 1 or block.results[0] not in block.ops[0].results:
        return None
    body = block.ops[0]
    if REGISTRY[body.name].traits.reduces and len(block.args) == 2:
        return body.name if set(body.operands) == set(block.args) else None
    if body.name == "compare" and len(block.args) % 2 == 0:
        return _comparator(block)
    return None


def _comparator(block: Block) -> str | None:
    body = block.ops[0]
    direction = str(body.attrs["direction"])
    if direction not in ("LT", "GT") or any(value not in block.args for value in body.operands):
        return None
    one, two = (block.args.index(value) for value in body.operands)
    if one // 2 != two // 2 or one == two:
        return None
    if one > two:
        direction = "GT" if direction == "LT" else "LT"
    return f"compare:{one // 2}:{direction}:{body.attrs['kind']}"
