"""Rewrites and rules as plain rules that also log what they united.

A log over classes is useless, since its columns are merged together with the classes. So every class of a
logged sort carries a number (`Naming.function`, merged by min), the rule reads it in its body, and the log
holds numbers. See `Naming` for what is logged of which sort.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from egshape.decide.reason import BACKWARD
from egshape.errors import EgshapeError
from egshape.rulelang.sexpr import Atom, List, Position, SExpr

# A term that a rule makes inside of its result is named after the node it rewrites, this far above it.
NAME_STRIDE = 1 << 40
NO_NAME = -1
_LITERAL_HEADS = frozenset('0123456789-"')
_NO_VARIABLES = frozenset(("_", "true", "false"))


@dataclass(frozen=True, slots=True)
class Signature:
    """Argument sorts and result sort of a constructor, function or relation ("" for a relation)."""

    args: tuple[str, ...]
    result: str


@dataclass(frozen=True, slots=True)
class Naming:
    """How classes of one sort are named and their unions logged.

    `relation` set: rows (name of the left class, name of the right class or -1, rule), and terms that a
    rule makes are named. `relation` empty: each rule has a log of its own with the names of all variables
    of this sort and the i64 variables in the two sides, from which Python rebuilds the exact equation.
    """

    sort: str
    function: str
    relation: str = ""


NAMINGS = (Naming("T", "nm", "why"), Naming("Dim", "dn"))


@dataclass(frozen=True, slots=True)
class EquationLog:
    """The own log of a rule: table, the variables of its columns, and the two sides united."""

    table: str
    rule: str
    variables: tuple[str, ...]
    left: SExpr
    right: SExpr


@dataclass(slots=True)
class Scheme:
    """What the declarations of a program say: signatures, and the element sort of each Vec sort."""

    signatures: dict[str, Signature] = field(default_factory=dict)
    vec_sorts: dict[str, str] = field(default_factory=dict)

    def declare(self, command: List) -> None:
        """Take note of a sort, datatype, constructor, function or relation."""
        head, items = command.head, command.items
        if head in ("constructor", "function"):
            self.signatures[str(items[1])] = Signature(_sorts(items[2]), str(items[3]))
        elif head == "relation":
            self.signatures[str(items[1])] = Signature(_sorts(items[2]), "")
        elif head == "datatype":
            for variant in items[2:]:
                if isinstance(variant, List):
                    args = tuple(str(a) for a in variant.items[1:] if not str(a).startswith(":"))
                    self.signatures[variant.head] = Signature(args, str(items[1]))
        elif head == "sort" and len(items) == 3 and isinstance(items[2], List) and items[2].head == "Vec":
            self.vec_sorts[str(items[1])] = str(items[2].items[1])

    def sorts_of_variables(self, body: Iterable[SExpr]) -> dict[str, str]:
        """The sorts of the body's variables, as far as declared functions show them."""
        found: dict[str, str] = {}
        facts = list(body)
        for _ in range(len(facts) + 1):
            before = len(found)
            for fact in facts:
                self._learn(fact, found)
            if len(found) == before:
                break
        return found

    def _learn(self, expr: SExpr, found: dict[str, str]) -> None:
        if isinstance(expr, Atom):
            return
        if expr.head == "=":
            known = next((s for s in (self.sort(e, found) for e in expr.items[1:]) if s), "")
            for side in expr.items[1:]:
                if known and is_variable(side):
                    found.setdefault(str(side), known)
        signature = self.signatures.get(expr.head)
        for i, argument in enumerate(expr.items[1:]):
            if signature is not None and i < len(signature.args) and is_variable(argument):
                found.setdefault(str(argument), signature.args[i])
            self._learn(argument, found)

    def sort(self, expr: SExpr, variables: Mapping[str, str]) -> str:
        """The sort of an expression, "" where it is not known."""
        if isinstance(expr, Atom):
            return variables.get(expr.text, "") if is_variable(expr) else ""
        signature = self.signatures.get(expr.head)
        if signature is not None:
            return signature.result
        if expr.head == "vec-get":
            return self.vec_sorts.get(self.sort(expr.items[1], variables), "")
        return "i64" if expr.head in ("+", "-", "*", "/", "%", "min", "max", "vec-length") else ""


def is_variable(expr: SExpr) -> bool:
    """Whether an expression is a variable: neither a literal, nor the wildcard, nor a list."""
    return isinstance(expr, Atom) and expr.text not in _NO_VARIABLES and expr.text[0] not in _LITERAL_HEADS


