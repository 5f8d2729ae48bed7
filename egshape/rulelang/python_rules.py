"""Rules written in Python: functions of patterns, compiled to the text of a rule file.

    import egshape
    from egshape.words import compose, transpose

    @egshape.rule(example="transpose(transpose(x: f32[a, b], [1, 0]), [1, 0]) => x",
                  counter="transpose(transpose(x: f32[a, b, c], [1, 2, 0]), [1, 2, 0])")
    def transpose_transpose(x, p, q):
        '''transpose(transpose(x, p), q) = transpose(x, p o q)
        sound: composition of permutations'''
        return transpose(transpose(x, p), q), transpose(x, compose(p, q))

docs/rules-in-python.md is for those who write them."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from egshape.errors import EgshapeError
from egshape.ops import REGISTRY
from egshape.rulelang.layout import laid_out
from egshape.rulelang.patterns import needed, refused, shown, spelled, variable
from egshape.rulelang.python_names import PythonRule, declare
from egshape.rulelang.python_source import Source
from egshape.rulelang.rulefile import APPROX, RuleFile, read_rule_file
from egshape.rulelang.schema import reserved_names
from egshape.rulelang.sexpr import List, Position, SExpr

Lines = str | Sequence[str]
_FORM = "return LEFT, RIGHT, CONDITION ... for a rewrite, or [CONDITION, ...], [ACTION, ...] for a rule"
_TAIL = 4
"""The items at the end of a rule that say whose it is, and its name."""
_LAW = {True: "keeps dtype, shape and every bit of the value", False: "an equation holds at all sizes"}
_APPROXIMATE = "keeps dtype and shape, and the value within the tolerance"
_NEEDS = {True: ("prelude.shape", "prelude.tensor", "tensor.types"), False: ("prelude.shape", "size.interval")}
_ENDS = "it is one rule; where that may match its own result it says why that ends"


def rule(
    *,
    example: Lines,
    counter: Lines = (),
    needs: str = "",
    ends: str = "",
    subsume: bool = False,
    both_ways: bool = False,
    tolerance: float | None = None,
) -> Callable[[Callable[..., Any]], PythonRule]:
    """Declare a rule: a function of its variables that returns what it states (docs/rules-in-python.md).

    ``LEFT, RIGHT, CONDITION ...`` is a rewrite, ``[CONDITION, ...], [ACTION, ...]`` a rule. The docstring is its
    comment: the equation, then lines ``sound:`` and ``ends:``. ``example`` and ``counter`` are lines as in a rule file;
    ``needs`` names rulesets beside the usual ones; ``ends`` says in the header why it ends. ``subsume`` drops the left
    side, ``both_ways`` makes a birewrite. ``tolerance`` is how far, relatively, a result may be off, for float algebra
    that changes rounding; the ruleset's name then begins with ``approx.``.

    Gives what ``optimize(rules=[...])`` and the tools take. Raises EgshapeError (code "rules"), with file, line and
    column in Python, where the function does not run or returns something else; what else is wrong with the rule is
    found where any rule is checked.

    Examples:
        >>> import egshape
        >>> from egshape.words import negate, tanh
        >>> @egshape.rule(example="tanh(negate(x: [a]))  =>  negate(tanh(x))")
        ... def odd(x):
        ...     "tanh(-x) = -tanh(x)"
        ...     return tanh(negate(x)), negate(tanh(x))
        >>> print(odd.text.splitlines()[7])
        (rewrite (Unary "tanh" (Unary "negate" x)) (Unary "negate" (Unary "tanh" x))
    """

    def declaring(function: Callable[..., Any]) -> PythonRule:
        source = Source(function)
        ruleset = f"{'' if tolerance is None else APPROX}{source.module}.{function.__name__}".lower()
        stated = Statement(source, ruleset, Stated(lines(example), lines(counter), subsume, both_ways))
        tensors = stated.tensors
        header = {
            "ruleset": ruleset,
            "about": source.about,
            "needs": ", ".join(filter(None, (*_NEEDS[tensors], needs, *sorted(stated.needs)))),
            "law": _LAW[tensors] if tolerance is None else _APPROXIMATE,
            "ends": ends or _ENDS,
        }
        if tolerance is not None:
            header["tolerance"] = f"{tolerance!r}"
        made = PythonRule(source.item)
        made.text, made.folder = file_text(source, header, (stated.text,)), source.file.parent
        made.file = stated.placed(read_rule_file(made.text, str(source.file)), made)
        declare(made)
        return made

    return declaring


def lines(texts: Lines) -> tuple[str, ...]:
    """One line or several, as several."""
    return (texts,) if isinstance(texts, str) else tuple(texts)


def file_text(source: Source, header: Mapping[str, str], parts: Iterable[str]) -> str:
    """The text of a rule file."""
    head = "\n".join(f"; {key}: {text}" for key, text in header.items())
    return laid_out("\n\n".join((head, *parts)) + "\n", str(source.file))


@dataclass(frozen=True)
class Stated:
    """What is said of a rule beside its function."""

    examples: tuple[str, ...]
    counters: tuple[str, ...]
    subsume: bool = False
    both_ways: bool = False


class Statement:
    """A function that states a rule, as the rule of a ruleset: its command at its places in Python, and its text.

    Raises EgshapeError (code "rules") where it states none."""

    def __init__(self, source: Source, ruleset: str, stated: Stated) -> None:
        self.source, self.stated = source, stated
        self.name = f"{ruleset}/{source.function.__name__.lower().strip('_').replace('_', '-')}"
        self.tail = [source.atom(each) for each in (":ruleset", ruleset, ":name", f'"{self.name}"')]
        returned = self._returned()
        self.command = self._command(returned)
        self.needs = needed(returned)

    @property
    def tensors(self) -> bool:
        """Whether it is about tensors, and not about sizes alone."""
        return not reserved_names().union(decl.name for decl in REGISTRY).isdisjoint(_heads(self.command))

    @property
    def text(self) -> str:
        """The rule with its comment and its examples."""
        command, tail = self.command.items[:-_TAIL], self.command.items[-_TAIL:]
        return "\n".join(
            [
                *(f"; {line}" for line in self.source.said if line.strip()),
                f"({' '.join(map(str, command))}\n{' '.join(map(str, tail))})",
                *(f";; example {each}" for each in self.stated.examples),
                *(f";; counter {each}" for each in self.stated.counters),
            ]
        )

    def placed(self, found: RuleFile, name: str) -> RuleFile:
        """What was read of a text with this rule alone, at the places in Python that it comes from. name: that of the
        file."""
        rules = tuple(
            replace(
                each,
                command=self.command,
                file=str(self.source.file),
                line=self.source.at.line,
                examples=tuple(replace(one, where=self.source.where(one)) for one in each.examples),
                counters=tuple(replace(one, where=self.source.where(one)) for one in each.counters),
            )
            for each in found.rules
        )
        return replace(
            found,
            text="".join(self.source.lines),
            header=found.header and replace(found.header, file=name),
            rules=rules,
            problems=tuple(replace(each, at=self.source.at) for each in found.problems),
        )

    def _returned(self) -> Any:
        function, place = self.source.function, self.source.place
        try:
            return function(**{name: variable(name, place(name)) for name in inspect.signature(function).parameters})
        except EgshapeError:
            raise
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            at = Position(shown(frame.filename), frame.lineno or self.source.first, (frame.colno or 0) + 1)
            raise refused(f"the rule does not run: {type(error).__name__}: {error}", at, _FORM) from error

    def _command(self, returned: Any) -> List:
        at, atom = self.source.at, self.source.atom
        parts = list(returned) if isinstance(returned, tuple) else []
        if len(parts) == 2 and all(isinstance(part, list) for part in parts):
            if self.stated.subsume or self.stated.both_ways:
                raise refused("only a rewrite subsumes, or holds both ways", at, _FORM)
            body = [List(tuple(spelled(each, at) for each in part), at) for part in parts]
            return List((atom("rule"), *body, *self.tail), at)
        if len(parts) < 2 or any(isinstance(part, list) for part in parts):
            raise refused(f"the rule returns {returned!r}", at, _FORM)
        left, right, *conditions = (spelled(part, at) for part in parts)
        options: list[SExpr] = [atom(":when"), List(tuple(conditions), at)] if conditions else []
        options += [atom(":subsume")] if self.stated.subsume else []
        head = atom("birewrite" if self.stated.both_ways else "rewrite")
        return List((head, left, right, *options, *self.tail), at)


def _heads(expr: SExpr) -> set[str]:
    if not isinstance(expr, List):
        return set()
    return {expr.head}.union(*map(_heads, expr.items))
