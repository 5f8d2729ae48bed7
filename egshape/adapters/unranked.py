"""Values whose rank only running tells, in compiled graphs: native code computes what does not depend on them, the
interpreter the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from egshape.adapters.pairs import on_host, sizes_in
from egshape.adapters.wrapped import WrappedFunction
from egshape.errors import EgshapeError
from egshape.ir.graph import Block, Graph, Op, Value
from egshape.ir.interpret import interpret
from egshape.runtime.core.memory import as_array
from egshape.runtime.core.torch_tensors import has_tensor, is_tensor_type, tensors_of


def has_unranked(graph: Graph) -> bool:
    """Whether a value of the graph has no rank, and all inputs have one."""
    return _ranked(graph.inputs) and not all(_ranked(op.results) for op in graph.body.walk())


def split(graph: Graph) -> tuple[Graph, Graph]:
    """What native code computes, whose results are what the rest reads of it; and the rest, which takes the inputs and
    these results."""
    body, late, names = graph.body, set[Value](), set[str]()
    first, rest = list[Op](), list[Op]()
    for op in body.ops:
        inside = [op, *(each for region in op.regions for each in region.walk())]
        sizes = {name for size in sizes_in(op, op.reads()) for name in size.symbols()}
        ranked = all(_ranked((*each.operands, *each.results)) for each in inside)
        if ranked and late.isdisjoint(op.reads()) and names.isdisjoint(sizes):
            first.append(op)
            continue
        rest.append(op)
        late.update(op.results)
        names.update(each.name for each in body.symbols if each.value in op.results)
    used = {name for op in rest for size in sizes_in(op, op.reads()) for name in size.symbols()}
    wanted = dict.fromkeys(value for op in rest for value in op.reads())
    wanted |= dict.fromkeys((*body.results, *(each.value for each in body.symbols if each.name in used)))
    constants = [op for op in first if op.name == "constant" and op.result in wanted]  # both have them
    late.update(op.result for op in constants)
    made = tuple(value for value in wanted if value not in late and value not in body.args)
    args = (*body.args, *made)
    early = tuple(each for each in body.symbols if each.name not in names)
    later = tuple(each for each in body.symbols if each.value in late or each.value in args)
    return (
        replace(
            graph,
            body=Block(body.args, tuple(first), made, early),
            output_names=tuple(f"part{place}" for place in range(len(made))),
        ),
        replace(graph, body=Block(args, (*constants, *rest), body.results, later)),
    )


def _ranked(values: Iterable[Value]) -> bool:
    return all(value.type.shape is not None for value in values)


class UnrankedFunction(WrappedFunction):
    """A compiled graph with values of no rank; called as ``CompiledFunction`` is. ``checks`` are those of all of it."""

    def __init__(self, graph: Graph, compile_ranked: Callable[[Graph], Any], checks: list[str]) -> None:
        first, self._rest = split(graph)
        super().__init__(graph, compile_ranked(first))
        self._checks = checks

    @property
    def checks(self) -> list[str]:
        """As of ``CompiledFunction``."""
        return self._checks

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """One array, or a tuple in output order; tensors where one came in. Raises EgshapeError as the graph does."""
        given = self.ordered(inputs, named)
        arrays = [as_array(each) if is_tensor_type(type(each)) else each for each in given]
        found = self._function(*arrays)
        parts = found if isinstance(found, tuple) else (found,)
        results = interpret(self._rest, [*map(on_host, arrays), *map(on_host, parts)])
        shown = tensors_of(results) if has_tensor(given) else tuple(results)
        return shown[0] if len(shown) == 1 else shown

    def save(self, path: Any, form: str = "egx") -> Any:
        """Raises EgshapeError: what depends on such a value runs in Python."""
        raise EgshapeError(
            "has values whose rank only running tells, which no artifact holds",
            where=str(path),
            hint="say the rank, as --annotate '%name: f32[?, ?]'",
            code="host-call",
        )
