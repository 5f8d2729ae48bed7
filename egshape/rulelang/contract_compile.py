"""Contracts compiled to Python: one text of an op, run over sizes when a program is read, over numbers when it runs.

Each contract becomes the source of two functions. ``conditions(out, stage, ...)`` goes through the requirements in
order: what is decided when a program is read (ranks, dtypes, attributes) raises at once (dtypes only while it is read,
regions not in a run), a condition on sizes is handed to ``out`` with both sides, which judges it in its own way.
``result(...)`` gives the type of the result. They are made when an op is used for the first time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

from egshape.dims import Dim, const, is_nonnegative
from egshape.dims.core import Function
from egshape.dims.text import DECLARED
from egshape.errors import CheckFailed, EgshapeError
from egshape.facts import Relation
from egshape.rulelang.contract import Clause, Contract, Each, Require, When, wrong
from egshape.rulelang.contract_expr import Compiled, Expressions
from egshape.rulelang.contract_sizes import NUMBERS, SIZES, on_numbers, operand, shown
from egshape.rulelang.sexpr import List, SExpr

READ, KNOWN, RUN = 2, 1, 0
"""When a contract is asked: while a program is read, of a program that is known, in a run (regions are functions)."""

RELATIONS = {"=": "==", "<=": "<=", "expands": "expands"}
"""The relations of sizes that a contract may require, with their kind; (expands a b): a is b, or 1."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A relation of sizes that an op requires. ``values`` fill the holes of the message."""

    kind: str
    lhs: Any
    rhs: Any
    require: Require
    values: tuple[Any, ...]

    @property
    def label(self) -> str:
        """The name of the condition in reasons."""
        return self.require.name

    @property
    def relation(self) -> Relation:
        """The condition as one relation."""
        if self.kind != "expands":
            return Relation(self.kind, self.lhs, self.rhs)
        if self.lhs.const is not None:
            return Relation("==", self.lhs, self.rhs)
        return Relation("==", (self.lhs - self.rhs) * (self.lhs - 1), const(0))

    def placed(self) -> tuple[str, tuple[Dim, ...]]:
        """The message with {0}, {1}, ... for the sizes in its holes, and these."""
        sizes: dict[Dim, int] = {}

        def show(item: object) -> str:
            return f"{{{sizes.setdefault(item, len(sizes))}}}" if isinstance(item, Dim) else shown(item)

        return self.told(show), tuple(sizes)

    def told(self, show: Callable[[object], str]) -> str:
        """The message, with what stands in its holes as ``show`` writes it."""
        return told(self.require, self.values, show)


def told(require: Require, values: Sequence[Any], show: Callable[[object], str] = shown) -> str:
    """The message of a requirement, its holes filled."""
    filled = iter(values)
    return "".join(part if isinstance(part, str) else show(next(filled)) for part in require.message)


