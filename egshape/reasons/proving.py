"""`prove` with rules of a user, which are tried before they are used."""

from __future__ import annotations

from collections.abc import Sequence

from egshape.facts import several
from egshape.prove import Proof, questions


def prove(
    goal: str, given: str | Sequence[str] = (), rules: str | Sequence[str] = (), trust_rules: bool = False
) -> Proof:
    """Decide the goal from the givens, one text or several, over all sizes (symbols are integers >= 0).

    rules: rulesets, paths or names, whose size functions the texts may name; each rule is tried first, and one that is
    wrong, or cannot be tried, is left out with a note, unless trust_rules is given. Raises ParseError where a text does
    not parse, EgshapeError for a wrong ruleset.

    Examples:
        >>> import egshape
        >>> egshape.prove("(a//2)*2 == a - a%2").status
        'proved'
        >>> egshape.prove("n % 16 == 0", given="n % 8 == 0").counterexample
        {'n': 40}
    """
    if not rules:
        return questions.prove(goal, given)
    from egshape.rulebook.beforehand import tried  # slow to load

    with tried(tuple(map(str, several(rules))), trust_rules) as (_, left_out):
        proof = questions.prove(goal, given)
    proof.notes = list(map(str, left_out))
    return proof
