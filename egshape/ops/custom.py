"""Ops that a user declares: the same declaration as a shipped op has, and optionally the op in terms of others.

    @egshape.custom_op("swiglu", operands=("x", "g"), doc="x * g * sigmoid(g)")
    class Swiglu:
        def shape(x, g): return x                                   # types in, type out
        def reference(x, g): return x * g / (1 + np.exp(-g))        # numpy arrays in, array out
        def body(b, x, g): return b.multiply(x, b.multiply(g, b.logistic(g)))

The op is then known to the verifier, the interpreter, the e-graph (rules for it go into a ``.egg`` file, as for any
op) and the text form. A back end that does not know it gets its body instead (``egshape.ir.expand``), or refuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from egshape.errors import EgshapeError, Unsupported
from egshape.ir.types import TensorType
from egshape.ops.base import REGISTRY, OpDecl, Registry
from egshape.ops.body import symbolic_body
from egshape.ops.contracts import OpContract
from egshape.ops.declare import op
from egshape.ops.shape_function import ShapeFunction, array_type, explained

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_ELEMENTWISE = {1: "unary", 2: "binary"}


def custom_op(
    name: str,
    *,
    operands: Sequence[str],
    attrs: Mapping[str, Any] | None = None,
    elementwise: bool = False,
    target: str = "",
    doc: str = "",
    registry: Registry = REGISTRY,
) -> Callable[[type], type]:
    """Declare an op from a class with ``shape``, ``reference`` and optionally ``body``.

    ``shape`` takes operand types (dtype, dims) and gives the result's: a type, or (dtype, sizes), or a list of them. It
    is Python over sizes that are not known (docs/shape-functions.md): loops, ``if`` over sizes, ``assert``. A function
    ``dtype`` beside it gives the dtype, or a list of them; ``shape`` then gives sizes only. ``reference`` takes numpy
    arrays. ``body(b, *operands, **attrs)`` builds the same from other ops: ``b.add(x, y)``,
    ``b.transpose(x, permutation=(1, 0))``; numbers stand for constants. What it asks of sizes must be
    decided. A last operand ``*xs`` takes any number.
    ``attrs`` maps a name to a kind (``egshape.ops.base.ATTR_KINDS``) or to (kind, default).
    elementwise: the result at an index depends on the operands at that index only, all of one shape; rules that move
    broadcasts and transposes then hold for it. target: the name of the ``custom_call`` in StableHLO (default: name).
    Declaring a name again replaces the first. Raises EgshapeError (code ``op-declaration``) for a wrong declaration.

    Examples:
        >>> import egshape
        >>> @egshape.custom_op("example_square", operands=("x",), elementwise=True, doc="x * x")
        ... class Square:
        ...     def shape(x):
        ...         return x
        ...     def reference(x):
        ...         return x * x
        >>> text = b"graph f(%x: f32[4]) { %0: f32[4] = example_square(%x)  return %0 as y }"
        >>> import numpy as np
        >>> egshape.compile(text, "interpret", format="egs")(np.full(4, 3, "f4")).tolist()
        [9.0, 9.0, 9.0, 9.0]
    """
    kinds = dict(attrs or {})
    check_names(name, operands, kinds)
    family = "custom"
    if elementwise:
        family = _ELEMENTWISE.get(len(operands), "")
        if not family or operands[-1].startswith("*"):
            raise _wrong(name, f"an elementwise op has 1 or 2 operands, not {len(operands)}")
        if any((kind if isinstance(kind, str) else kind[0]) not in ("text", "dtype") for kind in kinds.values()):
            raise _wrong(
                name,
                "the attributes of an elementwise op are text",
                "leave elementwise out, or declare an op for each value",
            )

    def declare(body: type) -> type:
        own = vars(body)
        for wanted in ("shape", "reference"):
            if wanted not in own:
                raise _wrong(name, f"the class {body.__name__} has no {wanted}", f"add a function '{wanted}'")
        scratch = Registry()
        op(
            name,
            family=family,
            operands=operands,
            attrs=kinds,
            names={"custom_call": target or name},
            doc=doc or (body.__doc__ or name).strip().splitlines()[0],
            registry=scratch,
        )(body)
        made, dtype = (_plain_function(own.get(each)) for each in ("body", "dtype"))
        decl = _guarded(replace(scratch[name], custom=True), dtype, made)
        registry.add(_same_shapes(decl) if elementwise else decl)
        return body

    return declare


def _guarded(decl: OpDecl, dtype: Callable[..., Any] | None, body: Callable[..., Any] | None) -> OpDecl:
    """The declaration with a shape function and a body that run with unknown sizes, and a reference that refuses what
    the shape function refuses, whose other faults are errors that name the op."""
    asserts = ShapeFunction(decl.name, decl.shape, dtype)

    def reference(*arrays: Any, **attrs: Any) -> Any:
        types = [array_type(each) for each in arrays]
        asserts.hold(types, attrs)
        with explained(f"the reference of the custom op {decl.name}", types, ValueError, IndexError):
            return decl.reference(*arrays, **attrs)

    made = body and symbolic_body(body, asserts)
    return replace(decl, shape=asserts.of, reference=reference, body=made, asserts=asserts)


def _plain_function(member: Any) -> Any:
    return member.__func__ if isinstance(member, staticmethod) else member


_ONE_SHAPE = OpContract("custom_binary", "elementwise", (("x", "T"), ("y", "T")))


def _same_shapes(decl: OpDecl) -> OpDecl:
    """The declaration of an elementwise op, holding two operands to one shape, as rules over such ops rely on."""
    if len(decl.operands) < 2:
        return decl

    def shape(*operands: TensorType, **attrs: Any) -> Any:
        _ONE_SHAPE.infer(*operands)
        return decl.shape(*operands, **attrs)

    def reference(*operands: Any, **attrs: Any) -> Any:
        _ONE_SHAPE.hold(operands, {})
        return decl.reference(*operands, **attrs)

    return replace(decl, shape=shape, reference=reference, contract=_ONE_SHAPE)


def check_names(name: str, operands: Sequence[str], attrs: Mapping[str, Any]) -> None:
    """Raise EgshapeError (code ``op-declaration``) for a name that a user's op, operand or attribute cannot have."""
    if not _NAME.fullmatch(name):
        raise _wrong(name, "the name is not made of small letters, digits and underscores", f"such as {_plain(name)!r}")
    given = [*(operand.removeprefix("*") for operand in operands), *attrs]
    for each in given:
        if not each.isidentifier():
            raise _wrong(name, f"the operand or attribute name {each!r} is no identifier")
    if len(set(given)) != len(given):
        raise _wrong(name, "two operands or attributes have one name")
    if any(operand.startswith("*") for operand in operands[:-1]):
        raise _wrong(name, "only the last operand can take any number")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_0123456789") or "my_op"


def _wrong(name: str, message: str, hint: str = "") -> EgshapeError:
    return EgshapeError(message, where=f"custom op {name!r}", hint=hint, code="op-declaration")


def refusal(name: str, where: str) -> Unsupported:
    """The error of a back end for an op that it does not know and that has no body."""
    return Unsupported(
        f"the custom op {name} has no body, and only the interpreter runs its reference",
        where=where,
        hint=f"give {name} a body(b, ...) of other ops, or use the target 'interpret'",
    )
