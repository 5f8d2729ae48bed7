"""Rules over sizes as Python, for where a decision must be made at once: when a size is made, and in a proof.

The same text that the engine loads becomes three functions for each size function, written to
``egshape/dims/at_once.py`` and, for the bounds, ``egshape/dims/bounds.py`` (``python -m egshape.rulelang.at_once``; a
test says whether they are current):

- ``F(sizes, args)``: the first rule of the file's `at once:` that simplifies, as (value, name of the rule), or None
- ``F_bounds(bounds of the args)``: bounds of the value, from every rule that sets one
- ``F_laws(sizes, value, args)``: what is >= 0 by what the value means, from rules about a remainder or mirror

A guard on bounds is a question here: `(= a (lo h)) (>= a 0)` asks ``sizes`` whether h >= 0, and `(< b c)` of `(hi h)`
and `(lo k)` whether h < k, which a prover answers for more than two numbers tell. docs/decisions/0009-rules-at-once.md.
"""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from egshape.atomic import write_atomic
from egshape.errors import EgshapeError
from egshape.rulelang.loader import load_rulesets
from egshape.rulelang.provenance import PlainRule, desugar, is_variable
from egshape.rulelang.rulefile import Rule
from egshape.rulelang.sexpr import Atom, List, SExpr


class Spelling(NamedTuple):
    """A size function that is a constructor of the engine, in Python: its name, how many arguments it takes, how its
    value is made by ``sizes``, and how one is taken apart."""

    name: str
    arity: int
    made: str
    parts: str


FUNCTIONS: Mapping[str, Spelling] = {
    "FloorDiv": Spelling("floordiv", 2, "sizes.floordiv({0}, {1})", "theory.floordiv_parts({0})"),
    "Relu": Spelling("relu", 1, "sizes.relu({0})", "theory.relu_parts({0})"),
    "bcast": Spelling("bcast", 2, "sizes.bcast({0}, {1})", "theory.call_parts(ABOVE.bcast, {0})"),
    "float_of": Spelling("float_of", 2, "", ""),  # of floats no rule makes another one
    "float_whole": Spelling("float_whole", 4, "", ""),
}

RULESETS = ("size.floordiv", "size.relu", "size.bcast", "size.float")
FOLDER = Path(__file__).resolve().parents[1] / "dims"

_MEANINGS = {"remainder": ("FloorDiv", "{0} - {1} * value"), "mirror": ("Relu", "value - {0}")}
"""Relations about a difference that a value makes: of which function, and the size that it is."""
_YIELDING = {"whole": 2, "near": 2, "shared": 2, "factor": 1}
"""Relations of the theory, by how many of their arguments are given."""
_NAMES = {"factor": "factors"}
_NUMBER = re.compile(r"-?\d+")
_TURNED = {"<": ">", "<=": ">="}


class NotAtOnce(Exception):
    """A rule says something that only the e-graph can use."""


def generated(omit: Iterable[str] = ()) -> dict[str, str]:
    """The modules' texts by file name, without some rules."""
    left_out = frozenset(omit)
    loaded = load_rulesets(RULESETS, provenance=False)
    order = {name: place for ruleset in loaded.rulesets for place, name in enumerate(ruleset.at_once)}
    kept = [rule for rule in loaded.rules if rule.ruleset in RULESETS and rule.name not in left_out]
    simplify, bounds = [_AT_ONCE], [_BOUNDS]
    for constructor in FUNCTIONS:
        *made, last = functions(constructor, kept, order, FUNCTIONS)
        simplify += made
        bounds.append(last)
    for decl in loaded.sizes:
        said = (decl.name, decl.params, decl.emitted, False, decl.formula, decl.defined, "", ())
        simplify.append(_SHIPPED.format(decl.name.upper(), ",\n    ".join(map(repr, said)), decl.name))
    return {"at_once.py": "\n\n".join(simplify), "bounds.py": "\n\n".join(bounds)}


def functions(
    constructor: str, rules: Iterable[Rule], order: Mapping[str, int], known: Mapping[str, Spelling]
) -> tuple[str, str, str]:
    """The Python that simplifies the value of a size function, that states its laws, and that bounds it.

    order: the rules that simplify, by name, each with its place. known: the size functions that rules may name; the
    words of those about this one are right (``check_rule``). Raises EgshapeError for a rule of the order that only the
    e-graph can use."""
    name, arity = known[constructor][:2]
    own = [rule for rule in rules if about(rule, known) == constructor]
    args = ["h", "k", *(f"x{i}" for i in range(2, arity))][:arity]
    ordered = sorted((rule for rule in own if rule.name in order), key=lambda rule: order[rule.name])
    return (
        _simplifier(name, args, ordered, known),
        _laws(name, args, own, known),
        _bounds(name, args, own, known),
    )


