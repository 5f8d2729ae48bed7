"""Several functions of one program: each but the last is compiled for sizes of which more is known, behind a guard.

A guard only chooses: a version checks at entry what it was compiled for, and what it refuses goes to the general
function, whose results and refusals are those of a program without versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egshape.runtime.core.errors import RunError

Place = tuple[int, int]
"""Number of an input, and axis."""
Choose = Callable[[Sequence[Any]], int]
"""The number of the version for inputs, past the last for the general one, which also takes what has no sizes."""


@dataclass(frozen=True)
class Condition:
    """What is asked of the size of an axis: that it is that of another axis, or that it lies in one of some ranges
    (an end may be open) and leaves a rest by a divisor."""

    at: Place
    same: Place | None = None
    ranges: tuple[tuple[int | None, int | None], ...] = ((None, None),)
    divisor: tuple[int, int] = (1, 0)

    def to_row(self) -> list[Any]:
        """Lists and numbers, as a manifest holds them."""
        same = None if self.same is None else list(self.same)
        return [list(self.at), same, list(map(list, self.ranges)), list(self.divisor)]

    @staticmethod
    def from_row(row: Any) -> Condition:
        """What ``to_row`` gave. Raises ValueError or TypeError for another row: it becomes code."""
        at, same, ranges, divisor = row
        return Condition(
            _numbers(at),
            None if same is None else _numbers(same),
            tuple(_numbers(each, open=True) for each in ranges),
            _numbers(divisor),
        )

    def code(self) -> str:
        """An expression of Python over ``shapeK``, the shapes of the inputs K."""
        size = _size(self.at)
        if self.same is not None:
            return f"{size} == {_size(self.same)}"
        inside = " or ".join(_inside(size, *each) for each in self.ranges) or "False"
        divisor, rest = self.divisor
        return f"({inside})" if divisor == 1 else f"({inside}) and {size} % {divisor} == {rest}"


def _numbers(pair: Any, open: bool = False) -> Any:
    one, two = pair
    if not all(type(each) is int or (open and each is None) for each in (one, two)):
        raise ValueError(f"{pair!r} are no two whole numbers")
    return one, two


def _size(place: Place) -> str:
    return f"shape{place[0]}[{place[1]}]"


def _inside(size: str, low: int | None, high: int | None) -> str:
    if low is not None and low == high:
        return f"{size} == {low}"
    bounds = [f"{size} >= {low}"] * (low is not None) + [f"{size} <= {high}"] * (high is not None)
    return " and ".join(bounds) or "True"


def chooser(guards: Sequence[Sequence[Condition]]) -> Choose:
    """One function for all guards: an array makes its shape anew whenever it is asked, so each is read once."""
    places = [place for guard in guards for each in guard for place in (each.at, each.same) if place is not None]
    lines = [f"  shape{number} = inputs[{number}].shape" for number in sorted({number for number, _ in places})]
    for number, guard in enumerate(guards):
        lines.append(f"  if {' and '.join(each.code() for each in guard)}: return {number}")
    body = "\n".join(lines) or "  pass"
    scope: dict[str, Any] = {}
    failures = "(AttributeError, IndexError, TypeError, ValueError)"
    exec(f"def choose(inputs):\n try:\n{body}\n except {failures}: pass\n return {len(guards)}", scope)
    found: Choose = scope["choose"]
    return found


@dataclass(frozen=True)
class Version:
    """A function, the sizes that it is for, as text, and what is asked of inputs; nothing for the general one."""

    guard: str
    function: Any
    conditions: tuple[Condition, ...] = ()

    @property
    def code(self) -> int:
        """Bytes of native code, 0 of what is interpreted."""
        found: int = getattr(self.function, "manifest", {}).get("code", 0)
        return found

    def __str__(self) -> str:
        return f"{self.guard or 'any other size'}: {self.code} bytes of code"


Save = Callable[[Sequence[Version], Any, str], list[Path]]


class VersionedFunction:
    """Called as the general function is, the last of ``versions``: inputs go to the first whose guard takes their
    sizes. What it says of itself is what the general function says. It can be pickled if its functions can."""

    def __init__(self, versions: Iterable[Version], save: Save | None = None) -> None:
        self.versions = tuple(versions)
        self._general = self.versions[-1].function
        self._save = save
        self._last = len(self.versions) - 1
        self._acts = bool(getattr(self._general, "manifest", {}).get("host_calls"))
        """Whether it calls Python, which must not be done twice."""
        self._choose = chooser([each.conditions for each in self.versions[:-1]])
        self._calls = tuple(each.function.__call__ for each in self.versions)  # bound: found once, not at each call

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.versions, self._save)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._general, name)

    def __repr__(self) -> str:
        rows = "".join(f"\n  version  {each}" for each in self.versions)
        return f"{self._general!r}{rows}"

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """As of the general function, and what it raises."""
        if named:
            return self._named(inputs, named)
        number = self._choose(inputs)
        if number != self._last:
            try:
                return self._calls[number](*inputs)
            except Exception:
                if self._acts:
                    raise
                # else it is said below, in the words of the general function, and of no version
        return self._calls[-1](*inputs)

    def _named(self, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """A call with inputs by name, or with arrays for its results."""
        options = {"out": named.pop("out")} if "out" in named else {}
        inputs = self._general.ordered(given, named)
        number = self._choose(inputs)
        if number != self._last:
            try:
                return self._calls[number](*inputs, **options)
            except Exception:
                if self._acts or options.get("out") is not None:
                    raise  # what an array was given for may be an input, which was changed
        return self._calls[-1](*inputs, **options)

    def choose(self, inputs: Sequence[Any]) -> Any:
        """The function for these inputs in order."""
        return self.versions[self._choose(inputs)].function

    def save(self, path: Any, form: str = "egx") -> list[Path]:
        """Write an artifact with all versions, which ``egshape.runtime.load`` reads; the paths written. Raises an error
        if this function was loaded itself, or where one of its functions cannot be saved."""
        if self._save is None:
            raise RunError("this function was loaded, not compiled: copy its file", "input", "")
        return self._save(self.versions, path, form)
