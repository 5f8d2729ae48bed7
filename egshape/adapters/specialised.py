"""``egshape.specialised``: several implementations of one function, from the most to the least specific one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from egshape.adapters.annotated import Annotated, traced, types_of
from egshape.adapters.entry import Entry
from egshape.adapters.sources import Arguments, Key
from egshape.annotation import named
from egshape.errors import CheckFailed, EgshapeError, InvalidInput
from egshape.facts import Relation
from egshape.ops.conditions import negated
from egshape.prove import prove


@dataclass(frozen=True)
class Way:
    """An implementation; ``tested``: whether its types have to be tested when it is called."""

    program: Annotated
    tested: bool = True


def specialised(*programs: Annotated) -> Specialised:
    """Implementations of one function, from the most to the least specific: a call takes the first one whose types
    admit its arguments. Raises InvalidInput for none, or for other arguments than the first one's.

    Examples:
        >>> import egshape
        >>> from egshape.frontends.builder import Network
        >>> def rows_of(types):  # types said of one program; compiled at the first call
        ...     net = Network()
        ...     return egshape.fn(types)(net.graph(y=net.relu(net.input("x", ["n", "m"]))))
        >>> best = egshape.specialised(rows_of("x: f32[n, n]"), rows_of("x: f32[n, m]"))
        >>> import numpy as np
        >>> best.chosen(np.ones((3, 3), "f4")) is best.ways[0].program
        True
    """
    if not programs:
        raise InvalidInput("no implementation is given", hint="give what egshape.fn makes, most specific first")
    names = list(programs[0].types)
    for each in programs:
        if list(each.types) != names:
            raise InvalidInput(f"{each.name} takes {', '.join(each.types)}, not {', '.join(names)}")
    return Specialised(tuple(map(Way, programs)))


@dataclass(frozen=True)
class Specialised:
    """Implementations, in the order in which they are tried. Called while JAX traces another function, it takes the
    first one whose types admit every size that the trace leaves open."""

    ways: tuple[Way, ...]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(way.program.name + '?' * way.tested for way in self.ways)}>"

    def __call__(self, *inputs: Any, **by_name: Any) -> Any:
        if traced((*inputs, *by_name.values())):
            given = self.ways[0].program.ordered(inputs, by_name)
            return self.chosen_in_trace(given)(*given)
        arrays = self.ways[0].program.arrays(inputs, by_name)
        return self.chosen(*arrays)(*arrays)

    def chosen(self, *arrays: np.ndarray) -> Annotated:
        """The implementation that a call with these arguments runs. Raises CheckFailed, with what each of them says,
        where none admits them."""
        for way in self.ways:
            if not way.tested or way.program.admits(*arrays):
                return way.program
        refusals = [f"{way.program.name}: {way.program.refusal(*arrays)}" for way in self.ways]
        raise CheckFailed(f"no implementation takes these arguments: {'; '.join(refusals)}")

    def chosen_in_trace(self, given: Sequence[Any]) -> Annotated:
        """The implementation for arguments that JAX traces: the first one that admits all sizes that they may have.
        Raises CheckFailed where none does."""
        answers = [(way.program, way.program.traced_status(given) if way.tested else "proved") for way in self.ways]
        for program, answer in answers:
            if answer == "proved":
                return program
        told = "; ".join(
            f"{program.name}: {'does not admit them' if answer == 'refuted' else 'hangs on sizes that are open'}"
            for program, answer in answers
        )
        raise CheckFailed(
            f"no implementation takes these traced arguments at every size: {told}",
            hint="give a last implementation that admits them all",
        )

    def given(self, *types: str) -> Specialised:
        """What is left for arguments of which this is known: an implementation that never admits them is left out, and
        behind one that always does none is tried, nor is that one tested. Raises InvalidInput where dtype or rank of
        an argument are not said, CheckFailed where no implementation is left."""
        arguments: Arguments = dict.fromkeys(self.ways[0].program.types, (None, None))
        known = types_of(arguments, list(map(named, types)))
        unsaid = [name for name, each in known.items() if each.dtype is None or each.shape is None]
        if unsaid:
            raise InvalidInput(f"nothing says dtype and rank of {', '.join(unsaid)}")
        key: Key = tuple((str(each.dtype), len(each.shape or ())) for each in known.values())
        given = Entry(known, key).conditions
        left: list[Way] = []
        for way in self.ways:
            holds = _holds(way.program, key, given)
            if holds is not False:
                left.append(Way(way.program, holds is None))
            if holds:
                break
        if not left:
            raise CheckFailed(f"no implementation takes arguments of these types: {', '.join(types)}")
        return Specialised(tuple(left))


def _holds(program: Annotated, key: Key, given: Sequence[Relation]) -> bool | None:
    """Whether a program's types admit arguments of which this is given: always, never (False), or now and then."""
    try:
        wanted = program.entry(key).conditions
    except EgshapeError:
        return False
    texts = list(map(str, given))
    answers = [prove(str(each), texts).status for each in wanted]
    if all(each == "proved" for each in answers):
        return True
    never = (prove(str(negated(each)), texts).status == "proved" for each in wanted)
    return False if any(never) else None
