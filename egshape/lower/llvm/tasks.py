"""Kernels in pieces: the loop over a range of units, the task that a pool runs, and the call that chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from egshape.lower.llvm.writer import Writer
from egshape.plan.ir.loops import Loop
from egshape.plan.ir.ranges import Split

THRESHOLD = 1_200_000.0
"""Work (plan/analysis/work.py) from which a kernel is worth the microseconds that waking a thread takes."""
PIECES = 8
"""Chunks for each thread: enough that a thread that the system takes away, or whose panels are wider, holds up
little."""
FIRST, LAST = "%first", "%last"


def ranged(w: Writer, loops: Sequence[Loop], body: Callable[[], None]) -> None:
    """The iterations from ``%first`` to ``%last`` of a nest of loops taken as one."""
    if len(loops) == 1:
        with w.loop(LAST, FIRST) as index:
            w.symbols[loops[0].var] = index
            body()
        return
    extents = [w.dim(loop.extent) for loop in loops]
    slots = [w.slot("i64") for _ in loops]
    rest = FIRST
    for k in range(len(loops) - 1, 0, -1):
        least = w.value(f"call i64 @llvm.smax.i64(i64 {extents[k]}, i64 1)")
        w.line(f"store i64 {w.value(f'srem i64 {rest}, {least}')}, ptr {slots[k]}")
        rest = w.value(f"sdiv i64 {rest}, {least}")
    w.line(f"store i64 {rest}, ptr {slots[0]}")
    with w.loop(LAST, FIRST):
        at = [w.value(f"load i64, ptr {slot}") for slot in slots]
        for loop, index in zip(loops, at, strict=True):
            w.symbols[loop.var] = index
        body()
        carry = "1"
        for k in range(len(loops) - 1, 0, -1):
            stepped = w.value(f"add nsw i64 {at[k]}, {carry}")
            full = w.value(f"icmp eq i64 {stepped}, {extents[k]}")
            w.line(f"store i64 {w.value(f'select i1 {full}, i64 0, i64 {stepped}')}, ptr {slots[k]}")
            carry = w.value(f"zext i1 {full} to i64")
        w.line(f"store i64 {w.value(f'add nsw i64 {at[0]}, {carry}')}, ptr {slots[0]}")


@dataclass(frozen=True)
class Argument:
    """An argument of a kernel; ``stride``: bytes between the copies of the workers, if each has its own."""

    type: str
    value: str
    stride: str = ""


def task(name: str, arguments: Sequence[Argument]) -> str:
    """The function that a pool calls: ``name`` on a range, its arguments from a table."""
    lines, passed, at = [], [], 0
    for k, each in enumerate(arguments):
        lines += [f"  %p{k} = getelementptr i64, ptr %args, i64 {at}", f"  %a{k} = load {each.type}, ptr %p{k}"]
        at += 1
        if each.stride:
            lines += [
                f"  %q{k} = getelementptr i64, ptr %args, i64 {at}",
                f"  %s{k} = load i64, ptr %q{k}",
                f"  %o{k} = mul i64 %s{k}, %worker",
                f"  %b{k} = getelementptr i8, ptr %a{k}, i64 %o{k}",
            ]
            at += 1
        passed.append(f"{each.type} %{'b' if each.stride else 'a'}{k}")
    body = "\n".join(lines)
    call = ", ".join([*passed, "i64 %first", "i64 %last"])
    return (
        f"define internal void @{name}_task(ptr %args, i64 %first, i64 %last, i64 %worker) {{\n{body}\n"
        f"  call void @{name}({call})\n  ret void\n}}\n"
    )


def table_words(arguments: Sequence[Argument]) -> int:
    """Words of the table of a task."""
    return sum(2 if each.stride else 1 for each in arguments)


def call(w: Writer, name: str, arguments: Sequence[Argument], cut: Split, table: str) -> None:
    """Run all units of a kernel: in the pool where there is one and the work is worth it, else at once."""
    units = w.dim(cut.units)
    plain = ", ".join([*(f"{each.type} {each.value}" for each in arguments), "i64 0", f"i64 {units}"])
    work = w.dim_float(cut.units * cut.work)
    large = w.value(f"fcmp ogt double {work}, {THRESHOLD:.1f}")
    several = w.value(f"icmp sgt i64 {units}, {cut.grain}")
    useful = w.value(f"and i1 {w.value(f'and i1 {large}, {several}')}, %wide")
    side, alone, end = w.label("side"), w.label("alone"), w.label("end")
    w.line(f"br i1 {useful}, label %{side}, label %{alone}")
    w.block(side)
    with w.frame():
        at = 0
        for each in arguments:
            for type, value in ((each.type, each.value), *([("i64", each.stride)] if each.stride else [])):
                w.line(f"store {type} {value}, ptr {w.value(f'getelementptr i64, ptr {table}, i64 {at}')}")
                at += 1
        pieces = w.value(f"mul i64 %threads, {PIECES * cut.grain}")
        rounded = w.value(f"add i64 {units}, {w.value(f'sub i64 {pieces}, 1')}")
        chunk = w.value(f"mul i64 {w.value(f'sdiv i64 {rounded}, {pieces}')}, {cut.grain}")
        w.line(f"call void @egs_parallel(ptr %pool, ptr @{name}_task, ptr {table}, i64 {units}, i64 {chunk})")
    w.line(f"br label %{end}")
    w.block(alone)
    w.line(f"call void @{name}({plain})")
    w.line(f"br label %{end}")
    w.block(end)
