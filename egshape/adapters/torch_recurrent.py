"""LSTM, GRU and RNN as one op while torch traces: it would make a library's op of them, or a step a time of a fixed
length.

Where gradients are asked for, the gradient is one op too, which torch runs: it does the layers again, and
differentiates them itself."""

from collections.abc import Sequence
from functools import cache
from typing import Any

KINDS = ("lstm", "gru", "rnn_tanh", "rnn_relu")

_OPTIONS = "bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first"


@cache
def define(name: str) -> Any:
    """The custom op that stands for ``torch.lstm`` and the like, and its gradient."""
    import torch

    several = name == "lstm"
    hx, out = ("Tensor[] hx", "(Tensor, Tensor, Tensor)") if several else ("Tensor hx", "(Tensor, Tensor)")
    layers = getattr(torch, name)

    def run(x: Any, hx: Any, *rest: Any) -> tuple[Any, ...]:
        return tuple(each.clone() for each in layers(x, hx, *rest))

    def fake(x: Any, hx: Any, *rest: Any) -> tuple[Any, ...]:
        states, bidirectional = hx if several else [hx], rest[5]
        outs = x.new_empty((*x.shape[:-1], states[0].shape[-1] * (1 + bidirectional)))
        return outs, *(torch.empty_like(each) for each in states)

    def gradient(grads: Any, x: Any, states: Any, params: Any, *options: Any) -> list[Any]:
        held = [each.detach().requires_grad_() for each in (x, *states, *params)]
        one, count = held[0], 1 + len(states)
        with torch.enable_grad(), _differentiating():
            found = layers(one, held[1:count] if several else held[1], held[count:], *options)
            return [each.clone() for each in torch.autograd.grad(found, held, grads, materialize_grads=True)]

    def setup(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        x, hx, params, *ctx.options = inputs
        ctx.save_for_backward(x, *(hx if several else [hx]), *params)
        ctx.states = len(hx) if several else 1

    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        x, *held = ctx.saved_tensors
        states, params = held[: ctx.states], held[ctx.states :]
        one, *more = getattr(torch.ops.egshape, f"{name}_backward")(list(grads), x, states, params, *ctx.options)
        last = more[: ctx.states]
        return one, last if several else last[0], more[ctx.states :], *(None for _ in ctx.options)

    made = torch.library.custom_op(
        f"egshape::{name}", run, mutates_args=(), schema=f"(Tensor x, {hx}, Tensor[] params, {_OPTIONS}) -> {out}"
    )
    made.register_fake(fake)
    made.register_autograd(backward, setup_context=setup)
    schema = f"(Tensor[] grads, Tensor x, Tensor[] states, Tensor[] params, {_OPTIONS}) -> Tensor[]"
    back = torch.library.custom_op(f"egshape::{name}_backward", gradient, mutates_args=(), schema=schema)
    back.register_fake(lambda _, x, states, params, *rest: [torch.empty_like(each) for each in (x, *states, *params)])
    return getattr(torch.ops.egshape, name).default


def _differentiating() -> Any:
    """Where torch follows gradients: inside of an op it does not."""
    from torch import _C

    left_out = _C._dispatch_tls_local_exclude_set().remove(_C.DispatchKey.AutogradFunctionality)
    return _C._ForceDispatchKeyGuard(_C._dispatch_tls_local_include_set(), left_out)


def as_one_op(module: Any) -> None:
    """Put the custom op in the place of ``torch.lstm`` and the like in a graph of torch, where dropout leaves them one
    computation. Packed sequences stay what they are."""
    import torch

    kinds = {getattr(torch, name): name for name in KINDS}
    for node in module.graph.nodes:
        name = kinds.get(node.target) if node.op == "call_function" else None
        if name is None or len(node.args) != 9:
            continue
        hx, params, (dropout, train) = node.args[1], node.args[2], node.args[5:7]
        padded = isinstance(params, list | tuple) and isinstance(hx, list | tuple) == (name == "lstm")
        if padded and not (dropout and train):
            node.target = define(name)
    module.recompile()
