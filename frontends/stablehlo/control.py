"""Ops with regions, calls, assertions and custom calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from egshape.dims import Dim, const
from egshape.errors import EgshapeError, ParseError, Unsupported
from egshape.facts import Relation
from egshape.frontends.stablehlo import sharding
from egshape.frontends.stablehlo.blocks import BIND
from egshape.frontends.stablehlo.emit_text import DATA_CHECK
from egshape.frontends.stablehlo.handlers import ints_or
from egshape.frontends.stablehlo.node import Body, Node
from egshape.frontends.stablehlo.scope import Handler, Scope, dims, has_effect
from egshape.frontends.stablehlo.stated import check_relation, sized
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Block, Value
from egshape.ir.types import is_float
from egshape.ops import REGISTRY
from egshape.ops.base import OpDecl
from egshape.ops.kinds import comparison

Results = Sequence[Value | None]


# -- calls ---------------------------------------------------------------------------------------------


def _call(scope: Scope, node: Node) -> Results:
    return scope.call(node.attributes["callee"], [scope.values[key] for key in node.operands], node)


def _composite(scope: Scope, node: Node) -> Results:
    if node.attributes["name"] == DATA_CHECK:
        given = node.attributes.get("composite_attributes", {})
        pred, *shown = scope.operands(node)
        check(scope, node, pred, shown, given.get("error_message", "check"))
        return ()
    name = node.attributes["decomposition"]
    operands = scope.operands(node)
    region = scope.region_of(scope.enter(name, node), operands, name, node.location)
    attrs = {
        "name": node.attributes["name"],
        "attrs": node.attributes["texts"],
        "version": node.attributes.get("version", 0),
    }
    return scope.emit(node, "composite", operands, attrs, regions=(region,))


# -- top_k ---------------------------------------------------------------------------------------------


def _top_k(scope: Scope, node: Node) -> Results:
    return _top_k_of(scope, node, node.attributes["k"])


def _dynamic_top_k(scope: Scope, node: Node) -> Results:
    """The number is a size."""
    (k,), requires = scope.builder.sizes("top_k", scope.operand(node, 1), "shape")
    size = scope.operand(node, 0).type.dims[-1]
    fits = (Relation("<=", const(0), k, "top_k"), Relation("<=", k, size, "top_k"))
    return scope.emit(
        node,
        "composite",
        (scope.operand(node, 0),),
        {"name": "stablehlo.dynamic_top_k"},
        regions=(_first(scope, node, k),),
        requires=(*requires, *fits),
    )


def _top_k_of(scope: Scope, node: Node, k: int) -> Results:
    attrs = {"name": "chlo.top_k", "attrs": (("k", f"{k} : i64"),), "version": 1}
    return scope.emit(node, "composite", (scope.operand(node, 0),), attrs, regions=(_first(scope, node, const(k)),))


def _first(scope: Scope, node: Node, k: Dim) -> Block:
    """The k largest along the last axis and their places: what is sorted, sliced."""
    x = scope.operand(node, 0)
    inner = scope.builder.child()
    arg = inner.arg(None, x.type.dtype, x.type.dims)
    axis = x.type.rank - 1
    places = inner.one("iota", (), {"dtype": "i32", "dim": axis, "shape": x.type.dims}, location=node.location)
    both = inner.add(
        "sort",
        (arg, places),
        {"dim": axis, "stable": True},
        location=node.location,
        regions=(_descending(inner, x.type.dtype),),
    )
    cut = {
        "starts": dims([0] * x.type.rank),
        "limits": (*x.type.dims[:-1], k),
        "strides": dims([1] * x.type.rank),
    }
    return inner.finish([inner.one("slice", (value,), cut, location=node.location) for value in both])


def _descending(builder: BlockBuilder, dtype: str) -> Block:
    inner = builder.child()
    left, right, *_ = [inner.arg(None, each, ()) for each in (dtype, dtype, "i32", "i32")]
    kind = "TOTALORDER" if is_float(dtype) else comparison(dtype)
    return inner.finish([inner.one("compare", (left, right), {"direction": "GT", "kind": kind})])


def _sharding(scope: Scope, node: Node) -> Results:
    return [sharding.of_value(scope.builder, node, scope.operand(node, 0))]


# -- reducers ------------------------------------------------------------------------------------------


def _reduce(scope: Scope, node: Node) -> Results:
    attrs = {"dims": tuple(node.attributes["dimensions"])}
    return scope.emit(node, "reduce", scope.operands(node), attrs, regions=_regions(scope, node))


def _regions(scope: Scope, node: Node) -> tuple[Block, ...]:
    return tuple(scope.region(node, body) for body in node.regions)


def _reduce_window(scope: Scope, node: Node) -> Results:
    rank = len(node.attributes["window_dimensions"])
    attrs = {
        "window": dims(node.attributes["window_dimensions"]),
        "strides": dims(ints_or(node, "window_strides", 1, rank)),
        "base_dilation": dims(ints_or(node, "base_dilations", 1, rank)),
        "window_dilation": dims(ints_or(node, "window_dilations", 1, rank)),
        "padding": dims(ints_or(node, "padding", 0, 2 * rank)),
    }
    return scope.emit(node, "reduce_window", scope.operands(node), attrs, regions=_regions(scope, node))


_WINDOW_KEYS = ("window", "strides", "base_dilation", "window_dilation", "padding")


def _dynamic_reduce_window(scope: Scope, node: Node) -> Results:
    """custom_call @stablehlo.dynamic_reduce_window(inputs, inits, window, strides, dilations, padding)."""
    operands = scope.operands(node)
    data, sizes = operands[: -len(_WINDOW_KEYS)], operands[-len(_WINDOW_KEYS) :]
    attrs: dict[str, tuple[Dim, ...]] = {}
    requires: list[Relation] = []
    for key, value in zip(_WINDOW_KEYS, sizes, strict=True):
        attrs[key], needed = scope.builder.sizes("reduce_window", value, key, signed=key == "padding")
        requires.extend(needed)
    (name,) = node.attributes["called_computations"]
    body = scope.enter(name, node)
    inner = Scope(scope.program, scope.builder.child(), {}, (*scope.stack, name), apart=True)
    for arg, info in zip(body.args, body.types, strict=True):
        inner.values[arg] = inner.builder.arg(None, info.dtype, info.shape)
    region = inner.builder.finish(inner.tensors(body, node.location))
    return sized(scope, node, "reduce_window", data, attrs, regions=(region,), requires=requires)


def _select_and_scatter(scope: Scope, node: Node) -> Results:
    operands = scope.operands(node)
    rank = operands[0].type.rank
    attrs = {
        "window": ints_or(node, "window_dimensions", 1, rank),
        "strides": ints_or(node, "window_strides", 1, rank),
        "padding": ints_or(node, "padding", 0, 2 * rank),
    }
    return scope.emit(node, "select_and_scatter", operands, attrs, regions=_regions(scope, node))


def _sort(scope: Scope, node: Node) -> Results:
    operands = scope.operands(node)
    dim = int(node.attributes.get("dimension", -1))
    attrs = {
        "dim": dim + operands[0].type.rank if dim < 0 else dim,
        "stable": bool(node.attributes.get("is_stable", False)),
    }
    return scope.emit(node, "sort", operands, attrs, regions=_regions(scope, node))


def _scatter(scope: Scope, node: Node) -> Results:
    attrs = {
        **node.attributes["scatter_dimension_numbers"],
        "sorted": bool(node.attributes.get("indices_are_sorted", False)),
        "unique": bool(node.attributes.get("unique_indices", False)),
    }
    return scope.emit(node, "scatter", scope.operands(node), attrs, regions=_regions(scope, node))


# -- control flow --------------------------------------------------------------------------------------


def _branches(name: str) -> Handler:
    def handler(scope: Scope, node: Node) -> Results:
        taken = _taken(scope, node)
        if taken is not None:
            return scope.run(node.regions[taken])
        return scope.emit(node, name, scope.operands(node), regions=_regions(scope, node))

    return handler


def _taken(scope: Scope, node: Node) -> int | None:
    """The branch that runs at all sizes; None if that is not known. An index out of range takes the last one."""
    known = scope.builder.elements(scope.operand(node, 0))
    item = None if known is None else known.reshape(-1)[0]
    if isinstance(item, bool):
        return 0 if item else 1
    number = item.const if isinstance(item, Dim) else None
    last = len(node.regions) - 1
    return None if number is None else number if 0 <= number <= last else last


def _never_runs(scope: Scope, node: Node, inits: Sequence[Value]) -> bool:
    """Whether the condition of a loop is false at the beginning, whatever the sizes. One that checks something runs."""
    test = node.regions[0]
    values = {**scope.values, **dict(zip(test.args, inits, strict=True))}
    trial = Scope(scope.program, scope.builder.trial(), values, scope.stack, scope.apart)
    (goes,) = trial.tensors(test, node.location)
    known = trial.builder.elements(goes)
    return known is not None and known.reshape(-1)[0] is False and not any(map(has_effect, trial.builder.ops))


def _while(scope: Scope, node: Node) -> Results:
    """A loop. Carried sizes are taken to stay as they are; where the body gives one in another form, the axis
    gets a symbol of the region, and the body is converted anew, until no further axis changes."""
    inits = scope.operands(node)
    if _never_runs(scope, node, inits):
        return inits
    cond, body = node.regions
    kept = [key == given for key, given in zip(body.args, body.results, strict=True)]
    loose: set[tuple[int, int]] = set()
    while True:
        number = next(scope.program.numbers)
        block = _loop_region(scope, node, body, inits, loose, kept, f"iter{number}")
        changed = _changed(body, block) - loose
        if not changed:
            break
        loose |= changed
    test = _loop_region(scope, node, cond, inits, loose, kept, f"cond{number}")
    results = scope.emit(node, "while", inits, regions=(test, block))
    for value, init, same in zip(results, inits, kept, strict=True):
        known = scope.builder.elements(init) if same else None
        if known is not None:
            scope.builder.set_elements(value, known)
    return results


def _loop_region(
    scope: Scope,
    node: Node,
    body: Body,
    inits: Sequence[Value],
    loose: set[tuple[int, int]],
    kept: Sequence[bool],
    label: str,
) -> Block:
    inner = scope.child()
    for index, (key, info, init) in enumerate(zip(body.args, body.types, inits, strict=True)):
        shape: list[Dim | None] | None = None
        if init.type.shape is not None:
            stated = info.shape or (None,) * init.type.rank
            shape = [
                const(said) if said is not None else None if (index, axis) in loose else size
                for axis, (size, said) in enumerate(zip(init.type.shape, stated, strict=True))
            ]
        name = f"{label}_{index}"
        axes = [f"%{name}.{axis}" for axis in range(len(shape or ()))]
        arg = inner.builder.arg(name, init.type.dtype, shape, axes)
        known = scope.builder.elements(init) if kept[index] else None
        if known is not None:
            inner.builder.set_elements(arg, known)
        scope.values[key] = arg
    return inner.builder.finish(inner.tensors(body, node.location))


def _changed(body: Body, block: Block) -> set[tuple[int, int]]:
    """The axes whose size the body gives in another form than it takes, unless the model states a number."""
    return {
        (index, axis)
        for index, (info, arg, result) in enumerate(zip(body.types, block.args, block.results, strict=True))
        if arg.type.shape is not None and result.type.shape is not None
        for axis, (before, after) in enumerate(zip(arg.type.shape, result.type.shape, strict=True))
        if before is not after and (info.shape is None or info.shape[axis] is None)
    }


# -- checks and custom calls ---------------------------------------------------------------------------


def _custom_call(scope: Scope, node: Node) -> Results:
    target = node.attributes["call_target_name"]
    handler = _CUSTOM.get(target) or scope.program.handlers.get(target if target in SHAPES else "")
    if handler is not None:
        return handler(scope, node)
    return _declared_op(scope, node, REGISTRY.by_frontend("custom_call")[target])


SHAPES = frozenset(("tie_shape", "get_shape", "flow.tensor.tie_shape", "shapex.tie_shape", "shapex.get_ranked_shape"))
"""Targets of custom calls that are read as the ops of these names: ``shapecode``."""


def known_target(op: Any) -> bool:
    """Whether a call of its target is read by its parts, and not carried through."""
    target = op.attributes["call_target_name"].value
    if target == sharding.CALL:
        return sharding.is_sharding(op)
    return target in _CUSTOM or target in SHAPES or target in REGISTRY.by_frontend("custom_call")


def _declared_op(scope: Scope, node: Node, decl: OpDecl) -> Results:
    """A call of an op that the user declared; its attributes stand in the backend_config."""
    held = (node.attributes.get("backend_config"), node.attributes.get("mhlo.backend_config"))
    given = {key: value for each in held if isinstance(each, dict) for key, value in each.items()}
    attrs = {attr.name: _as_kind(given[attr.name], attr.kind) for attr in decl.attrs if attr.name in given}
    lacking = [attr.name for attr in decl.attrs if attr.default is ... and attr.name not in given]
    if lacking:
        raise ParseError(
            f"@{node.attributes['call_target_name']} needs the attribute {lacking[0]!r}",
            where=str(node.location),
            hint=f"write backend_config = {{{lacking[0]} = ...}}",
        )
    return scope.emit(node, decl.name, scope.operands(node), attrs)


def _as_kind(value: Any, kind: str) -> Any:
    if kind in ("axes", "record") and isinstance(value, list | tuple):
        return tuple(int(each) if kind == "axes" else each for each in value)
    if kind == "sizes":
        return tuple(const(int(each)) for each in value)
    return {"int": int, "bool": bool, "float": float}.get(kind, lambda same: same)(value)


def _assertion(scope: Scope, node: Node) -> Results:
    pred, *shown = scope.operands(node)
    check(scope, node, pred, shown, node.attributes.get("error_message", "shape assertion"))
    return ()


def check(scope: Scope, node: Node, pred: Value, shown: Sequence[Value], message: str) -> None:
    """A condition that must hold here: as a relation on sizes where it is one, noted as proved where its form
    shows it, else as the value that it is."""
    known = scope.builder.elements(pred)
    condition = None if known is None else known.reshape(-1)[0]
    if condition is True:
        note_proved(scope, node, message, shown)
        return
    args = _scalars(scope, shown)
    if isinstance(condition, Relation) and args is not None:
        check_relation(scope, node, condition, message, args)
        return
    scope.builder.add("check", (pred, *shown), {"message": message}, location=node.location)


def note_proved(scope: Scope, node: Node, message: str, shown: Sequence[Value] = ()) -> None:
    """Keep count of an assertion that holds by form."""
    names = {name for size in _scalars(scope, shown) or () for name in size.symbols()}
    scope.program.proved.append((message, str(node.location), scope.program.bounds.why(names)))


def _scalars(scope: Scope, values: Sequence[Value]) -> list[Dim] | None:
    """The values as sizes, None if one is not known to be one."""
    out: list[Dim] = []
    for value in values:
        known = scope.builder.elements(value)
        item = None if known is None or known.size != 1 else known.reshape(-1)[0]
        if not isinstance(item, Dim):
            return None
        out.append(item)
    return out


def _mhlo_erf(scope: Scope, node: Node) -> Results:
    return scope.emit(node, "erf", scope.operands(node))


def _mhlo_topk(scope: Scope, node: Node) -> Results:
    given: dict[str, Any] = node.attributes.get("mhlo.attributes", {})
    if not given.get("largest", True) or "k" not in given:
        raise Unsupported("custom_call @mhlo.topk without k, or of the smallest", where=str(node.location))
    return _top_k_of(scope, node, int(given["k"]))


_CUSTOM: dict[str, Handler] = {
    "shape_assertion": _assertion,
    "stablehlo.dynamic_reduce_window": _dynamic_reduce_window,
    "stablehlo.dynamic_top_k": _dynamic_top_k,
    "mhlo.erf": _mhlo_erf,
    "mhlo.topk": _mhlo_topk,
    sharding.CALL: _sharding,
}


def _bind(scope: Scope, node: Node) -> Results:
    return [scope.values[key] for key in node.operands]


def _cf_assert(scope: Scope, node: Node) -> Results:
    check(scope, node, scope.operand(node, 0), (), node.attributes.get("msg", "assertion"))
    return ()


def _unexpected_return(scope: Scope, node: Node) -> Results:
    raise EgshapeError(f"{node.name} stands before the end of its block", where=str(node.location))


HANDLERS: dict[str, Handler] = {
    BIND: _bind,
    "cf.assert": _cf_assert,
    "func.call": _call,
    "func.return": _unexpected_return,
    "stablehlo.return": _unexpected_return,
    "stablehlo.composite": _composite,
    "stablehlo.custom_call": _custom_call,
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.select_and_scatter": _select_and_scatter,
    "stablehlo.sort": _sort,
    "stablehlo.scatter": _scatter,
    "stablehlo.while": _while,
    "stablehlo.if": _branches("if"),
    "stablehlo.case": _branches("case"),
    "chlo.top_k": _top_k,
    sharding.CONSTRAINT: _sharding,
}
"""Region ops, calls and checks by MLIR name."""
