"""The example lines of tensor rules: their grammar, read and built as values of a block.

    add(transpose(x: f32[a, b], [1, 0]), y) given a == b  =>  ...

A term is ``op(operand, ..., attr, ..., attr=value, ...)``: attributes follow the operands in the order of the op's
declaration or by name. A leaf is declared where it first stands, ``x: f32[a, b]`` (``x: [a, b]`` is f32), and is ``x``
from there on. Constants are scalars: ``const(f32, -0.0)``. Axes and sizes are ``[1, 0]`` and ``[a, 2*b]``. A region
names an elementwise function of scalars, as the e-graph does: ``body=add``, ``comparator=compare.LT.FLOAT``. What is
right of the arrow is a term, a type (``f32[a]``), or relations on sizes (``a == b; m <= n``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import numpy as np

from egshape.dims import Dim
from egshape.dims.text import Scanner
from egshape.errors import ParseError
from egshape.facts import Relation, parse_facts
from egshape.ir.builder import BlockBuilder
from egshape.ir.functions import function_region
from egshape.ir.graph import Block, Value
from egshape.ir.types import DTYPES, TensorType, dtype_name, is_complex, numpy_dtype
from egshape.ops.base import AttrDecl, OpDecl, Registry
from egshape.rulelang.loader import Example

_WORD = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*", re.ASCII)
_REAL = r"(?:inf|nan|\d+(?:\.\d+)?(?:e[-+]?\d+)?)"
_NUMBER = re.compile(rf"[-+]?{_REAL}(?:(?:[-+]{_REAL})?j)?\b|true\b|false\b")
_INTEGER = re.compile(r"-?\d+")
_TRUTH = re.compile(r"[Tt]rue\b|[Ff]alse\b")
_SPACE = re.compile(r"\s*")
_TYPE = re.compile(rf"(?:{'|'.join(DTYPES)})\[")
_RELATION = re.compile(r" (?:==|!=|<=|>=|<|>) ")

SIZE = "size."
"""How the names of arguments begin that are there for a symbol only."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value from outside."""

    name: str
    type: TensorType


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A scalar constant."""

    array: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """An op applied; ``regions`` are names of elementwise functions, or what a region without arguments gives."""

    op: str
    operands: tuple[Term, ...]
    attrs: dict[str, Any]
    regions: tuple[str | Term, ...]


Term = Leaf | Constant | Apply


@dataclass(frozen=True, slots=True)
class Line:
    """An example: the left side, what is given, and what stands right of the arrow (None for nothing)."""

    left: Term
    given: tuple[Relation, ...]
    right: Term | TensorType | tuple[Relation, ...] | None

    def leaves(self) -> list[Leaf]:
        """The leaves of both sides, each once, in order of appearance."""
        found = dict.fromkeys(_leaves(self.left))
        if isinstance(self.right, Leaf | Constant | Apply):
            found.update(dict.fromkeys(_leaves(self.right)))
        return list(found)


def _leaves(term: Term) -> Iterator[Leaf]:
    if isinstance(term, Leaf):
        yield term
    elif isinstance(term, Apply):
        for inner in (*term.operands, *term.regions):
            if not isinstance(inner, str):
                yield from _leaves(inner)


def read_example(example: Example, registry: Registry) -> Line:
    """The example as terms. Raises ParseError with the example's file and line, the column and the cause."""
    before, _, facts = example.before.partition(" given ")
    known: dict[str, Leaf] = {}
    try:
        left = _Reader(before, known, registry).all(_Reader.term)
        right: Term | TensorType | tuple[Relation, ...] | None = None
        if _TYPE.match(example.after):
            right = _Reader(example.after, known, registry).all(_Reader.type)
        elif _RELATION.search(example.after):
            right = _relations(example.after)
        elif example.after:
            right = _Reader(example.after, known, registry).all(_Reader.term)
        return Line(left, _relations(facts), right)
    except ParseError as error:
        raise ParseError(error.message, where=f"{example.where} {error.where}".strip()) from None


def _relations(text: str) -> tuple[Relation, ...]:
    return tuple(each for each in parse_facts(text) if isinstance(each, Relation))


