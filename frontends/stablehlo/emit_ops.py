"""The text of each op. One function an op (or family); those with regions are in ``emit``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from egshape.dims import Dim
from egshape.errors import Unsupported
from egshape.facts import Relation
from egshape.frontends.stablehlo.emit_checks import condition
from egshape.frontends.stablehlo.emit_scope import SCALAR, Scope, UnknownSource
from egshape.frontends.stablehlo.emit_text import (
    bool_array,
    boolean,
    i64_array,
    ints,
    static_type,
    string,
    type_text,
)
from egshape.ir.graph import Op, Value
from egshape.ir.types import is_integer
from egshape.ops import REGISTRY

Emit = Callable[[Scope, Op], "str | None"]
"""Gives the text of the op without its results, or None when it has bound its result to a name itself."""

EMITTERS: dict[str, Emit] = {}


def _emits(*names: str) -> Callable[[Emit], Emit]:
    def keep(function: Emit) -> Emit:
        for name in names:
            EMITTERS[name] = function
        return function

    return keep


# -- helpers ----


def refs(scope: Scope, values: Sequence[Value]) -> str:
    """SSA names, separated by commas."""
    return ", ".join([scope.names[value] for value in values])


def types(values: Sequence[Value]) -> str:
    """Types, separated by commas."""
    return ", ".join([type_text(value.type) for value in values])


def signature(op: Op) -> str:
    """``(operand types) -> result types``."""
    results = types(op.results)
    return f"({types(op.operands)}) -> {results if len(op.results) == 1 else f'({results})'}"


def constants(sizes: Sequence[Dim]) -> list[int] | None:
    """Sizes as ints, None if one is no constant."""
    out = [dim.const for dim in sizes]
    return None if None in out else out  # type: ignore[return-value]


def is_static(value: Value) -> bool:
    """Whether all sizes of a value are constants."""
    return value.type.shape is not None and all(dim.const is not None for dim in value.type.shape)


def full_name(name: str) -> str:
    """The op's name in MLIR; a CHLO op where StableHLO has none."""
    names = REGISTRY[name].names
    dialect = "chlo" if "chlo" in names and "stablehlo" not in names else "stablehlo"
    return f"{dialect}.{names.get(dialect, name)}"


def shape_operand(scope: Scope, op: Op, index: int, dims: Sequence[Dim]) -> tuple[str, str]:
    """Name and type of a shape operand: operand ``index`` where the op has it, else a vector of ``dims``."""
    if len(op.operands) > index:
        value = op.operands[index]
        return scope.names[value], type_text(value.type)
    return scope.vector(dims), static_type("i32", [len(dims)])


# -- elementwise ----


def elementwise(scope: Scope, op: Op) -> str:
    """Ops without attributes."""
    result = type_text(op.results[0].type)
    name = full_name(op.name)
    if name.startswith("chlo."):
        arrow = f"{types(op.operands)} -> {result}"
        return f"{name} {refs(scope, op.operands)} : {arrow}"
    if all(type_text(operand.type) == result for operand in op.operands):
        return f"{name} {refs(scope, op.operands)} : {result}"
    return f"{name} {refs(scope, op.operands)} : {signature(op)}"


@_emits("square")
def _square(scope: Scope, op: Op) -> str:
    """CHLO has it for floats only."""
    (x,) = op.operands
    if is_integer(x.type.dtype):
        result = type_text(op.results[0].type)
        return f"stablehlo.multiply {refs(scope, (x, x))} : ({types((x, x)).strip('()')}) -> {result}"
    return elementwise(scope, op)


@_emits("convert", "bitcast_convert", "real", "imag", "complex", "is_finite", "clamp", "popcnt")
def _typed(scope: Scope, op: Op) -> str:
    return f"stablehlo.{op.name} {refs(scope, op.operands)} : {signature(op)}"


@_emits("select")
def _select(scope: Scope, op: Op) -> str:
    pred, one, two = op.operands
    result = type_text(op.results[0].type)
    if type_text(one.type) == result and type_text(two.type) == result:
        return f"stablehlo.select {refs(scope, op.operands)} : {type_text(pred.type)}, {result}"
    return f"stablehlo.select {refs(scope, op.operands)} : {signature(op)}"


