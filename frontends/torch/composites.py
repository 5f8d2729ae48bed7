"""Ops that are several of ours, each as one composite: its region is the lowering, its attributes are the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from egshape.dims import Dim
from egshape.frontends.torch.host import payload_of
from egshape.frontends.torch.registry import Handler
from egshape.frontends.torch.scope import Scope
from egshape.ir.graph import Value

ALONE = -1
"""The place of a result that the call gives by itself, and not among others."""


def add(s: Scope, node: Any, args: Sequence[Any], options: Mapping[str, Any], handler: Handler) -> Any:
    """The results of a node, whose handler adds what it computes to the region of a composite. A call that is given
    sizes is no composite: a region has values of its own only, and would not know what these are; nor is an op that is
    none of torch's own."""
    foreign = not str(node.target).startswith("aten.")
    if foreign or any(isinstance(each, Dim) for each in _leaves([*args, *options.values()])):
        return handler(s, *args, **options)
    operands: list[Value] = []
    payload = payload_of(s, node, args, options, operands)
    inner = s.child()
    own = dict(zip(operands, [inner.argument(value) for value in operands], strict=True))
    found = handler(inner, *_within(list(args), own), **{key: _within(each, own) for key, each in options.items()})
    several = isinstance(found, list | tuple)
    results = list(found) if several else [found]
    places = [place for place, each in enumerate(results) if isinstance(each, Value)]
    block = inner.builder.finish([results[place] for place in places])
    if block.symbols:  # sizes that data tell have their names outside
        return handler(s, *args, **options)
    attrs = {
        "name": f"aten.{s.call.op}",
        "attrs": (payload, tuple(places) if several else (ALONE,)),
        "whole": True,
    }
    for place, value in zip(places, s.add("composite", operands, attrs, regions=(block,)), strict=True):
        results[place] = value
    return results if several else results[0]


def _leaves(value: Any) -> list[Any]:
    return [leaf for each in value for leaf in _leaves(each)] if isinstance(value, list | tuple) else [value]


def _within(value: Any, own: Mapping[Value, Value]) -> Any:
    if isinstance(value, list | tuple):
        return [_within(each, own) for each in value]
    return own[value] if isinstance(value, Value) else value
