"""Inputs of a call by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

SHOWN = 8
"""Inputs that a message lists."""


def ordered(
    given: Sequence[Any],
    named: Mapping[str, Any],
    inputs: Mapping[str, str],
    failure: Callable[[str, str, str], Exception],
) -> tuple[Any, ...]:
    """The inputs of a call in order. ``given``: the first ones, or one mapping of names, for names that Python or the
    function uses otherwise. ``inputs``: of each input by name its name and type in words. Raises what ``failure`` makes
    for an input that is missing, given twice, or that there is not."""
    if not given and len(named) == len(inputs) and named.keys() == inputs.keys():
        return tuple([named[name] for name in inputs])
    first = given[0] if len(given) == 1 else None
    if isinstance(first, Mapping):
        given, named = (), {**first, **named}
    if not named and len(given) == len(inputs):
        return tuple(given)
    if len(given) > len(inputs):
        raise failure(f"takes {counted(len(inputs), 'input')}, got {len(given)}{_listed(inputs)}", "input", "")
    found = dict(zip(inputs, given, strict=False))
    for name, item in named.items():
        if name in found:
            raise failure(f"the input {name!r} is given twice, in order and by name{_listed(inputs)}", "input", "")
        if name not in inputs:
            why = "; out= is for native code alone, and this runs in Python" if name == "out" else ""
            raise failure(f"there is no input {name!r}{_listed(inputs)}{why}", "input", "")
        found[name] = item
    missing = [repr(name) for name in inputs if name not in found]
    if missing:
        many = (
            f"the inputs {', '.join(missing[:SHOWN])}{', ...' if len(missing) > SHOWN else ''} are"
            if len(missing) > 1
            else f"the input {missing[0]} is"
        )
        raise failure(f"{many} missing{_listed(inputs)}", "input", "")
    return tuple(found[name] for name in inputs)


def counted(number: int, what: str) -> str:
    """``1 input``, ``2 inputs``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _listed(inputs: Mapping[str, str]) -> str:
    texts = list(inputs.values())
    rest = f", and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return f" (inputs are {', '.join(texts[:SHOWN])}{rest})" if texts else ""
