"""Products of bf16: two of them, side by side along the depth, are one element of the matrices (a pair).

A step multiplies the numbers of two vectors of pairs and adds both products of each pair to an f32. x86 has an
instruction for it (AVX512-BF16), which takes denormals as 0; elsewhere a pair is two f32 whose lower halves are 0."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Pairs:
    """Steps on vectors of ``lanes`` pairs of a CPU."""

    lanes: int
    features: frozenset[str]

    @property
    def bits(self) -> int:
        """Bits of a vector."""
        return 32 * self.lanes

    @property
    def dot(self) -> bool:
        """Whether one instruction does a step."""
        return "+avx512bf16" in self.features and (self.bits == 512 or "+avx512vl" in self.features)

    @property
    def vector(self) -> str:
        """The type of a vector of pairs, and of sums."""
        return f"<{self.lanes} x float>"

    @property
    def _halves(self) -> str:
        return f"<{2 * self.lanes} x bfloat>"

    @property
    def declaration(self) -> str:
        """The intrinsic that steps call."""
        v = self.vector
        if self.dot:
            return f"declare {v} @llvm.x86.avx512bf16.dpbf16ps.{self.bits}({v}, {self._halves}, {self._halves})\n"
        return f"declare {v} @llvm.fma.v{self.lanes}f32({v}, {v}, {v})\n"

    def parts(self, name: str, right: bool) -> Iterator[str]:
        """What steps read of the vector of pairs %name: once for all steps that read it."""
        if self.dot:
            yield f"  %{name}.h = bitcast {self.vector} %{name} to {self._halves}"
            return
        whole = f"<{self.lanes} x i32>"
        yield f"  %{name}.i = bitcast {self.vector} %{name} to {whole}"
        yield f"  %{name}.s0 = shl {whole} %{name}.i, {self._splat(16)}"
        yield f"  %{name}.s1 = and {whole} %{name}.i, {self._splat(-65536)}"
        for k in range(2):
            yield f"  %{name}.p{k} = bitcast {whole} %{name}.s{k} to {self.vector}"

    def step(self, name: str, left: str, right: str, total: str) -> Iterator[str]:
        """%name = %total and the products of the pairs of %left and %right."""
        v = self.vector
        if self.dot:
            yield (
                f"  %{name} = call {v} @llvm.x86.avx512bf16.dpbf16ps.{self.bits}({v} %{total}, "
                f"{self._halves} %{left}.h, {self._halves} %{right}.h)"
            )
            return
        for here, before, k in ((f"{name}.0", total, 0), (name, f"{name}.0", 1)):
            yield f"  %{here} = call {v} @llvm.fma.v{self.lanes}f32({v} %{left}.p{k}, {v} %{right}.p{k}, {v} %{before})"

    def _splat(self, value: int) -> str:
        return f"<{', '.join([f'i32 {value}'] * self.lanes)}>"
