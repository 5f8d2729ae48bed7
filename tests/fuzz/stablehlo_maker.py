"""Random StableHLO programs as text, with sizes that are known when they run only: what XLA makes of them is compared
with what it makes of the optimized ones.

A program is its seed. Each size has its value at a few points (sizes of the inputs), where most programs run."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from egshape.ir.types import numpy_dtype
from egshape.ops.regions import neutral

INTEGERS = ("i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64")
DTYPES = ("f32", "f32", "i32", "i32", "f64", "f16", "i1", *INTEGERS)
POINTS = 3
"""Sizes of the inputs at which a program is made to run."""
LARGEST = 600
"""Elements of a value at any point."""
SPECIAL = (-0.0, 0.0, 1.0, np.nan, -1.5, np.inf, 2.0, -np.inf, 0.5, -3.0, 7.25, 100.0)


@dataclass(frozen=True)
class Size:
    """The size of an axis at each point, and the scalar (tensor<i32>) that is it; none for a number."""

    at: tuple[int, ...]
    name: str = ""

    @property
    def text(self) -> str:
        """How a type shows it."""
        return "?" if self.name else str(self.at[0])


@dataclass(frozen=True)
class Item:
    """A value of the program."""

    name: str
    dtype: str
    shape: tuple[Size, ...]
    is_window: bool = False
    """Whether it was taken, or written to, at a start that is data."""

    @property
    def type(self) -> str:
        """Its MLIR type."""
        return "tensor<" + "".join(f"{size.text}x" for size in self.shape) + f"{self.dtype}>"


@dataclass
class Program:
    """A program and inputs for each point."""

    text: str
    inputs: list[list[np.ndarray]] = field(default_factory=list)


def number(value: int) -> Size:
    """The size that is a number."""
    return Size((value,) * POINTS)


def kind(dtype: str) -> str:
    """How integers or floats of a dtype compare."""
    return "FLOAT" if dtype[0] == "f" else "UNSIGNED" if dtype[0] == "u" or dtype == "i1" else "SIGNED"


class Maker:
    """One program under construction."""

    def __init__(self, seed: int, ops: int) -> None:
        self.dice = random.Random(seed)
        self.rng = np.random.default_rng(seed)
        self.lines: list[str] = []
        self.count = 0
        self.items: list[Item] = []
        self.sizes: list[Size] = []
        self.arguments: list[Item] = []
        for label in ("a", "b"):
            self.sizes.append(Size(tuple(self.dice.choice((0, 1, 2, 3, 5, 8, 13, 40)) for _ in range(POINTS)), label))
        a, b = self.sizes
        for shape in ((a, b), (b,), (a,)):
            self._argument(self.dice.choice(DTYPES), shape)
        self.starts = [self._argument(self.dice.choice(("i32", "i32", "i64", "ui8", "i8", "ui32")), ()) for _ in "ij"]
        for axis, label in enumerate("ab"):
            x = self.arguments[0]
            self.lines.append(
                f"%{label} = stablehlo.get_dimension_size %{x.name}, dim = {axis} : ({x.type}) -> tensor<i32>"
            )
        for _ in range(ops):
            self.dice.choice(PIECES)(self)

    def program(self) -> Program:
        """The program, which gives its last values."""
        found = self.items[-3:]
        given = ", ".join(f"%{item.name}: {item.type}" for item in self.arguments)
        types = ", ".join(item.type for item in found)
        names = ", ".join(f"%{item.name}" for item in found)
        body = "\n    ".join((*self.lines, f"return {names} : {types}"))
        text = f"module {{ func.func @main({given}) -> ({types}) {{\n    {body} }} }}\n"
        inputs = [[self._data(item, point) for item in self.arguments] for point in range(POINTS)]
        return Program(text, inputs)

    def _argument(self, dtype: str, shape: tuple[Size, ...]) -> Item:
        item = Item(f"x{len(self.arguments)}", dtype, shape)
        self.arguments.append(item)
        self.items += [item] if shape else []
        return item

    def _data(self, item: Item, point: int) -> np.ndarray:
        shape, dtype = tuple(size.at[point] for size in item.shape), numpy_dtype(item.dtype)
        if not shape:
            return np.array(self.dice.choice((0, 1, 2, 4, 7, 100, 127)) * self.dice.choice((1, 1, -1))).astype(dtype)
        if item.dtype == "i1":
            return self.rng.integers(0, 2, shape).astype(dtype)
        if item.dtype[0] == "f":
            return np.asarray(self.rng.choice(SPECIAL, shape)).astype(dtype)
        info = np.iinfo(dtype)
        ends = np.array([info.min, info.max, 0, 1, 2, 3, 5, 7], dtype=object)
        return np.asarray(self.rng.choice(ends, shape), dtype=object).astype(dtype)

    # -- writing ----

    def add(self, text: str, dtype: str, shape: Sequence[Size], *, window: bool = False, keep: bool = True) -> Item:
        """A statement; ``{}`` stands for the result type."""
        self.count += 1
        item = Item(f"v{self.count}", dtype, tuple(shape), window)
        self.lines.append(f"%{item.name} = {text.replace('{}', item.type)}")
        if keep:
            self.items.append(item)
        return item

    def constant(self, value: object, dtype: str) -> Item:
        """A scalar."""
        return self.add(f"stablehlo.constant dense<{value}> : {{}}", dtype, (), keep=False)

    def any(self, test: Callable[[Item], bool] = lambda _: True) -> Item | None:
        """A value, windows and late ones rather than others."""
        fit = [item for item in self.items if test(item)]
        some = [item for item in fit if item.is_window]
        if some and self.dice.random() < 0.4:
            return self.dice.choice(some)
        return self.dice.choice(fit[-6:] if self.dice.random() < 0.7 else fit) if fit else None

    def vector(self, sizes: Sequence[Size]) -> Item:
        """A shape operand."""
        parts = []
        for size in sizes:
            if size.name:
                parts.append(
                    self.add(f"stablehlo.reshape %{size.name} : (tensor<i32>) -> {{}}", "i32", (number(1),), keep=False)
                )
            else:
                parts.append(
                    self.add(f"stablehlo.constant dense<{size.at[0]}> : {{}}", "i32", (number(1),), keep=False)
                )
        if len(parts) == 1:
            return parts[0]
        listed, types = (
            ", ".join(each) for each in zip(*((f"%{part.name}", part.type) for part in parts), strict=True)
        )
        return self.add(
            f"stablehlo.concatenate {listed}, dim = 0 : ({types}) -> {{}}", "i32", (number(len(parts)),), keep=False
        )

    def scalar(self, dtype: str) -> Item:
        """A scalar of a dtype that is a size or a number."""
        if self.dice.random() < 0.5 or dtype in ("i1",):
            return self.constant(self.literal(dtype), dtype)
        size = self.dice.choice([size for size in self.sizes if size.name])
        if dtype == "i32":
            return Item(size.name, "i32", ())
        return self.add(f"stablehlo.convert %{size.name} : (tensor<i32>) -> {{}}", dtype, (), keep=False)

    def literal(self, dtype: str) -> str:
        """A number of a dtype."""
        if dtype == "i1":
            return self.dice.choice(("true", "false"))
        if dtype[0] == "f":
            return self.dice.choice(("0.0", "-0.0", "1.0", "2.0", "-3.5", "0.5"))
        info = np.iinfo(numpy_dtype(dtype))
        small = self.dice.choice((0, 1, 2, 3, 5, 7, 100))
        return str(self.dice.choice((small, small, int(info.max), int(info.min), int(info.max) // 3)))

    def spread(self, item: Item, shape: Sequence[Size]) -> Item:
        """A scalar everywhere."""
        if all(not size.name for size in shape):
            return self.add(
                f"stablehlo.broadcast_in_dim %{item.name}, dims = [] : ({item.type}) -> {{}}", item.dtype, shape
            )
        sizes = self.vector(shape)
        return self.add(
            f"stablehlo.dynamic_broadcast_in_dim %{item.name}, %{sizes.name}, dims = [] : "
            f"({item.type}, {sizes.type}) -> {{}}",
            item.dtype,
            shape,
        )


# -- pieces ----


def unary(m: Maker) -> None:
    """An op on each element."""
    x = m.any()
    names = {
        "f": ("abs", "negate", "floor", "sign"),
        "u": ("not", "negate", "popcnt"),
        "i": ("abs", "negate", "not", "sign"),
    }
    if x is not None:
        name = m.dice.choice(("not",) if x.dtype == "i1" else names[x.dtype[0]])
        m.add(f"stablehlo.{name} %{x.name} : {{}}", x.dtype, x.shape)


def binary(m: Maker) -> None:
    """An op on each two elements, the second ones of another value, a size or a number."""
    x = m.any()
    if x is None:
        return
    y = m.any(lambda item: item.dtype == x.dtype and item.shape == x.shape)
    if y is None or m.dice.random() < 0.4:
        y = m.spread(m.scalar(x.dtype), x.shape)
    names = ["add", "multiply", "maximum", "minimum"]
    names += [] if x.dtype == "i1" else ["subtract"]
    names += ["and", "or", "xor"] if x.dtype[0] != "f" else []
    names += ["shift_left", "shift_right_logical", "shift_right_arithmetic"] if x.dtype in INTEGERS else []
    m.add(f"stablehlo.{m.dice.choice(names)} %{x.name}, %{y.name} : {{}}", x.dtype, x.shape)


def convert(m: Maker) -> None:
    """Another dtype; of floats another one of these, as what does not fit is left open."""
    x = m.any()
    if x is not None:
        floats = ("f32", "f64", "f16")
        to = m.dice.choice(floats if x.dtype[0] == "f" else (*INTEGERS, *floats))
        m.add(f"stablehlo.convert %{x.name} : ({x.type}) -> {{}}", to, x.shape)


def compare(m: Maker) -> None:
    """A choice by a comparison."""
    x = m.any()
    if x is None:
        return
    y = m.spread(m.scalar(x.dtype), x.shape)
    direction = m.dice.choice(("LT", "LE", "EQ", "NE", "GT", "GE"))
    test = m.add(
        f"stablehlo.compare {direction}, %{x.name}, %{y.name}, {kind(x.dtype)} : ({x.type}, {y.type}) -> {{}}",
        "i1",
        x.shape,
    )
    m.add(f"stablehlo.select %{test.name}, %{x.name}, %{y.name} : {test.type}, {{}}", x.dtype, x.shape)


def hashed(m: Maker) -> None:
    """Arithmetic of a size in some dtype, which wraps in most."""
    dtype = m.dice.choice(INTEGERS)
    size = m.dice.choice([size for size in m.sizes if size.name])
    item = Item(size.name, "i32", ())
    for _ in range(m.dice.randint(1, 4)):
        if item.dtype != dtype or m.dice.random() < 0.3:
            dtype = m.dice.choice(INTEGERS) if item.dtype == dtype else dtype
            if item.dtype != dtype:
                item = m.add(f"stablehlo.convert %{item.name} : ({item.type}) -> {{}}", dtype, (), keep=False)
                continue
        names = ("add", "subtract", "multiply", "multiply", "xor", "and", "maximum", "minimum", "shift_left")
        name = m.dice.choice((*names, "shift_right_logical", "divide", "remainder"))
        other = (
            m.scalar(dtype)
            if name not in ("divide", "remainder")
            else m.constant(m.dice.choice((1, 2, 3, 7, 100)), dtype)
        )
        if name.startswith("shift"):
            other = m.constant(m.dice.randint(0, 5), dtype)
        item = m.add(f"stablehlo.{name} %{item.name}, %{other.name} : {{}}", dtype, (), keep=False)
    m.spread(item, m.dice.choice(((), (number(2),))) if m.dice.random() < 0.7 else (m.dice.choice(m.sizes),))


def resized(m: Maker) -> None:
    """A new size that is computed from another one."""
    size = m.dice.choice(m.sizes)
    if not size.name:
        return
    name, by = m.dice.choice((("add", 1), ("add", 3), ("multiply", 2), ("divide", 2), ("maximum", 2), ("minimum", 3)))
    other = m.constant(by, "i32")
    item = m.add(f"stablehlo.{name} %{size.name}, %{other.name} : {{}}", "i32", (), keep=False)
    does = {
        "add": lambda n: n + by,
        "multiply": lambda n: n * by,
        "divide": lambda n: n // by,
        "maximum": lambda n: max(n, by),
        "minimum": lambda n: min(n, by),
    }[name]
    found = Size(tuple(map(does, size.at)), item.name)
    if max(found.at) <= LARGEST // 10:
        m.sizes.append(found)
        line = m.vector((found,))
        m.add(
            f"stablehlo.dynamic_iota %{line.name}, dim = 0 : ({line.type}) -> {{}}",
            m.dice.choice(("i32", "f32", "ui8")),
            (found,),
        )


def _start(m: Maker, dtype: str) -> Item:
    start = m.dice.choice(m.starts)
    if m.dice.random() < 0.3:
        return m.constant(m.dice.choice((0, 1, 2, 9, 0 if dtype[:1] == "u" else -1)), dtype)
    if start.dtype != dtype:
        return m.add(f"stablehlo.convert %{start.name} : ({start.type}) -> {{}}", dtype, (), keep=False)
    return start


def taken(m: Maker) -> None:
    """A window of numbers of elements."""
    x = m.any(lambda item: bool(item.shape))
    if x is None:
        return
    dtype = m.dice.choice(("i32", "i32", "i64", "ui32", "i8", "ui8"))
    starts = [_start(m, dtype) for _ in x.shape]
    sizes = [min(m.dice.choice((1, 2, 3, 5)), *size.at) for size in x.shape]
    names, types = ", ".join(f"%{s.name}" for s in starts), ", ".join(s.type for s in starts)
    m.add(
        f"stablehlo.dynamic_slice %{x.name}, {names}, sizes = {sizes} : ({x.type}, {types}) -> {{}}",
        x.dtype,
        [number(size) for size in sizes],
        window=True,
    )


def written(m: Maker) -> None:
    """A window written into another value."""
    x = m.any(lambda item: bool(item.shape))
    if x is None:
        return

    def fits(item: Item) -> bool:
        alike = item.dtype == x.dtype and len(item.shape) == len(x.shape) and item is not x
        pairs = zip(item.shape, x.shape, strict=True) if alike else ()
        return alike and all(u <= s for one, two in pairs for u, s in zip(one.at, two.at, strict=True))

    found = list(filter(fits, m.items))
    if not found:
        return
    update, dtype = m.dice.choice(found[-4:]), m.dice.choice(("i32", "i32", "i64", "i8"))
    starts = [_start(m, dtype) for _ in x.shape]
    names, types = ", ".join(f"%{s.name}" for s in starts), ", ".join(s.type for s in starts)
    m.add(
        f"stablehlo.dynamic_update_slice %{x.name}, %{update.name}, {names} : "
        f"({x.type}, {update.type}, {types}) -> {{}}",
        x.dtype,
        x.shape,
        window=True,
    )


def clamped(m: Maker) -> None:
    """A window of half of the elements, at a place that is clamped before."""
    x = m.any(lambda item: len(item.shape) == 1 and bool(item.shape[0].name))
    if x is None:
        return
    (size,) = x.shape
    two, zero, one = m.constant(2, "i32"), m.constant(0, "i32"), m.vector((number(1),))
    half = m.add(f"stablehlo.divide %{size.name}, %{two.name} : {{}}", "i32", (), keep=False)
    room = m.add(f"stablehlo.subtract %{size.name}, %{half.name} : {{}}", "i32", (), keep=False)
    start = _start(m, "i32")
    place = m.add(f"stablehlo.clamp %{zero.name}, %{start.name}, %{room.name} : {{}}", "i32", (), keep=False)
    end = m.add(f"stablehlo.add %{place.name}, %{half.name} : {{}}", "i32", (), keep=False)
    first, last = (
        m.add(f"stablehlo.reshape %{each.name} : ({each.type}) -> {{}}", "i32", (number(1),), keep=False)
        for each in (place, end)
    )
    found = Size(tuple(n // 2 for n in size.at), half.name)
    m.sizes.append(found)
    m.add(
        f"stablehlo.real_dynamic_slice %{x.name}, %{first.name}, %{last.name}, %{one.name} : "
        f"({x.type}, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> {{}}",
        x.dtype,
        (found,),
        window=True,
    )


def gathered(m: Maker) -> None:
    """Rows at places that are data."""
    x = m.any(lambda item: bool(item.shape) and min(item.shape[0].at) > 0)
    places = m.any(lambda item: len(item.shape) == 1 and item.dtype in INTEGERS)
    if x is None or places is None:
        return
    rest = x.shape[1:]
    slices = (number(1), *rest)
    numbers = (
        f"offset_dims = {list(range(1, len(x.shape)))}, collapsed_slice_dims = [0], start_index_map = [0], "
        "index_vector_dim = 1"
    )
    sizes = m.vector(slices)
    m.add(
        f'"stablehlo.dynamic_gather"(%{x.name}, %{places.name}, %{sizes.name}) '
        f"<{{dimension_numbers = #stablehlo.gather<{numbers}>, indices_are_sorted = false}}> : "
        f"({x.type}, {places.type}, {sizes.type}) -> {{}}",
        x.dtype,
        (places.shape[0], *rest),
    )


def moved(m: Maker) -> None:
    """Another order of elements or axes."""
    x = m.any(lambda item: bool(item.shape))
    if x is None:
        return
    if len(x.shape) == 2 and m.dice.random() < 0.5:
        m.add(
            f"stablehlo.transpose %{x.name}, dims = [1, 0] : ({x.type}) -> {{}}",
            x.dtype,
            x.shape[::-1],
            window=x.is_window,
        )
    else:
        m.add(f"stablehlo.reverse %{x.name}, dims = [0] : {{}}", x.dtype, x.shape, window=x.is_window)


def flattened(m: Maker) -> None:
    """All axes as one."""
    x = m.any(lambda item: len(item.shape) == 2)
    if x is None:
        return
    one, two = x.shape
    at = tuple(p * q for p, q in zip(one.at, two.at, strict=True))
    if not (one.name or two.name):
        m.add(f"stablehlo.reshape %{x.name} : ({x.type}) -> {{}}", x.dtype, (number(at[0]),), window=x.is_window)
        return
    parts = [Item(size.name, "i32", ()) if size.name else m.constant(size.at[0], "i32") for size in x.shape]
    total = m.add(f"stablehlo.multiply %{parts[0].name}, %{parts[1].name} : {{}}", "i32", (), keep=False)
    size = Size(at, total.name)
    shape = m.vector((size,))
    m.add(
        f"stablehlo.dynamic_reshape %{x.name}, %{shape.name} : ({x.type}, {shape.type}) -> {{}}",
        x.dtype,
        (size,),
        window=x.is_window,
    )


def padded(m: Maker) -> None:
    """Elements around, or cut off."""
    x = m.any(lambda item: len(item.shape) == 1)
    if x is None:
        return
    (size,) = x.shape
    low, high, gap = m.dice.choice((0, 1, 2, -1)), m.dice.choice((0, 1, 2, -1)), m.dice.choice((0, 0, 0, 1))
    at = tuple(n + max(n - 1, 0) * gap + low + high for n in size.at)
    if min(at) < 0 or max(at) > LARGEST:
        return
    value = m.scalar(x.dtype)
    if not size.name:
        m.add(
            f"stablehlo.pad %{x.name}, %{value.name}, low = [{low}], high = [{high}], interior = [{gap}] : "
            f"({x.type}, {value.type}) -> {{}}",
            x.dtype,
            (number(at[0]),),
        )
        return
    by = [
        m.add(f"stablehlo.constant dense<{each}> : {{}}", "i32", (number(1),), keep=False) for each in (low, high, gap)
    ]
    found = m.add(
        f"stablehlo.dynamic_pad %{x.name}, %{value.name}, {', '.join(f'%{each.name}' for each in by)} : "
        f"({x.type}, {value.type}, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?x{x.dtype}>",
        x.dtype,
        (size,),
        keep=False,
    )
    m.count += 1
    name = f"v{m.count}"
    m.lines.append(f"%{name} = stablehlo.get_dimension_size %{found.name}, dim = 0 : ({found.type}) -> tensor<i32>")
    m.sizes.append(Size(at, name))
    m.items.append(Item(found.name, x.dtype, (m.sizes[-1],)))


def reduced(m: Maker) -> None:
    """An axis folded by whole numbers, so that every order gives the same."""
    x = m.any(lambda item: bool(item.shape) and item.dtype[0] != "f")
    if x is None:
        return
    axis = m.dice.randrange(len(x.shape))
    op = m.dice.choice(("add", "maximum", "minimum", "and", "or", "multiply"))
    first = neutral(op, x.dtype)  # XLA leaves out any other where an axis has one element
    start = m.constant(("false", "true")[int(bool(first))] if x.dtype == "i1" else first, x.dtype)
    m.add(
        f"stablehlo.reduce(%{x.name} init: %{start.name}) applies stablehlo.{op} across dimensions = [{axis}] : "
        f"({x.type}, {start.type}) -> {{}}",
        x.dtype,
        [size for place, size in enumerate(x.shape) if place != axis],
    )


def windows(m: Maker) -> None:
    """Windows folded, with padding and any start."""
    x = m.any(lambda item: len(item.shape) == 1 and item.dtype in INTEGERS)
    if x is None:
        return
    (size,) = x.shape
    reach, low = m.dice.choice((1, 2, 3)), m.dice.choice((0, 1, 2))
    high = m.dice.choice((0, 1, 2)) if size.name == "" else reach - 1 - low
    at = tuple(n + low + high - reach + 1 for n in size.at)
    if min(at) < 0 or (size.name and at != size.at):
        return
    start, op = m.scalar(x.dtype), m.dice.choice(("add", "maximum", "multiply"))
    scalar = f"tensor<{x.dtype}>"
    m.add(
        f'"stablehlo.reduce_window"(%{x.name}, %{start.name}) <{{window_dimensions = array<i64: {reach}>, '
        f"padding = dense<[[{low}, {high}]]> : tensor<1x2xi64>}}> ({{ ^bb0(%p: {scalar}, %q: {scalar}): "
        f"%r = stablehlo.{op} %p, %q : {scalar} stablehlo.return %r : {scalar} }}) : ({x.type}, {start.type}) -> {{}}",
        x.dtype,
        (size if size.name else number(at[0]),),
    )


def joined(m: Maker) -> None:
    """Two values one after the other."""
    x = m.any(lambda item: len(item.shape) == 1)
    y = m.any(lambda item: len(item.shape) == 1 and x is not None and item.dtype == x.dtype)
    if x is None or y is None:
        return
    one, two = x.shape[0], y.shape[0]
    at = tuple(p + q for p, q in zip(one.at, two.at, strict=True))
    size = number(at[0])
    if one.name or two.name:
        parts = [Item(each.name, "i32", ()) if each.name else m.constant(each.at[0], "i32") for each in (one, two)]
        total = m.add(f"stablehlo.add %{parts[0].name}, %{parts[1].name} : {{}}", "i32", (), keep=False)
        size = Size(at, total.name)
    if max(at) <= LARGEST:
        m.add(f"stablehlo.concatenate %{x.name}, %{y.name}, dim = 0 : ({x.type}, {y.type}) -> {{}}", x.dtype, (size,))


PIECES = (
    unary, binary, binary, convert, compare, hashed, hashed, resized, taken, taken, written, written, clamped, gathered,
    moved, flattened, padded, reduced, windows, joined,
)  # fmt: skip
"""What programs are made of."""
