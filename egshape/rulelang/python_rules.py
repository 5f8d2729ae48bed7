"""Rules written in Python: functions of patterns, compiled to the text of a rule file.

    import egshape
    from egshape.words import compose, transpose

    @egshape.rule(example="transpose(transpose(x: f32[a, b], [1, 0]), [1, 0]) => x",
                  counter="transpose(transpose(x: f32[a, b, c], [1, 2, 0]), [1, 2, 0])")
    def transpose_transpose(x, p, q):
        '''transpose(transpose(x, p), q) = transpose(x, p o q)
        sound: composition of permutations'''
        return transpose(transpose(x, p), q), transpose(x, compose(p, q))

docs/rules.md ("Rules in Python") is for those who write them."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import linecache
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from egshape.errors import EgshapeError
from egshape.ops import REGISTRY
from egshape.rulelang.layout import laid_out
from egshape.rulelang.patterns import refused, shown, spelled, variable
from egshape.rulelang.rulefile import APPROX, Example, RuleFile, read_rule_file
from egshape.rulelang.schema import reserved_names
from egshape.rulelang.sexpr import Atom, List, Position, SExpr
from egshape.spelling import meant

Lines = str | Sequence[str]
_FORM = "return LEFT, RIGHT, CONDITION ... for a rewrite, or [CONDITION, ...], [ACTION, ...] for a rule"
_TAIL = 4
"""The items at the end of a rule that say whose it is, and its name."""
_LAW = {True: "keeps dtype, shape and every bit of the value", False: "an equation holds at all sizes"}
_APPROXIMATE = "keeps dtype and shape, and the value within the tolerance"
_NEEDS = {True: "prelude.shape, prelude.tensor, tensor.types", False: "prelude.shape, size.interval"}


class PythonRule(str):
    """A rule that was written in Python. It is its own name, ``module:function``, by which whatever takes rules finds
    it; ``text`` is the rule file that it was compiled to."""

    text: str
    file: RuleFile
    folder: Path
    __slots__ = ("file", "folder", "text")


_DECLARED: dict[str, PythonRule] = {}
"""All that were declared, by name; one of a name that was there takes its place, as with ops."""


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
    """Declare a rule: a function of its variables that returns what it states (docs/rules.md, "Rules in Python").

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

    def declare(function: Callable[..., Any]) -> PythonRule:
        return _Writing(function, _lines(example), _lines(counter), needs, ends, subsume, both_ways, tolerance).done()

    return declare


def _lines(texts: Lines) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else tuple(texts)


