"""The expressions of contracts: their sorts, and the Python that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from egshape.dims.core import Function
from egshape.dims.text import DECLARED
from egshape.errors import EgshapeError
from egshape.rulelang.contract import name_of, wrong
from egshape.rulelang.sexpr import Atom, List, SExpr


@dataclass(frozen=True, slots=True)
class Compiled:
    """A Python expression, and the sort of what it gives."""

    code: str
    sort: str

    @property
    def item(self) -> str:
        """The sort of a list's items, "" for what is no list."""
        return _ITEMS.get(self.sort, "")


_ITEMS = {
    "axes": "int",
    "sizes": "size",
    "Ts": "T",
    "record": "record",
    "regions": "region",
    "values": "T",
    "dtypes": "dtype",
    "types": "type",
    "arrays": "elements",
}
_LISTS = {item: name for name, item in _ITEMS.items()}
_TAKEN_FOR = {
    ("int", "size"),
    ("axes", "sizes"),
    ("text", "dtype"),
    ("dtype", "text"),
    ("record", "int"),
    ("record", "axes"),
    ("record", "sizes"),
    ("record", "size"),
    ("record", "dtype"),
    ("values", "Ts"),
}
"""Pairs of sorts, the first of which may stand where the second is wanted."""

Table = Mapping[str, tuple[tuple[str, ...], str, str]]

FUNCTIONS: Table = {
    # operands
    "dtype": (("T",), "dtype", "{0}.dtype"),
    "shape": (("T",), "sizes", "{0}.shape"),
    "rank": (("T",), "int", "len({0}.shape)"),
    "size": (("T", "int"), "size", "{0}.shape[{1}]"),
    "scalar": (("T",), "bool", "f_is_scalar({0})"),
    "ranked": (("Ts",), "T", "f_ranked({0})"),
    "where-ranked": (("Ts", "sizes"), "sizes", "f_where_ranked({0}, {1})"),
    "common-size": (("Ts", "int"), "size", "f_common({0}, {1})"),
    # arrays
    "array-dtype": (("array",), "dtype", "f_array_dtype({0})"),
    "array-shape": (("array",), "sizes", "f_array_shape({0})"),
    # dtypes
    "kind": (("dtype",), "text", "f_kind({0})"),
    "quotient": (("int", "int"), "int", "({0} // {1})"),
    "itemsize": (("dtype",), "int", "f_itemsize({0})"),
    "real-of": (("dtype",), "dtype", "f_real_of({0})"),
    "complex-of": (("dtype",), "dtype", "f_complex_of({0})"),
    # lists
    "distinct": (("axes",), "bool", "len(set({0})) == len({0})"),
    "within": (("axes", "int"), "bool", "f_known({0}, {1})"),
    "range": (("int",), "axes", "range({0})"),
    "permute": (("sizes", "axes"), "sizes", "tuple([{0}[k] for k in {1}])"),
    "drop": (("sizes", "axes"), "sizes", "tuple([size for k, size in enumerate({0}) if k not in {1}])"),
    "arrange": (("sizes", "axes"), "sizes", "f_arrange({0}, {1})"),
    "place": (("sizes", "axes", "int"), "sizes", "f_placed({0}, {1}, {2})"),
    "product": (("sizes",), "size", "f_product({0})"),
    # sizes
    "ceildiv": (("size", "size"), "size", "f_ceildiv({0}, {1})"),
    "floordiv": (("size", "size"), "size", "f_floordiv({0}, {1})"),
    "mod": (("size", "size"), "size", "f_mod({0}, {1})"),
    "max": (("size", "size"), "size", "f_maximum({0}, {1})"),
    "min": (("size", "size"), "size", "f_minimum({0}, {1})"),
    "either": (("size", "size"), "size", "f_either({0}, {1})"),
    "relu": (("size",), "size", "f_relu({0})"),
    "strided": (("size", "size", "size"), "size", "f_strided({0}, {1}, {2})"),
    "windows": (("size",) * 7, "size", "f_windows({0}, {1}, {2}, {3}, {4}, {5}, {6})"),
    # truth
    "not": (("bool",), "bool", "(not {0})"),
    "is": (("size", "size"), "bool", "({0} == {1})"),
    # regions
    "args": (("region",), "values", "f_typed({0}.args)"),
    "returns": (("region",), "values", "f_typed({0}.results)"),
    "own": (("region", "size"), "bool", "f_own({0}, {1})"),
}
"""Functions of one meaning: the sorts that they take, the one that they give, the Python."""