@cache
def rules() -> frozenset[str]:
    """Names of the rules that run at once, those that state laws and bounds included."""
    text = "".join(generated().values())
    return frozenset(re.findall(r"size\.[a-z]+/[a-z0-9-]+", text))


def plain(rule: Rule) -> PlainRule:
    """A rule in its basic form; those over sizes have no backward half."""
    (found,) = desugar(rule.command, rule.name, rule.ruleset)
    return found


def about(rule: Rule, known: Mapping[str, Spelling]) -> str:
    """The constructor that a rule is about, "" for none."""
    for fact in plain(rule).body:
        if isinstance(fact, List) and fact.head in _MEANINGS:
            return _MEANINGS[fact.head][0]
        if _is_value(fact, known):
            return _right(fact).head
    return ""


def _is_value(fact: SExpr, known: Mapping[str, Spelling]) -> bool:
    """Whether a fact says that something is the value of a size function."""
    if not isinstance(fact, List) or fact.head != "=" or len(fact.items) != 3:
        return False
    return isinstance(fact.items[2], List) and fact.items[2].head in known


def _right(fact: SExpr) -> List:
    assert isinstance(fact, List) and isinstance(fact.items[2], List)
    return fact.items[2]


@dataclass
class _Body:
    """A rule's body as nested Python: ``lines`` with their depth; what each variable stands for."""

    known: Mapping[str, Spelling]
    lines: list[tuple[int, str]] = field(default_factory=list)
    depth: int = 1
    names: dict[str, str] = field(default_factory=dict)
    ends: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Variables for bounds: which end, of which size."""

    def put(self, line: str, opens: bool = False) -> None:
        self.lines.append((self.depth, line))
        self.depth += opens

    def bind(self, variables: Sequence[SExpr], source: str, one: bool) -> None:
        """Give names to what a relation yields, for each row of it or for the only one; what has a name must be it."""
        given = {i: self.names[str(each)] for i, each in enumerate(variables) if str(each) in self.names}
        new = [f"given_{i}" if i in given else self.fresh(each) for i, each in enumerate(variables)]
        target = ", ".join(new) + ("," if len(new) == 1 else "")
        if one:
            self.put(f"found = {source}")
            self.put("if found is not None:", opens=True)
            self.put(f"{target} = found")
        else:
            self.put(f"for {target} in {source}:", opens=True)
        for i, name in given.items():
            self.put(f"if given_{i} is {name}:", opens=True)

    def given(self, variable: SExpr) -> str:
        """The Python name of a variable that is known by now."""
        if str(variable) not in self.names:
            raise NotAtOnce(f"{variable} is not known where the rule runs at once")
        return self.names[str(variable)]

    def fresh(self, variable: SExpr, prefix: str = "") -> str:
        """The Python name of a variable that is seen for the first time; numbers have a prefix of their own."""
        if not is_variable(variable) or str(variable) in self.names:
            raise NotAtOnce(f"{variable} is given already")
        name = prefix + str(variable)
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or keyword.iskeyword(name):
            name = f"v{len(self.names)}"
        taken = set(self.names.values())
        while name in taken or name in ("found", "value", "sizes", "const", "theory"):
            name += "_"
        self.names[str(variable)] = name
        return name

    def number(self, expr: SExpr) -> str:
        """An integer expression over numbers that are known (not over bounds)."""
        if isinstance(expr, Atom):
            if is_variable(expr) and str(expr) not in self.names:
                raise NotAtOnce(f"{expr} is a bound")
            if not is_variable(expr) and not _NUMBER.fullmatch(expr.text):
                raise NotAtOnce(f"{expr} is no number")
            return self.names.get(expr.text, expr.text)
        if expr.head in ("+", "-", "*") and len(expr.items) == 3:
            return f"({self.number(expr.items[1])} {expr.head} {self.number(expr.items[2])})"
        raise NotAtOnce(str(expr))

    def size(self, expr: SExpr) -> str:
        """A size made by an action."""
        if isinstance(expr, Atom):
            return self.given(expr)
        if expr.head == "Num":
            return f"const({self.number(expr.items[1])})"
        inner = [self.size(item) for item in expr.items[1:]]
        if expr.head in self.known:
            return self.known[expr.head].made.format(*inner)
        if expr.head in ("Add", "Mul"):
            sign = " + " if expr.head == "Add" else " * "
            return f"({sign.join(inner)})"
        raise NotAtOnce(str(expr))

    def end(self, expr: SExpr) -> tuple[str, str]:
        """A side of a comparison: which end of which size, or ("", a number)."""
        if isinstance(expr, Atom) and expr.text in self.ends:
            return self.ends[expr.text]
        return "", self.number(expr)

    def compare(self, fact: List) -> None:
        """A guard: a question to ``sizes`` where it is about bounds."""
        head, one, two = fact.head, fact.items[1], fact.items[2]
        if head == "!=":
            self.put(f"if {self.given(one)} is not {self.given(two)}:", opens=True)
            return
        if head in _TURNED:
            head, one, two = _TURNED[head], two, one
        step = int(head == ">")
        (large, what), (small, than) = self.end(one), self.end(two)
        if large == "lo" and small == "":
            self.put(f"if sizes.at_least({what}, {_plus(than, step)}):", opens=True)
        elif large == "" and small == "hi":
            self.put(f"if sizes.at_least(-{than}, {_plus(_negative(what), step)}):", opens=True)
        elif large == "lo" and small == "hi":
            self.put(f"if sizes.at_least({what} - {than}, {step}):", opens=True)
        elif large == small == "":
            self.put(f"if {what} {head} {than}:", opens=True)
        else:
            raise NotAtOnce(f"{fact} asks how much is known")


def _negative(number: str) -> str:
    return number if number == "0" else f"-{number}"


def _plus(number: str, step: int) -> str:
    if number.lstrip("-").isdigit():
        return str(int(number) + step)
    return f"{number} + {step}" if step else number


def _fact(body: _Body, fact: SExpr) -> None:
    """One fact of a rule's body."""
    assert isinstance(fact, List)
    head, items = fact.head, fact.items[1:]
    if head in _YIELDING:
        given = _YIELDING[head]
        inputs = ", ".join(body.given(each) for each in items[:given])
        body.bind(items[given:], f"theory.{_NAMES.get(head, head)}({inputs})", one=False)
    elif head == "term":
        body.bind(items[2:], f"theory.terms({body.names[str(items[0])]}, {body.number(items[1])})", one=False)
    elif head == "joins":
        body.put(f"if sizes.joins({', '.join(body.given(each) for each in items)}):", opens=True)
    elif head in ("backward", "swapped"):
        body.put(f"if theory.{head}({', '.join(body.given(each) for each in items)}):", opens=True)
    elif head == "=":
        _equation(body, items[0], items[1])
    elif head in ("<", "<=", ">", ">=", "!="):
        body.compare(fact)
    else:
        raise NotAtOnce(str(fact))