class _Writing:
    """One function on its way to a rule."""

    def __init__(
        self,
        function: Callable[..., Any],
        examples: tuple[str, ...],
        counters: tuple[str, ...],
        needs: str,
        ends: str,
        subsume: bool,
        both_ways: bool,
        tolerance: float | None,
    ) -> None:
        self.function, self.examples, self.counters = function, examples, counters
        self.needs, self.ends, self.subsume, self.both_ways = needs, ends, subsume, both_ways
        self.tolerance = tolerance
        self.source = Path(shown(function.__code__.co_filename))
        self.lines = linecache.getlines(str(self.source))
        self.first = function.__code__.co_firstlineno
        self.at = self._place("def ", 4)
        module = self.source.stem if function.__module__ == "__main__" else function.__module__.rpartition(".")[2]
        self.ruleset = f"{'' if tolerance is None else APPROX}{module}.{function.__name__}".lower()
        self.name = f"{self.ruleset}/{function.__name__.lower().strip('_').replace('_', '-')}"

    def done(self) -> PythonRule:
        command = self._command(self._returned())
        text = laid_out(self._text(command), str(self.source))
        made = PythonRule(f"{self.function.__module__}:{self.function.__name__}")
        made.text, made.folder = text, self.source.parent
        made.file = self._placed(read_rule_file(text, str(self.source)), command, made)
        _DECLARED[str(made)] = made
        return made

    # -- what the function says ----

    def _returned(self) -> Any:
        names = inspect.signature(self.function).parameters
        try:
            return self.function(**{name: variable(name, self._place(name)) for name in names})
        except EgshapeError:
            raise
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            at = Position(shown(frame.filename), frame.lineno or self.first, (frame.colno or 0) + 1)
            raise refused(f"the rule does not run: {type(error).__name__}: {error}", at, _FORM) from error

    def _command(self, returned: Any) -> List:
        parts = list(returned) if isinstance(returned, tuple) else []
        tail = [self._atom(each) for each in (":ruleset", self.ruleset, ":name", f'"{self.name}"')]
        if len(parts) == 2 and all(isinstance(part, list) for part in parts):
            if self.subsume or self.both_ways:
                raise refused("only a rewrite subsumes, or holds both ways", self.at, _FORM)
            body = [List(tuple(spelled(each, self.at) for each in part), self.at) for part in parts]
            return List((self._atom("rule"), *body, *tail), self.at)
        if len(parts) < 2 or any(isinstance(part, list) for part in parts):
            raise refused(f"the rule returns {returned!r}", self.at, _FORM)
        left, right, *conditions = (spelled(part, self.at) for part in parts)
        options: list[SExpr] = [self._atom(":when"), List(tuple(conditions), self.at)] if conditions else []
        options += [self._atom(":subsume")] if self.subsume else []
        head = self._atom("birewrite" if self.both_ways else "rewrite")
        return List((head, left, right, *options, *tail), self.at)

    def _text(self, command: List) -> str:
        said = inspect.cleandoc(self.function.__doc__ or "").splitlines()
        tensors = not reserved_names().union(decl.name for decl in REGISTRY).isdisjoint(_heads(command))
        about = said[0] if said else self.function.__name__.replace("_", " ")
        header = {
            "ruleset": self.ruleset,
            "about": about,
            "needs": ", ".join(filter(None, (_NEEDS[tensors], self.needs))),
            "law": _LAW[tensors] if self.tolerance is None else _APPROXIMATE,
            "ends": self.ends or "it is one rule; where that may match its own result it says why that ends",
        }
        if self.tolerance is not None:
            header["tolerance"] = f"{self.tolerance!r}"
        return "\n".join(
            [
                *(f"; {key}: {text}" for key, text in header.items()),
                "",
                *(f"; {line}" for line in said if line.strip()),
                f"({' '.join(map(str, command.items[:-_TAIL]))}\n{' '.join(map(str, command.items[-_TAIL:]))})",
                *(f";; {kind} {line}" for kind, line in self._stated()),
                "",
            ]
        )

    def _stated(self) -> list[tuple[str, str]]:
        return [*(("example", each) for each in self.examples), *(("counter", each) for each in self.counters)]

    # -- where it says that ----

    def _atom(self, text: str) -> Atom:
        return Atom(text, self.at)

    def _place(self, text: str, inside: int = 0) -> Position:
        """The first place of a text from the decorator on, else the function's first line."""
        for number, line in enumerate(self.lines[self.first - 1 :], start=self.first):
            if text in line:
                return Position(str(self.source), number, line.index(text) + inside + 1)
        return Position(str(self.source), self.first, 1)

    def _placed(self, found: RuleFile, command: List, name: str) -> RuleFile:
        """What was read of the text, at the places in Python that it comes from."""
        rules = tuple(
            replace(
                each,
                command=command,
                file=str(self.source),
                line=self.at.line,
                examples=tuple(map(self._example, each.examples)),
                counters=tuple(map(self._example, each.counters)),
            )
            for each in found.rules
        )
        return replace(
            found,
            text="".join(self.lines),
            header=found.header and replace(found.header, file=name),
            rules=rules,
            problems=tuple(replace(each, at=self.at) for each in found.problems),
        )

    def _example(self, example: Example) -> Example:
        at = self._place(example.before)
        return replace(example, where=f"{at.file}:{at.line}")


def _heads(expr: SExpr) -> set[str]:
    if not isinstance(expr, List):
        return set()
    return {expr.head}.union(*map(_heads, expr.items))


# -- by name ----


def is_python(item: str) -> bool:
    """Whether the name of a ruleset means rules written in Python: ``module:function``, or a file of them."""
    return item.endswith(".py") or (":" in item and not item.endswith(".egg"))


def declared(item: str) -> PythonRule:
    """The rule of a name that ``find`` gave."""
    return _DECLARED[item]


def find(item: str) -> list[str]:
    """The names of the rules that ``module:function``, ``file.py:function`` or ``file.py`` (all of its own) means.

    Raises EgshapeError (code "rules") for a module that cannot be imported, and a function that is no rule."""
    if item in _DECLARED:
        return [item]
    where, name = (item, "") if item.endswith(".py") else item.rsplit(":", 1)
    module = _loaded(Path(where)) if where.endswith(".py") else _imported(where)
    own = {each.rpartition(":")[2]: each for each in _DECLARED if each.startswith(f"{module}:")}
    if not name and own:
        return list(own.values())
    if name not in own:
        hint = meant(name, own, "a rule is a function with @egshape.rule(...)")
        raise EgshapeError(f"there is no rule {name} in {where}".replace("  ", " "), hint=hint, code="rules")
    return [own[name]]


def _imported(module: str) -> str:
    """The module, imported; what stands in the present folder may be. Its name."""
    before = list(sys.path)
    sys.path.insert(0, "")
    try:
        importlib.import_module(module)
    except EgshapeError:
        raise
    except Exception as error:
        raise EgshapeError(
            f"{module} cannot be imported: {type(error).__name__}: {error}",
            hint="write module:function, file.py or file.py:function",
            code="rules",
        ) from error
    finally:
        sys.path[:] = before
    return module


def _loaded(path: Path) -> str:
    """A file of rules, run once; the name of its module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise EgshapeError("cannot be read: there is no such file", where=str(path), code="read")
    for name in [each for each in _DECLARED if each.startswith(f"{path.stem}:")]:
        del _DECLARED[name]  # of an earlier state of the file, or of another one of its name
    linecache.checkcache(str(path))
    try:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    except EgshapeError:
        raise
    except Exception as error:
        raise EgshapeError(f"does not run: {type(error).__name__}: {error}", where=str(path), code="rules") from error
    return path.stem
