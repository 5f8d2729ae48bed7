"""The steps of a program, one kind after the other: what decides, what is checked, what the machine is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from egshape.lower.common.sizes import LARGEST
from egshape.lower.host.callbacks import Callbacks
from egshape.lower.host.checks import Checks
from egshape.lower.host.entry import Entry
from egshape.lower.host.memory import Buffers
from egshape.lower.host.target import Target
from egshape.lower.llvm import scalar
from egshape.plan.analysis.memory import touched
from egshape.plan.ir.loops import Buffer
from egshape.plan.ir.program import (
    BindSize,
    Branch,
    CheckSizes,
    CheckValue,
    Copy,
    DefineSize,
    Extend,
    HostCall,
    Repeat,
    Run,
    Step,
    Swap,
)


class Steps:
    """Writes steps."""

    def __init__(self, entry: Entry, checks: Checks, buffers: Buffers, target: Target) -> None:
        self.entry, self.checks, self.buffers, self.target = entry, checks, buffers, target
        self.callbacks = Callbacks(entry, checks, buffers, target)
        self.w = entry.w

    def program(self) -> None:
        """Write all steps of the program."""
        self.target.order.program(self.entry.program.steps, self)
        self.target.values.settle()

    def steps(self, steps: Sequence[Step]) -> None:
        """Write steps in order, as the machine takes them."""
        self.target.order.steps(steps, self)

    def ready(self, buffer: Buffer) -> None:
        """Memory for a buffer whose size was not known at the entry; a larger one if a loop made it grow."""
        self.buffers.ready(buffer)

    def step(self, step: Step) -> None:
        """Write a step, for which its buffers get their memory."""
        if isinstance(step, HostCall | BindSize | Branch | Repeat):
            self.target.values.settle()
        if isinstance(step, HostCall):
            self.callbacks.call(step)
            return
        for buffer in touched(step):
            self.buffers.ready(buffer)
        self.plain(step)

    def plain(self, step: Step) -> None:
        """Write a step whose buffers have their memory."""
        match step:
            case CheckSizes():
                self.checks.sizes(step)
            case CheckValue():
                self._check_value(step)
            case BindSize():
                self._bind(step)
            case DefineSize():
                self.checks.exact(step.value)
                self.entry.define(step.name, self.w.dim(step.value))
            case Run():
                self.target.launcher.run(step)
            case Copy():
                self.target.launcher.copy(step)
            case Swap():
                self.buffers.swap(step)
            case Extend():
                self.buffers.extend(step)
            case Branch():
                self._branch(step)
            case Repeat():
                self._repeat(step)

    def _check_value(self, step: CheckValue) -> None:
        """What the message shows is read only where the check fails."""
        w, values = self.w, self.target.values
        if not values.defer(step):
            with w.when(w.value(f"xor i1 {values.scalar(step.value)}, true")):
                self.checks.refuse(step, values.scalar)

    def _bind(self, step: BindSize) -> None:
        w, tables = self.w, self.entry.tables
        raw = scalar.convert(w, step.buffer.dtype, "i64", self.target.values.scalar(step.buffer, step.element))
        size = w.value(f"add i64 {raw}, {step.offset}")
        number = len(tables.sizes)
        tables.sizes.append({"name": step.name, "where": step.where})
        self.checks.fail(w.value(f"icmp slt i64 {size}, 0"), 5, [str(number), raw])
        self.checks.fail(w.value(f"icmp sgt i64 {size}, {int(LARGEST)}"), 4, [])
        self.entry.define(step.name, size)

    def _branch(self, step: Branch) -> None:
        w, entry = self.w, self.entry
        index = self.target.values.scalar(step.index)
        labels = [w.label("arm") for _ in step.branches]
        end = w.label("end")
        if step.index.dtype == "i1":
            w.line(f"br i1 {index}, label %{labels[0]}, label %{labels[1]}")
        else:
            cases = " ".join(f"i32 {k}, label %{label}" for k, label in enumerate(labels[:-1]))
            w.line(f"switch i32 {index}, label %{labels[-1]} [ {cases} ]")
        pointers = dict(entry.pointers)
        self.checks.inside += 1
        for label, steps in zip(labels, step.branches, strict=True):
            w.block(label)
            with w.frame():
                self.steps(steps)
                self.target.values.settle()
            w.line(f"br label %{end}")
            entry.pointers = dict(pointers)
        self.checks.inside -= 1
        w.block(end)

    def _repeat(self, step: Repeat) -> None:
        w, values = self.w, self.target.values
        for name in _defined((*step.test, *step.body)):
            self.entry.forget(name)  # a later round has another value
        head, body, end = w.label("head"), w.label("round"), w.label("after")
        w.line(f"br label %{head}")
        w.block(head)
        with w.frame():
            self.steps(step.test)
            values.settle()
            go_on = values.scalar(step.condition)
        w.line(f"br i1 {go_on}, label %{body}, label %{end}")
        w.block(body)
        self.checks.inside += 1
        with w.frame():
            self.steps(step.body)
            values.settle()
        self.checks.inside -= 1
        w.line(f"br label %{head}")
        w.block(end)


def _defined(steps: Sequence[Step]) -> Iterator[str]:
    """The symbols that steps give values."""
    for step in steps:
        if isinstance(step, BindSize | DefineSize):
            yield step.name
        elif isinstance(step, HostCall):
            yield from (name for name, _, _ in step.defines)
        for part in (
            (step.test, step.body) if isinstance(step, Repeat) else step.branches if isinstance(step, Branch) else ()
        ):
            yield from _defined(part)
