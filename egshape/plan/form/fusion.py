"""Kernels over the same loop made one: siblings that read a buffer, and a reader behind a writer.

Two kernels join where their outermost loops have the same extent and no two different rounds of the joint loop meet in
a buffer that one of them writes (``parallel.independent``); what stands between them must not touch what the first one
writes, nor write what it reads. A temporary that only the joint round itself still reads becomes a local."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from egshape.dims import Dim, symbol
from egshape.plan.analysis.memory import touched
from egshape.plan.analysis.parallel import independent
from egshape.plan.form.collapse import plain
from egshape.plan.ir.loops import Buffer, Expr, Kernel, Let, Load, Loop, Stmt, Store, Var
from egshape.plan.ir.program import BindSize, Branch, CheckSizes, CheckValue, Copy, DefineSize, Repeat, Run, Step
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import buffers, dims, expressions, statements

NEAR = 12
"""Steps that are looked back."""
MOST_STATEMENTS = 64
MOST_BUFFERS = 12
SMALL = 1024
"""Elements of a buffer that is not worth sharing."""


def fused(steps: Sequence[Step], deep: bool = False) -> tuple[Step, ...]:
    """The steps with kernels joined, inner steps too. ``deep``: only where all loops around both become one nest, as a
    GPU needs the rounds of all of them."""
    joined = _joined(steps, deep)
    uses = Counter(buffer for step in _every(joined) for buffer in touched(step))
    return _with_locals(joined, uses)


def _every(steps: Sequence[Step]) -> list[Step]:
    found: list[Step] = []
    for step in steps:
        found.append(step)
        for part in _inside(step):
            found += _every(part)
    return found


def _inside(step: Step) -> tuple[tuple[Step, ...], ...]:
    return (step.test, step.body) if isinstance(step, Repeat) else step.branches if isinstance(step, Branch) else ()


def _mapped(step: Step, parts: Sequence[tuple[Step, ...]]) -> Step:
    if isinstance(step, Repeat):
        return replace(step, test=parts[0], body=parts[1])
    return replace(step, branches=tuple(parts)) if isinstance(step, Branch) else step


def _joined(steps: Sequence[Step], deep: bool) -> tuple[Step, ...]:
    found: list[Step] = []
    for each in steps:
        step = _mapped(each, [_joined(part, deep) for part in _inside(each)])
        while isinstance(step, Run):
            partner = _partner(found, step.kernel, deep)
            if partner is None:
                break
            number, kernel = partner
            del found[number]
            step = Run(kernel)
        found.append(step)
    return tuple(found)


def _partner(before: Sequence[Step], kernel: Kernel, deep: bool) -> tuple[int, Kernel] | None:
    """The latest step that joins a kernel, and the joint kernel."""
    between: list[Step] = []
    for number in range(len(before) - 1, max(len(before) - 1 - NEAR, -1), -1):
        step = before[number]
        if isinstance(step, Run):
            joint = _joint(step.kernel, kernel)
            if joint is not None and deep and _depth(joint) < max(_depth(step.kernel), _depth(kernel)):
                joint = None
            if joint is not None and _may_move(step.kernel, between):
                return number, joint
        elif not isinstance(step, CheckSizes | CheckValue | DefineSize | BindSize | Copy):
            return None
        between.append(step)
    return None


def _depth(kernel: Kernel) -> int:
    """The number of loops around all of a kernel."""
    body, found = kernel.body, 0
    while len(body) == 1 and isinstance(body[0], Loop):
        body, found = body[0].body, found + 1
    return found


def _may_move(kernel: Kernel, between: Sequence[Step]) -> bool:
    """Whether a kernel may run behind these steps."""
    all_of_it = set(buffers(kernel.body))
    written = _written(kernel)
    names = {name for dim in dims(kernel.body) for name in dim.symbols()}
    for step in between:
        if isinstance(step, DefineSize | BindSize) and step.name in names:
            return False
        if written & set(touched(step)):
            return False
        writes = _written(step.kernel) if isinstance(step, Run) else {step.target} if isinstance(step, Copy) else set()
        if writes & all_of_it:
            return False
    return True


def _written(kernel: Kernel) -> set[Buffer]:
    """What a kernel may write."""
    if not plain(kernel.body):
        return {*kernel.outputs, *buffers(kernel.body)}
    return {*kernel.outputs, *(stmt.buffer for stmt in statements(kernel.body) if isinstance(stmt, Store))}


def _joint(one: Kernel, two: Kernel) -> Kernel | None:
    """Both kernels in one, the first one's part first; None where that is not shown to be right, or not worth it."""
    if len(one.body) != 1 or len(two.body) != 1:
        return None
    left, right = one.body[0], two.body[0]
    if not isinstance(left, Loop) or not isinstance(right, Loop) or left.extent is not right.extent:
        return None
    shared = set(buffers(one.body)) & set(buffers(two.body))
    if not any(buffer.size.const is None or buffer.size.const > SMALL for buffer in shared):
        return None
    if shared & {*one.private, *two.private} or not plain(one.body) or not plain(two.body):
        return None
    private = (*one.private, *two.private)
    loop = _loop(left, right, private)
    if loop is None or len(list(statements((loop,)))) > MOST_STATEMENTS or len(buffers((loop,))) > MOST_BUFFERS:
        return None
    label = one.label if one.label == two.label else f"{one.label}_{two.label}"[:40]
    bounds = tuple(dict.fromkeys((*one.bounds, *two.bounds)))
    where = "; ".join(dict.fromkeys((*one.where.split("; "), *two.where.split("; "))))
    return Kernel(
        label,
        (loop,),
        tuple(dict.fromkeys((*one.outputs, *two.outputs))),
        private,
        one.once and two.once,
        bounds,
        where,
    )