@_emits("compare")
def _compare(scope: Scope, op: Op) -> str:
    kind = op.attrs["kind"]
    return (
        f"stablehlo.compare {op.attrs['direction']}, {refs(scope, op.operands)}"
        f"{f', {kind}' if kind else ''} : {signature(op)}"
    )


# -- creation ----


@_emits("constant")
def _constant(scope: Scope, op: Op) -> None:
    scope.bind(op.result, scope.constant(op.attrs["value"]))


@_emits("iota")
def _iota(scope: Scope, op: Op) -> str:
    dim, result = op.attrs["dim"], type_text(op.result.type)
    if is_static(op.result):
        return f"stablehlo.iota dim = {dim} : {result}"
    name, type = shape_operand(scope, op, 0, op.attrs["shape"])
    return f"stablehlo.dynamic_iota {name}, dim = {dim} : ({type}) -> {result}"


@_emits("dims")
def _dims(scope: Scope, op: Op) -> str | None:
    elements, shape, dtype = op.attrs["elements"], op.attrs["shape"], op.attrs["dtype"]
    if shape == ():
        scope.bind(op.result, scope.size(elements[0], dtype, SCALAR))
        return None
    flat = scope.vector(elements, dtype)
    if len(shape) == 1:
        scope.bind(op.result, flat)
        return None
    return f"stablehlo.reshape {flat} : ({static_type(dtype, [len(elements)])}) -> {type_text(op.result.type)}"


@_emits("get_dimension_size")
def _get_dimension_size(scope: Scope, op: Op) -> str | None:
    (x,) = op.operands
    axis = op.attrs["dim"]
    try:
        scope.bind(op.result, scope.size(x.type.dims[axis], "i32", SCALAR))
    except (UnknownSource, ValueError):
        return f"stablehlo.get_dimension_size {refs(scope, op.operands)}, dim = {axis} : {signature(op)}"
    return None


# -- movement ----


@_emits("broadcast_in_dim")
def _broadcast(scope: Scope, op: Op) -> str:
    x, dims = op.operands[0], ints(op.attrs["dims"])
    result = type_text(op.result.type)
    if is_static(op.result):
        return f"stablehlo.broadcast_in_dim {scope.names[x]}, dims = {dims} : ({type_text(x.type)}) -> {result}"
    name, type = shape_operand(scope, op, 1, op.attrs["shape"])
    return (
        f"stablehlo.dynamic_broadcast_in_dim {scope.names[x]}, {name}, dims = {dims} : "
        f"({type_text(x.type)}, {type}) -> {result}"
    )


@_emits("reshape")
def _reshape(scope: Scope, op: Op) -> str:
    x, result = op.operands[0], type_text(op.result.type)
    if is_static(op.result):
        return f"stablehlo.reshape {scope.names[x]} : ({type_text(x.type)}) -> {result}"
    name, type = shape_operand(scope, op, 1, op.attrs["shape"])
    return f"stablehlo.dynamic_reshape {scope.names[x]}, {name} : ({type_text(x.type)}, {type}) -> {result}"


@_emits("transpose")
def _transpose(scope: Scope, op: Op) -> str:
    order = ints(op.attrs["permutation"])
    return f"stablehlo.transpose {refs(scope, op.operands)}, dims = {order} : {signature(op)}"


@_emits("reverse")
def _reverse(scope: Scope, op: Op) -> str:
    result = type_text(op.result.type)
    return f"stablehlo.reverse {refs(scope, op.operands)}, dims = {ints(op.attrs['dims'])} : {result}"


@_emits("concatenate")
def _concatenate(scope: Scope, op: Op) -> str:
    return f"stablehlo.concatenate {refs(scope, op.operands)}, dim = {op.attrs['dim']} : {signature(op)}"