class _Reader:
    """Recursive descent over one side of an example."""

    def __init__(self, text: str, known: dict[str, Leaf], registry: Registry) -> None:
        self.text = text
        self.pos = 0
        self.known = known
        self.registry = registry
        self.sizes = Scanner(text)

    def fail(self, cause: str) -> NoReturn:
        raise ParseError(f"{cause} in {self.text!r}", where=f"column {self.pos + 1}")

    def _skip(self) -> None:
        match = _SPACE.match(self.text, self.pos)
        self.pos = match.end() if match else self.pos

    def accept(self, token: str) -> bool:
        found = self.text.startswith(token, self.pos)
        if found:
            self.pos += len(token)
            self._skip()
        return found

    def expect(self, token: str) -> None:
        if not self.accept(token):
            self.fail(f"expected {token!r}")

    def match(self, pattern: re.Pattern[str], what: str) -> str:
        found = pattern.match(self.text, self.pos)
        if not found:
            self.fail(f"expected {what}")
        self.pos = found.end()
        self._skip()
        return found[0]

    def all(self, read: Callable[[_Reader], T]) -> T:
        found = read(self)
        if self.pos < len(self.text):
            self.fail("expected the end")
        return found

    def several(self, open: str, close: str, read: Callable[[], T]) -> tuple[T, ...]:
        self.expect(open)
        items: list[T] = []
        while not self.accept(close):
            items.append(read())
            if not self.accept(","):
                self.expect(close)
                break
        return tuple(items)

    def size(self) -> Dim:
        self.sizes.pos = self.pos
        found = self.sizes.expression()
        self.pos = self.sizes.pos
        return found

    def integer(self) -> int:
        return int(self.match(_INTEGER, "an integer"))

    def type(self) -> TensorType:
        dtype = "f32" if self.text.startswith("[", self.pos) else self.match(_WORD, "a dtype")
        if dtype not in DTYPES:
            self.fail(f"unknown dtype {dtype!r}")
        return TensorType(dtype, self.several("[", "]", self.size))

    # terms

    def term(self) -> Term:
        name = self.match(_WORD, "a term")
        if self.accept(":"):
            if name in self.known:
                self.fail(f"{name!r} is declared twice")
            self.known[name] = Leaf(name, self.type())
            return self.known[name]
        if not self.accept("("):
            if name not in self.known:
                self.fail(f"{name!r} is not declared")
            return self.known[name]
        if name == "const":
            return self._constant()
        if name not in self.registry:
            self.fail(f"no op is named {name!r}")
        return self._apply(self.registry[name])

    def _constant(self) -> Constant:
        dtype = self.match(_WORD, "a dtype")
        self.expect(",")
        text = self.match(_NUMBER, "a number")
        self.expect(")")
        if dtype not in DTYPES:
            self.fail(f"unknown dtype {dtype!r}")
        try:
            return Constant(np.array(_number(text, dtype), numpy_dtype(dtype)))
        except (ValueError, OverflowError):
            self.fail(f"{text} is no {dtype}")

    def _apply(self, decl: OpDecl) -> Apply:
        operands: list[Term] = []
        given: dict[str, Any] = {}
        while not self.accept(")"):
            names = [*(attr.name for attr in decl.attrs), *_region_names(decl), "-"]
            named = re.compile(rf"({'|'.join(names)})\s*=")
            found = named.match(self.text, self.pos)
            if found:
                self.pos = found.end()
                self._skip()
                given[found[1]] = self._value(decl, found[1])
            elif self._operand_comes(decl, len(operands)):
                operands.append(self.term())
            else:
                name = next((attr.name for attr in decl.attrs if attr.name not in given), None)
                if name is None:
                    self.fail(f"{decl.name} has no further attribute")
                given[name] = self._value(decl, name)
            if not self.accept(","):
                self.expect(")")
                break
        regions = tuple(given.pop(name) for name in _region_names(decl) if name in given)
        return Apply(decl.name, tuple(operands), given, regions)

    def _operand_comes(self, decl: OpDecl, count: int) -> bool:
        if decl.variadic:
            return bool(_WORD.match(self.text, self.pos))
        return count < len(decl.operands)

    def _term_comes(self) -> bool:
        word = _WORD.match(self.text, self.pos)
        return word is not None and (word[0] in self.known or self.text[word.end() :].startswith(("(", ":")))

    def _value(self, decl: OpDecl, name: str) -> Any:
        if name in _region_names(decl):
            return self.term() if self._term_comes() else self.match(_WORD, "a function")
        return self._attribute(decl.attr(name))

    def _attribute(self, attr: AttrDecl) -> Any:
        if attr.kind == "sizes":
            return self.several("[", "]", self.size)
        if attr.kind == "axes":
            return self.several("[", "]", self.integer)
        if attr.kind == "bool" and _TRUTH.match(self.text, self.pos):
            return self.match(_TRUTH, "a truth value").lower() == "true"
        if attr.kind in ("int", "bool"):
            return self.integer()
        if attr.kind == "record":
            return self._record()
        if attr.kind == "array":
            self.expect("const(")
            return self._constant().array
        return self.match(_WORD, f"the {attr.kind} {attr.name}")

    def _record(self) -> Any:
        if self.text.startswith("[", self.pos):
            return self.several("[", "]", self._record)
        return self.match(_WORD, "a name") if _WORD.match(self.text, self.pos) else self.integer()


def _number(text: str, dtype: str) -> bool | int | float | complex:
    """The number that a constant of a dtype is written as."""
    if dtype == "i1":
        return text == "true"
    return complex(text) if is_complex(dtype) else float(text) if dtype.startswith(("f", "bf")) else int(text)


def _region_names(decl: OpDecl) -> list[str]:
    return [name.lstrip("*") for name in decl.regions]


# -- as text ----


