"""Control flow as torch's higher-order ops, and what came in as one call of torch as that call."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

from egshape.dims import symbol
from egshape.frontends.torch.emit import Emitter, aten, dtype_of, symbols_in
from egshape.frontends.torch.emit_folds import item
from egshape.frontends.torch.emitting import emits
from egshape.ir.graph import Block, Op, Value

# -- regions -----------------------------------------------------------------------------------------------------------


class _Inside:
    """What regions of an op read of the blocks around them: values, and sizes that these do not tell."""

    def __init__(self, e: Emitter, op: Op, own: Sequence[Value]) -> None:
        self.e, self.op = e, op
        self.values = [*own, *(value for value in op.captures() if value not in own)]
        """The operands of each region; ``own`` are its arguments."""
        told = {size for value in self.values for size in value.type.shape or ()}
        names = {name for region in op.regions for name in symbols_in(region)}
        names |= {name for value in self.values for size in value.type.shape or () for name in size.symbols()}
        bound = {each.name for region in op.regions for each in region.symbols}
        self.sizes = [symbol(name) for name in sorted(names - bound) if symbol(name) not in told and e.knows(name)]
        self.first = len(own)

    def operands(self) -> tuple[Any, ...]:
        """What a region gets besides its arguments."""
        return (*map(self.e.node, self.values[self.first :]), *self.e.sizes(self.sizes))

    def region(self, write: Callable[[Emitter], list[Any]], args: Sequence[Value] = (), *, alone: bool = False) -> Any:
        """A region as a module of the one under construction; its only result ``alone``, or a tuple."""
        import torch

        child = self.e.child(torch.fx.Graph())
        values = [*args, *self.values[self.first :]]
        for number, value in enumerate(values):
            child.bind(value, child.graph.placeholder(f"arg{number}"))
        for number, size in enumerate(self.sizes):
            child.given(size, child.graph.placeholder(f"size{number}"))
        found: list[Any] = []
        for node in write(child):  # a result that is an operand, or another result, is a copy of it
            fresh = hasattr(node.target, "_schema") and node not in found and not views(node)
            found.append(node if fresh else child.graph.call_function(aten("clone.default"), (node,)))
        child.graph.output(found[0] if alone else tuple(found))
        return self.e.held(child)

    def results(self, node: Any) -> list[Any]:
        """The results of the op."""
        return [item(self.e, node, number) for number in range(len(self.op.results))]


def views(node: Any) -> bool:
    """Whether a call gives a view of an operand."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(each.alias_info is not None for each in schema.returns)


def _inside(block: Block) -> Callable[[Emitter], list[Any]]:
    return lambda child: child.block(block, [child.node(arg) for arg in block.args])


@emits("if", "case")
def choose(e: Emitter, op: Op) -> Any:
    """torch.cond; of more than two regions one in the other."""
    if op.name == "if":
        condition: Callable[[Emitter, int], Any] = lambda inner, _: inner.node(op.operands[0])  # noqa: E731
    else:
        condition = lambda inner, number: inner.call("eq.Scalar", inner.node(op.operands[0]), number)  # noqa: E731
    return _chosen(e, op, condition, 0)


def _chosen(e: Emitter, op: Op, condition: Callable[[Emitter, int], Any], number: int) -> list[Any]:
    import torch

    if number == len(op.regions) - 1:
        return e.block(op.regions[number], [])
    inside = _Inside(e, op, ())
    inside.values += [value for value in op.operands if value not in inside.values]
    then = inside.region(_inside(op.regions[number]))
    other = inside.region(lambda child: _chosen(child, op, condition, number + 1))
    target = torch.ops.higher_order.cond
    node = e.graph.call_function(target, (condition(e, number), then, other, inside.operands()))
    return inside.results(node)


@emits("while")
def while_(e: Emitter, op: Op) -> Any:
    """torch's while_loop."""
    import torch

    condition, body = op.regions
    inside = _Inside(e, op, ())
    test = inside.region(_inside(condition), condition.args, alone=True)
    step = inside.region(_inside(body), body.args)
    carried: list[Any] = []
    for value in op.operands:  # torch wants no tensor twice
        given = e.node(value)
        carried.append(e.graph.call_function(aten("clone.default"), (given,)) if given in carried else given)
    node = e.graph.call_function(torch.ops.higher_order.while_loop, (test, step, tuple(carried), inside.operands()))
    return inside.results(node)


@emits("call")
def call(e: Emitter, op: Op) -> Any:
    """What a function computes, in place."""
    (region,) = op.regions
    return e.block(region, [e.node(value) for value in op.operands])


# -- calls of torch ----------------------------------------------------------------------------------------------------


@emits("composite")
def composite(e: Emitter, op: Op) -> Any:
    """The call that it was; another composite in parts."""
    if not op.attrs["name"].startswith("aten."):
        return call(e, op)
    payload, places = op.attrs["attrs"]
    found = called(e, op, json.loads(payload))
    return [found if place < 0 else item(e, found, place) for place in places]


@emits("host_call", "host_effect")
def host_call(e: Emitter, op: Op) -> Any:
    """The call of torch that a host call makes."""
    kind, payload = op.attrs["call"]
    if kind != "torch":
        raise e.unsupported(op, f"a host call of {op.attrs['target']}")
    told = json.loads(base64.b64decode(payload))
    found = called(e, op, told)
    returns = [str(each.type) for each in _target(told["op"])._schema.returns]
    if len(returns) == 1 and returns[0].startswith("Tensor"):
        return found
    if len(returns) > 1 and returns.count("Tensor") != len(op.results):
        raise e.unsupported(op, f"{told['op']}, some of whose results are no tensors,")
    places = [place for place, each in enumerate(returns) if each == "Tensor"] or range(len(op.results))
    return [item(e, found, place) for place in places]


def _target(name: str) -> Any:
    """An op of torch by its name, such as ``aten.linear.default``."""
    import torch

    found: Any = torch.ops
    for part in name.split("."):
        found = getattr(found, part)
    return found


def called(e: Emitter, op: Op, told: dict[str, Any]) -> Any:
    """The call that a payload holds (``host.call``)."""

    def argument(held: Any) -> Any:
        if isinstance(held, list):
            return [argument(each) for each in held]
        if not isinstance(held, dict):
            return held
        ((kind, value),) = held.items()
        if kind == "dtype":
            return dtype_of(value)
        if kind == "tensor":
            return e.node(op.operands[value])
        number = e.number(op.operands[value])
        return e.call("item.default", e.node(op.operands[value])) if number is None else number

    args = tuple(argument(each) for each in told["args"])
    options = {key: argument(each) for key, each in told["options"].items()}
    if op.name == "host_effect":
        return e.graph.call_function(_target(told["op"]), args, options)
    return e.compute(_target(told["op"]), *args, **options)