@_emits("slice")
def _slice(scope: Scope, op: Op) -> str:
    x, result = op.operands[0], type_text(op.result.type)
    keys = ("starts", "limits", "strides")
    fixed = [constants(op.attrs[key]) for key in keys] if len(op.operands) == 1 else [None]
    if None not in fixed:
        starts, limits, strides = fixed
        ranges = [
            f"{a}:{b}" + (f":{c}" if c != 1 else "")
            for a, b, c in zip(starts or (), limits or (), strides or (), strict=True)
        ]
        return f"stablehlo.slice {scope.names[x]} [{', '.join(ranges)}] : ({type_text(x.type)}) -> {result}"
    cropped = _as_crop(op) if len(op.operands) == 1 else None
    if cropped is not None:
        zero = scope.zero(x.type.dtype)
        low, high = cropped
        scalar = static_type(x.type.dtype, ())
        return (
            f"stablehlo.pad {scope.names[x]}, {zero}, low = {ints(low)}, high = {ints(high)}, "
            f"interior = {ints([0] * len(low))} : ({type_text(x.type)}, {scalar}) -> {result}"
        )
    if len(op.operands) == 1 and constants(op.attrs["starts"]) is None:
        operands = _from_starts(scope, op)
    else:
        operands = [shape_operand(scope, op, 1 + i, op.attrs[key]) for i, key in enumerate(keys)]
    names = ", ".join(name for name, _ in operands)
    kinds = ", ".join(type for _, type in operands)
    return f"stablehlo.real_dynamic_slice {scope.names[x]}, {names} : ({type_text(x.type)}, {kinds}) -> {result}"


def _from_starts(scope: Scope, op: Op) -> list[tuple[str, str]]:
    """Shape operands of a slice with computed starts; limits as start + size, which shows the size."""
    starts, limits, strides = (op.attrs[key] for key in ("starts", "limits", "strides"))
    type = static_type("i32", [len(starts)])
    first = scope.vector(starts)
    extent = scope.vector([limit - start for start, limit in zip(starts, limits, strict=True)])
    last = scope.shared(f"stablehlo.add {first}, {extent} : {type}")
    return [(first, type), (last, type), (scope.vector(strides), type)]


def _as_crop(op: Op) -> tuple[list[int], list[int]] | None:
    """A slice that cuts constant numbers of elements off the ends, as negative padding.

    A static slice needs constant limits, a padding only constant differences."""
    if op.operands[0].type.shape is None or any(dim.const != 1 for dim in op.attrs["strides"]):
        return None
    low, high = [], []
    for start, limit, size in zip(op.attrs["starts"], op.attrs["limits"], op.operands[0].type.shape, strict=True):
        end = limit - size
        if start.const is None or end.const is None:
            return None
        low.append(-start.const)
        high.append(end.const)
    return low, high


@_emits("pad")
def _pad(scope: Scope, op: Op) -> str:
    x, value = op.operands[:2]
    keys = ("low", "high", "interior")
    result, given = type_text(op.result.type), f"{type_text(x.type)}, {type_text(value.type)}"
    fixed = [constants(op.attrs[key]) for key in keys] if len(op.operands) == 2 else [None]
    if None not in fixed:
        text = ", ".join(f"{key} = {ints(numbers or ())}" for key, numbers in zip(keys, fixed, strict=True))
        return f"stablehlo.pad {refs(scope, (x, value))}, {text} : ({given}) -> {result}"
    operands = [shape_operand(scope, op, 2 + i, op.attrs[key]) for i, key in enumerate(keys)]
    names = ", ".join(name for name, _ in operands)
    kinds = ", ".join(type for _, type in operands)
    return f"stablehlo.dynamic_pad {refs(scope, (x, value))}, {names} : ({given}, {kinds}) -> {result}"


@_emits("dynamic_slice")
def _dynamic_slice(scope: Scope, op: Op) -> str:
    sizes = ints(op.attrs["sizes"])
    return f"stablehlo.dynamic_slice {refs(scope, op.operands)}, sizes = {sizes} : {signature(op)}"


@_emits("dynamic_update_slice")
def _dynamic_update_slice(scope: Scope, op: Op) -> str:
    return f"stablehlo.dynamic_update_slice {refs(scope, op.operands)} : {signature(op)}"


@_emits("optimization_barrier")
def _optimization_barrier(scope: Scope, op: Op) -> str:
    """Each operand in the type of its result, which may know more of the sizes."""
    names = []
    for value, result in zip(op.operands, op.results, strict=True):
        name, one, two = scope.names[value], types([value]), types([result])
        same = f"stablehlo.convert {name} : ({one}) -> {two}"
        names.append(name if one == two else scope.line(scope.frames[-1], same))
    results = types(op.results)
    return f'"stablehlo.optimization_barrier"({", ".join(names)}) : ({results}) -> ({results})'