class Functions:
    """The functions of a contract."""

    def __init__(self, text: Contract, own: Mapping[str, Function]) -> None:
        self.requires: list[Require] = []
        self.runs = False
        """Whether anything is required that only a run may show."""
        self.sized = any(sort == "sizes" for _, sort in text.params) and text.part(":shape") is not None
        """Whether attributes make the sizes of the result, so that they may be negative."""
        code = compile("\n".join(_Source(self, text).lines), f"<contract {text.at}>", "exec")
        # Names of the package begin with f_, as no name of a contract can hide them so.
        symbolic, numeric = (
            {f"f_{name}": each for name, each in {**declared, **table, "refuse": refuse}.items()}
            for declared, table, refuse in (
                (own, SIZES, self.refuse),
                ({name: on_numbers(each) for name, each in own.items()}, NUMBERS, self.refuse_run),
            )
        )
        for names in (symbolic, numeric):
            exec(code, names)  # made from a checked contract: names and tables of this package only
        self.walk, self.result = symbolic["conditions"], symbolic["result"]
        self.walk_run, self.result_run = numeric["conditions"], numeric["result"]

    def infer(self, types: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """The type of the result, or a list of types. Raises EgshapeError where a requirement is surely false."""
        given = _shapes(types)
        self.walk(self.refute, READ, *given, **attrs)
        found = self.result(*given, **attrs)
        if self.sized and any(size is not None and (size.const or 0) < 0 for size in found[1] or ()):
            sizes = ", ".join(map(str, found[1]))
            raise EgshapeError(f"the result would have the negative size of [{sizes}]", code="invalid-op")
        return found

    def conditions(self, types: Sequence[Any], attrs: Mapping[str, Any]) -> list[Condition]:
        """What is required of these sizes, in order, but for what holds by form."""
        found: list[Condition] = []

        def note(number: int, lhs: Dim, rhs: Dim, values: tuple[Any, ...]) -> None:
            require = self.requires[number]
            kind = RELATIONS[require.condition.head]
            if kind != "<=" or not is_nonnegative(rhs - lhs):
                found.append(Condition(kind, lhs, rhs, require, values))

        self.walk(note, KNOWN, *_shapes(types), **attrs)
        return found

    def hold(self, arrays: Sequence[Any], attrs: Mapping[str, Any]) -> None:
        """Raise CheckFailed unless arrays and attributes of a run are what is required."""
        if self.runs:
            self.walk_run(self.reject, RUN, *arrays, **attrs)
        sizes = self.result_run(*arrays, **attrs)[1] if self.sized else ()
        if any(size < 0 for size in sizes):
            raise CheckFailed(f"the result would have the shape {list(sizes)}", code="invalid-size")

    def refuse(self, number: int, values: tuple[Any, ...]) -> NoReturn:
        """A requirement that is false when the program is read."""
        raise EgshapeError(told(self.requires[number], values), code="invalid-op")

    def refuse_run(self, number: int, values: tuple[Any, ...]) -> NoReturn:
        """The same when it runs, of an operand whose rank was not known before."""
        raise CheckFailed(told(self.requires[number], values), code="shape-mismatch")

    def refute(self, number: int, lhs: Dim, rhs: Dim, values: tuple[Any, ...]) -> None:
        """Raise where a relation is false at all sizes, by form alone."""
        if self.requires[number].condition.head == "<=":
            # A constant and a size that is none differ by no constant.
            gap = (rhs - lhs).const if (lhs.const is None) == (rhs.const is None) else None
            false = gap is not None and gap < 0
        else:
            false = lhs.const is not None and rhs.const is not None
        if false:
            self.refuse(number, values)

    def reject(self, number: int, lhs: int, rhs: int, values: tuple[Any, ...]) -> None:
        """Raise where a relation is false of numbers."""
        kind = self.requires[number].condition.head
        if kind != "<=" or lhs > rhs:
            code = "invalid-size" if kind == "<=" else "shape-mismatch"
            raise CheckFailed(told(self.requires[number], values), code=code)


def functions(text: Contract) -> Functions:
    """The functions of a contract, made once; they may call the size functions that are declared now. Raises
    EgshapeError (code "rules") for a text that breaks the law."""
    return _functions(text, tuple(DECLARED.get().items()))


@cache
def _functions(text: Contract, own: tuple[tuple[str, Function], ...]) -> Functions:
    return Functions(text, dict(own))


def _asks(item: SExpr, *functions: str) -> bool:
    """Whether an expression applies one of these functions."""
    return isinstance(item, List) and (item.head in functions or any(_asks(each, *functions) for each in item.items))


def _asks_region(item: SExpr) -> bool:
    return _asks(item, "args", "returns")


def _shapes(types: Sequence[Any]) -> Sequence[Any]:
    """Operands as contracts see them."""
    if all(type.shape is not None for type in types):
        return types
    return list(map(operand, types))


class _Source:
    """The source text of a contract's functions."""

    def __init__(self, made: Functions, text: Contract) -> None:
        self.made, self.text = made, text
        self.lines: list[str] = []
        operands = [f"*{name}" if sort == "Ts" else name for name, sort in text.params if sort in ("T", "Ts")]
        attrs = [name for name, sort in text.params if sort not in ("T", "Ts")]
        keywords = [*([] if not attrs or (operands[-1:] and operands[-1][0] == "*") else ["*"]), *attrs]
        scope = {name: Compiled(name, sort) for name, sort in text.params}
        self.lines.append(f"def conditions({', '.join(['f_out', 'f_stage', *operands, *keywords])}):")
        self.clauses(text.requires, scope, 1, runs=True)
        self.lines.append(" return")
        self.lines.append(f"def result({', '.join([*operands, *keywords])}):")
        self.result(Expressions(scope))

    def add(self, depth: int, line: str) -> None:
        self.lines.append(" " * depth + line)

    def clauses(self, clauses: Sequence[Clause], scope: Mapping[str, Compiled], depth: int, *, runs: bool) -> None:
        """Each clause on its own: one that asks for the shape of an unranked operand says nothing. ``runs``: a run may
        come here."""
        for clause in clauses:
            self.add(depth, "try:")
            if isinstance(clause, Require):
                self.require(clause, Expressions(scope), depth + 1, runs=runs)
            elif isinstance(clause, When):
                self.add(depth + 1, f"if {Expressions(scope).of(clause.condition, 'bool')}:")
                self.clauses(clause.clauses, scope, depth + 2, runs=runs)
            else:
                self.each(clause, scope, depth + 1, runs=runs)
            self.add(depth, "except f_Unranked: pass")

    def each(self, clause: Each, scope: Mapping[str, Compiled], depth: int, *, runs: bool) -> None:
        lists = [Expressions(scope).list(item) for item in clause.lists]
        inner = dict(scope)
        for name, items in zip(clause.names, lists, strict=True):
            inner[name] = Compiled(name, items.item)
        over = lists[0].code if len(lists) == 1 else f"zip({', '.join(items.code for items in lists)})"
        if any(map(_asks_region, clause.lists)):
            over, runs = f"{over} if f_stage else ()", False
        self.add(depth, f"for {', '.join(clause.names)} in {over}:")
        self.clauses(clause.clauses, inner, depth + 1, runs=runs)

    def require(self, clause: Require, own: Expressions, depth: int, *, runs: bool) -> None:
        number = len(self.made.requires)
        self.made.requires.append(clause)
        holes = [own(part).code for part in clause.message if not isinstance(part, str)]
        values = f"({''.join(f'{hole}, ' for hole in holes)})"
        if clause.label is None:
            program = _asks(clause.condition, "dtype", "args", "returns")
            self.made.runs |= runs and not program
            when = "f_stage == 2 and " if program else ""
            self.add(depth, f"if {when}not ({own.of(clause.condition, 'bool')}): f_refuse({number}, {values})")
            return
        if clause.condition.head not in RELATIONS or len(clause.condition.items) != 3:
            raise wrong(
                f"{clause.condition} is no relation of two sizes",
                clause.condition.at,
                f"sizes are related by {', '.join(RELATIONS)}",
            )
        lhs, rhs = (own.of(side, "size") for side in clause.condition.items[1:])
        self.made.runs |= runs
        self.add(depth, f"f_lhs, f_rhs = {lhs}, {rhs}")
        differ = f"f_lhs != f_rhs{' and f_lhs != f_dim(1)' if clause.condition.head == 'expands' else ''}"
        self.add(depth, f"if {differ}: f_out({number}, f_lhs, f_rhs, {values})")

    def result(self, own: Expressions) -> None:
        several = self.text.part(":results")
        if several is not None:
            self.add(1, f"return [*{own.list(several).code}]")
            return
        dtype, shape = self.text.part(":dtype"), self.text.part(":shape")
        assert dtype is not None and shape is not None
        self.add(1, f"f_dtype = {own.of(dtype, 'dtype')}")
        self.shape(shape, own)

    def shape(self, shape: SExpr, own: Expressions) -> None:
        self.add(1, "try:")
        self.add(2, f"return f_dtype, {own.sizes(shape)}")
        self.add(1, "except f_Unranked: return f_dtype, None")
