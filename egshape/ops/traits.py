"""What rules and stages rely on of an op beside its contract: traits of its declaration, each in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from egshape.dims import Dim
from egshape.ir.graph import Op, Value
from egshape.ir.types import integer_range, is_complex, is_float, is_integer

Regions = Literal["scalars", "once", "branch", "loop"]
"""What regions are: functions of scalars, a program of the operands that runs once, programs of which one runs, or
programs that run again and again."""


@dataclass(frozen=True, slots=True)
class Element:
    """A constant that an op treats in a way of its own, by kind of dtype; None: there is none. ``left``: as the left
    operand too."""

    floating: float | None = None
    integer: int | Literal["lowest", "highest", "ones"] | None = None
    truth: bool | None = None
    left: bool = True

    def of(self, dtype: str) -> float | int | bool | None:
        """The constant for a dtype."""
        if is_float(dtype):
            return self.floating
        if dtype == "i1":
            return self.truth
        if not is_integer(dtype):
            return None
        low, high = integer_range(dtype)
        named = {"lowest": low, "highest": high, "ones": -1 if low < 0 else high}
        return named[self.integer] if isinstance(self.integer, str) else self.integer


@dataclass(frozen=True, slots=True)
class Cost:
    """What an op costs, over sizes: the bytes that it moves, and the steps that it takes (``egshape.ops.work``).
    ``fixed``: a number for an op that moves no bytes; ``reads``: all bytes of the operands, as many as are written, or
    none; ``strided``: how much dearer a byte is than one that is copied in order."""

    fixed: float | None = None
    reads: Literal["operands", "result", "nothing"] = "operands"
    strided: float = 1.0
    over: Callable[[Op], Value] = lambda op: op.results[0]
    """The value each element of which takes a step, or several."""
    inner: Callable[[Op], tuple[Dim, ...]] = lambda op: ()
    """Sizes that multiply these steps."""
    sorted: Callable[[Op], Dim | None] = lambda op: None
    """A size whose logarithm multiplies them too."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Operands that bound each element of the result: their places, above and below. A lower one bounds only where it
    is at most the upper ones."""

    above: tuple[int, ...] = ()
    below: tuple[int, ...] = ()


Effort = Literal["light", "division", "function", "product"]
"""What a step is: an instruction or two, about as much as a division, a function of a library, or a multiply-add of a
product."""

WEIGHTS: Mapping[Effort, int] = MappingProxyType({"light": 8, "division": 64, "function": 64, "product": 2})
"""What a step of each kind takes, in units of about 1/60 of a nanosecond."""


@dataclass(frozen=True, slots=True)
class Traits:
    """See the fields. Laws of functions hold to the bit, for every dtype that the function takes."""

    cost: Cost = Cost()
    effort: Effort = "light"
    regions: Regions = "scalars"
    foreign: bool = False
    """Its results come from code that is not seen: nothing is known of them, nor of what that code rejects."""
    sized: bool = False
    """What it gives are sizes, which are followed as sizes and not folded as numbers."""
    barrier: bool = False
    """It keeps what is before apart from what is behind."""
    signed: bool = False
    """Operands that stand for sizes may hold negative numbers (padding)."""
    moves: bool = False
    """It moves the elements of one constant: the engine's rules ``fold/...`` take what it gives."""
    limits: Limits | None = None
    arms: tuple[int, ...] = ()
    """Places of operands each element of which, or that of another of them, is an element of the result."""
    involution: bool = False
    """f(f(x)) = x."""
    idempotent: Literal["", "real", "all"] = ""
    """f(f(x)) = f(x), for all dtypes or those of real numbers."""
    converts: bool = False
    """Its result is its operand in the dtype that its attribute ``dtype`` says."""
    selects: bool = False
    """f(x, x) = x."""
    wraps: bool = False
    """Of integers it is a sum, difference, product or negation modulo a power of two."""
    reduces: bool = False
    """A commutative function of two operands of one dtype, with which a region may fold."""
    neutral: Element | None = None
    """c for which f(x, c) is x to the bit."""
    absorbing: Element | None = None
    """c for which f(x, c) is c to the bit, whatever x."""
    negating: Element | None = None
    """c for which f(x, c) is -x to the bit."""
    scalars: tuple[int, ...] = ()
    """Places of operands that may be scalars whatever the shape of the others is."""

    def is_idempotent(self, dtype: str) -> bool:
        """Whether f(f(x)) = f(x) for this dtype."""
        return self.idempotent == "all" or (self.idempotent == "real" and not is_complex(dtype))


NO_TRAITS = Traits()
