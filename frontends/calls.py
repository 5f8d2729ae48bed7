"""Calls of functions: which stay calls, and errors in the terms of who wrote the program: of a call the argument that
does not fit, the type that it should have and both places; before the error of an op that of a check before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from egshape.dims import Dim, symbol
from egshape.errors import CheckFailed, EgshapeError
from egshape.facts import Relation
from egshape.ir.builder import BlockBuilder, Names, decide_constant
from egshape.ir.calls import substitute
from egshape.ir.graph import Block, Op, Value
from egshape.ops import REGISTRY
from egshape.ops.checks import format_message

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")

CALL = "invalid-call"
"""Code of the errors of calls."""

Axis = tuple[int, int]
"""An argument and its axis."""

Body = Callable[[BlockBuilder, Sequence[Any]], object]
"""Adds what a function is made of, for these arguments."""


Checked = tuple[tuple[Op, ...], Block]
"""A function as what it checks of sizes, and a body that may rely on it."""

LEAST_SHARED = 32
"""Ops of a function that stays one. A shorter one is mostly a helper (a remainder that rounds down, a clip): in line it
folds with the constants of its caller to fewer ops than its calls."""


class Functions:
    """The functions of a program as regions: each is derived once for arguments that are alike."""

    def __init__(self) -> None:
        self._derived: dict[object, Checked | None] = {}

    def region(self, kind: object, names: Names, derive: Callable[[], Checked | None]) -> Checked | None:
        """What ``derive`` gives for arguments of this kind, or a copy of what it gave; None where the function has to
        stand in line."""
        if kind not in self._derived:
            self._derived[kind] = derive()
            return self._derived[kind]
        found = self._derived[kind]
        return None if found is None else (found[0], substitute(found[1], {}, names.fresh))


def likeness(builder: BlockBuilder, value: Value) -> object:
    """What two arguments have in common for which a function is derived alike: their type, and what is known of their
    elements."""
    known = builder.elements(value)
    return value.type, None if known is None else (known.shape, tuple(known.reshape(-1)))


def called_often(entry: Hashable, callees: Callable[[Any], Iterable[Any]]) -> list[Any]:
    """The functions that stand in several calls, of those that ``entry`` needs; ``callees`` are those of a function,
    one for each call."""
    times, pending = Counter[Any](), [entry]
    while pending:
        for name in callees(pending.pop()):
            times[name] += 1
            pending += [name] * (times[name] == 1)
    return [name for name, count in times.items() if count > 1]


def expectation(function: str, number: int, expected: str, given: str) -> str:
    """What is said of argument ``number``, counted from 0, of a call."""
    what = f"{_ORDINALS[number]} argument" if number < len(_ORDINALS) else f"argument {number + 1}"
    article = "an" if what[0] in "ae" else "a"
    return f"function {function} expects {article} {what} of type {expected} but is called with {given}"


def in_callers_terms(
    error: EgshapeError, function: str, place: str, given: Sequence[Any], builder: BlockBuilder, body: Body
) -> EgshapeError:
    """The error of an op inside a function, said of the call at ``place``: what the function asks of arguments of any
    size tells which of those that are ``given`` does not fit. Where it does not tell, the error with both places.

    Of calls within calls the innermost one is explained, once: the others only say where they are."""
    said = _misfit(function, given, builder, body) if error.code == "invalid-op" else None
    if said is not None:
        return type(error)(said, where=place, hint=f"{error.where}: {error.message}", code=CALL)
    if error.code not in ("invalid-op", CALL):
        return error
    return type(error)(
        error.message, where=f"{error.where}, in {function} called at {place}", hint=error.hint, code=CALL
    )


def earliest(error: EgshapeError, builder: BlockBuilder) -> EgshapeError:
    """The error of an op, or what a check before it says that can never hold: a run would have heard that first."""
    if error.code not in ("invalid-op", CALL):
        return error
    return next((said for op in builder.ops if op.name == "check" and (said := _refused(op, builder))), error)


def _refused(check: Op, builder: BlockBuilder) -> CheckFailed | None:
    """What a check says that fails at all sizes; None for another one."""
    shown: Sequence[Any] = check.attrs["args"]
    if check.attrs["relation"] != "value":
        holds: Any = decide_constant(Relation(check.attrs["relation"], *check.attrs["sides"]))
    else:
        known = [builder.elements(each) for each in check.operands]
        holds, *shown = ["?" if each is None else each[()] for each in known]
    if holds is not False:
        return None
    return CheckFailed(format_message(check.attrs["message"], shown), where=str(check.location))


def _misfit(function: str, given: Sequence[Any], builder: BlockBuilder, body: Body) -> str | None:
    """What is said of the first condition of a function that arguments do not fulfil; None if there is none."""
    trial = builder.trial()
    formal = [_of_any_size(trial, value) for value in given]
    try:
        body(trial, formal)
    except EgshapeError:
        return None
    axes = {
        name: (number, axis)
        for number, (value, actual) in enumerate(zip(formal, given, strict=True))
        if value is not actual
        for axis, size in enumerate(value.type.dims)
        for name in size.symbols()
    }
    sizes = {name: given[number].type.dims[axis] for name, (number, axis) in axes.items()}
    for relation in demands(trial.ops):
        named = relation.symbols() & axes.keys()
        if named and decide_constant(relation.substitute(sizes)) is False:
            blamed = max(named, key=lambda name: axes[name])
            return _said(function, blamed, relation, axes, sizes, given)
    return None


def _of_any_size(builder: BlockBuilder, value: Any) -> Any:
    """An argument like a value, of any size; the value itself where its elements are known, or it is no tensor."""
    if not isinstance(value, Value) or not value.type.shape or builder.elements(value) is not None:
        return value
    return builder.arg(None, value.type.dtype, (None,) * len(value.type.shape))


def demands(ops: Sequence[Op]) -> tuple[Relation, ...]:
    """What the ops of a function require of sizes, each relation once; its ``source`` says what is wrong where it does
    not hold."""
    found: dict[Relation, Relation] = {}
    for op in ops:
        for each in op.requires:
            found.setdefault(each, replace(each, source=f"{op.name}: expected {each}"))
        for condition in REGISTRY[op.name].requires(op):
            found.setdefault(condition.relation, replace(condition.relation, source=condition.told(str)))
    return tuple(found.values())


def _said(
    function: str,
    blamed: str,
    relation: Relation,
    axes: Mapping[str, Axis],
    sizes: Mapping[str, Dim],
    given: Sequence[Value],
) -> str:
    """The type that an argument should have: the size of its axis where the condition gives it, else the condition."""
    number, axis = axes[blamed]
    type = given[number].type
    wanted = _solved(relation, blamed, {name: size for name, size in sizes.items() if name != blamed})
    shape = ["?"] * type.rank
    shape[axis] = "n" if wanted is None else str(wanted)
    expected = f"{type.dtype}[{', '.join(shape)}]"
    if wanted is None:
        rest = {name: size for name, size in sizes.items() if name != blamed}
        expected += f", {relation.substitute({**rest, blamed: symbol('n')})}"
    return expectation(function, number, expected, str(type))


def _solved(relation: Relation, name: str, others: Mapping[str, Dim]) -> Dim | None:
    """What an equation says that a symbol is, None where it does not."""
    if relation.kind != "==":
        return None
    rest = (relation.lhs - relation.rhs).substitute(others)
    for sign in (1, -1):
        other = rest - symbol(name) * sign
        if name not in other.symbols():
            return other * -sign
    return None
