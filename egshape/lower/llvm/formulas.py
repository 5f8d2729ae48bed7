"""How elementary functions are written: scalar LLVM IR, one instruction at a time, that inlines and vectorizes."""

from __future__ import annotations

import struct
from collections.abc import Sequence


def f32(value: float) -> str:
    """A float constant as LLVM writes it."""
    return f64(struct.unpack("f", struct.pack("f", value))[0])


def f64(value: float) -> str:
    """A double constant as LLVM writes it."""
    return "0x" + struct.pack(">d", value).hex().upper()


class Body:
    """The instructions of one function of ``%x`` (and ``%y``) in float or double; a float argument is a constant."""

    def __init__(self, type: str = "float") -> None:
        self.type, self.suffix = type, "f32" if type == "float" else "f64"
        self.bits = "i32" if type == "float" else "i64"
        self.lines: list[str] = []

    def __call__(self, text: str) -> str:
        self.lines.append(f"  %v{len(self.lines)} = {text}")
        return f"%v{len(self.lines) - 1}"

    def number(self, value: str | float) -> str:
        """An operand."""
        if isinstance(value, str):
            return value
        return f32(value) if self.type == "float" else f64(value)

    def fma(self, a: str | float, b: str | float, c: str | float) -> str:
        """a*b + c, rounded once."""
        args = ", ".join(f"{self.type} {self.number(each)}" for each in (a, b, c))
        return self(f"call {self.type} @llvm.fma.{self.suffix}({args})")

    def add(self, a: str | float, b: str | float) -> str:
        return self._two("fadd", a, b)

    def sub(self, a: str | float, b: str | float) -> str:
        return self._two("fsub", a, b)

    def mul(self, a: str | float, b: str | float) -> str:
        return self._two("fmul", a, b)

    def div(self, a: str | float, b: str | float) -> str:
        return self._two("fdiv", a, b)

    def _two(self, name: str, a: str | float, b: str | float) -> str:
        return self(f"{name} {self.type} {self.number(a)}, {self.number(b)}")

    def test(self, relation: str, a: str | float, b: str | float) -> str:
        """fcmp."""
        return self._two(f"fcmp {relation}", a, b)

    def select(self, test: str, a: str | float, b: str | float) -> str:
        """a where an i1 holds, else b."""
        return self(f"select i1 {test}, {self.type} {self.number(a)}, {self.type} {self.number(b)}")

    def between(self, x: str, low: float, high: float) -> str:
        """x within bounds; NaN stays."""
        above = self.select(self.test("olt", x, low), low, x)
        return self.select(self.test("ogt", above, high), high, above)

    def fabs(self, x: str) -> str:
        return self(f"call {self.type} @llvm.fabs.{self.suffix}({self.type} {x})")

    def copysign(self, x: str | float, y: str) -> str:
        """x with the sign of y."""
        return self(f"call {self.type} @llvm.copysign.{self.suffix}({self.type} {self.number(x)}, {self.type} {y})")

    def to_bits(self, x: str) -> str:
        """The number as an integer."""
        return self(f"bitcast {self.type} {x} to {self.bits}")

    def from_bits(self, x: str) -> str:
        """The integer as a number."""
        return self(f"bitcast {self.bits} {x} to {self.type}")

    def integer(self, name: str, a: str, b: str | int) -> str:
        """An instruction on integers of the width of the numbers."""
        return self(f"{name} {self.bits} {a}, {b}")

    def poly(self, x: str, coefficients: Sequence[float]) -> str:
        """Horner's scheme, the constant first."""
        total: str | float = coefficients[-1]
        for each in reversed(coefficients[:-1]):
            total = self.fma(total, x, each)
        return self.number(total)

    def call(self, name: str, *args: str) -> str:
        """Another function of the same type."""
        listed = ", ".join(f"{self.type} {arg}" for arg in args)
        return self(f"call {self.type} @egs_{name}({listed})")

    def zero_below(self, low: float, y: str) -> str:
        """0 where %x is below a bound, else y. LLVM must not choose behind what is made of it, since it would make that
        of y too: nothing goes over a ``freeze``."""
        none = self.test("olt", "%x", low)
        return self(f"freeze {self.type} {self.select(none, 0.0, y)}")

    def scaled(self, x: str, n: str) -> str:
        """x * 2^n for an i32 n, rounded once."""
        return self(f"call {self.type} @egs_scale_{self.suffix}({self.type} {x}, i32 {n})")

    def done(self, name: str, result: str, args: str = "x", type: str = "") -> str:
        """The function."""
        type = type or self.type
        params = ", ".join(f"{type} %{arg}" for arg in args)
        head = f"define internal {type} @egs_{name}({params}) alwaysinline nounwind"
        return "\n".join([f"{head} {{", *self.lines, f"  ret {type} {result}", "}", ""])
