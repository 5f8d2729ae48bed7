"""Inputs and outputs that are no tensors: a graph has tensors alone, so a sequence is a tensor for each of its places,
and an optional value is what it holds, or nothing. Which of these it is, is said when the model is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnx import NodeProto, TypeProto, ValueInfoProto, helper

from egshape.errors import Unsupported
from egshape.frontends.frontend import Rank
from egshape.frontends.onnx.program import Items, Operand
from egshape.frontends.onnx.types import dtype_of, elem_type_of
from egshape.ir.graph import Value

TENSOR = "tensor"

Form = int | str | Rank | None
"""What a value is: ``TENSOR``, the length of a sequence, or None for an optional value that is not there."""

_HINT = "say it when the model is read: egshape.load(model, forms={{{!r}: {}}})"


def operand(type: TypeProto, name: str, forms: Mapping[str, Form], make: Callable[[Any, str], Value]) -> Operand:
    """An input of a type. ``make`` adds an argument for a tensor type and a name; ``forms``: what inputs that are no
    tensors are. Raises Unsupported for one of which that is not said, and for maps."""
    kind, where = type.WhichOneof("value"), f"input {name}"
    if kind == "tensor_type":
        return make(type.tensor_type, name)
    if kind == "optional_type":
        if name not in forms:
            raise Unsupported(
                "is an optional value, and nothing says whether it is there",
                where=where,
                hint=_HINT.format(name, "'tensor', a sequence's length, or None"),
            )
        return None if forms[name] is None else operand(type.optional_type.elem_type, name, forms, make)
    if kind == "sequence_type" and type.sequence_type.elem_type.HasField("tensor_type"):
        inner, length = type.sequence_type.elem_type.tensor_type, forms.get(name)
        if not isinstance(length, int) or length < 0:
            raise Unsupported(
                "is a sequence, and nothing says how long it is", where=where, hint=_HINT.format(name, "its length")
            )
        return Items(dtype_of(inner.elem_type, where), tuple(make(inner, part(name, at)) for at in range(length)))
    raise Unsupported(f"is a {kind or 'value of no type'}, not a tensor", where=where)


def part(name: str, place: int) -> str:
    """The name of one tensor of a sequence."""
    return f"{name}[{place}]"


def flat(found: Sequence[Operand]) -> list[Value]:
    """All tensors in values, in order."""
    out: list[Value] = []
    for each in found:
        out += each.parts if isinstance(each, Items) else [] if each is None else [each]
    return out


def forms_of(found: Sequence[Operand]) -> tuple[Form, ...]:
    """What each value is."""
    return tuple(len(each.parts) if isinstance(each, Items) else None if each is None else TENSOR for each in found)


def rebuilt(values: Sequence[Value], like: Sequence[Operand]) -> list[Operand]:
    """Values put together as ``like`` is."""
    rest = iter(values)
    return [
        Items(each.dtype, tuple(next(rest) for _ in each.parts))
        if isinstance(each, Items)
        else None
        if each is None
        else next(rest)
        for each in like
    ]


def names_of(names: Sequence[str], found: Sequence[Operand]) -> tuple[str, ...]:
    """A name for each tensor in named values."""
    out: list[str] = []
    for name, each in zip(names, found, strict=True):
        out += (
            [part(name, at) for at in range(len(each.parts))]
            if isinstance(each, Items)
            else [name] * (each is not None)
        )
    return tuple(out)


def sequence_node(name: str, parts: Sequence[str], dtype: str) -> tuple[NodeProto, ValueInfoProto]:
    """The node that makes an output sequence of tensors, and the output."""
    if parts:
        node = helper.make_node("SequenceConstruct", list(parts), [name], name=f"SequenceConstruct:{name}")
    else:
        node = helper.make_node("SequenceEmpty", [], [name], name=f"SequenceEmpty:{name}", dtype=elem_type_of(dtype))
    return node, helper.make_tensor_sequence_value_info(name, elem_type_of(dtype), None)
