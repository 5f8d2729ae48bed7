"""Attention as cuDNN computes it: queries, keys and values of 16 bits where they lie, scores that are a number times
their product, and either all keys for each row or those up to its own number. What is not exactly that stays a kernel.

The library computes scores and weights in f32 where a graph may round them in between, and says nothing about scores
that are not finite; so it runs only where it is asked for (``SWITCH``, plan/gpu/attention/find.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from egshape.dims import Dim, const, symbol
from egshape.dims import product as total
from egshape.ir.types import is_float
from egshape.plan.analysis.elements import ZERO
from egshape.plan.analysis.parallel import coefficient
from egshape.plan.form.matrices import Axes
from egshape.plan.form.steps import Steps
from egshape.plan.gpu.attention.masks import lines, opened
from egshape.plan.ir.loops import Attend, Buffer, Call, Const, Expr, Index, Load, Store, Test, Var
from egshape.plan.ir.program import Attention, Heads, Run

TYPES = ("f16", "bf16")
LANES, WIDEST = 8, 256
"""What the elements of a row of queries, keys and values are a multiple of, and how many they are at most."""
LOW = -3e4
"""At least so low is what masked scores are taken for -inf with: f16 has nothing much lower."""
_ROWS, _ELEMENT = -2, -1


def offered(p: Steps, stmt: Attend, axes: Axes) -> None:
    """Put a step before the kernel that was added last, ``stmt`` in loops over ``axes``, if the library can run it."""
    found = _described(stmt, axes)
    if found is not None:
        run = p.steps.pop()
        assert isinstance(run, Run)
        p.steps.append(found.step(run, p.name("attention")))


@dataclass(frozen=True)
class _Described:
    """Sizes of batches, heads, and heads of keys; queries, keys, values and results; what scores are multiplied by."""

    sizes: tuple[Dim, Dim, Dim]
    tensors: tuple[Heads, Heads, Heads, Heads]
    scale: float
    causal: bool
    stmt: Attend

    def step(self, run: Run, name: str) -> Attention:
        """The step that does what a kernel does."""
        (batch, heads, groups), (queries, keys, values, out) = self.sizes, self.tensors
        return Attention(
            run.kernel,
            done=name,
            batch=batch,
            heads=heads,
            groups=groups,
            rows=self.stmt.m,
            columns=self.stmt.n,
            depth=self.stmt.k,
            width=self.stmt.width,
            queries=queries,
            keys=keys,
            values=values,
            out=out,
            scale=self.scale,
            causal=self.causal,
        )


def _described(stmt: Attend, axes: Axes) -> _Described | None:
    widths = (stmt.k.const, stmt.width.const)
    if stmt.dtype not in TYPES or any(not size or size % LANES or size > WIDEST for size in widths):
        return None
    if not isinstance(stmt.live, Test) or stmt.live.dims != (stmt.n - 1,) or not _divides(stmt.factor, stmt.total):
        return None
    scores = _scores(stmt)
    loops = [axis for axis in axes if axis[0] is not ZERO]
    found = [
        _strided(expr, loops, row, element)
        for expr, row, element in (
            (stmt.left, stmt.row, stmt.deep),
            (stmt.right, stmt.column, stmt.deep),
            (stmt.values, stmt.column, stmt.place),
            (_stored(stmt), stmt.row, stmt.place),
        )
    ]
    if scores is None or any(each is None for each in found):
        return None
    heads = _heads([each for each in found if each is not None], [size for _, size in loops])
    return None if heads is None else _Described(*heads, *scores, stmt)


def _divides(factor: Expr, total: str) -> bool:
    """Whether sums are divided by their row's total alone: its scores were shifted by their peak."""
    match factor:
        case Call(op="divide", args=(one, norm)):
            return _is_one(one) and _is_total(norm, total)
    return False


def _is_one(expr: Expr) -> bool:
    """Whether it is 1 where all is finite: exp of the difference of a peak and itself, rounded or not."""
    match expr:
        case Call(op="exponential", args=(Call(op="subtract", args=(one, two)),)):
            return _name(one) is not None and _name(one) == _name(two)
    return False


def _is_total(expr: Expr, total: str) -> bool:
    match _bare(expr):
        case Call(op="multiply", args=(Var(name=name), scale)):
            return name == total and _is_one(scale)
    return False


def _bare(expr: Expr) -> Expr:
    """What is rounded or widened."""
    while isinstance(expr, Call) and expr.op == "convert" and is_float(expr.args[0].dtype) and is_float(expr.dtype):
        expr = expr.args[0]
    return expr


def _name(expr: Expr) -> str | None:
    """The name of a local that is at most rounded."""
    found = _bare(expr)
    return found.name if isinstance(found, Var) else None


