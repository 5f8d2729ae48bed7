"""LSTM as one op while torch traces: it would make a library's op of it.

Only where no gradient is asked for: torch differentiates its own."""

from functools import cache
from typing import Any


@cache
def _op() -> Any:
    """The custom op that stands for ``torch.lstm``."""
    import torch
    from torch import Tensor

    def lstm(
        x: Tensor,
        hx: list[Tensor],
        params: list[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        found = torch.lstm(x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
        return tuple(each.clone() for each in found)

    def fake(x: Tensor, hx: list[Tensor], *rest: Any) -> tuple[Tensor, ...]:
        width = hx[0].shape[-1] * (1 + rest[5])
        return x.new_empty((*x.shape[:-1], width)), torch.empty_like(hx[0]), torch.empty_like(hx[1])

    made = torch.library.custom_op("egshape::lstm", lstm, mutates_args=())
    made.register_fake(fake)
    return torch.ops.egshape.lstm.default


def as_one_op(module: Any) -> None:
    """Put the custom op in the place of ``torch.lstm`` in a graph of torch, where dropout leaves it one computation.
    Nothing where gradients are asked for."""
    import torch

    if torch.is_grad_enabled():
        return
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target is torch.lstm and len(node.args) == 9:
            dropout, train = node.args[5:7]
            if isinstance(node.args[1], list | tuple) and not (dropout and train):
                node.target = _op()
    module.recompile()
