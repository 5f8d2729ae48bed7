"""Several functions of one graph: each is compiled for sizes of which more is known, and chosen by a guard.

The general one is always there: inputs that no guard takes, or whose sizes cannot be read, are its own. A version
checks at entry what it assumes, as any function of a graph with assumed facts does; a guard only chooses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from egshape.errors import EgshapeError, InvalidInput
from egshape.facts import Relation, parse_facts
from egshape.facts.absorb import about_symbol, linear_symbol
from egshape.ir.graph import Graph
from egshape.observed import Observed

Choose = Callable[[Sequence[Any]], int]
"""The number of the version for inputs, past the last for the general one. May raise where an input has no size."""
Place = tuple[int, int]
"""Number of an input, and axis."""
MOST_SEEN = 10_000
"""Combinations of sizes that are counted apart; later ones are not counted."""


@dataclass(frozen=True)
class Version:
    """A function and the sizes that it is for, as text; none for the general one. ``code``: bytes of its code."""

    guard: str
    function: Any

    @property
    def code(self) -> int:
        """Bytes of native code, 0 of what is interpreted."""
        found: int = getattr(self.function, "manifest", {}).get("code", 0)
        return found

    def __str__(self) -> str:
        return f"{self.guard or 'any other size'}: {self.code} bytes of code"


def places(graph: Graph) -> dict[str, Place]:
    """Where each symbol that is just the size of an axis of an input is read."""
    numbers = {value: number for number, value in enumerate(graph.inputs)}
    return {
        each.name: (numbers[each.value], each.axis)
        for each in graph.body.symbols
        if each.value in numbers and each.axis is not None and each.element is None and not each.offset
    }


def guard_of(text: str, graph: Graph) -> str:
    """The guard of facts in text as an expression of Python over ``inputs``: equal sizes, or a size's range and
    residue. It holds nothing but places and numbers. Raises InvalidInput for another fact."""
    axes = {
        f"{value.name}.{axis}": (k, axis)
        for k, value in enumerate(graph.inputs)
        for axis in range(len(value.type.shape or ()))
    }
    at = {**axes, **places(graph)}
    facts = [each for each in parse_facts(text) if isinstance(each, Relation)]
    if not facts:
        raise InvalidInput(f"{text!r} is no guard of a version", hint='give a fact such as "n == 1"')
    return " and ".join(_guard(each, at) for each in facts)


def _guard(fact: Relation, at: Mapping[str, Place]) -> str:
    missing = sorted(fact.symbols() - set(at))
    if missing:
        raise InvalidInput(
            f"{fact.text!r} guards a version by {', '.join(missing)}, which is no size of an axis of an input",
            hint=f"sizes of axes are {', '.join(sorted(at)) or 'none'}",
        )
    about = about_symbol(fact)
    if about is None:
        return _equal(fact, at)
    name, ranges, (divisor, rest) = about
    size = _size(at[name])
    inside = " or ".join(_inside(size, *each) for each in ranges) or "False"
    residue = "" if divisor == 1 else f" and {size} % {divisor} == {rest}"
    return f"({inside}){residue}"


def _inside(size: str, low: int | None, high: int | None) -> str:
    if low is None and high is None:
        return "True"
    if low == high:
        return f"{size} == {low}"
    lower = "" if low is None else f"{low} <= "
    return f"{lower}{size}" if high is None else f"{lower}{size} <= {high}"


def _equal(fact: Relation, at: Mapping[str, Place]) -> str:
    one, two = linear_symbol(fact.lhs), linear_symbol(fact.rhs)
    if fact.kind != "==" or one is None or two is None or one[1:] != (1, 0) or two[1:] != (1, 0):
        raise InvalidInput(
            f"{fact.text!r} is no guard of a version",
            hint="a guard is a == b, or a fact about one size, such as n % 8 == 0",
        )
    return f"{_size(at[one[0]])} == {_size(at[two[0]])}"


def _size(place: Place) -> str:
    return f"inputs[{place[0]}].shape[{place[1]}]"


def _chooser(graph: Graph, guards: Sequence[str]) -> Choose:
    """One expression of Python for all guards: a call of a function for each would take longer than they do."""
    choices = "".join(f"{k} if {guard_of(guard, graph)} else " for k, guard in enumerate(guards))
    found: Choose = eval(f"lambda inputs: {choices}{len(guards)}")
    return found


class VersionedFunction:
    """Called as the general function is: inputs go to the first version whose guard takes their sizes."""

    def __init__(self, graph: Graph, general: Any, versions: Sequence[Version] = (), observe: bool = False) -> None:
        self._at = places(graph)
        self._names = frozenset(value.name for value in graph.inputs)
        self._seen: Counter[tuple[tuple[int, ...], ...]] | None = Counter() if observe else None
        self._choose = _chooser(graph, [each.guard for each in versions])
        self.versions = (*versions, Version("", general))
        self._functions = tuple(each.function for each in self.versions)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.versions[-1].function, name)

    def __repr__(self) -> str:
        rows = "".join(f"\n  version  {each}" for each in self.versions)
        return f"{self.versions[-1].function!r}{rows}"

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """As of the general function. Raises what the chosen version does."""
        if named:
            by_name = {name: named.pop(name) for name in self._names & named.keys()}
            inputs = self._functions[-1].ordered(inputs, by_name)
        if self._seen is not None:
            self._count(inputs)
        try:  # as choose does, without another call
            function = self._functions[self._choose(inputs)]
        except (AttributeError, IndexError, TypeError):
            function = self._functions[-1]
        return function(*inputs, **named)

    def choose(self, inputs: Sequence[Any]) -> Any:
        """The function for these inputs in order."""
        try:
            return self._functions[self._choose(inputs)]
        except (AttributeError, IndexError, TypeError):  # no array of the wanted rank: the general one says what it is
            return self._functions[-1]

    def _count(self, inputs: Sequence[Any]) -> None:
        assert self._seen is not None
        try:
            key = tuple(tuple(map(int, each.shape)) for each in inputs)
        except (AttributeError, TypeError, ValueError):  # its sizes are not seen from here
            return
        if key in self._seen or len(self._seen) < MOST_SEEN:
            self._seen[key] += 1

    def observed_sizes(self) -> Observed:
        """How often each size was seen so far, for ``observe=True``; calls at the same time may be missed. Raises
        InvalidInput if sizes are not counted."""
        if self._seen is None:
            raise InvalidInput("sizes of calls are not counted", hint="compile with observe=True")
        counts: dict[str, Counter[int]] = {name: Counter() for name in self._at}
        for shapes, times in list(self._seen.items()):
            for name, (k, axis) in self._at.items():
                if k < len(shapes) and axis < len(shapes[k]):
                    counts[name][shapes[k][axis]] += times
        return Observed({name: dict(sizes) for name, sizes in counts.items() if sizes})

    def save(self, path: Any, form: str = "egx") -> NoReturn:
        """Raises EgshapeError: a file holds one version."""
        raise EgshapeError(
            f"has {len(self.versions)} versions, and a file holds one",
            where=str(path),
            hint="save one of fn.versions: fn.versions[-1].function takes every size",
            code="unsupported",
        )