def variables_in(expr: SExpr) -> Iterator[str]:
    """The variables of an expression in order, each once per use."""
    if isinstance(expr, List):
        for item in expr.items[1:]:
            yield from variables_in(item)
    elif is_variable(expr):
        yield expr.text


@dataclass(frozen=True, slots=True)
class PlainRule:
    """A rule in its one basic form."""

    name: str
    ruleset: str
    body: tuple[SExpr, ...]
    actions: tuple[SExpr, ...]
    at: Position

    def __str__(self) -> str:
        body, actions = " ".join(map(str, self.body)), " ".join(map(str, self.actions))
        return f'(rule ({body}) ({actions}) :ruleset {self.ruleset} :name "{self.name}")'


def desugar(command: List, name: str, ruleset: str) -> tuple[PlainRule, ...]:
    """A rule, rewrite or birewrite as plain rules; the backward half of a birewrite is called `name<=`."""
    options = keyword_options(command)
    at = command.at
    if command.head == "rule":
        return (PlainRule(name, ruleset, _items(command.items[1]), _items(command.items[2]), at),)
    left, right = command.items[1], command.items[2]
    when = _items(options[":when"]) if ":when" in options else ()
    subsume = ":subsume" in options
    forward = _rewrite(left, right, when, subsume, name, ruleset, at)
    if command.head == "rewrite":
        return (forward,)
    return forward, _rewrite(right, left, when, subsume, name + BACKWARD, ruleset, at)


def keyword_options(command: List) -> dict[str, SExpr]:
    """The `:key value` options of a command; a flag such as :subsume maps to itself."""
    found: dict[str, SExpr] = {}
    items = command.items
    for i, item in enumerate(items):
        if isinstance(item, Atom) and item.text.startswith(":"):
            following = items[i + 1] if i + 1 < len(items) else item
            is_flag = isinstance(following, Atom) and following.text.startswith(":")
            found[item.text] = item if is_flag else following
    return found


def _rewrite(
    left: SExpr, right: SExpr, when: tuple[SExpr, ...], subsume: bool, name: str, ruleset: str, at: Position
) -> PlainRule:
    root = Atom("root__", at)
    actions: tuple[SExpr, ...] = (_call("union", root, right),)
    if subsume:
        actions = (*actions, _call("subsume", left))
    return PlainRule(name, ruleset, (_call("=", root, left), *when), actions, at)


def with_provenance(
    rule: PlainRule, scheme: Scheme, namings: Iterable[Naming] = NAMINGS
) -> tuple[PlainRule, tuple[EquationLog, ...]]:
    """The rule with logging of its unions of named sorts, and its equation logs.

    Raises EgshapeError where the sort of a union cannot be told, since its reason would be lost.
    """
    work = _Instrumented(rule, scheme, {n.sort: n for n in namings if n.function in scheme.signatures})
    return work.result()


