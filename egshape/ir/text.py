"""The text form of a graph: one op a line, prints and parses back exactly.

    graph mlp(%x: f32[b, 32], %w: f32[32, 16]) {
      symbols b = size(%x, 0)
      %0: f32[b, 16] = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0], dtype=f32}
      return %0 as out0
    }

Attributes show their kind: ``[1, 0]`` integers, ``<b, 32>`` sizes, ``(a, [1])`` records, ``f32[2]{1.0, 2.0}``
arrays, words and quoted strings text. Regions follow the attributes as ``(%arg: type) { ... }``; a call of a function
that an earlier one calls too says ``like %0 <b, c>``: the region of the call that gives ``%0``, in these sizes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

import numpy as np

from egshape.dims import Definedness, Dim, const, quote_name, symbol
from egshape.dims.text import Scanner
from egshape.errors import EgshapeError, ParseError
from egshape.facts import EVERYTHING, Facts, Relation
from egshape.facts.relation import read_ranges
from egshape.ir import display
from egshape.ir.calls import function_key, is_call, size_names, substitute, values_of
from egshape.ir.graph import NOWHERE, Block, Graph, Location, Op, SymbolDef, Value
from egshape.ir.types import DTYPES, TEXT, TensorType, dtype_name, is_complex, is_float, is_narrow, numpy_dtype

_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_RESERVED = {"true", "false", "none", "inf", "nan", "size"}
_NUMBER = re.compile(r"-?(?:inf\b|nan\b|\d+(?:\.\d+(?:[eE][-+]?\d+)?|[eE][-+]?\d+)?)")
_VALUE = re.compile(r"%(?:([\w.]+)|`((?:[^`]|``)+)`)")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SPACE = re.compile(r"(?:\s|//[^\n]*)*")
_HEX = re.compile(r"0x([0-9a-f]*)")
_KINDS = ("==", "!=", "<=", "<")

_SHOWN = 64
"""Arrays of up to so many elements are listed; longer ones are bytes."""

T = TypeVar("T")


# -- printing ----


def print_graph(graph: Graph, *, locations: bool = False) -> str:
    """The text of a graph; with ``locations`` each op ends in ``at "file":line:column "name"``."""
    lines = [f"graph {_word(graph.name)}({_arguments(graph.body.args)}) {{"]
    if graph.metadata:
        lines.append(f"  metadata {_attributes(graph.metadata)}")
    facts = _facts_text(graph.facts)
    if facts:
        lines.append(f"  facts {json.dumps(facts)}")
    lines.extend(_body(graph.body, "  ", locations, _Calls()))
    returned = (
        f"{_ref(value)} as {_word(name)}" for value, name in zip(graph.body.results, graph.output_names, strict=True)
    )
    lines.append(_return(returned, "  "))
    lines.append("}")
    others = (print_graph(each, locations=locations) for each in graph.functions)
    return "\n".join(["\n".join(lines) + "\n", *others])


display.text.register(Graph, print_graph)


def print_op(op: Op) -> str:
    """One op as it stands in the text, regions included."""
    return "\n".join(_op(op, "", False, None))


class _Calls:
    """The calls that are printed with their regions."""

    def __init__(self) -> None:
        self._by_function: dict[Any, Op] = {}
        self._by_name: dict[str, Op] = {}

    def add(self, call: Op) -> None:
        self._by_function.setdefault(function_key(call), call)
        for value in call.results[:1]:
            self._by_name.setdefault(value.name, call)

    def like(self, call: Op) -> str:
        """What names the function of a call by an earlier one, "" if none can."""
        first = self._by_function.get(function_key(call))
        if first is None or not first.results or self._by_name[first.results[0].name] is not first:
            return ""
        (one,), (two,) = first.regions, call.regions
        names = size_names(two)
        sizes = dict(zip(size_names(one), map(symbol, names), strict=True))
        values = zip(values_of(substitute(one, {}, sizes=sizes)), values_of(two), strict=True)
        if any(copy.type != own.type for copy, own in values):
            return ""
        return f" like {_ref(first.results[0])} <{', '.join(map(quote_name, names))}>"


def _facts_text(facts: Facts) -> str:
    return "" if facts == Facts() else facts.to_json()


def _body(block: Block, indent: str, locations: bool, calls: _Calls | None) -> Iterator[str]:
    if block.symbols:
        yield f"{indent}symbols {', '.join(map(_symbol, block.symbols))}"
    for op in block.ops:
        yield from _op(op, indent, locations, calls)


def _symbol(define: SymbolDef) -> str:
    kind, index = ("size", define.axis) if define.axis is not None else ("element", define.element)
    shift = f" offset {define.offset}" if define.offset else ""
    return f"{quote_name(define.name)} = {kind}({_ref(define.value)}, {index}){shift}"


def _op(op: Op, indent: str, locations: bool, calls: _Calls | None) -> Iterator[str]:
    """Its lines. ``calls``: those before it in the text, None where it stands alone."""
    results = ", ".join(map(_typed, op.results))
    line = f"{indent}{results}{' = ' if results else ''}{op.name}({', '.join(map(_ref, op.operands))})"
    if op.attrs:
        line += f" {_attributes(op.attrs)}"
    if op.requires:
        line += f" requires {{{', '.join(map(_relation, op.requires))}}}"
    if locations and op.location != NOWHERE:
        line += f" at {_location(op.location)}"
    if calls is not None and is_call(op):
        like = calls.like(op)
        if like:
            yield line + like
            return
    for region in op.regions:
        yield f"{line} ({_arguments(region.args)}) {{"
        yield from _body(region, indent + "  ", locations, calls)
        yield _return(map(_ref, region.results), indent + "  ")
        line = f"{indent}}}"
    yield line
    if calls is not None and is_call(op):
        calls.add(op)


def _return(values: Iterable[str], indent: str) -> str:
    return f"{indent}return {', '.join(values)}".rstrip()


def _relation(relation: Relation) -> str:
    source = f" {json.dumps(relation.source)}" if relation.source else ""
    needs = "".join(f" if {need.kind}({need.one}, {need.two})" for need in relation.needs)
    text = str(relation) if relation.kind == "in" else f"{relation.lhs} {relation.kind} {relation.rhs}"
    return f"{text}{needs}{source}"


def _location(location: Location) -> str:
    name = f" {json.dumps(location.name)}" if location.name else ""
    return f"{json.dumps(location.file)}:{location.line}:{location.column}{name}"


def _arguments(values: Iterable[Value]) -> str:
    return ", ".join(map(_typed, values))


def _typed(value: Value) -> str:
    return f"{_ref(value)}: {value.type}"


def _ref(value: Value) -> str:
    if re.fullmatch(r"[\w.]+", value.name, re.ASCII):
        return f"%{value.name}"
    return "%`" + value.name.replace("`", "``") + "`"


def _word(text: str) -> str:
    return text if _WORD.fullmatch(text) and text not in _RESERVED else json.dumps(text)


def _attributes(attrs: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{_word(key)}={_attribute(value)}" for key, value in attrs.items()) + "}"


def _attribute(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return _word(value)
    if isinstance(value, Dim):
        return f"size({value})"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, np.ndarray | np.generic):
        return _array(np.asarray(value))
    if isinstance(value, Mapping):
        return _attributes(value)
    if isinstance(value, tuple | list):
        return _tuple(tuple(value))
    raise EgshapeError(f"an attribute of type {type(value).__name__} has no text form", code="attribute")


def _tuple(items: tuple[Any, ...]) -> str:
    if all(isinstance(item, int | np.integer) and not isinstance(item, bool) for item in items):
        return f"[{', '.join(str(int(item)) for item in items)}]"
    if all(isinstance(item, Dim) for item in items):
        return f"<{', '.join(map(str, items))}>"
    return f"({', '.join(map(_attribute, items))}{',' if len(items) == 1 else ''})"


def _number(value: float) -> str:
    return repr(float(value))


def _array(array: np.ndarray) -> str:
    dtype = dtype_name(array.dtype)
    head = f"{dtype}[{', '.join(map(str, array.shape))}]"
    flat = np.ascontiguousarray(array).reshape(-1)
    same = array.size > 1 and flat[:1].tobytes() * array.size == flat.tobytes()
    shown = flat[:1] if same else flat
    raw = is_complex(dtype) or is_narrow(dtype) or (is_float(dtype) and bool(np.isnan(shown).any()))
    if shown.size > _SHOWN or raw:
        return f"{head}{{0x{shown.tobytes().hex()}{' ...' if same else ''}}}"
    items = [_number(float(item)) if is_float(dtype) else str(int(item)) for item in shown]
    return f"{head}{{{', '.join(items)}{' ...' if same else ''}}}"


# -- parsing ----


def parse_graph(text: str) -> Graph:
    """The graph that the text writes. Raises ParseError with line:column and cause."""
    return _Parser(text).graphs()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0
        self.sizes = Scanner("")
        self.sizes.text = text
        self.scopes: list[dict[str, Value]] = []
        self.calls: dict[str, Op] = {}
        """Those whose regions stand in the text, by their first results."""
        self._skip()

    # tokens

    def fail(self, cause: str, pos: int | None = None) -> NoReturn:
        at = self.pos if pos is None else pos
        line = self.text.count("\n", 0, at) + 1
        column = at - (self.text.rfind("\n", 0, at) + 1) + 1
        raise ParseError(cause, where=f"{line}:{column}")

    def _skip(self) -> None:
        match = _SPACE.match(self.text, self.pos)
        self.pos = match.end() if match else self.pos

    def _found(self) -> str:
        rest = self.text[self.pos : self.pos + 16].split("\n")[0]
        return repr(rest) if rest else "the end"

    def accept(self, token: str) -> bool:
        if not self.text.startswith(token, self.pos):
            return False
        after = self.text[self.pos + len(token) : self.pos + len(token) + 1]
        if token[-1].isalpha() and (after.isalnum() or after == "_"):
            return False
        self.pos += len(token)
        self._skip()
        return True

    def expect(self, token: str) -> None:
        if not self.accept(token):
            self.fail(f"expected {token!r}, found {self._found()}")

    def match(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        found = pattern.match(self.text, self.pos)
        if not found:
            self.fail(f"expected {what}, found {self._found()}")
        self.pos = found.end()
        self._skip()
        return found

    def word(self, what: str) -> str:
        if self.text.startswith('"', self.pos):
            return self.string()
        return self.match(_WORD, what)[0]

    def string(self) -> str:
        start = self.pos
        quoted = self.match(_STRING, "a quoted string")[0]
        try:
            return str(json.loads(quoted))
        except json.JSONDecodeError as error:
            self.fail(f"the quoted string is not one of JSON: {error.msg}", start + error.pos)

    def integer(self) -> int:
        return int(self.match(re.compile(r"-?\d+"), "an integer")[0])

    def size(self) -> Dim:
        return self._by_sizes(self.sizes.expression)

    def _by_sizes(self, read: Callable[[], T]) -> T:
        self.sizes.pos = self.pos
        try:
            found = read()
        except ParseError as error:
            self.fail(error.message.partition(": ")[2] or error.message, self.sizes.pos)
        self.pos = self.sizes.pos
        self._skip()
        return found

    def several(self, close: str, read: Callable[[], T]) -> list[T]:
        """Items separated by commas up to ``close``; a comma may end them."""
        items: list[T] = []
        while not self.accept(close):
            items.append(read())
            if not self.accept(","):
                self.expect(close)
                break
        return items

    # graph

    def graphs(self) -> Graph:
        first, others = self.graph(), []
        while self.pos < len(self.text):
            if not self.text.startswith("graph", self.pos):
                self.fail(f"expected the end, found {self._found()}")
            others.append(self.graph())
        return replace(first, functions=tuple(others))

    def graph(self) -> Graph:
        self.expect("graph")
        name = self.word("the graph's name")
        self.scopes.append({})
        self.expect("(")
        args = self.several(")", self.argument)
        self.expect("{")
        metadata = self.attributes() if self.accept("metadata") else {}
        facts = Facts.from_json(self.string()) if self.accept("facts") else Facts()
        names: list[str] = []

        def result() -> Value:
            value = self.value()
            self.expect("as")
            names.append(self.word("the output's name"))
            return value

        body = self.block(args, result)
        return Graph(name, body, tuple(names), facts, metadata)

    def argument(self) -> Value:
        at = self.pos
        found = self.match(_VALUE, "a value")
        name = found[1] or found[2].replace("``", "`")
        if any(name in scope for scope in self.scopes):
            self.fail(f"%{name} is defined twice", at)
        self.expect(":")
        value = Value(name, self.type())
        self.scopes[-1][name] = value
        return value

    def type(self) -> TensorType:
        at = self.pos
        dtype = self.match(_WORD, "a dtype")[0]
        if dtype not in DTYPES and dtype != TEXT:
            self.fail(f"unknown dtype {dtype!r}", at)
        self.expect("[")
        if self.accept("*"):
            self.expect("]")
            return TensorType(dtype, None)
        return TensorType(dtype, tuple(self.several("]", self.size)))

    def value(self) -> Value:
        at = self.pos
        found = self.match(_VALUE, "a value")
        name = found[1] or found[2].replace("``", "`")
        found_in = next((scope for scope in reversed(self.scopes) if name in scope), None)
        if found_in is None:
            self.fail(f"%{name} is not defined here", at)
        return found_in[name]

    def block(self, args: list[Value], result: Callable[[], Value]) -> Block:
        defines = self.pos if self.accept("symbols") else None
        if defines is not None:
            self._pass_symbols()
        ops: list[Op] = []
        while not self.accept("return"):
            ops.append(self.op())
        results = self.several("}", result)
        end = self.pos
        symbols: list[SymbolDef] = []
        if defines is not None:  # read last: they name values of the whole block
            self.pos = defines
            symbols.append(self.symbol())
            while self.accept(","):
                symbols.append(self.symbol())
            self.pos = end
        self.scopes.pop()
        return Block(tuple(args), tuple(ops), tuple(results), tuple(symbols))

    def _pass_symbols(self) -> None:
        while True:
            self._by_sizes(self.sizes.name)
            self.expect("=")
            if not self.accept("size") and not self.accept("element"):
                self.fail(f"expected 'size' or 'element', found {self._found()}")
            self.expect("(")
            self.match(_VALUE, "a value")
            self.expect(",")
            self.integer()
            self.expect(")")
            if self.accept("offset"):
                self.integer()
            if not self.accept(","):
                return

    def symbol(self) -> SymbolDef:
        name = self._by_sizes(self.sizes.name)
        self.expect("=")
        axis = self.accept("size")
        if not axis:
            self.expect("element")
        self.expect("(")
        value = self.value()
        self.expect(",")
        index = self.integer()
        self.expect(")")
        offset = self.integer() if self.accept("offset") else 0
        return SymbolDef(name, value, index if axis else None, None if axis else index, offset)

    def op(self) -> Op:
        declared: list[tuple[str, TensorType, int]] = []
        while self.text.startswith("%", self.pos):
            at = self.pos
            found = self.match(_VALUE, "a value")
            self.expect(":")
            declared.append((found[1] or found[2].replace("``", "`"), self.type(), at))
            if not self.accept(","):
                self.expect("=")
                break
        name = self.match(_WORD, "an op")[0]
        self.expect("(")
        operands = self.several(")", self.value)
        attrs = self.attributes() if self.text.startswith("{", self.pos) else {}
        requires: list[Relation] = []
        if self.accept("requires"):
            self.expect("{")
            requires = self.several("}", self.relation)
        location = self.location() if self.accept("at") else NOWHERE
        regions: list[Block] = []
        while self.accept("("):
            self.scopes.append({})
            args = self.several(")", self.argument)
            self.expect("{")
            regions.append(self.block(args, self.value))
        again = not regions and self.accept("like")
        if again:
            regions.append(self.like(declared[0][0] if declared else ""))
        results = []
        for label, type, at in declared:
            if any(label in scope for scope in self.scopes):
                self.fail(f"%{label} is defined twice", at)
            value = Value(label, type)
            self.scopes[-1][label] = value
            results.append(value)
        op = Op(name, tuple(operands), attrs, tuple(results), tuple(regions), location, tuple(requires))
        if again and not is_call(op):
            self.fail(f"{name} calls no function")
        if is_call(op) and declared and not again:
            self.calls.setdefault(declared[0][0], op)
        return op

    def like(self, label: str) -> Block:
        """The region of an earlier call, in the sizes of the call that gives ``label``."""
        at = self.pos
        found = self.match(_VALUE, "a value")
        first = self.calls.get(found[1] or found[2].replace("``", "`"))
        if first is None:
            self.fail(f"no call that gives {found[0]} stands before with its region", at)
        (region,) = first.regions
        names = size_names(region)
        self.expect("<")
        sizes = self.several(">", lambda: symbol(self._by_sizes(self.sizes.name)))
        if len(sizes) != len(names):
            self.fail(f"the function is of {len(names)} sizes, not {len(sizes)}", at)
        return substitute(region, {}, lambda name: f"{label}.{name}", dict(zip(names, sizes, strict=True)))

    def relation(self) -> Relation:
        lhs = self.size()
        rhs, ranges = const(0), EVERYTHING
        kind = next((kind for kind in _KINDS if self.accept(kind)), "")
        if kind:
            rhs, ranges = self.size(), ()
        elif self.accept("in"):
            kind, ranges = "in", self._by_sizes(lambda: read_ranges(self.sizes))
        else:
            self.fail(f"expected one of {', '.join(_KINDS)}, in, found {self._found()}")
        needs: list[Definedness] = []
        while self.accept("if"):
            what = self.match(_WORD, "a condition")[0]
            self.expect("(")
            one = self.size()
            self.expect(",")
            needs.append(Definedness(what, one, self.size()))
            self.expect(")")
        source = self.string() if self.text.startswith('"', self.pos) else ""
        return Relation(kind, lhs, rhs, source, ranges, tuple(needs))

    def location(self) -> Location:
        file = self.string()
        self.expect(":")
        line = self.integer()
        self.expect(":")
        column = self.integer()
        return Location(file, line, column, self.string() if self.text.startswith('"', self.pos) else "")

    # attributes

    def attributes(self) -> dict[str, Any]:
        self.expect("{")

        def entry() -> tuple[str, Any]:
            key = self.word("an attribute's name")
            self.expect("=")
            return key, self.attribute()

        return dict(self.several("}", entry))

    def attribute(self) -> Any:
        for word, value in (("none", None), ("true", True), ("false", False)):
            if self.accept(word):
                return value
        start = self.text[self.pos : self.pos + 1]
        if start == '"':
            return self.string()
        if start == "{":
            return self.attributes()
        if self.accept("["):
            return tuple(self.several("]", self.integer))
        if self.accept("<"):
            return tuple(self.several(">", self.size))
        if self.accept("("):
            return tuple(self.several(")", self.attribute))
        number = _NUMBER.match(self.text, self.pos)
        if number:
            return self.number()
        at = self.pos
        word = self.match(_WORD, "an attribute")[0]
        if word == "size" and self.accept("("):
            dim = self.size()
            self.expect(")")
            return dim
        if word in DTYPES and self.text.startswith("[", self.pos):
            self.pos = at
            return self.array()
        return word

    def number(self) -> int | float:
        text = self.match(_NUMBER, "a number")[0]
        return int(text) if text.lstrip("-").isdigit() else float(text)

    def array(self) -> np.ndarray:
        at = self.pos
        type = self.type()
        shape = tuple(dim.const for dim in type.dims)
        if any(size is None for size in shape):
            self.fail("the shape of an array is not constant", at)
        dtype = numpy_dtype(type.dtype)
        self.expect("{")
        if self.text.startswith("0x", self.pos):
            flat = np.frombuffer(bytes.fromhex(self.match(_HEX, "bytes")[1]), dtype)
        else:
            numbers: list[int | float] = []
            while _NUMBER.match(self.text, self.pos):
                numbers.append(self.number())
                self.accept(",")
            flat = np.array(numbers, dtype=dtype)
        total = int(np.prod([size or 0 for size in shape], dtype=np.int64))
        if self.accept("..."):
            flat = np.broadcast_to(flat, (total,))
        self.expect("}")
        if flat.size != total:
            self.fail(f"the array has {flat.size} elements, its type wants {total}", at)
        return flat.reshape(tuple(size or 0 for size in shape))
