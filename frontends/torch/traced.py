"""A graph that torch traced for a back end: functional ATen ops, with sizes as inputs and outputs beside tensors."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from egshape.dims import Dim, symbol
from egshape.errors import Unsupported
from egshape.frontends.torch.convert import Nodes, Reader, facts_of, location_of, whole_bound
from egshape.frontends.torch.registry import HANDLERS
from egshape.frontends.torch.scope import Program, Scope
from egshape.frontends.torch.stand_ins import as_themselves
from egshape.frontends.torch.types import size_of
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Value


@dataclass(frozen=True)
class Traced:
    """What became of a traced graph. ``inputs`` are the places of the arguments that the graph takes, ``outputs`` what
    each result is: an ``Output``, or None or a number as it is."""

    graph: Graph
    inputs: tuple[int, ...]
    sizes: frozenset[int]
    """The places among them whose arguments are sizes, not tensors."""
    outputs: tuple[Any, ...]
    written: tuple[tuple[int, int], ...]
    """The places of arguments that the graph changes, and the numbers of the outputs that are their new values."""
    hosted: tuple[tuple[str, str], ...]
    """Ops that torch runs, and where the model has them."""


@dataclass(frozen=True)
class Output:
    """A result that the graph gives: its number, and whether it is a size rather than a tensor."""

    number: int
    is_size: bool
    order: tuple[int, ...] | None
    """The axes from the outermost in memory to the innermost, where that is not their order."""
    memory: tuple[int, ...] = ()
    """Of a view: the numbers of the outputs that are its strides and where it begins in memory. torch makes a view of
    an argument or of another result anew from these."""
    within: int | None = None
    """The place of the argument of which it is a view: it begins so far behind that argument's beginning."""


def table() -> dict[Any, Any]:
    """How ops are decomposed while torch traces: all that torch can but for the declared ones."""
    from torch._decomp import core_aten_decompositions

    return {op: how for op, how in core_aten_decompositions().items() if str(op).removeprefix("aten.") not in HANDLERS}


def read(module: Any, name: str) -> Traced:
    """The graph of a ``torch.fx.GraphModule`` whose nodes say their values (``meta["val"]``): sizes that torch guards
    are symbols here that may be any size. Raises EgshapeError for what has no graph, naming the op and the model's
    line."""
    as_themselves(module)
    program = Program()
    reader = _TracedReader(module, Scope(program, BlockBuilder(decide=program.bounds.decide)))
    taken = reader.arguments()
    reader.nodes()
    results, outputs = reader.results()
    written = tuple((place, len(results) + k) for k, place in enumerate(reader.written))
    results += reader.written.values()
    body = reader.scope.builder.finish(results)
    names = tuple(f"out{number}" for number in range(len(results)))
    graph = Graph(name, body, names, facts_of(reader.given, program), {"format": "torch"})
    return Traced(graph, taken, reader.sizes, outputs, written, tuple(program.hosted))


