"""Size functions that an author declares: what they compute, and their rules as Python.

``rulelang.size_functions`` makes them of ``.egg`` files. One is data: two that say the same are one, so that sizes that
name them stay interned and go from process to process. Which names texts may use is said for a scope (``declared``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from itertools import product
from typing import Any

from egshape.dims import at_once, bounds, theory
from egshape.dims.core import ABOVE, Dim, DimLike, as_dim, const
from egshape.dims.ends import Bounds, larger, smaller, truncated
from egshape.dims.forms import FORMS
from egshape.dims.pure import Formula, read_formula
from egshape.dims.text import DECLARED, Scanner
from egshape.errors import EgshapeError, ParseError, UndefinedSize

_SMALL = (0, 1, 2, 3, 5, 8, 13)

_MADE: dict[tuple[object, ...], SizeFunction] = {}


class SizeFunction:
    """A function over sizes.

    params: names of its arguments. equal: an expression over them that it is equal to, "" for none; ``known`` says
    whether proofs use that, else only what has to be computed does. formula: how it is computed, in the small part of
    Python that ``dims.pure`` knows, "" where the expression says it. defined: comparisons that hold where it has a
    value. code: its rules, as ``rulelang.at_once`` writes them; "" for those of a shipped ruleset. uses: functions
    that these name."""

    def __init__(self, name: str, params: tuple[str, ...], equal: str, known: bool, formula: str,
                 defined: str, code: str, uses: tuple[SizeFunction, ...]) -> None:  # fmt: skip
        self.name = name
        self.params = params
        self.content = (name, params, equal, known, formula, defined, code, uses)
        self.known = known
        scope: dict[str, Any] = {**vars(at_once), **vars(bounds)}
        if code:
            ends = {"larger": larger, "smaller": smaller, "truncated": truncated}
            scope = {"theory": theory, "const": const, **ends, "F": {name: self, **self._used}}
            exec(compile(code, f"<rules of {name}>", "exec"), scope)
        self.simplify = scope[name]
        self.laws = scope[f"{name}_laws"]
        self._bounds = scope[f"{name}_bounds"]

    @property
    def _used(self) -> dict[str, SizeFunction]:
        return {each.name: each for each in self.content[-1]}

    @cached_property
    def key(self) -> tuple[object, ...]:
        """A structural sort key: the name, and all that it says."""
        return self.name, repr((*self.content[:-1], *(each.key for each in self.content[-1])))

    @cached_property
    def formula(self) -> Formula | None:
        """The formula that computes it; None where its expression does."""
        return read_formula(self.content[4], self.params) if self.content[4] else None

    @cached_property
    def _expression(self) -> tuple[Dim | None, tuple[Dim, ...]]:
        """The expression that it is equal to, and what must not be 0 for it to have a value."""
        _, _, equal, _, _, defined, _, _ = self.content
        with declared(self._used):
            whole, inner = _expression(equal) if equal else (None, ())
            needs = (*inner, *_conditions(defined))
        for each in (*((whole,) if whole is not None else ()), *needs):
            for unknown in sorted(each.symbols() - set(self.params)):
                hint = f"its arguments: {', '.join(self.params)}"
                raise ParseError(f"{self.name} has no argument {unknown}", hint=hint)
        return whole, needs

    def check(self) -> None:
        """Read what it says. Raises ParseError for what is wrong with it, and where its formula and its expression
        differ at small sizes."""
        whole, _ = self._expression
        if self.formula is None or whole is None:
            return
        for sizes in product(_SMALL, repeat=len(self.params)):
            value, env = self.value(*sizes), dict(zip(self.params, sizes, strict=True))
            if value is not None and whole.evaluate(env) != value:
                shown = ", ".join(f"{name} = {size}" for name, size in env.items())
                raise ParseError(f"the formula gives {value}, the expression {whole.evaluate(env)} at {shown}")

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(self.params)})"

    def __reduce__(self) -> tuple[Any, tuple[object, ...]]:
        return size_function, self.content

    def __call__(self, *args: DimLike) -> Dim:
        """Its value at these sizes."""
        if len(args) != len(self.params):
            raise TypeError(f"{self.name} takes {len(self.params)} sizes, not {len(args)}")
        for arg in args:
            if hasattr(arg, "__of_sizes__"):  # sizes of a shape function that runs (``egshape.ops.symbolic``)
                found: Dim = arg.__of_sizes__(self, args)
                return found
        return FORMS.call(self, tuple(map(as_dim, args)))

    def bounds(self, *args: Bounds) -> Bounds:
        """Bounds of the value by those of the arguments: what rules set, and the value where all are numbers."""
        if all(low is not None and low == high for low, high in args):
            value = self.value(*(low for low, _ in args if low is not None))
            if value is not None:
                return value, value
        found: Bounds = self._bounds(*args)
        return found

    def value(self, *args: int) -> int | None:
        """The value at these numbers; None where it is undefined."""
        env = dict(zip(self.params, args, strict=True))
        try:
            if any(need.evaluate(env) == 0 for need in self._expression[1]):
                return None
            if self.formula is not None:
                return self.formula(*args)
            whole = self._expression[0]
            assert whole is not None
            return whole.evaluate(env)
        except UndefinedSize:
            return None

    def needs(self, *args: Dim) -> tuple[Dim, ...]:
        """Sizes that must not be 0 for the value to be defined."""
        return tuple(need.substitute(dict(zip(self.params, args, strict=True))) for need in self._expression[1])

    def unfolded(self, *args: Dim) -> Dim | None:
        """The value as the expression that it is equal to; None where there is none."""
        whole = self._expression[0]
        return None if whole is None else whole.substitute(dict(zip(self.params, args, strict=True)))


def _expression(text: str) -> tuple[Dim, tuple[Dim, ...]]:
    """A size with what must not be 0 in it."""
    scanner = Scanner(text)
    dim = scanner.expression()
    if not scanner.at_end:
        scanner.fail(f"expected an operator or the end, found {scanner.rest()}")
    return dim, tuple(each.one for each in scanner.conditions if each.kind == "nonzero")


def _conditions(text: str) -> Iterator[Dim]:
    """What must not be 0 where comparisons hold: x - y of x != y, and max(x - y + 1, 0) of x >= y."""
    scanner = Scanner(text)
    while not scanner.at_end:
        left = scanner.expression()
        sign = scanner.accept(">=", "!=")
        if not sign:
            scanner.fail(f"expected >= or !=, found {scanner.rest()}")
        difference = left - scanner.expression()
        yield FORMS.relu(difference + 1) if sign == ">=" else difference
        if not scanner.accept(";") and not scanner.at_end:
            scanner.fail(f"expected ';' or the end, found {scanner.rest()}")


def size_function(*content: Any) -> SizeFunction:
    """The function that says just this; made once."""
    found = _MADE.get(content)
    return found if found is not None else _MADE.setdefault(content, SizeFunction(*content))


@contextmanager
def declared(functions: Mapping[str, Any]) -> Iterator[None]:
    """Texts that are read inside may name these functions, beside those that they may name outside.

    Raises EgshapeError where a name means another function already."""
    outer = DECLARED.get()
    for name, function in functions.items():
        if outer.get(name, function) is not function:
            raise EgshapeError(f"there are two size functions named {name}", hint="rename one of them", code="rules")
    token = DECLARED.set({**outer, **functions})
    try:
        yield
    finally:
        DECLARED.reset(token)


def functions_in(dims: Iterable[Dim]) -> dict[str, Any]:
    """The declared functions that sizes name, at any depth."""
    found: dict[str, Any] = {}
    for dim in dims:
        for atom in dim.atoms():
            function = getattr(atom, "function", None)
            if function is not None:
                found[function.name] = function
            found.update(functions_in(atom.args))
    return found


SHIPPED = {said[0]: size_function(*said) for said in (at_once.BCAST, at_once.FLOAT_OF, at_once.FLOAT_WHOLE)}
"""The size functions that are declared in shipped rulesets."""

ABOVE.bcast = SHIPPED["bcast"]
ABOVE.shipped = SHIPPED
