"""LSTM, GRU and RNN: a loop over the time steps for each direction; the products with the inputs stand before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from egshape.dims import Dim, const
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops.elementwise import compare, convert
from egshape.frontends.onnx.ops.movement import transposed
from egshape.frontends.onnx.ops.quantize import Weights
from egshape.frontends.onnx.ops.shaping import reshape, window
from egshape.frontends.onnx.registry import NoLowering, onnx_op
from egshape.frontends.onnx.scope import Scope
from egshape.ir.graph import Value

_ZERO, _ONE = const(0), const(1)
Activation = Callable[[Scope, Value], Value]
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}


@dataclass(frozen=True)
class Cell:
    """One direction: its weights as the loop reads them, and how gates are squashed.

    weights: (gates*hidden, hidden), or integers. before, after: biases of the input and of the state,
    (gates*hidden,) or None."""

    op: str
    hidden: Dim
    weights: Value | Weights
    before: Value | None
    after: Value | None
    peepholes: Value | None
    squash: tuple[Activation, ...]
    clip: float | None
    coupled: bool
    """LSTM: the forget gate is 1 - the input gate. GRU: the state is multiplied before it is reset."""


@onnx_op("LSTM", composite=True)
def lstm(
    s: Scope,
    node: Node,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    lengths: Value | None = None,
    h: Value | None = None,
    c: Value | None = None,
    peepholes: Value | None = None,
) -> list[Value]:
    """Y, Y_h, Y_c."""
    return _recurrent(s, node, x, w, r, bias, lengths, h, c, peepholes)


@onnx_op("DynamicQuantizeLSTM", domain="com.microsoft", composite=True)
def dynamic_quantize_lstm(
    s: Scope,
    node: Node,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None,
    lengths: Value | None,
    h: Value | None,
    c: Value | None,
    peepholes: Value | None,
    w_scale: Value,
    w_zero: Value,
    r_scale: Value,
    r_zero: Value,
) -> list[Value]:
    """ONNX Runtime's LSTM whose weights are integers (direction, input, gates), and whose input and state are quantized
    to ui8 before each product (docs/ContribOperators.md there): products are added up and then the sum of both biases,
    in that order."""
    return _recurrent(
        s, node, x, Weights(w, w_scale, w_zero), Weights(r, r_scale, r_zero), bias, lengths, h, c, peepholes
    )


@onnx_op("GRU", "RNN", composite=True)
def gru(
    s: Scope,
    node: Node,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    lengths: Value | None = None,
    h: Value | None = None,
) -> list[Value]:
    """Y, Y_h."""
    return _recurrent(s, node, x, w, r, bias, lengths, h, None, None)


def _recurrent(
    s: Scope,
    node: Node,
    x: Value,
    w: Value | Weights,
    r: Value | Weights,
    bias: Value | None,
    lengths: Value | None,
    h: Value | None,
    c: Value | None,
    peepholes: Value | None,
) -> list[Value]:
    for value, rank in ((x, 3), (_held(w), 3), (_held(r), 3), (bias, 2), (lengths, 1), (h, 3), (c, 3), (peepholes, 2)):
        if value is not None and value.type.rank != rank:
            raise node.error(f"takes {value.type} where a tensor of rank {rank} belongs")
    way, batch_first = node.text("direction", "forward"), node.flag("layout", False)
    if way not in ("forward", "reverse", "bidirectional"):
        raise node.error(f"has the direction {way}")
    if batch_first:
        x = transposed(s, x, (1, 0, 2))
        h, c = (None if each is None else transposed(s, each, (1, 0, 2)) for each in (h, c))
    turned = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[way]
    columns: list[list[Value]] = []
    for place, backwards in enumerate(turned):
        cell = _cell(s, node, place, r, bias, peepholes, len(turned))
        start = [
            _part(s, each, place)
            if each is not None
            else s.spread(s.scalar(0, x.type.dtype), (x.type.dims[1], cell.hidden))
            for each in (h, c)
        ]
        states = start if cell.op == "LSTM" else start[:1]
        columns.append(_direction(s, cell, x, _weights(s, w, place), states, lengths, backwards))
    parts = [_stacked(s, [column[0] for column in columns], 1)]
    parts += [_stacked(s, [column[at] for column in columns], 0) for at in range(1, len(columns[0]))]
    if batch_first:
        parts = [transposed(s, parts[0], (2, 0, 1, 3)), *(transposed(s, each, (1, 0, 2)) for each in parts[1:])]
    return parts


def _held(weights: Value | Weights) -> Value:
    return weights.values if isinstance(weights, Weights) else weights


def _weights(s: Scope, weights: Value | Weights, place: int) -> Value | Weights:
    """The weights of a direction."""
    if isinstance(weights, Weights):
        return Weights(*(_part(s, each, place) for each in (weights.values, weights.scale, weights.zero)))
    return _part(s, weights, place)


def _part(s: Scope, value: Value, place: int) -> Value:
    cut = window(s, value, 0, const(place), const(place + 1))
    return reshape(s, cut, value.type.dims[1:])


def _stacked(s: Scope, values: Sequence[Value], axis: int) -> Value:
    wide = [reshape(s, each, (*each.type.dims[:axis], _ONE, *each.type.dims[axis:])) for each in values]
    return wide[0] if len(wide) == 1 else s.one("concatenate", wide, dim=axis)


def _cell(
    s: Scope, node: Node, place: int, r: Value | Weights, bias: Value | None, peepholes: Value | None, directions: int
) -> Cell:
    kind = "LSTM" if node.op.endswith("LSTM") else node.op
    hidden, gates = _held(r).type.dims[1 if isinstance(r, Weights) else 2], _GATES[kind]
    before = after = None
    if bias is not None:
        both = _part(s, bias, place)
        before, after = (window(s, both, 0, hidden * (side * gates), hidden * ((side + 1) * gates)) for side in (0, 1))
    names = node.texts("activations", None) or _DEFAULTS[kind] * directions
    each = len(_DEFAULTS[kind])
    alphas, betas = list(node.floats("activation_alpha", ())), list(node.floats("activation_beta", ()))
    squash = [_activation(name, alphas, betas) for name in names]
    return Cell(
        kind,
        hidden,
        _weights(s, r, place),
        before,
        after,
        None if peepholes is None else _part(s, peepholes, place),
        tuple(squash[place * each : (place + 1) * each]),
        node.float("clip", None),
        node.flag("input_forget" if kind == "LSTM" else "linear_before_reset", False),
    )


_PLAIN = {"Sigmoid": "logistic", "Tanh": "tanh"}


def _activation(name: str, alphas: list[float], betas: list[float]) -> Activation:
    """An activation by name; those with parameters take the next ones of the lists."""
    key = name.lower()
    for plain, ours in _PLAIN.items():
        if key == plain.lower():
            return lambda s, x: s.one(ours, (x,))
    if key == "relu":
        return lambda s, x: s.one("maximum", (x, s.full(0, x)))
    if key == "softsign":
        return lambda s, x: s.one("divide", (x, _plus(s, s.one("abs", (x,)), 1)))
    if key == "softplus":
        return lambda s, x: s.one("log_plus_one", (s.one("exponential", (x,)),))
    alpha = {
        "affine": 1.0,
        "leakyrelu": 0.01,
        "thresholdedrelu": 1.0,
        "scaledtanh": 1.0,
        "hardsigmoid": 0.2,
        "elu": 1.0,
    }.get(key)
    if alpha is None:
        raise NoLowering(f"the activation {name}")
    a = alphas.pop(0) if alphas else alpha
    if key in ("affine", "scaledtanh", "hardsigmoid"):
        b = betas.pop(0) if betas else {"affine": 0.0, "scaledtanh": 1.0, "hardsigmoid": 0.5}[key]
        return lambda s, x: _lined(s, key, x, a, b)
    return lambda s, x: _bent(s, key, x, a)


def _times(s: Scope, x: Value, number: float) -> Value:
    return s.one("multiply", (x, s.full(number, x)))


def _plus(s: Scope, x: Value, number: float) -> Value:
    return s.one("add", (x, s.full(number, x)))


def _lined(s: Scope, key: str, x: Value, a: float, b: float) -> Value:
    if key == "scaledtanh":
        return _times(s, s.one("tanh", (_times(s, x, b),)), a)
    line = _plus(s, _times(s, x, a), b)
    return line if key == "affine" else s.one("clamp", (s.scalar(0, x.type.dtype), line, s.scalar(1, x.type.dtype)))


def _bent(s: Scope, key: str, x: Value, a: float) -> Value:
    zero = s.full(0, x)
    if key == "thresholdedrelu":
        return s.one("select", (compare(s, "GT", x, s.full(a, x)), x, zero))
    low = _times(s, x if key == "leakyrelu" else s.one("exponential_minus_one", (x,)), a)
    return s.one("select", (compare(s, "GE", x, zero), x, low))


# -- the loop ----------------------------------------------------------------------------------------------------


def _direction(
    s: Scope, cell: Cell, x: Value, w: Value | Weights, states: Sequence[Value], lengths: Value | None, backwards: bool
) -> list[Value]:
    """All outputs of one direction, (time, batch, hidden), and the last states."""
    dtype, (steps, batch, _) = x.type.dtype, x.type.dims
    if isinstance(w, Weights):
        ahead = w.times(s, x)
    else:
        ahead = s.one(
            "dot_general", (x, w), lhs_batch=(), rhs_batch=(), lhs_contract=(2,), rhs_contract=(1,), dtype=dtype
        )
    if cell.before is not None and not isinstance(w, Weights):
        ahead = s.one("add", (ahead, s.one("broadcast_in_dim", (cell.before,), dims=(2,), shape=ahead.type.dims)))
    count = s.vector([steps], "i64", ())
    empty = s.spread(s.scalar(0, dtype), (steps, batch, cell.hidden))
    carried = [s.scalar(0, "i64"), empty, *states]
    types = [(each.type.dtype, each.type.dims) for each in carried]

    def going(inner: Scope, step: Value, *rest: Value) -> Value:
        return inner.one("compare", (step, count), direction="LT", kind="SIGNED")

    def body(inner: Scope, step: Value, out: Value, *old: Value) -> Sequence[Value]:
        last = inner.one("subtract", (count, inner.scalar(1, "i64")))
        at = inner.one("subtract", (last, step)) if backwards else step
        now = inner.one(
            "gather",
            (ahead, reshape(inner, at, (_ONE,))),
            offset_dims=(0, 1),
            collapsed=(0,),
            start_index_map=(0,),
            index_vector_dim=0,
            sizes=(_ONE, *ahead.type.dims[1:]),
        )
        new = list(_STEPS[cell.op](inner, cell, now, *old))
        given = new[0]
        if lengths is not None:
            live = _live(inner, lengths, at, new[0].type.dims)
            given = inner.one("select", (live, new[0], inner.full(0, new[0])))
            new = [inner.one("select", (live, one, two)) for one, two in zip(new, old, strict=True)]
        zero = inner.scalar(0, "i64")
        row = reshape(inner, given, (_ONE, *given.type.dims))
        out = inner.one("dynamic_update_slice", (out, row, at, zero, zero))
        return [inner.one("add", (step, inner.scalar(1, "i64"))), out, *new]

    found = s.add("while", carried, {}, regions=(s.region(types, going), s.region(types, body)))
    return list(found[1:])


def _live(s: Scope, lengths: Value, at: Value, shape: Sequence[Dim]) -> Value:
    """Which examples of the batch have a step here."""
    ends = convert(s, lengths, "i64")
    here = s.spread(at, ends.type.dims)
    live = s.one("compare", (here, ends), direction="LT", kind="SIGNED")
    return s.one("broadcast_in_dim", (live,), dims=(0,), shape=tuple(shape))


def _gate(s: Scope, cell: Cell, wide: Value, place: int) -> Value:
    return window(s, wide, 1, cell.hidden * place, cell.hidden * (place + 1))


def _state(s: Scope, cell: Cell, h: Value, first: int, last: int, biased: bool = True) -> Value:
    """The state times the rows of gates ``first .. last - 1``, with their bias."""
    if isinstance(cell.weights, Weights):
        return cell.weights.times(s, h)
    weights = window(s, cell.weights, 0, cell.hidden * first, cell.hidden * last)
    out = s.one(
        "dot_general",
        (h, weights),
        lhs_batch=(),
        rhs_batch=(),
        lhs_contract=(1,),
        rhs_contract=(1,),
        dtype=h.type.dtype,
    )
    if cell.after is None or not biased:
        return out
    bias = window(s, cell.after, 0, cell.hidden * first, cell.hidden * last)
    return s.one("add", (out, s.one("broadcast_in_dim", (bias,), dims=(1,), shape=out.type.dims)))


def _squashed(s: Scope, cell: Cell, which: int, x: Value) -> Value:
    if cell.clip is not None and np.isfinite(cell.clip) and cell.clip > 0:
        x = s.one("clamp", (s.scalar(-cell.clip, x.type.dtype), x, s.scalar(cell.clip, x.type.dtype)))
    return cell.squash[which](s, x)


def _peeped(s: Scope, cell: Cell, x: Value, c: Value, place: int) -> Value:
    if cell.peepholes is None:
        return x
    weight = window(s, cell.peepholes, 0, cell.hidden * place, cell.hidden * (place + 1))
    return s.one("add", (x, s.one("multiply", (s.one("broadcast_in_dim", (weight,), dims=(1,), shape=c.type.dims), c))))


def _lstm_step(s: Scope, cell: Cell, ahead: Value, h: Value, c: Value) -> Sequence[Value]:
    """Gates stand in the order input, output, forget, cell; peepholes in the order input, output, forget."""
    wide = s.one("add", (ahead, _state(s, cell, h, 0, 4)))
    if isinstance(cell.weights, Weights) and cell.before is not None and cell.after is not None:
        both = s.one("add", (cell.before, cell.after))
        wide = s.one("add", (wide, s.one("broadcast_in_dim", (both,), dims=(1,), shape=wide.type.dims)))
    enter = _squashed(s, cell, 0, _peeped(s, cell, _gate(s, cell, wide, 0), c, 0))
    if cell.coupled:
        keep = s.one("subtract", (s.full(1, enter), enter))
    else:
        keep = _squashed(s, cell, 0, _peeped(s, cell, _gate(s, cell, wide, 2), c, 2))
    fresh = _squashed(s, cell, 1, _gate(s, cell, wide, 3))
    new = s.one("add", (s.one("multiply", (keep, c)), s.one("multiply", (enter, fresh))))
    leave = _squashed(s, cell, 0, _peeped(s, cell, _gate(s, cell, wide, 1), new, 1))
    return s.one("multiply", (leave, _squashed(s, cell, 2, new))), new


def _gru_step(s: Scope, cell: Cell, ahead: Value, h: Value) -> Sequence[Value]:
    """Gates stand in the order update, reset, hidden."""
    both = _state(s, cell, h, 0, 2)
    update, reset = (
        _squashed(s, cell, 0, s.one("add", (_gate(s, cell, ahead, at), _gate(s, cell, both, at)))) for at in (0, 1)
    )
    if cell.coupled:
        state = s.one("multiply", (reset, _state(s, cell, h, 2, 3)))
    else:
        state = _state(s, cell, s.one("multiply", (reset, h)), 2, 3)
    fresh = _squashed(s, cell, 1, s.one("add", (_gate(s, cell, ahead, 2), state)))
    rest = s.one("subtract", (s.full(1, update), update))
    return (s.one("add", (s.one("multiply", (rest, fresh)), s.one("multiply", (update, h)))),)


def _rnn_step(s: Scope, cell: Cell, ahead: Value, h: Value) -> Sequence[Value]:
    return (_squashed(s, cell, 0, s.one("add", (ahead, _state(s, cell, h, 0, 1)))),)


_STEPS: dict[str, Callable[..., Sequence[Value]]] = {"LSTM": _lstm_step, "GRU": _gru_step, "RNN": _rnn_step}
