"""How a graph runs: the ops of each kernel in a frame, the steps of the host program, and where buffers lie in time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from egshape.dims import Dim
from egshape.ir.graph import Graph, Op
from egshape.ir.types import TensorType, itemsize
from egshape.lower.llvm.kernel import function
from egshape.plan.analysis.inplace import in_place
from egshape.plan.analysis.memory import Layout, layout, touched
from egshape.plan.cpu.program import ranged
from egshape.plan.form.planner import Planner
from egshape.plan.ir.loops import Buffer, Kernel, Loop, Stmt
from egshape.plan.ir.program import (
    BindSize,
    Branch,
    CheckSizes,
    CheckValue,
    Copy,
    DefineSize,
    Port,
    Program,
    Repeat,
    Run,
    Step,
)
from egshape.plan.targets import TARGETS, plan
from egshape.viz import graph as graphs
from egshape.viz.dot import Cluster, Edge, Html, Item, Node, Picture, escaped
from egshape.viz.look import CHECK, PAPER, RESULT, SHAPE_CODE, Sizes, clipped, small

_MADE = re.compile(r"`\$([\w.]+)`")
MOST = 120
"""Steps that are drawn; what comes after is counted in a note."""
_COLOURS = ("#bcd6f2", "#f3cfb3", "#c4e3c8", "#e4c5e0", "#eadfa8", "#cfc9f0", "#b9e2e4", "#f0c0c0")


def program_of(graph: Graph) -> Program:
    """The host program of a graph as it is compiled. Raises Unsupported for a graph that cannot be."""
    return in_place(plan(graph))


def kernels(graph: Graph, normal: Callable[[Dim], Dim] | None = None) -> Picture:
    """The graph with the ops that run in one kernel in one frame.

    An op that is computed again wherever it is read stands with the first kernel that reads it. Raises Unsupported
    for a graph that cannot be planned."""
    groups = {op: f"step {run.place}: {run.name}" for op, run in kernel_of(graph).items()}
    return graphs.picture(graph, graphs.Look(groups=groups), normal)


@dataclass(frozen=True)
class KernelRun:
    """A run of a kernel: its place among the runs, and the kernel's name in profiles, such as ``3_reduce``."""

    place: int
    name: str


def runs(program: Program) -> dict[Kernel, KernelRun]:
    """The runs of a program in order. Kernels that compile to one function have one name."""
    names: dict[tuple[str, tuple[bool, ...]], str] = {}
    out: dict[Kernel, KernelRun] = {}
    for place, kernel in enumerate(_kernels(program.steps)):
        code = function(ranged(kernel))
        key = code.text, tuple(buffer in kernel.private for buffer in code.buffers)
        out[kernel] = KernelRun(place, names.setdefault(key, f"{len(names)}_{kernel.label}"))
    return out


def kernel_of(graph: Graph) -> dict[Op, KernelRun]:
    """The run of a kernel that computes each op of the graph's own block.

    Raises Unsupported for a graph that cannot be planned."""
    planner = Planner(graph, TARGETS["llvm"])
    program = planner.plan()
    named = zip(_kernels(program.steps), runs(in_place(program)).values(), strict=True)
    names = {buffer: run for kernel, run in named for buffer in kernel.outputs}
    readers: dict[Op, list[Op]] = {}
    made_by = {value: op for op in graph.ops for value in op.results}
    for op in graph.ops:
        for value in op.operands:
            if value in made_by:
                readers.setdefault(made_by[value], []).append(op)
    out: dict[Op, KernelRun] = {}
    planned = planner.graph.ops  # without the checks that it begins with
    moved = dict(zip(graph.ops[len(graph.ops) - len(planned) :], planned, strict=True))
    for op in reversed(graph.ops):
        own = [
            names[planner.places[value]]
            for value in (moved[op].results if op in moved else ())
            if value in planner.places and planner.places[value] in names
        ]
        below = [out[reader] for reader in readers.get(op, ()) if reader in out]
        if own or below:
            out[op] = own[0] if own else below[0]
    return out


def _kernels(steps: Sequence[Step]) -> Iterator[Kernel]:
    for step in steps:
        if isinstance(step, Run):
            yield step.kernel
        for inner in _inner(step):
            yield from _kernels(inner)


def _inner(step: Step) -> tuple[tuple[Step, ...], ...]:
    if isinstance(step, Repeat):
        return step.test, step.body
    return step.branches if isinstance(step, Branch) else ()


# -- the steps of the host program -----------------------------------------------------------------------------------


def plan_picture(program: Program, normal: Callable[[Dim], Dim] | None = None) -> Picture:
    """The steps of the host program in order, and the buffers that go from one to another."""
    drawing = _Steps(program, Sizes(normal))
    items = tuple(drawing.items())
    title = f"{program.name}: {drawing.count} steps"
    if drawing.count > MOST:
        title += f", the first {MOST} of them"
    return Picture(program.name, items, {"label": title, "labelloc": "t"})


