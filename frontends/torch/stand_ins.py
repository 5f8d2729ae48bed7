"""Ops of torch that ask for sizes that they do not need: while a program is traced a custom op stands for each, whose
fake asks for none, and where the program is read it is the op again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

FILE = __file__
STANDS_FOR = "scaled_dot_product_attention"
"""The function of torch that is another one while a program is traced; a guard on which it is would fail afterwards."""


@cache
def _attention() -> Any:
    """What stands for ``scaled_dot_product_attention`` without dropout: torch asks whether an axis is empty."""
    import torch

    attend = torch.ops.aten.scaled_dot_product_attention.default

    def run(query: Any, key: Any, value: Any, *rest: Any, **options: Any) -> Any:
        return attend(query, key, value, *rest, **options).clone()

    def fake(query: Any, key: Any, value: Any, *rest: Any, **options: Any) -> Any:
        return query.new_empty((*query.shape[:-1], value.shape[-1]))

    schema = (
        "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, float dropout_p, bool is_causal, *, "
        "float? scale=None, bool enable_gqa=False) -> Tensor"
    )
    made = torch.library.custom_op("egshape::attention", run, mutates_args=(), schema=schema)
    made.register_fake(fake)
    return torch.ops.egshape.attention.default


@contextmanager
def standing() -> Iterator[None]:
    """Inside, what modules call while they are traced is the custom op. Not for two threads at once."""
    import torch
    from torch.nn import functional

    attend, made = functional.scaled_dot_product_attention, _attention()

    def attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        if dropout_p or not torch.compiler.is_compiling():  # another thread may run a module meanwhile
            return attend(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
        return made(query, key, value, attn_mask, 0.0, is_causal, scale=scale, enable_gqa=enable_gqa)

    functional.scaled_dot_product_attention = attention
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = attend


def as_themselves(program: Any) -> None:
    """Put the ops back in a program of torch."""
    import torch

    for node in program.graph.nodes:
        if str(node.target) == "egshape.attention.default":
            node.target = torch.ops.aten.scaled_dot_product_attention.default