def _scores(stmt: Attend) -> tuple[float, bool] | None:
    """What scores are multiplied by, and whether those of keys behind a row's own number are masked."""
    masks = lines(stmt.scores, stmt.row, stmt.column, (stmt.m, stmt.n))
    if len(masks) > 1:
        return None
    for mask in masks:
        if mask.closes or mask.low is None or mask.low > LOW or not _is_causal(mask.test, stmt):
            return None
    scale = _scale(opened(stmt.scores, masks), stmt.score)
    return None if scale is None else (scale, bool(masks))


def _is_causal(test: Call, stmt: Attend) -> bool:
    """Whether a comparison says that the column is at most the row."""
    one, two = (_number(arg) for arg in test.args)
    if one is None or two is None:
        return False
    row, column = symbol(stmt.row), symbol(stmt.column)
    direction = dict(test.attrs)["direction"]
    gap = one - two if direction in ("GE", "GT") else two - one
    return gap - (1 if direction in ("GT", "LT") else 0) is row - column


def _number(expr: Expr) -> Dim | None:
    """An integer that is computed from indices."""
    if expr.dtype not in ("i32", "i64"):
        return None  # narrower ones wrap
    match expr:
        case Index():
            return expr.dim
        case Const():
            return const(int(expr.value))
        case Call(op="convert", args=(inner,)):
            return _number(inner)
        case Call(op="add" | "subtract" as op, args=(left, right)):
            one, two = _number(left), _number(right)
            return None if one is None or two is None else one + two if op == "add" else one - two
    return None


def _scale(expr: Expr, score: str) -> float | None:
    """What a score is multiplied by to give an expression."""
    match _bare(expr):
        case Var(name=name):
            return 1.0 if name == score else None
        case Call(op="multiply", args=(one, two)):
            for inner, other in ((one, two), (two, one)):
                number, found = _bare(other), _scale(inner, score)
                if isinstance(number, Const) and found is not None:
                    return found * float(number.value)
        case Call(op="divide", args=(inner, two)):
            number, found = _bare(two), _scale(inner, score)
            return found / float(number.value) if isinstance(number, Const) and number.value and found else None
    return None


def _stored(stmt: Attend) -> Expr | None:
    """The element of the results that a row's sum becomes, and nothing else."""
    match stmt.body:
        case (Store(buffer=buffer, index=index, value=value),) if buffer.dtype == stmt.dtype:
            return Load(buffer.dtype, buffer, index) if _name(value) == stmt.value else None
    return None


def _strided(expr: Expr | None, loops: Axes, row: str, element: str) -> tuple[Buffer, Dim, tuple[Dim, ...]] | None:
    """Where the elements of an operand lie, those of a row side by side: what steps of the loops and the row add."""
    expr = None if expr is None else _bare(expr)
    if not isinstance(expr, Load):
        return None
    rest, steps = expr.index, list[Dim]()
    for name in (*(next(iter(index.symbols())) for index, _ in loops), row, element):
        step = coefficient(rest, name)
        if step is None:
            return None
        steps.append(step)
        rest = rest.substitute({name: 0})
    inner = {name for index, _ in loops for name in index.symbols()} | {row, element}
    fixed = not any(inner & step.symbols() for step in steps)
    return (expr.buffer, rest, tuple(steps)) if fixed and steps[_ELEMENT].const == 1 else None


def _heads(
    found: Sequence[tuple[Buffer, Dim, tuple[Dim, ...]]], sizes: Sequence[Dim]
) -> tuple[tuple[Dim, Dim, Dim], tuple[Heads, Heads, Heads, Heads]] | None:
    """Loops as batches and heads, where heads of queries may share keys."""
    steps = [each[2] for each in found]
    shared = [number for number in range(len(sizes)) if all(each[number].const == 0 for each in steps[1:3])]
    groups = [number for number in range(len(sizes)) if number not in shared]
    order = [*groups, *shared]
    size = [sizes[number] for number in order]
    few = [[each[number] for number in order] for each in steps]
    while len(groups) > 2:  # the outer two are one where one's step is the other's size
        if any(each[0] is not each[1] * size[1] for each in few):
            return None
        size[:2] = [size[0] * size[1]]
        few = [each[1:] for each in few]
        groups.pop()
    batch, heads = (size[:1], size[1:]) if len(groups) == 2 or (groups and shared) else ([], size)
    many = [each[len(batch) :] for each in few]
    for each in (many[0], many[3]):  # rows of heads that share keys follow one another
        if any(outer is not inner * width for outer, inner, width in zip(each, each[1:], heads[1:], strict=False)):
            return None
    few_heads = heads[0] if len(groups) > len(batch) else const(1)
    tensors: list[Heads] = []
    for (buffer, offset, every), one, several in zip(found, few, many, strict=True):
        row = every[_ROWS]  # an axis of one has a step too, which nothing reads
        is_keys = len(tensors) in (1, 2)
        head = row if not several or (is_keys and few_heads.const == 1) else several[0] if is_keys else several[-1]
        tensors.append(Heads(buffer, offset, (one[0] if batch else row, head, row)))
    queries, keys, values, out = tensors
    return (total(batch), total(heads), few_heads), (queries, keys, values, out)