class _Steps:
    """The steps while they are drawn: who wrote each buffer last."""

    def __init__(self, program: Program, sizes: Sizes) -> None:
        self.program = program
        self.sizes = sizes
        self.count = 0
        self.writer: dict[Buffer, str] = {}

    def items(self) -> Iterator[Item]:
        for place, port in enumerate(self.program.inputs):
            self.writer[port.buffer] = f"in{place}"
        body = list(self._block(self.program.steps))
        used = {item.tail for item in body if isinstance(item, Edge)}
        for place, port in enumerate(self.program.inputs):
            if f"in{place}" in used:
                yield Node(f"in{place}", {"label": self._port(port), "fillcolor": PAPER, "color": "#c9a84a"})
        yield from body
        for place, port in enumerate(self.program.outputs):
            if port.buffer in self.writer:
                yield Node(f"out{place}", {"label": self._port(port), "fillcolor": RESULT, "color": "#5c9a68"})
                yield self._edge(port.buffer, f"out{place}")

    def _port(self, port: Port) -> Html:
        return Html(f"<b>{escaped(port.name)}</b><br/>{self.sizes.markup(TensorType(port.buffer.dtype, port.shape))}")

    def _block(self, steps: Sequence[Step]) -> Iterator[Item]:
        before = ""
        for step in steps:
            self.count += 1
            if self.count > MOST:
                continue
            node = f"step{self.count}"
            yield Node(node, _step_look(step))
            reads = list(dict.fromkeys(touched(step)))
            written = set(_written(step))
            for buffer in reads:
                if buffer not in written and buffer in self.writer:
                    yield self._edge(buffer, node)
            if before:
                yield Edge(before, node, {"style": "invis", "weight": "0"})
            before = node
            for place, inner in enumerate(_inner(step)):
                label = ("test", "body")[place] if isinstance(step, Repeat) else f"branch {place}"
                items = list(self._block(inner))
                nodes = tuple(item for item in items if not isinstance(item, Edge))
                if nodes:
                    yield Cluster(f"{node}_{place}", {"label": label, "style": "dashed", "color": "#9e9e9e"}, nodes)
                yield from (item for item in items if isinstance(item, Edge))
            self.writer.update(dict.fromkeys(written, node))

    def _edge(self, buffer: Buffer, head: str) -> Edge:
        size = self.sizes.markup(TensorType(buffer.dtype, (buffer.size,)))
        return Edge(
            self.writer[buffer],
            head,
            {
                "label": Html(f'{small(buffer.name)} <font point-size="9">{size}</font>'),
                "color": self.sizes.colour(buffer.size),
            },
        )


def _written(step: Step) -> tuple[Buffer, ...]:
    if isinstance(step, Run):
        return step.kernel.outputs
    return (step.target,) if isinstance(step, Copy) else ()


def _step_look(step: Step) -> dict[str, str]:
    match step:
        case Run():
            lines = [f"<b>{escaped(step.kernel.label)}</b>", *map(small, _loops(step.kernel.body))]
            return {"label": Html("<br/>".join(lines))}
        case CheckSizes():
            return {
                "label": clipped(f"check {step.lhs} {step.relation} {step.rhs}", 60),
                "fillcolor": CHECK,
                "color": "#c98a2b",
                "tooltip": clipped(step.message, 200),
            }
        case CheckValue():
            return {
                "label": f"check {step.value.name}",
                "fillcolor": CHECK,
                "color": "#c98a2b",
                "tooltip": clipped(step.message, 200),
            }
        case BindSize():
            text = f"{step.name} = {step.buffer.name}[{step.element}]" + (f" + {step.offset}" if step.offset else "")
        case DefineSize():
            text = f"{step.name} = {step.value}"
        case Copy():
            return {"label": f"copy to {step.target.name}"}
        case Branch():
            text = f"branch on {step.index.name}"
        case Repeat():
            text = f"while {step.condition.name}"
        case _:
            text = _name(step)
    return {"label": clipped(text, 60), "fillcolor": SHAPE_CODE, "color": "#a9adb5"}


def _loops(body: Sequence[Stmt], depth: int = 0) -> Iterator[str]:
    """Each loop nest as one line of extents."""
    for stmt in body:
        if isinstance(stmt, Loop):
            extents, inner = [_size(stmt.extent)], stmt.body
            while len(inner) == 1 and isinstance(inner[0], Loop):
                extents.append(_size(inner[0].extent))
                inner = inner[0].body
            yield clipped(f"{'  ' * depth}for {' × '.join(extents)}", 60)
            if depth < 2:
                yield from _loops(inner, depth + 1)


