"""Products of bytes: four of them, side by side along the depth, are one element of the matrices (a quad).

A step multiplies the bytes of two vectors of quads, one side's taken as ui8 and the other's as i8, and adds the four
products of each quad to an i32; sums wrap, nothing saturates. x86 has an instruction for it (VNNI); elsewhere bytes
are widened to 16 bits and multiplied in pairs, or to 32 bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

BITS = {512: "avx512bw", 256: "avx2", 128: "sse2"}
"""The feature that multiplies pairs of 16-bit numbers in vectors of so many bits."""
_PAIRS = {512: "llvm.x86.avx512.pmaddw.d.512", 256: "llvm.x86.avx2.pmadd.wd", 128: "llvm.x86.sse2.pmadd.wd"}


@dataclass(frozen=True)
class Quads:
    """Steps on vectors of ``lanes`` quads of a CPU. ``left_signed``: the left bytes are i8 and the right ones ui8, else
    the other way round."""

    lanes: int
    left_signed: bool
    features: frozenset[str]

    @property
    def bits(self) -> int:
        """Bits of a vector."""
        return 32 * self.lanes

    @property
    def how(self) -> str:
        """``dot``: one instruction; ``pairs``: two multiplications of 16-bit pairs; ``plain``: four of 32 bits."""
        wide = self.bits == 512
        if "+avx512vnni" in self.features and (wide or "+avx512vl" in self.features):
            return "dot"
        if "+avxvnni" in self.features and not wide:
            return "dot"
        return "pairs" if f"+{BITS.get(self.bits)}" in self.features else "plain"

    @property
    def dot(self) -> bool:
        """Whether one instruction does a step."""
        return self.how == "dot"

    @property
    def vector(self) -> str:
        """The type of a vector of quads."""
        return f"<{self.lanes} x i32>"

    @property
    def declaration(self) -> str:
        """The intrinsic that steps call."""
        if self.how == "dot":
            bytes_ = f"<{4 * self.lanes} x i8>"
            return f"declare {self.vector} @llvm.x86.avx512.vpdpbusd.{self.bits}({self.vector}, {bytes_}, {bytes_})\n"
        if self.how == "pairs":
            half = f"<{2 * self.lanes} x i16>"
            return f"declare {self.vector} @{_PAIRS[self.bits]}({half}, {half})\n"
        return ""

    def parts(self, name: str, right: bool) -> Iterator[str]:
        """What steps read of the vector of quads %name: once for all steps that read it."""
        signed = right != self.left_signed
        if self.how == "dot":
            yield f"  %{name}.q = bitcast {self.vector} %{name} to <{4 * self.lanes} x i8>"
        elif self.how == "pairs":
            half, shift = f"<{2 * self.lanes} x i16>", "ashr" if signed else "lshr"
            eight = f"<{', '.join(['i16 8'] * (2 * self.lanes))}>"
            yield f"  %{name}.h = bitcast {self.vector} %{name} to {half}"
            yield f"  %{name}.u = shl {half} %{name}.h, {eight}"
            yield f"  %{name}.p0 = {shift} {half} %{name}.u, {eight}"
            yield f"  %{name}.p1 = {shift} {half} %{name}.h, {eight}"
        else:
            shift, count = "ashr" if signed else "lshr", _splat(self.lanes, 24)
            for k in range(4):
                yield f"  %{name}.u{k} = shl {self.vector} %{name}, {_splat(self.lanes, 24 - 8 * k)}"
                yield f"  %{name}.p{k} = {shift} {self.vector} %{name}.u{k}, {count}"

    def step(self, name: str, left: str, right: str, total: str) -> Iterator[str]:
        """%name = %total and the products of the quads of %left and %right."""
        if self.how == "dot":
            bytes_ = f"<{4 * self.lanes} x i8>"
            one, two = (right, left) if self.left_signed else (left, right)
            yield (
                f"  %{name} = call {self.vector} @llvm.x86.avx512.vpdpbusd.{self.bits}({self.vector} %{total}, "
                f"{bytes_} %{one}.q, {bytes_} %{two}.q)"
            )
            return
        many = 2 if self.how == "pairs" else 4
        for k in range(many):
            here = f"{name}.{k}" if k < many - 1 else name
            if self.how == "pairs":
                half = f"<{2 * self.lanes} x i16>"
                yield (
                    f"  %{name}.m{k} = call {self.vector} @{_PAIRS[self.bits]}({half} %{left}.p{k}, "
                    f"{half} %{right}.p{k})"
                )
            else:
                yield f"  %{name}.m{k} = mul {self.vector} %{left}.p{k}, %{right}.p{k}"
            yield f"  %{here} = add {self.vector} %{total}, %{name}.m{k}"
            total = here


def _splat(lanes: int, value: int) -> str:
    return f"<{', '.join([f'i32 {value}'] * lanes)}>"