def _loop(left: Loop, right: Loop, private: Sequence[Buffer]) -> Loop | None:
    """One loop for two of the same extent."""
    other = Moved({right.var: symbol(left.var)}).body(right.body)
    whole = replace(left, body=(*left.body, *other))
    if not independent((whole,), private):
        return None
    if len(left.body) == len(other) == 1:
        one, two = left.body[0], other[0]
        if isinstance(one, Loop) and isinstance(two, Loop) and one.extent is two.extent:
            inner = _loop(one, two, ())
            if inner is not None:
                return replace(left, body=(inner,))
    return whole


# -- temporaries that became local ------------------------------------------------------------------------------------


def _with_locals(steps: Sequence[Step], uses: Counter[Buffer]) -> tuple[Step, ...]:
    found: list[Step] = []
    for each in steps:
        step = _mapped(each, [_with_locals(part, uses) for part in _inside(each)])
        found.append(replace(step, kernel=_localized(step.kernel, uses)) if isinstance(step, Run) else step)
    return tuple(found)


def _localized(kernel: Kernel, uses: Counter[Buffer]) -> Kernel:
    """The kernel with temporaries as locals that nothing else uses, and that each round stores once and then reads at
    the same place."""
    inner = [stmt for stmt in statements(kernel.body) if isinstance(stmt, Loop)]
    if len(inner) != 1 or kernel.body[0] is not inner[0]:
        return kernel
    (loop,) = inner
    loads: dict[Buffer, set[Dim]] = {}
    for expr in expressions(loop.body):
        if isinstance(expr, Load):
            loads.setdefault(expr.buffer, set()).add(expr.index)
    stores = [stmt for stmt in loop.body if isinstance(stmt, Store)]
    counts = Counter(stmt.buffer for stmt in statements(loop.body) if isinstance(stmt, Store))
    gone = {}
    for stmt in stores:
        buffer = stmt.buffer
        alone = buffer.kind == "temp" and uses[buffer] == 1 and counts[buffer] == 1
        if alone and loads.get(buffer, set()) == {stmt.index} and not _read_before(loop.body, stmt):
            gone[buffer] = Var(buffer.dtype, f"$local.{buffer.name}")
    if not gone:
        return kernel
    body = _Locals(gone).body(loop.body)
    outputs = tuple(buffer for buffer in kernel.outputs if buffer not in gone)
    return replace(kernel, body=(replace(loop, body=body),), outputs=outputs)


def _read_before(body: Sequence[Stmt], store: Store) -> bool:
    """Whether the stored buffer is read up to its store."""
    before = tuple(body[: list(body).index(store) + 1])
    return any(isinstance(expr, Load) and expr.buffer is store.buffer for expr in expressions(before))


class _Locals(Moved):
    """Statements with locals in the place of buffers."""

    def __init__(self, gone: dict[Buffer, Var]) -> None:
        super().__init__({})
        self.gone = gone

    def stmt(self, stmt: Stmt) -> Stmt:
        """One statement, changed."""
        if isinstance(stmt, Store) and stmt.buffer in self.gone:
            return Let(self.gone[stmt.buffer].name, self.expr(stmt.value))
        return super().stmt(stmt)

    def _expr(self, expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr.buffer in self.gone:
            return self.gone[expr.buffer]
        return super()._expr(expr)
