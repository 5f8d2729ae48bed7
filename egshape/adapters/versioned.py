"""Versions of a graph: guards of facts, functions made behind them, sizes of calls counted, files of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from egshape.adapters.native import refuse_host_calls
from egshape.errors import EgshapeError, InvalidInput
from egshape.facts import Relation, parse_facts
from egshape.facts.absorb import about_symbol, linear_symbol
from egshape.ir.graph import Graph
from egshape.lower import artifact
from egshape.observed import Observed
from egshape.runtime.core.versioned import Condition, Place, Version, VersionedFunction

MOST_SEEN = 10_000
"""Combinations of sizes that are counted apart; later ones are not counted."""


def versioned(
    graph: Graph,
    guards: Sequence[str],
    made: Callable[..., Any],
    observe: bool = False,
    keep: Callable[[Version, Any], bool] | None = None,
) -> VersionedFunction:
    """The function of a graph with a version for each guard. ``made`` gives the function under more facts, as text;
    ``keep`` says whether a version is wanted beside the general function. Raises InvalidInput for a guard that is none,
    before anything is made."""
    asked = [conditions(guard, graph) for guard in guards]
    general = made()
    made_so = (Version(guard, made(guard), each) for guard, each in zip(guards, asked, strict=True))
    versions = [each for each in made_so if keep is None or keep(each, general)]
    versions.append(Version("", general))
    return ObservingFunction(versions, save, places(graph)) if observe else VersionedFunction(versions, save)


def places(graph: Graph) -> dict[str, Place]:
    """Where each symbol that is just the size of an axis of an input is read."""
    numbers = {value: number for number, value in enumerate(graph.inputs)}
    return {
        each.name: (numbers[each.value], each.axis)
        for each in graph.body.symbols
        if each.value in numbers and each.axis is not None and each.element is None and not each.offset
    }


def conditions(text: str, graph: Graph) -> tuple[Condition, ...]:
    """What facts in text ask of inputs: equal sizes, or a size's ranges and residue. Raises InvalidInput for another
    fact."""
    axes = {
        f"{value.name}.{axis}": (k, axis)
        for k, value in enumerate(graph.inputs)
        for axis in range(len(value.type.shape or ()))
    }
    at = {**axes, **places(graph)}
    facts = [each for each in parse_facts(text) if isinstance(each, Relation)]
    if not facts:
        raise InvalidInput(f"{text!r} is no guard of a version", hint='give a fact such as "n == 1"')
    return tuple(_condition(each, at) for each in facts)


def _condition(fact: Relation, at: Mapping[str, Place]) -> Condition:
    missing = sorted(fact.symbols() - set(at))
    if missing:
        raise InvalidInput(
            f"{fact.text!r} guards a version by {', '.join(missing)}, which is no size of an axis of an input",
            hint=f"sizes of axes are {', '.join(sorted(at)) or 'none'}",
        )
    about = about_symbol(fact)
    if about is not None:
        name, ranges, divisor = about
        return Condition(at[name], None, tuple(ranges), divisor)
    one, two = linear_symbol(fact.lhs), linear_symbol(fact.rhs)
    if fact.kind != "==" or one is None or two is None or one[1:] != (1, 0) or two[1:] != (1, 0):
        raise InvalidInput(
            f"{fact.text!r} is no guard of a version",
            hint="a guard is a == b, or a fact about one size, such as n % 8 == 0",
        )
    return Condition(at[one[0]], at[two[0]])


def save(versions: Sequence[Version], path: Any, form: str) -> list[Path]:
    """Write an artifact with all versions, each weight once. Raises EgshapeError for C, and where one is no native
    code, or calls Python."""
    if form != "egx":
        raise EgshapeError(
            f"has {len(versions)} versions, and C holds one",
            where=str(path),
            hint="save one of fn.versions: fn.versions[-1].function takes every size",
            code="unsupported",
        )
    programs = []
    for each in versions:
        if not hasattr(each.function, "manifest"):
            each.function.save(path)  # says why not
        _, (manifest, library, constants, images, threads, *_) = each.function.__reduce__()
        refuse_host_calls(manifest, Path(path))
        row = {"guard": each.guard, "when": [condition.to_row() for condition in each.conditions]}
        programs.append(artifact.Program({**manifest, "threads": threads}, library, constants, images, row))
    artifact.write_versions(path, programs)
    return [Path(path)]


class ObservingFunction(VersionedFunction):
    """Counts the shapes of calls; calls at the same time may be missed."""

    def __init__(self, versions: Iterable[Version], save: Any, at: Mapping[str, Place]) -> None:
        super().__init__(versions, save)
        self._at = at
        self._seen: Counter[tuple[tuple[int, ...], ...]] = Counter()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.versions, self._save, self._at)

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """As of the general function."""
        try:
            given = self._general.ordered(inputs, {name: each for name, each in named.items() if name != "out"})
            key = tuple(tuple(map(int, each.shape)) for each in given)
        except (AttributeError, TypeError, ValueError, EgshapeError):  # its sizes are not seen from here
            return super().__call__(*inputs, **named)
        if key in self._seen or len(self._seen) < MOST_SEEN:
            self._seen[key] += 1
        return super().__call__(*inputs, **named)

    def observed_sizes(self) -> Observed:
        """How often each size was seen so far."""
        counts: dict[str, Counter[int]] = {name: Counter() for name in self._at}
        for shapes, times in list(self._seen.items()):
            for name, (k, axis) in self._at.items():
                if k < len(shapes) and axis < len(shapes[k]):
                    counts[name][shapes[k][axis]] += times
        return Observed({name: dict(sizes) for name, sizes in counts.items() if sizes})
