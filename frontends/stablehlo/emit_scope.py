"""A function under construction: nested blocks of lines, the constants and the size code that they hold.

Each distinct constant, size and shape vector is emitted once: in the outermost block where it can stand,
right before the op that first needs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from egshape.dims import Dim, const, is_nonnegative, is_positive, symbol
from egshape.errors import EgshapeError
from egshape.frontends.size_ranges import SIZE, Range, Ranges, Values, power_of_two
from egshape.frontends.size_terms import Term, plan
from egshape.frontends.stablehlo.emit_text import dense, static_type, type_text
from egshape.ir.graph import Block, SymbolDef, Value
from egshape.ir.types import dtype_name, integer_range, numpy_dtype

SCALAR, VECTOR = "scalar", "vector"
"""The two forms of a single size: ``tensor<i32>`` and ``tensor<1xi32>``."""

_SHAPES: dict[str, tuple[int, ...]] = {SCALAR: (), VECTOR: (1,)}
_RING = {"add", "subtract", "multiply", "maximum", "minimum"}
_WIDE = ("i64", "ui64")
_SMALL = 64
"""Elements; of larger constants a digest is compared: a copy of each would hold a model's weights once more."""
_LONG = 3
"""A size that takes more steps than this is read from an axis that has it, if there is one."""

Key = tuple[Any, ...]


class UnknownSource(EgshapeError):
    """A symbol that no visible value defines."""

    default_code = "symbol"


class Frame:
    """One block: its lines and what it has already computed."""

    def __init__(self, depth: int, *, isolated: bool = False) -> None:
        self.lines: list[str] = []
        self.indent = "  " * (depth + 2)
        self.isolated = isolated
        self.memo: dict[Key, str] = {}
        self.symbols: dict[str, SymbolDef] = {}
        self.axes: dict[Dim, tuple[Value, int]] = {}


