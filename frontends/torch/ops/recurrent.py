"""LSTM, GRU and RNN: a loop over the time steps for each layer and direction; the products with the inputs stand
before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from egshape.dims import const
from egshape.frontends.torch.moves import ONE, reshape, row_at, transposed, window, with_row, without
from egshape.frontends.torch.ops.contraction import linear
from egshape.frontends.torch.registry import NoLowering, aten_op
from egshape.frontends.torch.scope import Scope
from egshape.ir.graph import Value

Step = Callable[[Scope, Value, Value, list[Value]], list[Value]]
"""From the gates of the input, those of the state, and the old states to the new ones, of which the first goes out."""


@aten_op("lstm.input", "egshape.lstm.default", composite=True)
def lstm(
    s: Scope,
    x: Value,
    hx: Sequence[Value],
    params: Sequence[Value],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> list[Value]:
    """The outputs of the last layer, and the last states h and c of each layer and direction."""
    return _layers(
        s, _lstm_step, x, list(hx), params, has_biases, num_layers, dropout if train else 0, bidirectional, batch_first
    )


@aten_op("gru.input", "rnn_tanh.input", "rnn_relu.input", composite=True)
@aten_op("egshape.gru.default", "egshape.rnn_tanh.default", "egshape.rnn_relu.default")
def gru(
    s: Scope,
    x: Value,
    hx: Value,
    params: Sequence[Value],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> list[Value]:
    """The outputs of the last layer, and the last state of each layer and direction."""
    step = _gru_step if "gru" in s.call.op else _relu_step if "relu" in s.call.op else _tanh_step
    return _layers(
        s, step, x, [hx], params, has_biases, num_layers, dropout if train else 0, bidirectional, batch_first
    )


def _layers(
    s: Scope,
    step: Step,
    x: Value,
    states: list[Value],
    params: Sequence[Value],
    has_biases: bool,
    layers: int,
    dropout: float,
    bidirectional: bool,
    batch_first: bool,
) -> list[Value]:
    ways, each = 1 + bidirectional, 4 if has_biases else 2
    if x.type.rank != 3 or dropout or len(params) != layers * ways * each:
        raise NoLowering("no batch, dropout in training, or projections")
    if batch_first:
        x = transposed(s, x, (1, 0, 2))
    last: list[list[Value]] = []
    for layer in range(layers):
        outs = []
        for way in range(ways):
            place = layer * ways + way
            weights = params[place * each : (place + 1) * each]
            start = [without(s, window(s, state, 0, const(place), const(place + 1)), 0) for state in states]
            out, *ends = _direction(s, step, x, weights, start, bool(way))
            outs.append(out)
            last.append(ends)
        x = outs[0] if ways == 1 else s.one("concatenate", outs, dim=2)
    if batch_first:
        x = transposed(s, x, (1, 0, 2))
    return [x, *(_stacked(s, [ends[at] for ends in last]) for at in range(len(states)))]


def _stacked(s: Scope, values: Sequence[Value]) -> Value:
    wide = [reshape(s, each, (ONE, *each.type.dims)) for each in values]
    return wide[0] if len(wide) == 1 else s.one("concatenate", wide, dim=0)


def _direction(
    s: Scope, step: Step, x: Value, weights: Sequence[Value], states: Sequence[Value], backwards: bool
) -> list[Value]:
    """All outputs of one direction, (time, batch, hidden), and the last states."""
    w, r, *biases = weights
    ahead = linear(s, x, w, biases[0] if biases else None)
    after = biases[1] if biases else None
    count = s.vector([x.type.dims[0]], "i64", ())
    empty = s.spread(s.scalar(0, x.type.dtype), (x.type.dims[0], *states[0].type.dims))
    carried = [s.scalar(0, "i64"), empty, *states]
    types = [(each.type.dtype, each.type.dims) for each in carried]

    def going(inner: Scope, at: Value, *rest: Value) -> Value:
        return inner.one("compare", (at, count), direction="LT", kind="SIGNED")

    def body(inner: Scope, now: Value, out: Value, *old: Value) -> Sequence[Value]:
        one = inner.scalar(1, "i64")
        at = inner.one("subtract", (inner.one("subtract", (count, one)), now)) if backwards else now
        held = linear(inner, old[0], r, after)
        new = step(inner, row_at(inner, ahead, at), held, list(old))
        return [inner.one("add", (now, one)), with_row(inner, out, new[0], at), *new]

    return list(s.add("while", carried, {}, regions=(s.region(types, going), s.region(types, body)))[1:])


def _gates(s: Scope, wide: Value, like: Value, count: int) -> list[Value]:
    width = like.type.dims[1]
    return [window(s, wide, 1, width * at, width * (at + 1)) for at in range(count)]


def _lstm_step(s: Scope, ahead: Value, held: Value, old: list[Value]) -> list[Value]:
    """Gates stand in the order input, forget, cell, output."""
    h, c = old
    enter, keep, fresh, leave = _gates(s, s.one("add", (ahead, held)), h, 4)
    enter, keep, leave = (s.one("logistic", (each,)) for each in (enter, keep, leave))
    new = s.one("add", (s.one("multiply", (keep, c)), s.one("multiply", (enter, s.one("tanh", (fresh,))))))
    return [s.one("multiply", (leave, s.one("tanh", (new,)))), new]


def _gru_step(s: Scope, ahead: Value, held: Value, old: list[Value]) -> list[Value]:
    """Gates stand in the order reset, update, new."""
    (h,) = old
    one, two = _gates(s, ahead, h, 3), _gates(s, held, h, 3)
    reset, update = (s.one("logistic", (s.one("add", (one[at], two[at])),)) for at in (0, 1))
    new = s.one("tanh", (s.one("add", (one[2], s.one("multiply", (reset, two[2])))),))
    return [s.one("add", (new, s.one("multiply", (update, s.one("subtract", (h, new))))))]


def _tanh_step(s: Scope, ahead: Value, held: Value, old: list[Value]) -> list[Value]:
    return [s.one("tanh", (s.one("add", (ahead, held)),))]


def _relu_step(s: Scope, ahead: Value, held: Value, old: list[Value]) -> list[Value]:
    out = s.one("add", (ahead, held))
    return [s.one("maximum", (out, s.full(0, out)))]