class _Instrumented:
    """One rule while it is instrumented."""

    def __init__(self, rule: PlainRule, scheme: Scheme, namings: Mapping[str, Naming]) -> None:
        self.rule = rule
        self.scheme = scheme
        self.namings = namings
        self.sorts = scheme.sorts_of_variables(rule.body)
        self.body: list[SExpr] = list(rule.body)
        self.names: dict[str, Atom] = {}
        self.actions: list[SExpr] = []
        self.logs: list[EquationLog] = []
        self.made = 0

    def result(self) -> tuple[PlainRule, tuple[EquationLog, ...]]:
        rule = self.rule
        for action in rule.actions:
            self._action(action)
        plain = PlainRule(rule.name, rule.ruleset, tuple(self.body), tuple(self.actions), rule.at)
        return plain, tuple(self.logs)

    def _action(self, action: SExpr) -> None:
        head = action.head if isinstance(action, List) else ""
        if not isinstance(action, List) or head == "subsume":
            self.actions.append(action)
        elif head == "union":
            self._union(action.items[1], action.items[2])
        elif head == "let":
            value = self._named_terms(action.items[2], keep_root=False)
            self.sorts[str(action.items[1])] = self.scheme.sort(action.items[2], self.sorts)
            self.actions.append(_call("let", action.items[1], value))
        elif head == "set":
            target = self._named_terms(action.items[1], keep_root=True)
            self.actions.append(_call("set", target, self._named_terms(action.items[2], keep_root=False)))
        else:
            made = self._named_terms(action, keep_root=False)
            if isinstance(made, List):  # else it was made by a `let`
                self.actions.append(made)

    def _union(self, left: SExpr, right: SExpr) -> None:
        sort = self.scheme.sort(left, self.sorts) or self.scheme.sort(right, self.sorts)
        if not sort:
            raise EgshapeError(
                f"the sort of (union {left} {right}) cannot be told, so its reason would be lost",
                where=str(self.rule.at),
                hint="bind one side in the rule's body with a declared function",
                code="rules",
            )
        naming = self.namings.get(sort)
        if naming is None:
            both = [self._named_terms(side, keep_root=True) for side in (left, right)]
            self.actions.append(_call("union", *both))
        elif naming.relation:
            self._named_union(naming, left, right)
        else:
            self.actions.append(_call("union", left, right))
            self._equation(naming, left, right)

    def _named_union(self, naming: Naming, left: SExpr, right: SExpr) -> None:
        if not is_variable(left) and is_variable(right):
            left, right = right, left
        name = self._name(naming, left) if self._bound(left) else None
        left = self._named_terms(left, keep_root=name is not None)
        if name is None:
            name = self._base_name(naming)
        other: SExpr = self._name(naming, right) if self._bound(right) else Atom(str(NO_NAME), self.rule.at)
        right = self._named_terms(right, keep_root=True)
        self.actions.append(_call("union", left, right))
        reason = Atom(f'"{self.rule.name}"', self.rule.at)
        self.actions.append(_call(naming.relation, name, other, reason))

    def _equation(self, naming: Naming, left: SExpr, right: SExpr) -> None:
        columns: dict[str, SExpr] = {}
        for variable in (*variables_in(left), *variables_in(right)):
            sort = self.sorts.get(variable)
            atom = Atom(variable, self.rule.at)
            if sort == naming.sort and self._bound(atom):
                columns[variable] = self._name(naming, atom)
            elif sort == "i64":
                columns[variable] = atom
        table = f"{self.rule.name}#{len(self.logs)}"
        self.logs.append(EquationLog(table, self.rule.name, tuple(columns), left, right))
        self.actions.append(_call(table, *columns.values()))

    def _bound(self, expr: SExpr) -> bool:
        return is_variable(expr) and any(str(expr) in variables_in(fact) for fact in self.rule.body)

    def _name(self, naming: Naming, variable: SExpr) -> Atom:
        """The i64 variable that holds the name of a body variable's class."""
        key = str(variable)
        if key not in self.names:
            self.names[key] = Atom(f"name__{len(self.names)}", self.rule.at)
            self.body.append(_call("=", self.names[key], _call(naming.function, variable)))
        return self.names[key]

    def _base_name(self, naming: Naming) -> Atom:
        """The name of the first body variable of the sort, after which new terms are called."""
        for variable, sort in self.sorts.items():
            atom = Atom(variable, self.rule.at)
            if sort == naming.sort and self._bound(atom):
                return self._name(naming, atom)
        raise EgshapeError(
            f"rule {self.rule.name} makes a {naming.sort} out of nothing, so it can have no reason",
            where=str(self.rule.at),
            hint=f"bind a {naming.sort} variable in the rule's body",
            code="rules",
        )

    def _named_terms(self, expr: SExpr, *, keep_root: bool) -> SExpr:
        """The expression with its new terms of named sorts bound by `let` and named.

        `keep_root`: the outermost term needs no name, being united with a named class.
        """
        if isinstance(expr, Atom):
            return expr
        arguments = tuple(self._named_terms(item, keep_root=False) for item in expr.items[1:])
        term = List((expr.items[0], *arguments), expr.at)
        signature = self.scheme.signatures.get(expr.head)
        naming = self.namings.get(signature.result) if signature is not None else None
        if keep_root or naming is None or not naming.relation:
            return term
        self.made += 1
        base = self._base_name(naming)
        fresh = Atom(f"made__{self.made}", expr.at)
        name = _call("+", base, Atom(str(NAME_STRIDE * self.made), expr.at))
        self.actions.append(_call("let", fresh, term))
        self.actions.append(_call("set", _call(naming.function, fresh), name))
        return fresh


def declarations(logs: Iterable[EquationLog]) -> Iterator[str]:
    """The relations that the equation logs need; every column is an i64."""
    for log in logs:
        yield f"(relation {log.table} ({' '.join(['i64'] * len(log.variables))}))"


def _call(head: str, *args: SExpr) -> List:
    at = args[0].at if args else Position("<generated>", 0, 0)
    return List((Atom(head, at), *args), at)


def _items(expr: SExpr) -> tuple[SExpr, ...]:
    return expr.items if isinstance(expr, List) else (expr,)


def _sorts(expr: SExpr) -> tuple[str, ...]:
    return tuple(str(item) for item in _items(expr))