def _equation(body: _Body, name: SExpr, value: SExpr) -> None:
    known = str(name) in body.names
    if isinstance(value, List) and value.head in ("lo", "hi"):
        body.ends[str(name)] = (value.head, body.given(value.items[1]))
    elif isinstance(value, List) and value.head == "Num" and known:
        number = value.items[1]
        if is_variable(number):
            new = body.fresh(number, "n_")
            body.put(f"{new} = {body.given(name)}.const")
            body.put(f"if {new} is not None:", opens=True)
        else:
            body.put(f"if {body.given(name)}.const == {number}:", opens=True)
    elif isinstance(value, List) and value.head in body.known and known:
        source = body.known[value.head].parts.format(body.given(name))
        body.bind(value.items[1:], source, one=True)
    else:
        text = body.number(value)
        body.put(f"{body.fresh(name, 'n_')} = {text}")


def _start(
    rule: PlainRule, args: Sequence[str], known: Mapping[str, Spelling]
) -> tuple[_Body, list[SExpr], str] | None:
    """The body with the function's arguments named, the facts that are left, and the name of the value; None for a rule
    about no value."""
    body = _Body(known)
    trigger = next((fact for fact in rule.body if _is_value(fact, known)), None)
    if trigger is None:
        return None
    for given, arg in zip(_right(trigger).items[1:], args, strict=True):
        if not is_variable(given):
            number = body.number(given.items[1]) if isinstance(given, List) and given.head == "Num" else ""
            if not number:
                raise NotAtOnce(f"{given} is no variable and no number")
            body.put(f"if {arg}.const == {number}:", opens=True)
        elif str(given) in body.names:
            body.put(f"if {arg} is {body.given(given)}:", opens=True)
        body.names.setdefault(str(given), arg)
    assert isinstance(trigger, List)
    return body, [fact for fact in rule.body if fact is not trigger], str(trigger.items[1])