class _TracedReader(Reader):
    """Takes every placeholder as an input, and every result as it is."""

    def __init__(self, module: Any, scope: Scope) -> None:
        super().__init__(Nodes(module), scope)
        self.sizes: frozenset[int] = frozenset()
        self._axes: frozenset[Any] = frozenset()
        """torch's symbols that are sizes of axes."""
        self.written: dict[int, Value] = {}
        """The new values of arguments that the graph changes, by place."""

    def arguments(self) -> tuple[int, ...]:
        """Add the inputs; the places of those that are tensors or sizes."""
        nodes = [node for node in self.exported.graph.nodes if node.op == "placeholder"]
        vals = [node.meta.get("val") for node in nodes]
        names = [node.name for node in nodes]
        self._name(vals, names, {})
        self._axes = frozenset(self.scope.program.sizes)
        taken = []
        for place, (node, val, name) in enumerate(zip(nodes, vals, names, strict=True)):
            before = len(self.given)
            self.values[node] = self._input(val, name)
            if len(self.given) > before:
                taken.append(place)
        self.sizes = frozenset(place for place in taken if not hasattr(vals[place], "shape"))
        return tuple(taken)

    def _node(self, node: Any) -> Any:
        if str(node.target) != "aten.copy_.default":
            return super()._node(node)
        target, source = node.args[0], self._argument(node.args[1])
        if target.op != "placeholder":
            raise Unsupported(
                f"{node.target} changes {target.name}, which is no argument", where=str(location_of(node))
            )
        places = [each for each in self.exported.graph.nodes if each.op == "placeholder"]
        self.written[places.index(target)] = self.values[target] = source
        return source

    def _axis(self, size: Any, label: str) -> Dim:
        """A size that is computed of sizes that are inputs is one of its own: an input's type knows axes only, and
        torch makes sure of it before each call."""
        told = () if isinstance(size, int) else size.node.expr.free_symbols
        computed = any(each in self.scope.program.sizes and each not in self._axes for each in told)
        return symbol(label) if computed else super()._axis(size, label)

    def _may_be_negative(self, number: Any) -> bool:
        """Dynamo knows which numbers are sizes."""
        held = number.node.shape_env.var_to_range.get(number.node.expr)
        low = None if held is None else whole_bound(held.lower)
        return low is None or low < 0

    def _input(self, val: Any, name: str) -> Any:
        """A size that is an axis of a tensor too is that axis: torch makes sure of it before each call."""
        import torch

        if isinstance(val, torch.SymInt) and val.node.expr in self.scope.program.sizes:
            self.given.append(self.scope.builder.arg(name, "i64", ()))
            return self.scope.program.sizes[val.node.expr]
        return super()._input(val, name)

    def results(self) -> tuple[list[Value], tuple[Any, ...]]:
        """The results that the graph computes, and what each of the module's is."""
        (node,) = (each for each in self.exported.graph.nodes if each.op == "output")
        found: list[Value] = []
        shown: list[Any] = []
        for each in node.args[0]:
            value = self._argument(each)
            if isinstance(value, Value | Dim):
                shown.append(Output(len(found), isinstance(value, Dim), _order(each)))
                found.append(self._result(value))
            else:
                shown.append(value)
        places = [each for each in self.exported.graph.nodes if each.op == "placeholder"]
        for place, each in enumerate(node.args[0]):
            under = _under(each)
            memory = [self._result(dim) for dim in self._memory(each, under)]
            if memory:
                numbers = tuple(range(len(found), len(found) + len(memory)))
                within = places.index(under) if under in places else None
                shown[place] = replace(shown[place], memory=numbers, within=within)
                found += memory
        return found, tuple(shown)

    def _memory(self, node: Any, under: Any) -> list[Dim]:
        """The strides of a view and where it begins, where it is one of an argument or not all of its memory. Raises
        Unsupported for a number that is no size of ours."""
        val, argument = _strided(node), under is not node and under.op == "placeholder"
        if val is None or not (argument or not _fills(val)):
            return []
        start = val.storage_offset() - (under.meta["val"].storage_offset() if argument else 0)
        found = [size_of(each, self.scope.program.sizes) for each in (*val.stride(), start)]
        known = [each for each in found if each is not None]
        if len(known) < len(found):
            raise Unsupported(f"{node.name} is a part of a tensor, and torch does not tell which")
        return known


def _order(node: Any) -> tuple[int, ...] | None:
    """How the axes of a result lie in memory, from the outermost; None where that is their order."""
    val = _strided(node)
    if val is None:
        return None
    sizes, strides = _sampled(val.shape), _sampled(val.stride())
    moving = [axis for axis, size in enumerate(sizes) if size != 1]
    found = sorted(moving, key=lambda axis: -strides[axis])
    if found == moving or len({strides[axis] for axis in moving}) < len(moving):
        return None
    inner = iter(found)
    return tuple(next(inner) if axis in moving else axis for axis in range(len(sizes)))


def _strided(node: Any) -> Any:
    """The tensor that a result is; None where it is none, or one without strides."""
    import torch

    val = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return val if isinstance(val, torch.Tensor) and val.layout is torch.strided else None


def _under(node: Any) -> Any:
    """What a result is a view of: itself where it is none."""
    while getattr(node, "op", "") == "call_function":
        view = node.args[0] if node.target is operator.getitem else node
        if not getattr(view.target, "is_view", False):
            break
        node = view.args[0]
    return node


def _fills(val: Any) -> bool:
    """Whether the elements of a tensor lie one after the other from the beginning of its memory, in some order."""
    strides, span = _sampled(val.stride()), 1
    for axis in sorted(range(val.dim()), key=lambda axis: (strides[axis], -axis)):
        size = _expr(val.shape[axis])
        if size != 1 and _stride(val, axis) - span != 0:
            return False
        span = _expanded(span * size)
    return bool(_expr(val.storage_offset()) == 0)


def _stride(val: Any, axis: int) -> Any:
    """A stride. Of axes that may be empty torch has it that they are 1 instead, where no stride means anything."""
    found = _expr(val.stride()[axis])
    if isinstance(found, int):
        return found
    one = found.replace(lambda each: type(each).__name__ == "Max" and 1 in each.args, lambda each: each.args[-1])
    return _expanded(one)


def _expanded(size: Any) -> Any:
    return size if isinstance(size, int) else size.expand()


def _expr(size: Any) -> Any:
    return size if isinstance(size, int) else size.node.expr


def _sampled(sizes: Iterable[Any]) -> list[int]:
    """Sizes as numbers, where each of torch's symbols is a size above 1."""
    exprs = map(_expr, sizes)
    return [each if isinstance(each, int) else int(each.subs(dict.fromkeys(each.free_symbols, 3))) for each in exprs]