def term_text(term: Term, registry: Registry) -> str:
    """A term as an example writes it, each leaf declared where it first stands."""
    known: set[str] = set()

    def show(each: Term) -> str:
        if isinstance(each, Leaf):
            if each.name in known:
                return each.name
            known.add(each.name)
            return f"{each.name}: {each.type}"
        if isinstance(each, Constant):
            value = each.array.item()
            text = str(value).strip("()")  # of a complex number
            return f"const({dtype_name(each.array.dtype)}, {text.lower() if isinstance(value, bool) else text})"
        decl = registry[each.op]
        parts = [
            *map(show, each.operands),
            *(_attribute_text(attr, each.attrs[attr.name]) for attr in decl.attrs if attr.name in each.attrs),
        ]
        for name, region in zip(_region_names(decl), each.regions, strict=False):
            parts.append(f"{name}={region if isinstance(region, str) else show(region)}")
        return f"{each.op}({', '.join(parts)})"

    return show(term)


def _attribute_text(attr: AttrDecl, value: Any) -> str:
    if isinstance(value, tuple):
        return _list_text(value)
    if attr.kind == "bool":
        value = int(value)
    return f"{attr.name}={value}" if attr.default is not ... else str(value)


def _list_text(value: Any) -> str:
    return f"[{', '.join(map(_list_text, value))}]" if isinstance(value, tuple) else str(value)


# -- as a block ----


def build_example(line: Line, registry: Registry, *, right: bool = True) -> tuple[Block, tuple[Value, ...]]:
    """A block that computes the left side, and the right side if that is a term and asked for; also their values.

    Each symbol is the size of an axis of an argument; one that no leaf has as an axis gets an argument of its own.
    Raises EgshapeError where the op's shape function refuses the operands."""
    builder = BlockBuilder(registry=registry)
    maker = _Maker(builder)
    for leaf in line.leaves():
        maker.argument(leaf.name, leaf.type)
    maker.bind(line.left)
    sides = [line.left]
    if right and isinstance(line.right, Leaf | Constant | Apply):
        maker.bind(line.right)
        sides.append(line.right)
    values = tuple(value for side in sides for value in maker.results(side)[:1])
    return builder.finish(values), values


def example_elements(line: Line, registry: Registry) -> str:
    """What is known of the elements of the left side, row by row as text, "?" for one of which nothing is."""
    builder = BlockBuilder(registry=registry)
    maker = _Maker(builder)
    for leaf in line.leaves():
        maker.argument(leaf.name, leaf.type)
    maker.bind(line.left)
    found = builder.elements(maker.value(line.left))
    items = [] if found is None else list(found.reshape(-1))
    return f"[{', '.join('?' if item is None else str(item) for item in items)}]"


class _Maker:
    """Adds terms to a builder."""

    def __init__(self, builder: BlockBuilder) -> None:
        self.builder = builder
        self.made: dict[Leaf | str, Value] = {}

    def argument(self, name: str, type: TensorType) -> None:
        sizes = [None if _symbol(dim) else dim for dim in type.dims]
        names = [_symbol(dim) for dim in type.dims]
        self.made[name] = self.builder.arg(name, type.dtype, sizes, names)

    def bind(self, term: Term) -> None:
        """Arguments for the symbols that no argument has yet."""
        found = [dim for each in _types(term) for dim in each]
        for symbol in sorted({name for dim in found for name in dim.symbols()}):
            if not any(known.name == symbol for known in self.builder.symbols):
                self.builder.arg(f"{SIZE}{symbol}", "f32", [None], [symbol])

    def value(self, term: Term) -> Value:
        return self.results(term)[0]

    def results(self, term: Term) -> Sequence[Value]:
        if isinstance(term, Leaf):
            return (self.made[term.name],)
        if isinstance(term, Constant):
            return self.builder.add("constant", (), {"value": term.array})
        operands = [self.value(operand) for operand in term.operands]
        decl = self.builder.registry[term.op]
        regions = [self._region(decl, operands, each) for each in term.regions]
        return self.builder.add(term.op, operands, term.attrs, regions=regions)

    def _region(self, decl: OpDecl, operands: Sequence[Value], region: str | Term) -> Block:
        if isinstance(region, str):
            return function_region(self.builder, decl, operands, region)
        child = _Maker(self.builder.child())
        child.made = self.made
        return child.builder.finish([child.value(region)])


def _symbol(dim: Dim) -> str | None:
    """The name of a size that is a symbol and nothing else."""
    names = dim.symbols()
    return next(iter(names)) if len(names) == 1 and str(dim) == next(iter(names)) else None


def _types(term: Term) -> Iterator[tuple[Dim, ...]]:
    """All sizes that a term states."""
    if isinstance(term, Leaf):
        yield term.type.dims
    elif isinstance(term, Apply):
        yield tuple(
            dim for value in term.attrs.values() if isinstance(value, tuple) for dim in value if isinstance(dim, Dim)
        )
        for inner in (*term.operands, *term.regions):
            if not isinstance(inner, str):
                yield from _types(inner)