# -- contraction ----


@_emits("dot_general")
def _dot_general(scope: Scope, op: Op) -> str:
    attrs = op.attrs
    text = ""
    if attrs["lhs_batch"]:
        text += f"batching_dims = {ints(attrs['lhs_batch'])} x {ints(attrs['rhs_batch'])}, "
    text += f"contracting_dims = {ints(attrs['lhs_contract'])} x {ints(attrs['rhs_contract'])}"
    if attrs["precision"]:
        text += f", precision = [{', '.join(attrs['precision'])}]"
    return f"stablehlo.dot_general {refs(scope, op.operands)}, {text} : {signature(op)}"


def _letters(batch: int, feature: int, spatial: Sequence[int], names: str) -> str:
    slots = [""] * (len(spatial) + 2)
    slots[batch], slots[feature] = names[0], names[1]
    for number, axis in enumerate(spatial):
        slots[axis] = str(number)
    return f"[{', '.join(slots)}]"


@_emits("convolution")
def _convolution(scope: Scope, op: Op) -> str:
    attrs = op.attrs
    n = attrs["numbers"]
    layout = (
        f"{_letters(n[0], n[1], n[2], 'bf')}x{_letters(n[3], n[4], n[5], 'io')}->{_letters(n[6], n[7], n[8], 'bf')}"
    )
    groups = f"batch_group_count = {attrs['batch_groups']} : i64, feature_group_count = {attrs['feature_groups']} : i64"
    if attrs["precision"]:
        levels = ", ".join(f"#stablehlo<precision {level}>" for level in attrs["precision"])
        groups += f", precision_config = [{levels}]"
    fixed = constants(attrs["padding"]) if len(op.operands) == 2 else None
    if fixed is not None:
        window = (
            f"stride = {ints(attrs['strides'])}, pad = {_rows(fixed)}, "
            f"lhs_dilate = {ints(attrs['lhs_dilation'])}, rhs_dilate = {ints(attrs['rhs_dilation'])}, "
            f"reverse = [{', '.join(map(boolean, attrs['reversal']))}]"
        )
        return (
            f"stablehlo.convolution({refs(scope, op.operands)}) dim_numbers = {layout}, "
            f"window = {{{window}}} "
            f"{{{groups}}} : {signature(op)}"
        )
    lhs, rhs = op.operands[:2]
    name, type = padding_operand(scope, op, 2)
    return (
        f'"stablehlo.dynamic_conv"({refs(scope, (lhs, rhs))}, {name}) <{{{groups}, '
        f"dimension_numbers = #stablehlo.conv<{layout}>, window_strides = {i64_array(attrs['strides'])}, "
        f"lhs_dilation = {i64_array(attrs['lhs_dilation'])}, "
        f"rhs_dilation = {i64_array(attrs['rhs_dilation'])}, "
        f"window_reversal = {bool_array(attrs['reversal'])}}}> : "
        f"({types((lhs, rhs))}, {type}) -> {type_text(op.result.type)}"
    )


def _rows(flat: Sequence[int]) -> str:
    return f"[{', '.join(ints(flat[i : i + 2]) for i in range(0, len(flat), 2))}]"


def padding_operand(scope: Scope, op: Op, index: int) -> tuple[str, str]:
    """Name and type of a padding given as a [k, 2] tensor."""
    if len(op.operands) > index:
        value = op.operands[index]
        return scope.names[value], type_text(value.type)
    return scope.rows(op.attrs["padding"])


# -- indexing ----


def numbers(**fields: Any) -> str:
    """The fields of a dimension-numbers attribute; empty lists and a 0 are left out."""
    return ", ".join(
        f"{key} = {ints(value) if isinstance(value, tuple) else value}"
        for key, value in fields.items()
        if value not in ((), 0)
    )