class Scope:
    """The blocks of one function, innermost last.

    ``wanted`` are the sizes and forms that an earlier run over the same function asked for: they decide in
    which form an intermediate result is computed. ``dense`` gives the text of an array."""

    def __init__(self, wanted: frozenset[Key] = frozenset(), dense: Callable[[np.ndarray], str] = dense) -> None:
        self.frames = [Frame(0)]
        self.names: dict[Value, str] = {}
        self.wanted = wanted
        self.asked: set[Key] = set()
        self._dense = dense
        self._next = 0

    # -- blocks and lines ----

    def fresh(self) -> str:
        """A new SSA name."""
        self._next += 1
        return f"%{self._next - 1}"

    def push(self, *, isolated: bool) -> Frame:
        """Enter a region; nothing but arguments is visible in an isolated one."""
        frame = Frame(len(self.frames), isolated=isolated)
        self.frames.append(frame)
        return frame

    def pop(self) -> Frame:
        """Leave the innermost region."""
        return self.frames.pop()

    def declare(self, block: Block) -> None:
        """Make a block's symbols known in the innermost frame."""
        self.frames[-1].symbols.update((define.name, define) for define in block.symbols)

    def bind(self, value: Value, name: str) -> None:
        """Give a value its SSA name; the sizes of its axes may be read from it."""
        self.names[value] = name
        axes = self.frames[-1].axes
        for axis, dim in enumerate(value.type.shape or ()):
            if dim.const is None and dim not in axes:
                axes[dim] = (value, axis)

    def line(self, frame: Frame, text: str) -> str:
        """Append an op with one result; gives its name."""
        name = self.fresh()
        frame.lines.append(f"{frame.indent}{name} = {text}")
        return name

    def find(self, key: Key) -> str | None:
        """What a visible block already holds under a key."""
        for frame in reversed(self.frames):
            found = frame.memo.get(key)
            if found is not None:
                return found
            if frame.isolated:
                return None
        return None

    def _outermost(self) -> int:
        for depth in range(len(self.frames) - 1, -1, -1):
            if self.frames[depth].isolated:
                return depth
        return 0

    # -- constants ----

    def constant(self, array: np.ndarray) -> str:
        """The name of a constant."""
        dtype = dtype_name(array.dtype)
        key = _constant_key(array)
        found = self.find(key)
        if found is None:
            frame = self.frames[self._outermost()]
            found = self.line(frame, f"stablehlo.constant {self._dense(array)} : {static_type(dtype, array.shape)}")
            frame.memo[key] = found
        return found

    def integer(self, number: int, dtype: str, form: str) -> str:
        """An integer constant, wrapped to its dtype."""
        array = _wrapped(number, dtype, form)
        self.asked.add(_constant_key(array))
        return self.constant(array)

    def zero(self, dtype: str) -> str:
        """A scalar zero of any dtype."""
        return self.constant(np.zeros((), numpy_dtype(dtype)))

    def shared(self, text: str) -> str:
        """An op on constants and sizes, in the innermost block; the same text gives the same name."""
        found = self.find(("text", text))
        if found is None:
            found = self.frames[-1].memo[("text", text)] = self.line(self.frames[-1], text)
        return found

    # -- single sizes ----

    def size(self, dim: Dim, dtype: str = "i32", form: str = SCALAR) -> str:
        """The name of a size; ``form`` is SCALAR or VECTOR (of length 1).

        Raises UnknownSource if a symbol in it has no visible definition."""
        if dim.const is None:
            self.asked.add((dim, dtype, form))
        return self._size(dim, dtype, form)

    def _size(self, dim: Dim, dtype: str, form: str) -> str:
        if dim.const is not None:
            return self.integer(dim.const, dtype, form)
        key: Key = (dim, dtype, form)
        found = self.find(key)
        if found is not None:
            return found
        frame = self._frame_of(dim)
        other = SCALAR if form is VECTOR else VECTOR
        if (
            dtype == "i32"
            and self.find((dim, dtype, other)) is None
            and (self._steps(dim, dtype, form) > _LONG or not self._computes(dim, dtype))
        ):
            self._read_axis(dim)
        if self.find((dim, dtype, other)) is not None or self._prefers(dim, dtype, other, form):
            source = self._size(dim, dtype, other)
            types = f"({static_type(dtype, _SHAPES[other])}) -> {static_type(dtype, _SHAPES[form])}"
            found = self.line(frame, f"stablehlo.reshape {source} : {types}")
        else:
            found = self._compute(frame, dim, dtype, form)
        frame.memo[key] = found
        return found

    def _prefers(self, dim: Dim, dtype: str, other: str, form: str) -> bool:
        """Whether computing in the other form and reshaping takes fewer ops."""
        step = plan(dim)
        if step.kind == "symbol":
            if dtype != "i32" and self.at_hand(dim, "i32", form):
                return False
            return self._symbol_form(_label(dim)) == other
        operands = [operand for operand in step.operands if operand.const is None]
        width = dtype if self._computes(dim, dtype) else "i64"

        def missing(wanted: str) -> int:
            return sum(1 for operand in operands if not self.at_hand(operand, width, wanted))

        extra = 0 if (dim, dtype, other) in self.wanted else 1
        return missing(other) + extra < missing(form)

    def at_hand(self, dim: Dim, dtype: str, form: str) -> bool:
        """Whether a size is computed already, or will be anyway."""
        return (dim, dtype, form) in self.wanted or self.holds(dim, dtype, form)

    def holds(self, dim: Dim, dtype: str, form: str) -> bool:
        """Whether a size is computed already."""
        constant = None if dim.const is None else _constant_key(_wrapped(dim.const, dtype, form))
        return self.find(constant or (dim, dtype, form)) is not None

    def width(self, dim: Dim) -> str:
        """The dtype in which a size can be computed without wrapping: i32, or else i64."""
        return "i64" if Ranges(32, self.symbol_range).of(dim) is None else "i32"

    def symbol_range(self, name: str) -> Range | None:
        """The values that a symbol can have as it is read here.

        An element of a tensor may be negative: that it is a size is a check."""
        define, axis = self._source(name)
        if define is None or axis is not None:
            return SIZE
        low, high = integer_range(define.value.type.dtype)
        return low + define.offset, high + define.offset

    def _computes(self, dim: Dim, dtype: str) -> bool:
        """Whether the last step of a size is right in a dtype, its operands being right modulo its width."""
        if dtype in _WIDE:
            return True
        return self._values(dim).computes(dim, 32)

    def _fits(self, dim: Dim, dtype: str) -> bool:
        return self._values(dim).fits(dim, 64 if dtype in _WIDE else 32)

    def _values(self, dim: Dim) -> Values:
        """What is known about a size where it is computed; axes that are seen elsewhere only do not count."""
        frames = self.frames[: self.frames.index(self._frame_of(dim)) + 1]
        return Values(self.symbol_range, lambda size: any(size in frame.axes for frame in frames))

    def through_narrow(self, dim: Dim, form: str) -> bool:
        """Whether a size in i64 is best computed in i32 and converted."""
        step = plan(dim)
        if step.kind == "symbol":
            define, axis = self._source(_label(dim))
            return define is None or axis is not None
        if self.width(dim) != "i32":
            return False
        near = all(operand.const is not None or self.at_hand(operand, "i64", form) for operand in step.operands)
        return self.at_hand(dim, "i32", form) or not near

    def _frame_of(self, dim: Dim) -> Frame:
        """The outermost block in which all symbols of a size are defined."""
        return self.frames[max((self._depth(name) for name in dim.symbols()), default=self._outermost())]

    def _depth(self, name: str) -> int:
        for depth, frame in enumerate(self.frames):
            define = frame.symbols.get(name)
            if (define is not None and define.value in self.names) or symbol(name) in frame.axes:
                return depth
        raise UnknownSource(f"nothing defines the size {name!r} here")

    def _source(self, name: str) -> tuple[SymbolDef | None, tuple[Value, int] | None]:
        frame = self.frames[self._depth(name)]
        define = frame.symbols.get(name)
        if define is not None and define.value in self.names:
            return define, (define.value, define.axis) if define.axis is not None else None
        return None, frame.axes[symbol(name)]

    def _symbol_form(self, name: str) -> str:
        """The form in which a symbol is first read."""
        define, axis = self._source(name)
        if axis is not None or define is None or not define.value.type.shape:
            return SCALAR
        return VECTOR

    def _compute(self, frame: Frame, dim: Dim, dtype: str, form: str) -> str:
        step = plan(dim)
        shape = _SHAPES[form]
        narrow = self.through_narrow(dim, form) if dtype in _WIDE else self._computes(dim, dtype)
        computed = "i32" if narrow else "i64"
        if step.kind == "symbol":
            natural, found = self._read(frame, _label(dim), form, computed)
        elif computed != dtype:
            natural, found = computed, self._size(dim, computed, form)
        else:
            return self._operation(frame, step, dtype, form)
        if natural != dtype:
            if (dim, natural, form) not in frame.memo:
                frame.memo[(dim, natural, form)] = found
            types = f"({static_type(natural, shape)}) -> {static_type(dtype, shape)}"
            found = self.line(frame, f"stablehlo.convert {found} : {types}")
        return found

    def _read(self, frame: Frame, name: str, form: str, computed: str) -> tuple[str, str]:
        """A symbol and the dtype that it has: as in its source, or ``computed`` where an offset is added."""
        define, axis = self._source(name)
        if axis is not None:
            known = self.find((symbol(name), "i32", form))
            if known is not None:
                return "i32", known
            if form is VECTOR:
                return "i32", self._size(symbol(name), "i32", VECTOR)
            return "i32", self._axis(frame, *axis)
        assert define is not None and define.element is not None
        return self._element(frame, define, form, computed)

    def _axis(self, frame: Frame, value: Value, axis: int) -> str:
        types = f"({type_text(value.type)}) -> tensor<i32>"
        return self.line(frame, f"stablehlo.get_dimension_size {self.names[value]}, dim = {axis} : {types}")

    def _read_axis(self, dim: Dim) -> None:
        """Read a size from an axis that has it, where there is one."""
        for frame in self.frames:
            if dim in frame.axes:
                frame.memo[(dim, "i32", SCALAR)] = self._axis(frame, *frame.axes[dim])
                return

    def _steps(self, dim: Dim, dtype: str, form: str) -> int:
        """How many sizes would have to be computed for one, counted up to a bit more than ``_LONG``."""
        pending, seen = [dim], {dim}
        while pending and len(seen) <= _LONG:
            for operand in plan(pending.pop()).operands:
                known = operand.const is not None or operand in seen or plan(operand).kind == "symbol"
                if not known and not self.at_hand(operand, dtype, form):
                    seen.add(operand)
                    pending.append(operand)
        return len(seen)

    def _element(self, frame: Frame, define: SymbolDef, form: str, computed: str) -> tuple[str, str]:
        value, dtype = define.value, define.value.type.dtype
        name = self.names[value]
        shape = [dim.const for dim in value.type.dims]
        total = int(np.prod([size or 0 for size in shape], dtype=np.int64))
        if shape and (len(shape) > 1 or total > 1):
            key: Key = ("flat", value)
            flat = self.find(key) if len(shape) > 1 else name
            if flat is None:
                types = f"({static_type(dtype, [size or 0 for size in shape])}) -> {static_type(dtype, [total])}"
                flat = frame.memo[key] = self.line(frame, f"stablehlo.reshape {name} : {types}")
            at = define.element
            name = flat
            if total > 1:
                types = f"({static_type(dtype, [total])}) -> {static_type(dtype, [1])}"
                name = self.line(frame, f"stablehlo.slice {flat} [{at}:{(at or 0) + 1}] : {types}")
        natural = VECTOR if shape else SCALAR
        if form != natural:
            types = f"({static_type(dtype, _SHAPES[natural])}) -> {static_type(dtype, _SHAPES[form])}"
            name = self.line(frame, f"stablehlo.reshape {name} : {types}")
        if define.offset:
            kind = static_type(computed, _SHAPES[form])
            if dtype != computed:
                types = f"({static_type(dtype, _SHAPES[form])}) -> {kind}"
                name = self.line(frame, f"stablehlo.convert {name} : {types}")
            dtype = computed
            name = self.line(frame, f"stablehlo.add {name}, {self.integer(define.offset, dtype, form)} : {kind}")
        return dtype, name

    # -- arithmetic ----

    def _operation(self, frame: Frame, step: Term, dtype: str, form: str) -> str:
        one, two = step.operands
        if step.kind in _RING:
            return self._apply(
                frame, step.kind, self._size(one, dtype, form), self._size(two, dtype, form), dtype, form
            )
        if step.kind == "floor":
            return self._floor(frame, one, two, dtype, form)
        if step.kind == "ceil":
            return self._floor(frame, one + (two - 1), two, dtype, form)
        if step.kind == "mod":
            return self._mod(frame, one, two, dtype, form)
        return self._bcast(frame, one, two, dtype, form)

    def _apply(self, frame: Frame, kind: str, one: str, two: str, dtype: str, form: str) -> str:
        key: Key = ("apply", kind, one, two)
        found = self.find(key)
        if found is None:
            type = static_type(dtype, _SHAPES[form])
            found = frame.memo[key] = self.line(frame, f"stablehlo.{kind} {one}, {two} : {type}")
        return found

    def _floor(self, frame: Frame, num: Dim, den: Dim, dtype: str, form: str) -> str:
        """Floor division. Division truncates: one less where dividend and divisor differ in sign and do not
        divide. (Shifts are no choice: XLA's shape refinement does not evaluate them.)"""
        if is_nonnegative(-den):  # where it is 0 there is no value
            num, den = -num, -den
        divide = self._divisor(frame, den, dtype, form)
        value = self._size(num, dtype, form)
        if is_nonnegative(num) and is_nonnegative(den):
            return self._apply(frame, "divide", value, divide, dtype, form)
        if power_of_two(den):
            rest = self._apply(frame, "and", value, self._size(den - 1, dtype, form), dtype, form)
            whole = self._apply(frame, "subtract", value, rest, dtype, form)
            return self._apply(frame, "divide", whole, divide, dtype, form)
        quotient = self._apply(frame, "divide", value, divide, dtype, form)
        rest = self._apply(frame, "remainder", value, divide, dtype, form)
        sign = self._sign(frame, rest, dtype, form)
        if not is_nonnegative(den):
            other = self._sign(frame, divide, dtype, form)
            sign = self._apply(frame, "multiply", sign, other, dtype, form)
        less = self._apply(frame, "minimum", sign, self.integer(0, dtype, form), dtype, form)
        return self._apply(frame, "add", quotient, less, dtype, form)

    def _divisor(self, frame: Frame, den: Dim, dtype: str, form: str) -> str:
        """A divisor that is never 0, where there is no value: XLA divides before it looks at the assertion that says
        so, and that ends its process."""
        name = self._size(den, dtype, form)
        if is_positive(den) or not is_nonnegative(den):
            return name
        return self._apply(frame, "maximum", name, self.integer(1, dtype, form), dtype, form)

    def _sign(self, frame: Frame, name: str, dtype: str, form: str) -> str:
        return self.line(frame, f"stablehlo.sign {name} : {static_type(dtype, _SHAPES[form])}")

    def _mod(self, frame: Frame, num: Dim, den: Dim, dtype: str, form: str) -> str:
        """What floor division leaves. A mask is right even where the dividend has wrapped."""
        value = self._size(num, dtype, form)
        positive = is_nonnegative(num) and is_nonnegative(den)
        if power_of_two(den) and not (positive and self._fits(num, dtype)):
            return self._apply(frame, "and", value, self._size(den - 1, dtype, form), dtype, form)
        if positive:
            return self._apply(frame, "remainder", value, self._divisor(frame, den, dtype, form), dtype, form)
        quotient = self._floor(frame, num, den, dtype, form)
        whole = self._apply(frame, "multiply", quotient, self._size(den, dtype, form), dtype, form)
        return self._apply(frame, "subtract", value, whole, dtype, form)

    def _bcast(self, frame: Frame, one: Dim, two: Dim, dtype: str, form: str) -> str:
        """The second size where the first is 1, else the first: right where the two broadcast."""
        first, second = self._size(one, dtype, form), self._size(two, dtype, form)
        unit = self.integer(1, dtype, form)
        type, flag = static_type(dtype, _SHAPES[form]), static_type("i1", _SHAPES[form])
        is_one = self.line(frame, f"stablehlo.compare EQ, {first}, {unit}, SIGNED : ({type}, {type}) -> {flag}")
        return self.line(frame, f"stablehlo.select {is_one}, {second}, {first} : {flag}, {type}")

    # -- vectors ----

    def vector(self, dims: Sequence[Dim], dtype: str = "i32") -> str:
        """The name of a rank-1 tensor of sizes: one concatenation, neighbouring constants as one piece."""
        if all(dim.const is not None for dim in dims):
            return self.constant(np.array([dim.const for dim in dims], numpy_dtype(dtype)))
        if len(dims) == 1:
            return self.size(dims[0], dtype, VECTOR)
        key: Key = ("vector", tuple(dims), dtype)
        found = self.find(key)
        if found is not None:
            return found
        frames = {id(frame): frame for frame in map(self._frame_of, (d for d in dims if d.const is None))}
        frame = max(frames.values(), key=self.frames.index)
        found = (
            self._given(frame, dims, dtype) or self._repeated(frame, dims, dtype) or self._joined(frame, dims, dtype)
        )
        frame.memo[key] = found
        return found

    def rows(self, flat: Sequence[Dim]) -> tuple[str, str]:
        """Pairs of sizes as a [k, 2] tensor: its name and type."""
        type = static_type("i32", [len(flat) // 2, 2])
        if all(dim.const is not None for dim in flat):
            return self.constant(np.array([dim.const for dim in flat], np.int32).reshape(-1, 2)), type
        source = self.vector(flat)
        key: Key = ("rows", tuple(flat))
        found = self.find(key)
        if found is None:
            frame = self._frame_of(sum(flat[1:], flat[0]))
            found = frame.memo[key] = self.line(
                frame, f"stablehlo.reshape {source} : ({static_type('i32', [len(flat)])}) -> {type}"
            )
        return found, type

    def _given(self, frame: Frame, dims: Sequence[Dim], dtype: str) -> str | None:
        """The vector of data whose elements, in order, are the sizes."""
        sources = [self._source(_label(dim))[0] if plan(dim).kind == "symbol" else None for dim in dims]
        first = sources[0]
        if first is None or first.value.type.dims != (const(len(dims)),):
            return None
        for at, each in enumerate(sources):
            if each is None or (each.value, each.element, each.offset) != (first.value, at, 0):
                return None
        name, given = self.names[first.value], first.value.type.dtype
        types = f"({static_type(given, [len(dims)])}) -> {static_type(dtype, [len(dims)])}"
        return name if given == dtype else self.line(frame, f"stablehlo.convert {name} : {types}")

    def _repeated(self, frame: Frame, dims: Sequence[Dim], dtype: str) -> str | None:
        """One size several times, as a broadcast of the scalar where nothing else wants its vector."""
        if any(dim is not dims[0] for dim in dims) or self.at_hand(dims[0], dtype, VECTOR):
            return None
        source = self.size(dims[0], dtype, SCALAR)
        types = f"({static_type(dtype, ())}) -> {static_type(dtype, [len(dims)])}"
        return self.line(frame, f"stablehlo.broadcast_in_dim {source}, dims = [] : {types}")

    def _runs(self, dims: Sequence[Dim], dtype: str) -> list[tuple[Dim, ...]]:
        """The pieces of a vector: runs of constants whole, or one by one where that takes fewer new constants."""
        single: list[tuple[Dim, ...]] = [(dim,) for dim in dims]
        whole: list[tuple[Dim, ...]] = []
        for dim in dims:
            joins = dim.const is not None and bool(whole) and whole[-1][0].const is not None
            whole[-1:] = [(*whole[-1], dim)] if joins else [*whole[-1:], (dim,)]

        def missing(runs: Sequence[tuple[Dim, ...]]) -> int:
            arrays = [
                np.array([dim.const for dim in run], numpy_dtype(dtype)) for run in runs if run[0].const is not None
            ]
            keys = {_constant_key(array) for array in arrays}
            return sum(1 for key in keys if key not in self.wanted and self.find(key) is None)

        return single if missing(single) < missing(whole) else whole

    def _joined(self, frame: Frame, dims: Sequence[Dim], dtype: str) -> str:
        pieces: list[tuple[str, int]] = []
        for run in self._runs(dims, dtype):
            if run[0].const is None:
                pieces.append((self.size(run[0], dtype, VECTOR), 1))
            else:
                array = np.array([dim.const for dim in run], numpy_dtype(dtype))
                pieces.append((self.constant(array), len(run)))
        names = ", ".join(name for name, _ in pieces)
        types = ", ".join(static_type(dtype, [length]) for _, length in pieces)
        result = static_type(dtype, [len(dims)])
        return self.line(frame, f"stablehlo.concatenate {names}, dim = 0 : ({types}) -> {result}")


def _constant_key(array: np.ndarray) -> Key:
    small = array.size <= _SMALL
    data = array.tobytes() if small else blake2b(np.ascontiguousarray(array).view(np.uint8).data).digest()
    return ("constant", dtype_name(array.dtype), array.shape, data)


def _wrapped(number: int, dtype: str, form: str) -> np.ndarray:
    found = np.array(number % (1 << 64), np.uint64).astype(numpy_dtype(dtype))
    return found.reshape(_SHAPES[form])


def _label(dim: Dim) -> str:
    (name,) = dim.symbols()
    return name
