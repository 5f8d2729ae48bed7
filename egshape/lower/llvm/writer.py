"""Text of one LLVM function: blocks, SSA names, sizes as i64, caches that follow dominance."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from egshape.dims import Dim, FloorDiv, Relu, Symbol
from egshape.dims.core import Atom, is_nonnegative, is_positive
from egshape.lower.common.sizes import Sizes

ROLLED, REST = "!0", "!2"
"""What LLVM is told of loops (``hints``): one is not written out, and computes with as many lanes as pay; one of fewer
rounds than a vector has lanes."""


def hints(masks: bool) -> str:
    """The metadata of the above. ``masks``: whether the CPU computes under masks, which a rest does then."""
    rest = '!{!2, !3}\n!3 = !{!"llvm.loop.vectorize.predicate.enable", i1 true}' if masks else "!{!2}"
    return f"""!0 = distinct !{{!0, !1}}
!1 = !{{!"llvm.loop.unroll.disable"}}
!2 = distinct {rest}
"""


class Writer(Sizes):
    """Collects the lines of a function; sizes are i64."""

    def __init__(self) -> None:
        super().__init__()
        self.head: list[str] = []
        self.lines: list[str] = []
        self.slots: dict[str, str] = {}
        """Sizes that change while the function runs: where they are stored."""
        self.count = 0

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

    # -- sizes ----------------------------------------------------------------------------------------------------

    def number(self, value: int) -> str:
        """A number, of which 64 bits count."""
        return str((value + 2**63) % 2**64 - 2**63)

    def times(self, one: str, two: str) -> str:
        """A product."""
        return self.value(f"mul nsw i64 {one}, {two}")

    def plus(self, one: str, two: str) -> str:
        """A sum."""
        return self.value(f"add nsw i64 {one}, {two}")

    def times_wrapped(self, one: str, two: str) -> str:
        """A product of which 64 bits count."""
        return self.value(f"mul i64 {one}, {two}")

    def plus_wrapped(self, one: str, two: str) -> str:
        """A sum of which 64 bits count."""
        return self.value(f"add i64 {one}, {two}")

    def symbol(self, symbol: Symbol) -> str:
        """Its i64; of one that changes while the function runs, what is stored now."""
        if symbol.name in self.slots:
            return self.find(symbol) or self.keep(symbol, self.value(f"load i64, ptr {self.slots[symbol.name]}"))
        return super().symbol(symbol)

    def relu(self, arg: Dim) -> str:
        """The size, 0 if it is below."""
        return self.value(f"call i64 @llvm.smax.i64(i64 {self.dim(arg)}, i64 0)")

    def floor_divide(self, atom: FloorDiv) -> str:
        """A quotient, rounded down."""
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
        found = self.find(("float", dim))
        if found is not None:
            return found
        total = ""
        for mono, factor in dim.terms:
            term = f"{float(factor):.1f}"
            for atom, power in mono:
                part = self.atom_float(atom)
                for _ in range(power):
                    term = self.value(f"fmul double {term}, {part}")
            total = self.value(f"fadd double {total}, {term}") if total else term
        return self.keep(("float", dim), total or "0.0")

    def atom_float(self, atom: Atom) -> str:
        """A factor of a size as double."""
        found = self.find(("float", atom))
        return self.keep(("float", atom), self._atom_float(atom)) if found is None else found

    def _atom_float(self, atom: Atom) -> str:
        if isinstance(atom, Symbol):
            return self.value(f"sitofp i64 {self.symbol(atom)} to double")
        if isinstance(atom, Relu):
            return self.value(f"call double @llvm.maxnum.f64(double {self.dim_float(atom.arg)}, double 0.0)")
        assert isinstance(atom, FloorDiv)
        quotient = self.value(f"fdiv double {self.dim_float(atom.num)}, {self.dim_float(atom.den)}")
        return self.value(f"call double @llvm.floor.f64(double {quotient})")

    # -- control --------------------------------------------------------------------------------------------------

    @contextmanager
    def loop(self, extent: str, start: str = "0", hint: str = "") -> Iterator[str]:
        """A counted loop from ``start`` to below ``extent``; gives the i64 counter. ``hint``: ROLLED or REST."""
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
