"""torch's control flow: ``cond``, ``while_loop``, ``scan`` and ``map``, whose bodies are graphs of their own, and ops
that a program orders by tokens.

A handler gets the reader, the node and its arguments as they were read (a body as a ``torch.fx.GraphModule``), and
gives a list of results. A body reads the values of the block around it where they are; what it carries from round to
round has one type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from egshape.dims import Dim, const
from egshape.errors import Unsupported
from egshape.facts import Relation
from egshape.frontends.torch.moves import reshape, row_at, with_row
from egshape.frontends.torch.scope import Scope
from egshape.frontends.torch.symbolic import truth
from egshape.frontends.torch.types import dtype_of, size_of
from egshape.ir.graph import Block, Value

Handler = Callable[..., list[Any]]


class Body(Protocol):
    """What reads the graph of a body."""

    def results_of(self, operands: Sequence[Any]) -> list[Any]:
        """What the body gives for operands."""


class Reader(Protocol):
    """What reads the block around a body (``convert.Reader``)."""

    scope: Scope

    def call(self, node: Any, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """What an op gives for arguments that were read."""

    def inside(self, module: Any, scope: Scope) -> Body:
        """A reader of a graph inside of this one, into a scope."""


HIGHER: dict[str, Handler] = {}
"""The handlers by the names of torch's higher-order ops."""


@dataclass(frozen=True)
class Inner:
    """An op inside of another node, with what readers ask of a node."""

    target: Any
    args: Sequence[Any]
    kwargs: Any
    name: str
    meta: dict[str, Any]
    users: Any


def higher(name: str) -> Callable[[Handler], Handler]:
    """Declare the handler of a higher-order op."""

    def declare(handler: Handler) -> Handler:
        HIGHER[name] = handler
        return handler

    return declare


@higher("cond")
def cond(reader: Reader, node: Any, condition: Any, then: Any, other: Any, operands: Sequence[Any] = ()) -> list[Any]:
    """One of two bodies; the one that runs, in place, where that is known."""
    s = reader.scope
    known = s.decide(condition.kind, condition.lhs, condition.rhs) if isinstance(condition, Relation) else condition
    if isinstance(known, bool):
        return _body(reader, then if known else other, s, operands)
    pred = truth(s, condition)
    pred = reshape(s, pred, ()) if pred.type.rank else pred
    blocks = []
    for module in (then, other):
        inner = s.child()
        blocks.append(inner.builder.finish(_tensors(node, _body(reader, module, inner, operands))))
    return list(s.add("if", (pred,), {}, regions=blocks))


@higher("while_loop")
def while_loop(
    reader: Reader, node: Any, going: Any, body: Any, carried: Sequence[Any], more: Sequence[Any] = ()
) -> list[Any]:
    """Rounds as long as a condition on what is carried holds."""
    values = _tensors(node, carried)

    def goes(inner: Scope, *state: Value) -> Value:
        (found,) = _body(reader, going, inner, (*state, *more))
        held = truth(inner, found)
        return reshape(inner, held, ()) if held.type.rank else held

    def round_of(inner: Scope, *state: Value) -> list[Value]:
        return _alike(node, state, _tensors(node, _body(reader, body, inner, (*state, *more))))

    return _loop(reader.scope, values, goes, round_of)


@higher("scan")
def scan(
    reader: Reader, node: Any, body: Any, start: Sequence[Any], rows: Sequence[Any], more: Sequence[Any] = ()
) -> list[Any]:
    """Rounds over the first axis of ``rows``: a body's first results are carried, the others are rows of results."""
    s = reader.scope
    states, given = _tensors(node, start), _tensors(node, rows)
    length = given[0].type.dims[0]
    stacks = [_empty(s, node, val) for val in node.meta["val"][len(states) :]]

    def body_of(inner: Scope, now: Value, *held: Value) -> list[Value]:
        each = [row_at(inner, row, now) for row in given]
        found = _tensors(node, _body(reader, body, inner, (*held[: len(states)], *each, *more)))
        stacked = [
            with_row(inner, stack, row, now)
            for stack, row in zip(held[len(states) :], found[len(states) :], strict=True)
        ]
        return [*_alike(node, held[: len(states)], found[: len(states)]), *stacked]

    return _counted(s, length, [*states, *stacks], body_of)


