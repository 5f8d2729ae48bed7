"""What a frontend knows of sizes while it reads: bounds that the checks so far make sure of."""

from __future__ import annotations

from collections.abc import Iterable

from egshape.decide.context import Context
from egshape.decide.reason import Check
from egshape.dims import Dim, is_nonnegative, is_positive, symbol
from egshape.errors import Contradiction
from egshape.facts import Relation


class Bounds:
    """Least sizes of symbols that the checks so far make sure of; a ``Decide`` of a builder.

    A check holds from its place on, as it stands before all that is built later."""

    def __init__(self) -> None:
        self._least: dict[str, int] = {}
        self._shifted: dict[str, Dim] = {}
        self._context = Context()

    def learn(self, relation: Relation) -> None:
        """Note a check's relation; ``c <= s`` and ``c < s``, in whatever form, also for quick decisions."""
        try:
            self._context.assume(relation, Check())
        except Contradiction:
            return  # the model rejects every input here; nothing is to be learnt from that
        above = relation.rhs - relation.lhs - (1 if relation.kind == "<" else 0)
        names = above.symbols()
        if relation.kind not in ("<=", "<") or len(names) != 1:
            return
        (name,) = names
        bound = (symbol(name) - above).const
        if bound is not None and bound > self._least.get(name, 0):
            self._least[name] = bound
            self._shifted[name] = symbol(name) + bound

    def with_fact(self, *relations: Relation) -> Bounds:
        """These bounds where further relations hold."""
        out = Bounds()
        out._least, out._shifted, out._context = dict(self._least), dict(self._shifted), self._context.copy()
        for relation in relations:
            out.learn(relation)
        return out

    def why(self, names: Iterable[str]) -> tuple[str, ...]:
        """The bounds of these symbols, by which a condition holds by its form."""
        return tuple(f"{name} >= {self._least[name]}" for name in sorted(names) if name in self._least)

    def decide(self, relation: Relation) -> bool | None:
        """True or False where the form shows it once each symbol is counted from its least size."""
        quick = self._by_form(relation)
        if quick is not None:
            return quick
        return {"proved": True, "refuted": False}.get(self._context.decide(relation))

    def _by_form(self, relation: Relation) -> bool | None:
        above = relation.rhs - relation.lhs
        if above.const is None:
            names = above.symbols() & self._shifted.keys()
            if not names or above.divisors_maybe_zero():
                return None
            above = above.substitute({name: self._shifted[name] for name in names})
        if relation.kind in ("==", "!="):
            if above.const == 0:
                return relation.kind == "=="
            return relation.kind == "!=" if is_positive(above) or is_positive(-above) else None
        if relation.kind == "<=":
            return True if is_nonnegative(above) else False if is_positive(-above) else None
        return True if is_positive(above) else False if is_nonnegative(-above) else None