def _size(size: Dim) -> str:
    """A size as it is printed, names that the planner made (`$i2`) without their marks."""
    return _MADE.sub(r"\1", str(size))


# -- memory over time --------------------------------------------------------------------------------------------------


def memory_picture(program: Program) -> Picture:
    """A timeline: a row for each slot of the arena, a column for each step, a bar for as long as a buffer lives."""
    lay = layout(program)
    rows = list(_rows(program, lay))
    steps = _numbered(program.steps)
    shown = steps[:MOST]
    note = f", the first {MOST} of {len(steps)} steps" if len(steps) > MOST else ""
    title = (
        f"{program.name}: memory over {len(steps)} steps{note}\n"
        f"arena of {clipped(_size(lay.peak), 90)} bytes in {len(lay.slots)} slots"
        + (f"; {len(lay.late)} buffers are allocated while it runs" if lay.late else "")
    )
    lines = [_head(shown), *(_row(name, bars, len(shown)) for name, bars in rows)]
    label = Html(
        f'<table border="0" cellborder="1" cellspacing="0" cellpadding="3" color="#c5cbd3">{"".join(lines)}</table>'
    )
    node = Node("timeline", {"shape": "plain", "style": "", "label": label})
    return Picture(program.name, (node,), {"label": title, "labelloc": "t"})


_Bar = tuple[str, int, int, str]
"""A name, the first and the last column, a colour."""


def _numbered(steps: Sequence[Step]) -> list[Step]:
    return [each for step in steps for each in (step, *(x for inner in _inner(step) for x in _numbered(inner)))]


def _rows(program: Program, lay: Layout) -> Iterator[tuple[str, list[_Bar]]]:
    """Slots with the bars of their buffers, then what lies outside the arena."""
    lives: dict[Buffer, tuple[int, int]] = {}
    clock = iter(range(1_000_000))

    def walk(steps: Sequence[Step]) -> dict[Buffer, None]:
        seen: dict[Buffer, None] = {}
        for step in steps:
            begin = next(clock)
            own = dict.fromkeys(touched(step))
            found = dict(own)
            for inner in _inner(step):
                found |= walk(inner)
            end = begin + len(_numbered((step,))) - 1
            for buffer in found if isinstance(step, Repeat) else own:  # what a loop touches lives through all of it
                first, last = lives.get(buffer, (begin, end))
                lives[buffer] = min(first, begin), max(last, end)
            seen |= found
        return seen

    walk(program.steps)
    by_slot: dict[int, list[Buffer]] = {}
    for buffer, slot in lay.slot.items():
        by_slot.setdefault(slot, []).append(buffer)
    colours = {buffer: _COLOURS[place % len(_COLOURS)] for place, buffer in enumerate(lives)}
    for slot, buffers in sorted(by_slot.items()):
        bars = [(buffer.name, *lives[buffer], colours[buffer]) for buffer in buffers if buffer in lives]
        yield f"slot {slot}: {clipped(_size(lay.slots[slot]), 34)} bytes", sorted(bars, key=lambda bar: bar[1])
    for buffer, life in lives.items():
        if buffer not in lay.slot and buffer.kind in ("temp", "output"):
            size = clipped(_size(buffer.size * itemsize(buffer.dtype)), 30)
            yield f"{buffer.name}, {buffer.kind}: {size} bytes", [(buffer.name, *life, colours[buffer])]


def _head(steps: Sequence[Step]) -> str:
    cells = "".join(
        f'<td bgcolor="#f5f7fa" title="{escaped(_name(step))}">{small(clipped(_name(step), 9))}</td>' for step in steps
    )
    return f'<tr><td bgcolor="#f5f7fa">{small("where")}</td>{cells}</tr>'


def _name(step: Step) -> str:
    return (
        step.kernel.label
        if isinstance(step, Run)
        else {
            CheckSizes: "check",
            CheckValue: "check",
            BindSize: "size",
            DefineSize: "size",
            Copy: "copy",
            Branch: "branch",
            Repeat: "while",
        }.get(type(step), type(step).__name__)
    )


def _row(name: str, bars: Sequence[_Bar], columns: int) -> str:
    cells, at = [], 0
    for text, begin, end, colour in bars:
        first, last = max(begin, at), min(end, columns - 1)
        if first > last:
            continue
        if first > at:
            cells.append(f'<td colspan="{first - at}"></td>')
        wide = last - first + 1
        shown = clipped(text, max(3, 9 * wide))
        cells.append(f'<td colspan="{wide}" bgcolor="{colour}" title="{escaped(text)}">{small(shown, "#1c2430")}</td>')
        at = last + 1
    if at < columns:
        cells.append(f'<td colspan="{columns - at}"></td>')
    return f'<tr><td align="left">{small(name, "#1c2430")}</td>{"".join(cells)}</tr>'