@higher("map_impl")
def map_(reader: Reader, node: Any, body: Any, rows: Sequence[Any], more: Sequence[Any] = ()) -> list[Any]:
    """A scan that carries nothing, of some rows."""
    length = _tensors(node, rows)[0].type.dims[0]
    reader.scope.check(Relation("<=", const(1), length), "there are {1} rows to map, and there must be one")
    return scan(reader, node, body, (), rows, more)


@higher("with_effects")
def with_effects(reader: Reader, node: Any, token: Any, op: Any, *args: Any, **options: Any) -> list[Any]:
    """An op that is ordered by a token: our blocks keep the order of effects."""
    vals = list(node.meta["val"])[1:]
    meta = {**node.meta, "val": vals[0] if len(vals) == 1 else vals}
    inner = Inner(op, node.args[2:], node.kwargs, node.name, meta, node.users)
    found = reader.call(inner, args, options)
    return [None, *(found if isinstance(found, list | tuple) else [found])]


def _body(reader: Reader, module: Any, scope: Scope, operands: Sequence[Any]) -> list[Any]:
    """What a body gives, converted in a scope."""
    return reader.inside(module, scope).results_of(operands)


def _tensors(node: Any, found: Sequence[Any]) -> list[Value]:
    """Raises Unsupported for what is no tensor."""
    odd = next((each for each in found if not isinstance(each, Value)), None)
    if odd is not None:
        kind = "size" if isinstance(odd, Dim) else type(odd).__name__
        raise Unsupported(f"{node.target} takes or gives a {kind}", hint="make it a tensor, as torch.tensor(n)")
    return list(found)


def _alike(node: Any, before: Sequence[Value], after: Sequence[Value]) -> list[Value]:
    """Raises Unsupported where what is carried changes its dtype or rank."""
    for one, two in zip(before, after, strict=True):
        if one.type.dtype != two.type.dtype or one.type.rank != two.type.rank:
            raise Unsupported(f"{node.target} carries a {one.type} that becomes a {two.type}")
    return list(after)


def _loop(
    s: Scope, carried: Sequence[Value], goes: Callable[..., Value], body: Callable[..., Sequence[Value]]
) -> list[Value]:
    types = [(each.type.dtype, each.type.dims) for each in carried]
    regions: tuple[Block, Block] = s.region(types, goes), s.region(types, body)
    return list(s.add("while", list(carried), {}, regions=regions))


def _counted(s: Scope, length: Dim, carried: Sequence[Value], body: Callable[..., Sequence[Value]]) -> list[Value]:
    """Rounds that are counted; the body gets the number of the round first."""
    end = s.scalar(length, "i64")

    def goes(inner: Scope, now: Value, *_: Value) -> Value:
        return inner.one("compare", (now, end), direction="LT", kind="SIGNED")

    def round_of(inner: Scope, now: Value, *held: Value) -> list[Value]:
        found = body(inner, now, *held)
        return [inner.one("add", (now, inner.scalar(1, "i64"))), *found]

    return _loop(s, [s.scalar(0, "i64"), *carried], goes, round_of)[1:]


def _empty(s: Scope, node: Any, val: Any) -> Value:
    """Room for all rows of a result."""
    sizes = [size_of(size, s.program.sizes) for size in val.shape]
    if any(size is None for size in sizes):
        raise Unsupported(f"{node.target} gives rows of a size that only they tell")
    return s.spread(s.scalar(0, dtype_of(val.dtype)), [size for size in sizes if size is not None])