def _simplifier(name: str, args: Sequence[str], rules: Sequence[Rule], known: Mapping[str, Spelling]) -> str:
    joined = ", ".join(args)
    lines = [
        f"def {name}(sizes: Sizes, {', '.join(f'{arg}: Dim' for arg in args)}) -> tuple[Dim, str] | None:",
        f'    """{name}({joined}) made simpler, with the name of the rule; None where none applies."""',
    ]
    for rule in rules:
        try:
            lines += _simplified(rule, args, known)
        except NotAtOnce as error:
            message, hint = f"{rule.name} cannot run at once: {error}", "take it out of the header's 'at once:'"
            raise EgshapeError(message, where=rule.where, hint=hint, code="rules") from None
    return "\n".join([*lines, "    return None", ""])


def _simplified(rule: Rule, args: Sequence[str], known: Mapping[str, Spelling]) -> list[str]:
    one = plain(rule)
    started = _start(one, args, known)
    assert started is not None
    body, facts, value = started
    for fact in facts:
        _fact(body, fact)
    action = one.actions[0] if len(one.actions) == 1 else None
    if not isinstance(action, List) or action.head != "union" or str(action.items[1]) != value:
        raise NotAtOnce("it must unite the value with something")
    body.put(f'return {body.size(action.items[2])}, "{rule.name}"')
    return ["    " * depth + line for depth, line in body.lines]


def _bounds(name: str, args: Sequence[str], rules: Sequence[Rule], known: Mapping[str, Spelling]) -> str:
    pairs = ", ".join(f"{arg}: Bounds" for arg in args)
    lines = [
        f"def {name}_bounds({pairs}) -> Bounds:",
        f'    """Bounds of {name}({", ".join(args)}) by those of its parts."""',
    ]
    lines += [f"    {arg}_lo, {arg}_hi = {arg}" for arg in args]
    lines += ["    lo: int | None = None", "    hi: int | None = None"]
    for rule in rules:
        try:
            found = list(_set_bounds(plain(rule), args, known))
        except NotAtOnce:
            found = []  # the e-graph's, as in ``_law``
        for target, value, guards in found:
            better = "larger" if target == "lo" else "smaller"
            lines += [
                f"    if {' and '.join(guards)}:  # {rule.name}" if guards else f"    # {rule.name}",
                f"    {'    ' if guards else ''}{target} = {better}({target}, {value})",
            ]
    return "\n".join([*lines, "    return lo, hi", ""])


def _set_bounds(
    rule: PlainRule, args: Sequence[str], known: Mapping[str, Spelling]
) -> Iterator[tuple[str, str, list[str]]]:
    """What a rule sets of the value's bounds from those of its arguments: which end, the number, the conditions."""
    started = _start(rule, args, known)
    if started is None or started[0].lines:
        return
    body, facts, value = started
    numbers: dict[str, str] = {}
    guards: list[str] = []
    for fact in facts:
        assert isinstance(fact, List)
        if fact.head == "=" and isinstance(fact.items[2], List) and fact.items[2].head in ("lo", "hi"):
            whose = body.names.get(str(fact.items[2].items[1]))
            if whose is None:
                return  # a bound of the value itself: what it says of its parts is the theory's matter
            numbers[str(fact.items[1])] = f"{whose}_{fact.items[2].head}"
            guards.append(f"{whose}_{fact.items[2].head} is not None")
        elif fact.head == "=" and _is_integer(fact.items[2]):
            numbers[str(fact.items[1])] = _integer(fact.items[2], numbers)
            guards += [f"{each} != 0" for each in _divisors(fact.items[2], numbers) if f"{each} > 0" not in guards]
        elif fact.head in ("<", "<=", ">", ">="):
            guards.append(f"{_integer(fact.items[1], numbers)} {fact.head} {_integer(fact.items[2], numbers)}")
        else:
            return
    for action in rule.actions:
        assert isinstance(action, List)
        target = action.items[1]
        if action.head == "set" and isinstance(target, List) and str(target.items[1]) == value:
            yield target.head, _integer(action.items[2], numbers), guards


def _divisors(expr: SExpr, numbers: Mapping[str, str]) -> Iterator[str]:
    """What an integer expression divides by: where it is 0 the rule does not match."""
    if isinstance(expr, List):
        if expr.head == "/":
            yield _integer(expr.items[2], dict(numbers))
        for item in expr.items[1:]:
            yield from _divisors(item, numbers)


