"""Results written over operands: a kernel's result takes the memory of an operand that nothing reads later.

Legal where the kernel reads the operand only at the element that it is about to write: all loads have the store's own
index, each index is stored once, and both have one size and type. The result then is the operand's buffer, so that the
printers see one pointer and no aliasing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from egshape.dims import Dim
from egshape.plan.analysis.memory import lives
from egshape.plan.analysis.parallel import injective
from egshape.plan.ir.loops import Buffer, Kernel, Load, Loop, Product, Stmt, Store, While
from egshape.plan.ir.program import Program, Run
from egshape.plan.ir.walk import expressions, statements

_T = TypeVar("_T")


def in_place(program: Program) -> Program:
    """The program with results in the memory of operands where that is legal."""
    times = lives(program.steps)
    names: dict[Buffer, Buffer] = {}
    last = {buffer: end for buffer, (_, end) in times.items()}
    clock = {buffer: start for buffer, (start, _) in times.items()}
    for step in program.steps:
        if not isinstance(step, Run):
            continue
        for out in step.kernel.outputs:
            if out.kind != "temp" or out in step.kernel.private or out not in clock:
                continue
            for operand in _candidates(step.kernel, out):
                root = names.get(operand, operand)
                if last[root] == clock[out] and out.size.symbols() <= program.symbols.keys():
                    names[out] = root
                    last[root] = last[out]
                    break
    return replace(program, steps=_Renamed(names).of(program.steps)) if names else program


def _candidates(kernel: Kernel, out: Buffer) -> Iterator[Buffer]:
    """Operands over which a kernel may write this result."""
    stores = [stmt for stmt in statements(kernel.body) if isinstance(stmt, Store) and stmt.buffer is out]
    if len(stores) != 1 or not _once(kernel, stores[0]):
        return
    index = stores[0].index
    loads: dict[Buffer, set[Dim]] = {}
    for expr in expressions(kernel.body):
        if isinstance(expr, Load):
            loads.setdefault(expr.buffer, set()).add(expr.index)
    whole: set[Buffer] = {stmt.buffer for stmt in statements(kernel.body) if isinstance(stmt, Store)}
    for stmt in statements(kernel.body):
        whole |= _areas(stmt)
    later = {expr.buffer for expr in expressions(_behind(kernel.body, stores[0])) if isinstance(expr, Load)}
    if out in loads:
        return
    for buffer, places in loads.items():
        same = buffer.dtype == out.dtype and buffer.size is out.size and buffer.kind == "temp"
        if same and places == {index} and buffer not in whole | later and buffer not in kernel.private:
            yield buffer


def _behind(body: tuple[Stmt, ...], store: Store) -> tuple[Stmt, ...]:
    """The statements that follow a store in its block."""
    for number, stmt in enumerate(body):
        if stmt is store:
            return body[number + 1 :]
    nests = (stmt.body for stmt in body if isinstance(stmt, Loop | While | Product))
    return tuple(each for inner in nests for each in _behind(inner, store))


def _areas(stmt: Stmt) -> set[Buffer]:
    """Buffers of which a statement reads or writes more than an element."""
    if isinstance(stmt, Store):
        return set()
    found: set[Buffer] = set()
    for each in fields(stmt):
        value = getattr(stmt, each.name)
        value = getattr(value, "buffer", value)
        if isinstance(value, Buffer):
            found.add(value)
    return found


def _once(kernel: Kernel, store: Store) -> bool:
    """Whether no two rounds of the loops around a store have its index."""
    around = _around(kernel.body, store)
    if around is None:
        return False
    if any(isinstance(stmt, Product) for stmt in around):
        return kernel.once
    loops = [stmt for stmt in around if isinstance(stmt, Loop)]
    return len(loops) == len(around) and injective(store.index, {loop.var: loop.extent for loop in loops})


def _around(body: tuple[Stmt, ...], store: Store) -> list[Stmt] | None:
    """The loops around a statement; None if something else than loops is around it."""
    for stmt in body:
        if stmt is store:
            return []
        if isinstance(stmt, Loop | While | Product):
            inner = _around(stmt.body, store)
            if inner is not None:
                return [stmt, *inner]
    return None


class _Renamed:
    """Steps with other buffers; what is shared stays shared."""

    def __init__(self, names: Mapping[Buffer, Buffer]) -> None:
        self._names = names
        self._done: dict[int, tuple[Any, Any]] = {}

    def of(self, item: _T) -> _T:
        """The item with the buffers renamed."""
        if isinstance(item, Buffer):
            return self._names.get(item, item)  # type: ignore[return-value]
        if not isinstance(item, tuple) and (not is_dataclass(item) or isinstance(item, type)):
            return item
        if id(item) not in self._done:
            self._done[id(item)] = item, self._made(item)
        found: _T = self._done[id(item)][1]
        return found

    def _made(self, item: Any) -> Any:
        if isinstance(item, tuple):
            made = tuple(self.of(each) for each in item)
            return item if all(one is two for one, two in zip(made, item, strict=True)) else made
        changes = {each.name: self.of(getattr(item, each.name)) for each in fields(item)}
        changed = {name: value for name, value in changes.items() if value is not getattr(item, name)}
        return replace(item, **changed) if changed else item
