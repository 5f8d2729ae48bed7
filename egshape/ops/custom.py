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

import numpy as np

from egshape.dims import Dim, const
from egshape.errors import EgshapeError, Unsupported
from egshape.ir.types import DTYPES, TEXT, TensorType
from egshape.ops.base import REGISTRY, OpDecl, Registry
from egshape.ops.contracts import OpContract
from egshape.ops.declare import op

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

    ``shape`` takes operand types (``TensorType``: dtype, dims) and gives the result's: a type, or (dtype, sizes), or a
    list of them. ``reference`` takes numpy arrays. ``body(b, *operands, **attrs)`` builds the same from other ops:
    ``b.add(x, y)``, ``b.transpose(x, permutation=(1, 0))``; numbers stand for constants. A last operand ``*xs`` takes
    any number. ``attrs`` maps a name to a kind (``egshape.ops.base.ATTR_KINDS``) or to (kind, default).
    elementwise: the result at an index depends on the operands at that index only, all of one shape; rules that move
    broadcasts and transposes then hold for it. target: the name of the ``custom_call`` in StableHLO (default: name).
    Declaring a name again replaces the first. Raises EgshapeError (code ``op-declaration``) for a wrong declaration."""
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
        made = own.get("body")
        decl = replace(scratch[name], body=made.__func__ if isinstance(made, staticmethod) else made, custom=True)
        registry.add(_guarded(_same_shapes(decl) if elementwise else decl))
        return body

    return declare


def _guarded(decl: OpDecl) -> OpDecl:
    """The declaration with faults of the user's functions as errors that name the op."""

    def guard(what: str, function: Callable[..., Any], passed: tuple[type[Exception], ...]) -> Callable[..., Any]:
        def call(*args: Any, **attrs: Any) -> Any:
            try:
                return function(*args, **attrs)
            except EgshapeError:
                raise
            except Exception as error:
                if isinstance(error, passed):
                    raise
                message = f"the {what} of the custom op {decl.name} fails: {type(error).__name__}: {error}"
                raise EgshapeError(
                    message, hint=f"given were {', '.join(map(_shown, args))}", code="custom-op"
                ) from error

        return call

    def shape(*args: Any, **attrs: Any) -> Any:
        found = decl.shape(*args, **attrs)
        types = [_typed(each) for each in (found if isinstance(found, list) else [found])]
        return types if isinstance(found, list) else types[0]

    return replace(
        decl,
        shape=guard("shape function", shape, ()),
        reference=guard("reference", decl.reference, (ValueError, IndexError)),
    )


def _typed(found: Any) -> tuple[str, tuple[Dim | None, ...] | None]:
    """A type that a user's function gives: a type, or a dtype with sizes, which may be numbers."""
    wanted = f"{found!r} is no type (wanted: one, or a dtype such as 'f32' with sizes)"
    pair = (found.dtype, found.shape) if isinstance(found, TensorType) else found
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise TypeError(wanted)
    dtype, sizes = pair
    if dtype not in (*DTYPES, TEXT):
        raise TypeError(wanted)
    if sizes is None:
        return dtype, None
    dims = tuple(const(int(each)) if isinstance(each, int | np.integer) else each for each in sizes)
    if not all(each is None or isinstance(each, Dim) for each in dims):
        raise TypeError(wanted)
    return dtype, dims


def _shown(arg: Any) -> str:
    return str(arg) if isinstance(arg, TensorType) else f"{arg.dtype}{list(arg.shape)}"


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
