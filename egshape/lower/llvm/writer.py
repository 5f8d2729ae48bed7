"""Text of one LLVM function: blocks, SSA names, sizes as i64, caches that follow dominance."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from egshape.dims import Dim, FloorDiv, Relu, Symbol
from egshape.dims.core import Atom, is_nonnegative, is_positive

ROLLED = "!0"
HINTS = """!0 = distinct !{!0, !1}
!1 = !{!"llvm.loop.unroll.disable"}
"""
"""What LLVM is told of loops: one is not written out, and computes with as many lanes as pay."""


class Writer:
    """Collects the lines of a function. ``symbols`` maps a size or index to its i64."""

    def __init__(self) -> None:
        self.head: list[str] = []
        self.lines: list[str] = []
        self.symbols: dict[str, str] = {}
        self.slots: dict[str, str] = {}
        """Sizes that change while the function runs: where they are stored."""
        self.count = 0
        self.frames: list[dict[object, str]] = [{}]

    def line(self, text: str) -> None:
        """Add an instruction."""
        self.lines.append("  " + text)

    def value(self, text: str) -> str:
        """Add an instruction with a result; its name."""
        self.count += 1
        self.lines.append(f"  %t{self.count} = {text}")
        return f"%t{self.count}"

    def label(self, hint: str) -> str:
        """A new block name."""
        self.count += 1
        return f"{hint}{self.count}"

    def block(self, name: str) -> None:
        """Begin a block."""
        self.lines.append(f"{name}:")

    def slot(self, type: str) -> str:
        """A stack slot, made in the entry block."""
        self.count += 1
        self.head.append(f"  %s{self.count} = alloca {type}")
        return f"%s{self.count}"

    @contextmanager
    def frame(self) -> Iterator[None]:
        """What is computed inside is not reused outside."""
        self.frames.append({})
        yield
        self.frames.pop()

    def find(self, key: object) -> str | None:
        """A value computed earlier on every path to here."""
        for frame in reversed(self.frames):
            if key in frame:
                return frame[key]
        return None

    def keep(self, key: object, name: str) -> str:
        """Remember a value."""
        self.frames[-1][key] = name
        return name

    # -- sizes ----------------------------------------------------------------------------------------------------

    def dim(self, dim: Dim) -> str:
        """A size as i64."""
        if dim.const is not None:
            return str(dim.const)
        found = self.find(dim)
        if found is not None:
            return found
        total = ""
        for mono, factor in dim.terms:
            term = ""
            for atom, power in mono:
                for _ in range(power):
                    part = self._atom(atom)
                    term = self.value(f"mul nsw i64 {term}, {part}") if term else part
            if not mono:
                term = str(factor)
            elif factor != 1:
                term = self.value(f"mul nsw i64 {term}, {factor}")
            total = self.value(f"add nsw i64 {total}, {term}") if total else term
        return self.keep(dim, total)

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Symbol):
            if atom.name in self.slots:
                return self.find(atom) or self.keep(atom, self.value(f"load i64, ptr {self.slots[atom.name]}"))
            return self.symbols[atom.name]
        found = self.find(atom)
        if found is not None:
            return found
        if isinstance(atom, Relu):
            return self.keep(atom, self.value(f"call i64 @llvm.smax.i64(i64 {self.dim(atom.arg)}, i64 0)"))
        assert isinstance(atom, FloorDiv)
        return self.keep(atom, self._divide(atom))

    def _divide(self, atom: FloorDiv) -> str:
        num, den = self.dim(atom.num), self.dim(atom.den)
        if not is_positive(atom.den):
            zero = self.value(f"icmp eq i64 {den}, 0")
            den = self.value(f"select i1 {zero}, i64 1, i64 {den}")
        quotient = self.value(f"sdiv i64 {num}, {den}")
        if is_nonnegative(atom.num) and is_nonnegative(atom.den):
            return quotient
        rest = self.value(f"srem i64 {num}, {den}")
        odd = self.value(f"icmp ne i64 {rest}, 0")
        signs = self.value(f"xor i64 {rest}, {den}")
        differ = self.value(f"icmp slt i64 {signs}, 0")
        below = self.value(f"and i1 {odd}, {differ}")
        step = self.value(f"sext i1 {below} to i64")
        return self.value(f"add i64 {quotient}, {step}")

    def dim_float(self, dim: Dim) -> str:
        """A size as double, which does not wrap."""
        total = ""
        for mono, factor in dim.terms:
            term = f"{float(factor):.1f}"
            for atom, power in mono:
                part = self.atom_float(atom)
                for _ in range(power):
                    term = self.value(f"fmul double {term}, {part}")
            total = self.value(f"fadd double {total}, {term}") if total else term
        return total or "0.0"

    def atom_float(self, atom: Atom) -> str:
        """A factor of a size as double."""
        if isinstance(atom, Symbol):
            return self.value(f"sitofp i64 {self._atom(atom)} to double")
        if isinstance(atom, Relu):
            return self.value(f"call double @llvm.maxnum.f64(double {self.dim_float(atom.arg)}, double 0.0)")
        assert isinstance(atom, FloorDiv)
        quotient = self.value(f"fdiv double {self.dim_float(atom.num)}, {self.dim_float(atom.den)}")
        return self.value(f"call double @llvm.floor.f64(double {quotient})")

    # -- control --------------------------------------------------------------------------------------------------

    @contextmanager
    def loop(self, extent: str, start: str = "0", hint: str = "") -> Iterator[str]:
        """A counted loop from ``start`` to below ``extent``; gives the i64 counter. ``hint``: of HINTS."""
        self.count += 1
        n = self.count
        self.line(f"%g{n} = icmp sgt i64 {extent}, {start}")
        self.line(f"br i1 %g{n}, label %pre{n}, label %exit{n}")
        self.block(f"pre{n}")
        self.line(f"br label %loop{n}")
        self.block(f"loop{n}")
        self.line(f"%i{n} = phi i64 [ {start}, %pre{n} ], [ %n{n}, %latch{n} ]")
        with self.frame():
            yield f"%i{n}"
        self.line(f"br label %latch{n}")
        self.block(f"latch{n}")
        self.line(f"%n{n} = add nuw nsw i64 %i{n}, 1")
        self.line(f"%c{n} = icmp slt i64 %n{n}, {extent}")
        self.line(f"br i1 %c{n}, label %loop{n}, label %exit{n}{f', !llvm.loop {hint}' if hint else ''}")
        self.block(f"exit{n}")

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Instructions that run only if an i1 holds."""
        then, end = self.label("then"), self.label("end")
        self.line(f"br i1 {condition}, label %{then}, label %{end}")
        self.block(then)
        with self.frame():
            yield
        self.line(f"br label %{end}")
        self.block(end)