def taken(name: str) -> bool:
    """Whether contracts mean something by the name of a function."""
    return name in FUNCTIONS or name in _SPECIAL


def _declared(name: str, function: Function) -> tuple[tuple[str, ...], str, str]:
    """A size function of an author, as one of these."""
    sorts = ("size",) * len(function.params)
    return sorts, "size", f"f_{name}({', '.join(f'{{{k}}}' for k in range(len(sorts)))})"


_NAMES = {
    "DTYPES": Compiled("f_DTYPES", "dtypes"),
    "unknown": Compiled("None", "size"),
    "unranked": Compiled("f_unranked()", "sizes"),
}
"""Names that every contract knows: all dtypes, a size that nothing tells, a shape of no known rank."""


class Expressions:
    """Compiles expressions in which some names are known."""

    def __init__(self, scope: Mapping[str, Compiled], functions: Table = FUNCTIONS) -> None:
        self.scope, self.functions = scope, functions

    def inside(self, name: str, sort: str) -> Expressions:
        """The same where one more name is known."""
        return Expressions({**self.scope, name: Compiled(name, sort)}, self.functions)

    def of(self, item: SExpr, sort: str) -> str:
        """The Python of an expression of this sort. Raises EgshapeError for another one."""
        if sort in _ITEMS and isinstance(item, List) and item.head == "list" and len(item.items) == 1:
            return "()"  # an empty list is one of any sort
        found = self(item)
        if found.sort != sort and (found.sort, sort) not in _TAKEN_FOR:
            raise wrong(f"{item} is of the sort {found.sort}, wanted is {sort}", item.at)
        if sort == "size" and found.sort != sort:
            return f"f_dim({found.code})"
        return f"tuple(map(f_dim, {found.code}))" if sort == "sizes" and found.sort != sort else found.code

    def list(self, item: SExpr) -> Compiled:
        """An expression that gives a list."""
        found = self(item)
        if not found.item:
            raise wrong(f"{item} is of the sort {found.sort}, wanted is a list", item.at)
        return found

    def sizes(self, item: SExpr) -> str:
        """The shape of a result; one that is given size by size is so for operands of unknown rank too."""
        if isinstance(item, List) and item.head == "for":
            self._arity(item, 3)
            name, over = name_of(item.items[1]), self.of(item.items[2], "axes")
            return f"f_each_size({over}, lambda {name}: {self.inside(name, 'int').of(item.items[3], 'size')})"
        return self.of(item, "sizes")

    def __call__(self, item: SExpr) -> Compiled:
        """The Python of an expression with its sort. Raises EgshapeError (code "rules") for what is no expression."""
        if isinstance(item, Atom):
            return self._atom(item)
        special = _SPECIAL.get(item.head)
        if special is not None:
            return special(self, item)
        known = {**{name: _declared(name, each) for name, each in DECLARED.get().items()}, **self.functions}
        found = known.get(item.head)
        if found is None:
            raise self._unknown("function", item.head or str(item), (*known, *_SPECIAL), item)
        sorts, sort, template = found
        self._arity(item, len(sorts))
        args = [self.of(arg, wanted) for arg, wanted in zip(item.items[1:], sorts, strict=True)]
        return Compiled(template.format(*args), sort)

    def _atom(self, item: Atom) -> Compiled:
        if item.is_string:
            return Compiled(repr(item.value), "text")
        if item.text.lstrip("-").isdecimal():
            return Compiled(item.text, "int")
        found = self.scope.get(item.text) or _NAMES.get(item.text)
        if found is None:
            raise self._unknown("name", item.text, (*self.scope, *_NAMES), item)
        return found

    def _unknown(
        self, what: str, name: str, known: Sequence[str] | Mapping[str, Compiled], item: SExpr
    ) -> EgshapeError:
        from egshape.spelling import nearest

        near = nearest(name, tuple(known))
        return wrong(f"the {what} {name} is not known here", item.at, f"did you mean {near}?" if near else "")

    def _arity(self, item: List, count: int) -> None:
        if len(item.items) != count + 1:
            raise wrong(f"{item.head} takes {count} arguments, {item} has {len(item.items) - 1}", item.at)

    # -- functions of several meanings --

    def compare(self, item: List) -> Compiled:
        """Two numbers, texts or truths, when the program is read."""
        self._arity(item, 2)
        one, two = map(self, item.items[1:])
        if "size" in (one.sort, two.sort):
            raise wrong(
                f"{item} compares sizes, which may not be known",
                item.at,
                'give it a label: (CONDITION "label" "message")',
            )
        return Compiled(f"({one.code} {'==' if item.head == '=' else '<='} {two.code})", "bool")

    def arithmetic(self, item: List) -> Compiled:
        args = [self(arg) for arg in item.items[1:]]
        for arg, at in zip(args, item.items[1:], strict=True):
            if arg.sort not in ("int", "size", "record"):
                raise wrong(f"{at} is of the sort {arg.sort}, wanted is a number", at.at)
        sort = "size" if any(arg.sort == "size" for arg in args) else "int"
        return Compiled(f"({f' {item.head} '.join(arg.code for arg in args)})", sort)

    def logic(self, item: List) -> Compiled:
        parts = [f"({self.of(arg, 'bool')})" for arg in item.items[1:]]
        return Compiled(f"({f' {item.head} '.join(parts)})", "bool")

    def among(self, item: List) -> Compiled:
        """(in x a b ...): x is one of them, or an item of the one list."""
        one, *others = map(self, item.items[1:])
        if len(others) == 1 and others[0].item:
            return Compiled(f"({one.code} in {others[0].code})", "bool")
        return Compiled(f"({one.code} in ({''.join(f'{other.code}, ' for other in others)}))", "bool")

    def choice(self, item: List) -> Compiled:
        self._arity(item, 3)
        one, two = map(self, item.items[2:])
        sort = two.sort if (one.sort, two.sort) in _TAKEN_FOR else one.sort
        yes, no = (self.of(branch, sort) for branch in item.items[2:])
        return Compiled(f"({yes} if {self.of(item.items[1], 'bool')} else {no})", sort)

    def axes(self, item: List) -> Compiled:
        """The places of a list's items, or the axes of an operand."""
        self._arity(item, 1)
        found = self(item.items[1])
        over = f"{found.code}.shape" if found.sort == "T" else self.list(item.items[1]).code
        return Compiled(f"range(len({over}))", "axes")

    def length(self, item: List) -> Compiled:
        self._arity(item, 1)
        return Compiled(f"len({self.list(item.items[1]).code})", "int")

    def at(self, item: List) -> Compiled:
        self._arity(item, 2)
        found = self.list(item.items[1])
        return Compiled(f"{found.code}[{self.of(item.items[2], 'int')}]", found.item)

    def slice(self, item: List) -> Compiled:
        """(first xs), (rest xs), (last xs), (but-last xs), (take xs n), (skip xs n)."""
        found = self.list(item.items[1])
        if item.head in ("first", "last"):
            self._arity(item, 1)
            return Compiled(f"{found.code}[{0 if item.head == 'first' else -1}]", found.item)
        if item.head in ("rest", "but-last"):
            self._arity(item, 1)
            return Compiled(f"{found.code}[{'1:' if item.head == 'rest' else ':-1'}]", found.sort)
        self._arity(item, 2)
        count = self.of(item.items[2], "int")
        return Compiled(f"{found.code}[{f':{count}' if item.head == 'take' else f'{count}:'}]", found.sort)

    def append(self, item: List) -> Compiled:
        """Lists one after the other."""
        parts = [self.list(arg) for arg in item.items[1:]]
        sort = "sizes" if any(part.sort == "sizes" for part in parts) else parts[0].sort
        return Compiled(f"({''.join(f'*{self.of(arg, sort)}, ' for arg in item.items[1:])})", sort)

    def several(self, item: List) -> Compiled:
        """(list a b ...)."""
        parts = [self(arg) for arg in item.items[1:]]
        item_sort = "size" if any(part.sort == "size" for part in parts) else parts[0].sort if parts else "size"
        items = "".join(f"{self.of(arg, item_sort)}, " for arg in item.items[1:])
        return Compiled(f"({items})", _LISTS.get(item_sort, "record"))

    def replaced(self, item: List) -> Compiled:
        """(with list place item)."""
        self._arity(item, 3)
        found = self.list(item.items[1])
        place, new = self.of(item.items[2], "int"), self.of(item.items[3], found.item)
        return Compiled(f"f_with_({found.code}, {place}, {new})", found.sort)

    def common(self, item: List) -> Compiled:
        """The shape that operands share, given one by one or as a list."""
        if len(item.items) == 2 and self(item.items[1]).sort == "Ts":
            return Compiled(f"f_common_shape(*{self(item.items[1]).code})", "sizes")
        return Compiled(f"f_common_shape({', '.join(self.of(arg, 'T') for arg in item.items[1:])})", "sizes")

    def mapped(self, item: List) -> Compiled:
        """(for x xs expression), (sum x xs expression), and (agreed x xs size): the size that is the same for each."""
        self._arity(item, 3)
        name, over = name_of(item.items[1]), self.list(item.items[2])
        found = self.inside(name, over.item)(item.items[3])
        if item.head == "sum":
            add = "f_total" if found.sort == "size" else "sum"
            return Compiled(f"{add}([{found.code} for {name} in {over.code}])", found.sort)
        if item.head == "agreed":
            return Compiled(f"f_agreed([{found.code} for {name} in {over.code}])", "size")
        if found.sort not in _LISTS:
            raise wrong(f"there are no lists of the sort {found.sort}", item.at)
        items = f"[{found.code} for {name} in {over.code}]"
        return Compiled(items if found.sort == "type" else f"tuple({items})", _LISTS[found.sort])

    def type(self, item: List) -> Compiled:
        """(type dtype shape): one of several results."""
        self._arity(item, 2)
        dtype, shape = self.of(item.items[1], "dtype"), self.of(item.items[2], "sizes")
        return Compiled(f"({dtype}, f_if_ranked(lambda: {shape}))", "type")


_SPECIAL: dict[str, Callable[[Expressions, List], Compiled]] = {
    "=": Expressions.compare,
    "<=": Expressions.compare,
    "+": Expressions.arithmetic,
    "-": Expressions.arithmetic,
    "*": Expressions.arithmetic,
    "and": Expressions.logic,
    "or": Expressions.logic,
    "in": Expressions.among,
    "if": Expressions.choice,
    "axes": Expressions.axes,
    "length": Expressions.length,
    "at": Expressions.at,
    **dict.fromkeys(("first", "last", "rest", "but-last", "take", "skip"), Expressions.slice),
    "append": Expressions.append,
    "list": Expressions.several,
    "with": Expressions.replaced,
    "common": Expressions.common,
    "for": Expressions.mapped,
    "sum": Expressions.mapped,
    "agreed": Expressions.mapped,
    "type": Expressions.type,
}