def _is_integer(expr: SExpr) -> bool:
    return isinstance(expr, Atom) or (expr.head in ("+", "-", "*", "/", "min", "max") and len(expr.items) == 3)


def _integer(expr: SExpr, numbers: dict[str, str]) -> str:
    """Integer arithmetic of the engine in Python; its division truncates."""
    if isinstance(expr, Atom):
        if expr.text not in numbers and not _NUMBER.fullmatch(expr.text):
            raise NotAtOnce(f"{expr} is no number")
        return numbers.get(expr.text, expr.text)
    one, two = (_integer(item, numbers) for item in expr.items[1:])
    if expr.head in ("min", "max"):
        return f"{expr.head}({one}, {two})"
    return f"truncated({one}, {two})" if expr.head == "/" else f"({one} {expr.head} {two})"


def _laws(name: str, args: Sequence[str], rules: Sequence[Rule], known: Mapping[str, Spelling]) -> str:
    lines = [
        f"def {name}_laws(sizes: Sizes, value: Dim, {', '.join(f'{arg}: Dim' for arg in args)}) -> Law:",
        f'    """What is >= 0 by what {name} means, with the rules; the value is {name}({", ".join(args)})."""',
    ]
    for rule in rules:
        lines += _law(plain(rule), args, known)
    return "\n".join([*lines, "    yield from ()", ""])


def _law(rule: PlainRule, args: Sequence[str], known: Mapping[str, Spelling]) -> list[str]:
    about = next((fact for fact in rule.body if isinstance(fact, List) and fact.head in _MEANINGS), None)
    try:
        if about is None:
            return _law_of_value(rule, args, known)
        body = _Body(known)
        body.names.update((str(variable), arg) for variable, arg in zip(about.items[2:], args, strict=True))
        difference = _MEANINGS[about.head][1].format(*args)
        for fact in rule.body:
            if fact is not about:
                _fact(body, fact)
        (action,) = rule.actions
        body.put(f'yield {_bound_below(action, str(about.items[1]), difference, body)}, "{rule.name}"')
    except NotAtOnce:
        return []  # what hangs on how much is known of a bound is the e-graph's
    return ["    " * depth + line for depth, line in body.lines]


def _law_of_value(rule: PlainRule, args: Sequence[str], known: Mapping[str, Spelling]) -> list[str]:
    """The laws of a rule that orders a value and other sizes."""
    started = _start(rule, args, known)
    edges = [action for action in rule.actions if isinstance(action, List) and action.head == "edge"]
    if started is None or not edges or len(edges) != len(rule.actions):
        return []
    body, facts, value = started
    for fact in facts:
        _fact(body, fact)
    body.names[value] = "value"
    for edge in edges:
        smaller, larger = (body.size(each) for each in edge.items[1:3])
        body.put(f'yield {larger} - {smaller} - {body.number(edge.items[3])}, "{rule.name}"')
    return ["    " * depth + line for depth, line in body.lines]


def _bound_below(action: SExpr, about: str, difference: str, body: _Body) -> str:
    """What an action says to be >= 0."""
    assert isinstance(action, List)
    if action.head == "edge" and str(action.items[1]) == about:
        return f"{body.given(action.items[2])} - ({difference}) - {body.number(action.items[3])}"
    target = action.items[1]
    if action.head == "set" and isinstance(target, List) and target.head == "lo" and str(target.items[1]) == about:
        low = body.number(action.items[2])
        return difference if low == "0" else f"{difference} - {low}"
    raise NotAtOnce(str(action))


_AT_ONCE = '''"""Rules over sizes that run at once, made from rulesets/size by `python -m egshape.rulelang.at_once`.

Not to be edited: each rule stands in the file that its name says, with its equation, why it is sound, and examples."""
# ruff: noqa: E501, SIM102, UP034

from __future__ import annotations

from egshape.dims import theory
from egshape.dims.core import ABOVE, Dim, const
from egshape.dims.theory import Law, Sizes
'''
_SHIPPED = '''{0} = (
    {1},
)
"""What is said of {2} (``egshape.dims.functions.SizeFunction``); its rules are those above."""
'''
_BOUNDS = '''"""Bounds of size functions by those of their arguments, made from rulesets/size by
`python -m egshape.rulelang.at_once`. Not to be edited."""
# ruff: noqa: E501, RUF059

from __future__ import annotations

from egshape.dims.ends import Bounds, larger, smaller, truncated
'''


def main() -> int:
    """Write the modules."""
    for name, text in generated().items():
        write_atomic(FOLDER / name, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
