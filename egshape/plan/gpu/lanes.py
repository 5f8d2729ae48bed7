"""Folds over neighbouring threads of a warp, from registers to registers: no shared memory and no barrier.

What a thread reads of another one goes through the warp's exchange of registers (butterflies of shuffles), which a
printer for a GPU writes; the loops that a fold holds are the same, run one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from egshape.dims import Dim, const, symbol
from egshape.plan.ir.launch import COMMUTATIVE, WARP, LaneFold
from egshape.plan.ir.loops import Buffer, Call, Expr, Let, Load, Loop, Stmt, Store, Var


def lane_fold(var: str, op: Call | str, buffer: Buffer, threads: int, width: int) -> LaneFold:
    """The fold of one register buffer in a block of ``threads`` by ``op``, or by a call with other operands.

    Raises AssertionError for an op that is not the same in any order."""
    call = Call(buffer.dtype, op, ()) if isinstance(op, str) else op
    assert call.op in COMMUTATIVE, call.op
    return lane_folds(var, (buffer,), threads, width, lambda ones, twos: (replace(call, args=(ones[0], twos[0])),))


def lane_folds(
    var: str,
    states: Sequence[Buffer],
    threads: int,
    width: int,
    join: Callable[[Sequence[Var], Sequence[Var]], Sequence[Expr]],
) -> LaneFold:
    """The fold of several register buffers together: ``join`` gives the states of two lanes, the lower one first, as
    one. Raises AssertionError where lanes or registers do not fit the block."""
    assert width in (2, 4, 8, 16, WARP) and threads % width == 0 and (threads % WARP == 0 or threads < WARP)
    (count,) = {(state.size.const or 0) // threads for state in states}
    ones = tuple(Var(state.dtype, f"{var}.one{k}") for k, state in enumerate(states))
    twos = tuple(Var(state.dtype, f"{var}.two{k}") for k, state in enumerate(states))
    new = tuple(join(ones, twos))
    first, register, lane = symbol(var) * width, symbol(f"{var}.r"), symbol(f"{var}.lane")

    def place(thread: Dim) -> Dim:
        return thread * count + register

    steps: list[Stmt] = []
    distance = 1
    while distance < width:
        pair = symbol(f"{var}.pair{distance}")
        low = first + pair * (2 * distance)
        reads = [
            Let(each.name, Load(state.dtype, state, place(thread)))
            for each, state, thread in (
                *zip(ones, states, [low] * len(ones), strict=True),
                *zip(twos, states, [low + distance] * len(twos), strict=True),
            )
        ]
        values = [Let(f"{var}.new{k}", value) for k, value in enumerate(new)]
        writes = [Store(state, place(low), Var(state.dtype, f"{var}.new{k}")) for k, state in enumerate(states)]
        steps.append(Loop(f"{var}.pair{distance}", const(width // (2 * distance)), (*reads, *values, *writes)))
        distance *= 2
    copies = tuple(Store(state, place(first + lane), Load(state.dtype, state, place(first))) for state in states)
    steps.append(Loop(f"{var}.lane", const(width), copies))
    body = (Loop(f"{var}.r", const(count), tuple(steps)),)
    return LaneFold(
        var,
        const(threads // width),
        body,
        width,
        count,
        tuple(states),
        tuple(each.name for each in ones),
        tuple(each.name for each in twos),
        new,
    )