@_emits("gather")
def _gather(scope: Scope, op: Op) -> str:
    attrs, pair = op.attrs, op.operands[:2]
    fields = numbers(
        offset_dims=tuple(attrs["offset_dims"]),
        collapsed_slice_dims=tuple(attrs["collapsed"]),
        operand_batching_dims=tuple(attrs["operand_batch"]),
        start_indices_batching_dims=tuple(attrs["indices_batch"]),
        start_index_map=tuple(attrs["start_index_map"]),
        index_vector_dim=attrs["index_vector_dim"],
    )
    text = f"dimension_numbers = #stablehlo.gather<{fields}>, indices_are_sorted = {boolean(attrs['sorted'])}"
    fixed = constants(attrs["sizes"]) if len(op.operands) == 2 else None
    result = type_text(op.result.type)
    if fixed is not None:
        return (
            f'"stablehlo.gather"({refs(scope, pair)}) <{{{text}, slice_sizes = {i64_array(fixed)}}}> : '
            f"({types(pair)}) -> {result}"
        )
    name, type = shape_operand(scope, op, 2, attrs["sizes"])
    return f'"stablehlo.dynamic_gather"({refs(scope, pair)}, {name}) <{{{text}}}> : ({types(pair)}, {type}) -> {result}'


# -- effects ----


@_emits("check")
def _check(scope: Scope, op: Op) -> str:
    names, kinds = check_operands(scope, op)
    return (
        f"stablehlo.custom_call @shape_assertion({', '.join(names)}) {{api_version = 2 : i32, "
        f"error_message = {string(op.attrs['message'])}, has_side_effect = true}} : ({', '.join(kinds)}) -> ()"
    )


def check_operands(scope: Scope, op: Op) -> tuple[list[str], list[str]]:
    """Names and types of what a check reads: its condition, and what fills its message."""
    attrs = op.attrs
    if attrs["relation"] == "value":
        names = [scope.names[value] for value in op.operands]
        kinds = [type_text(value.type) for value in op.operands]
    else:
        relation = Relation(attrs["relation"], *attrs["sides"])
        names, kinds = [condition(scope, relation, attrs["args"])], ["tensor<i1>"]
    for dim in attrs["args"]:
        width = scope.width(dim)
        names.append(scope.size(dim, width, SCALAR))
        kinds.append(static_type(width, ()))
    return names, kinds


@_emits("custom_call")
def _custom_call(scope: Scope, op: Op) -> str:
    held = ", ".join(f"{key} = {text}" for key, text in op.attrs["attrs"])
    return (
        f"stablehlo.custom_call @{_symbol_name(op.attrs['target'])}({refs(scope, op.operands)})"
        f"{f' {{{held}}}' if held else ''} : {signature(op)}"
    )


def _declared_op(scope: Scope, op: Op) -> str:
    """An op that a user declared, as a call with its attributes in the backend_config."""
    decl = REGISTRY[op.name]
    held = ", ".join(f"{attr.name} = {_config(op, attr.kind, op.attrs[attr.name])}" for attr in decl.attrs)
    return (
        f"stablehlo.custom_call @{_symbol_name(decl.names['custom_call'])}({refs(scope, op.operands)}) "
        f"{{backend_config = {{{held}}}, api_version = 4 : i32}} : {signature(op)}"
    )


def _config(op: Op, kind: str, value: Any) -> str:
    if kind in ("text", "dtype"):
        return string(value)
    if kind == "int":
        return f"{value} : i64"
    if kind == "bool":
        return "true" if value else "false"
    if kind == "float":
        return f"{float(value)!r} : f64"
    if kind == "axes":
        return f"[{', '.join(f'{axis} : i64' for axis in value)}]"
    if kind == "sizes" and all(dim.const is not None for dim in value):
        return f"[{', '.join(f'{dim.const} : i64' for dim in value)}]"
    raise Unsupported(f"an attribute of the custom op {op.name} ({kind}) has no StableHLO form", where=str(op.location),
                      hint="give the op a body")  # fmt: skip


def _symbol_name(name: str) -> str:
    plain = name.replace("_", "a").replace(".", "a").replace("$", "a")
    return name if plain.isalnum() and plain.isascii() and not name[0].isdigit() else string(name)


def emitter(op: Op) -> Emit:
    """How an op is written. Raises Unsupported for one that has no StableHLO form."""
    found = EMITTERS.get(op.name)
    if found is not None:
        return found
    decl = REGISTRY[op.name]
    if decl.custom:
        return _declared_op
    if decl.attrs or decl.regions or not op.operands:
        raise Unsupported(f"the op {op.name} has no StableHLO form", where=str(op.location))
    return elementwise
