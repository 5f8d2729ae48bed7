"""Size functions written in Python, with their rules, compiled to the text of a rule file.

    import egshape
    from egshape.words import lo, union

    @egshape.size_function
    def largest(a, b):
        '''the larger of two sizes'''
        return a if a > b else b

    @largest.rule(example="largest(a, a)  =>  a", at_once=True)
    def itself(d, a):
        '''largest(a, a) = a'''
        return [d == largest(a, a)], [union(d, a)]

docs/rules-in-python.md is for those who write them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar, overload

from egshape.dims import Dim
from egshape.dims.core import DimLike
from egshape.rulelang.patterns import Pattern, refused, spelled, term
from egshape.rulelang.python_body import Body, read_body
from egshape.rulelang.python_names import PythonRule, declare
from egshape.rulelang.python_rules import Lines, Stated, Statement, file_text, lines
from egshape.rulelang.python_source import Source
from egshape.rulelang.rulefile import RuleFile, read_rule_file
from egshape.rulelang.size_functions import size_functions

_LAW = "an equation holds at all sizes at which it is defined"
_ENDS = "a rule that may match its own result says why that ends"
_NEEDS = "prelude.shape"

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class _Options:
    emitted: str
    defined: str
    needs: str
    ends: str


@dataclass(frozen=True)
class _Rule:
    """A rule of a size function, and whether it runs where a size is made, and there only."""

    statement: Statement
    at_once: bool
    only_at_once: bool


class PythonSize(PythonRule):
    """A size function that was written in Python, with the rules that are said of it; ``text`` is the rule file that
    they are compiled to.

    Called with patterns, in a rule, it gives the pattern of its value; with sizes or integers it gives a size."""

    __slots__ = ("_body", "_options", "_rules", "_source")
    _source: Source
    _body: Body
    _options: _Options
    _rules: dict[str, _Rule]

    @overload
    def __call__(self, *args: DimLike) -> Dim: ...
    @overload
    def __call__(self, *args: object) -> Any: ...
    def __call__(self, *args: object) -> Any:
        """The value. Raises TypeError for another number of arguments."""
        name = self._source.function.__name__
        if any(isinstance(each, Pattern) for each in args):
            return term(name, args, frozenset((str(self),)))
        with size_functions(self) as found:
            return found[name](*args)  # type: ignore[arg-type]

    def rule(
        self, *, example: Lines, counter: Lines = (), at_once: bool = False, only_at_once: bool = False
    ) -> Callable[[Function], Function]:
        """Declare a rule over sizes that says something of this function, as ``egshape.rule`` does; it is found,
        checked and tried with it.

        ``at_once``: it also runs in Python wherever a size is made, and in proofs; such rules are tried in the order in
        which they are declared. ``only_at_once``: there, and not in the engine. Raises EgshapeError (code "rules") as
        ``egshape.rule`` does, and for a rule about tensors."""

        def declaring(function: Function) -> Function:
            statement = Statement(Source(function), self._ruleset, Stated(lines(example), lines(counter)))
            if statement.tensors:
                hint = f"declare it by @egshape.rule(...), and call {self._source.function.__name__} there"
                raise refused("a rule of a size function is about sizes alone", statement.source.at, hint)
            self._rules[statement.name] = _Rule(statement, at_once or only_at_once, only_at_once)
            self._compile()
            return function

        return declaring

    @property
    def _ruleset(self) -> str:
        return f"{self._source.module}.{self._source.function.__name__}".lower()

    def _compile(self) -> None:
        """Make the text, and what is read of it, of all that is said by now."""
        source, header, command = self._source, self._header(), self._command()
        stated = [each.statement for each in self._rules.values()]

        def read(part: str) -> RuleFile:
            return read_rule_file(file_text(source, header, (part,)), str(source.file))

        alone = read(command)
        each_alone = [each.placed(read(each.text), self) for each in stated]
        self.text = file_text(source, header, (command, *(each.text for each in stated)))
        self.file = replace(
            alone,
            text="".join(source.lines),
            header=alone.header and replace(alone.header, file=str(self)),
            sizes=tuple(replace(each, at=source.at) for each in alone.sizes),
            rules=tuple(rule for each in each_alone for rule in each.rules),
            problems=tuple(replace(each, at=source.at) for each in alone.problems)
            + tuple(problem for each in each_alone for problem in each.problems),
            named=frozenset(self._rules),
        )

    def _header(self) -> dict[str, str]:
        every = frozenset().union(self._body.needs, *(each.statement.needs for each in self._rules.values()))
        header = {
            "ruleset": self._ruleset,
            "about": self._source.about,
            "needs": ", ".join(filter(None, (_NEEDS, self._options.needs, *sorted(every - {str(self)})))),
            "law": _LAW,
            "ends": self._options.ends or _ENDS,
        }
        for key in ("at once", "only at once"):
            found = [name for name, each in self._rules.items() if getattr(each, key.replace(" ", "_"))]
            if found:
                header[key] = ", ".join(name.rpartition("/")[2] for name in found)
        return header

    def _command(self) -> str:
        """The declaration, below what the docstring says beside its first line."""
        said = {self._body.kind: self._body.text, ":emitted": self._options.emitted, ":defined": self._options.defined}
        options = " ".join(f"{key} {spelled(text, self._source.at)}" for key, text in said.items() if text)
        name, params = self._source.function.__name__, " ".join(self._body.params)
        return "\n".join(
            [*(f"; {line}" for line in self._source.said[1:] if line.strip()), f"(size {name} ({params}) {options})"]
        )


@overload
def size_function(function: Callable[..., Any], /) -> PythonSize: ...
@overload
def size_function(
    *, emitted: str = "", defined: str = "", needs: str = "", ends: str = ""
) -> Callable[[Callable[..., Any]], PythonSize]: ...
def size_function(
    function: Callable[..., Any] | None = None,
    /,
    *,
    emitted: str = "",
    defined: str = "",
    needs: str = "",
    ends: str = "",
) -> PythonSize | Callable[[Callable[..., Any]], PythonSize]:
    """Declare a size function: a function of sizes whose body says how it is computed (docs/rules-in-python.md). The
    body is read, and never run.

    One ``return`` of an expression over ``+ - * // % min max cdiv bcast`` and other size functions is known to proofs
    (``:is`` of a rule file); any other body is a formula (``:python``), of which rules say what is known: declare them
    by ``@NAME.rule(...)``. ``emitted`` is what saved models and compiled code compute in a formula's place,
    ``defined`` says where there is a value, beside what the expression needs: ``"n >= 0; k != 0"``. ``needs`` names
    rulesets whose size functions the texts call, ``ends`` says in the header why the rules end. The docstring's first
    line says what it is.

    Gives what ``prove(rules=...)``, ``optimize(rules=[...])``, ``size_functions`` and the tools take. Raises
    EgshapeError (code "rules"), with file, line and column in Python, for a body that is neither; what else is wrong is
    found where any rule is checked.

    Examples:
        >>> import egshape
        >>> from egshape.words import cdiv
        >>> @egshape.size_function
        ... def padded(n, k):
        ...     "the smallest multiple of k that is at least n"
        ...     return cdiv(n, k) * k
        >>> egshape.prove("padded(n, 8) >= n", rules=padded).status
        'proved'
        >>> print(padded(100, 8))
        104
    """
    options = _Options(emitted, defined, needs, ends)

    def declaring(function: Callable[..., Any]) -> PythonSize:
        source = Source(function)
        made = PythonSize(source.item)
        made._source, made._body, made._options, made._rules = source, read_body(source), options, {}
        made.folder = source.file.parent
        made._compile()
        declare(made)
        return made

    return declaring if function is None else declaring(function)
