"""Whether a rule speaks the e-graph's language: names, arities, sorts, bound variables, and actions that can fail.

egglog finds such mistakes too, one at a time and at a place in generated text; here each is named where the author
wrote it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from egshape.ops.base import Registry
from egshape.rulelang.diagnostic import WARNING, Diagnostic, wrong
from egshape.rulelang.provenance import PlainRule, Scheme, is_variable, variables_in
from egshape.rulelang.schema import ELEMENTWISE
from egshape.rulelang.sexpr import Atom, List, SExpr
from egshape.rulelang.strings import check_strings
from egshape.spelling import meant, nearest

ANY = 99


@dataclass(frozen=True, slots=True)
class Primitive:
    """A function of the engine itself: how many arguments it takes, their sort and the result's ("" for any).

    ``partial``: it may have no value, which is no match in a body and ends the engine in an action."""

    least: int
    most: int
    args: str = ""
    result: str = ""
    partial: bool = False


_I64 = Primitive(2, ANY, "i64", "i64", partial=True)
_COMPARE = Primitive(2, 2, "i64")
PRIMITIVES: Mapping[str, Primitive] = {
    **dict.fromkeys(("+", "*"), _I64),
    **dict.fromkeys(("-", "/", "%"), Primitive(2, 2, "i64", "i64", partial=True)),
    **dict.fromkeys(("min", "max"), Primitive(2, ANY, "i64", "i64")),
    **dict.fromkeys(("<", ">", "<=", ">="), _COMPARE),
    **dict.fromkeys(("&", "|", "^", "<<", ">>"), Primitive(2, 2, "i64", "i64", partial=True)),
    "abs": Primitive(1, 1, "i64", "i64", partial=True),
    "!=": Primitive(2, 2),
    "vec-of": Primitive(0, ANY),
    "vec-empty": Primitive(0, 0),
    "vec-length": Primitive(1, 1, "", "i64"),
    "vec-get": Primitive(2, 2, partial=True),
    "vec-set": Primitive(3, 3, partial=True),
    "vec-push": Primitive(2, 2),
    "vec-pop": Primitive(1, 1, partial=True),
    "vec-remove": Primitive(2, 2, partial=True),
    "vec-append": Primitive(1, ANY),
    "vec-contains": Primitive(2, 2),
    "vec-not-contains": Primitive(2, 2),
    "unstable-fn": Primitive(1, ANY),
    "unstable-app": Primitive(1, ANY, partial=True),
    "unstable-vec-map": Primitive(2, 2, partial=True),
}
_MADE_OF = frozenset(("vec-of", "vec-empty"))
_SAME_VECTOR = frozenset(("vec-set", "vec-push", "vec-pop", "vec-remove", "vec-append"))
_REFUSED = {
    "panic": "ends the engine",
    "delete": "takes facts away that others rely on",
    "extract": "prints",
}
_RESERVED = re.compile(
    r"(in|fold|name|splat)_\w+|nm|dn|why|live|axes_of|P|Node|Shp|List|term|factor|remainder|mirror|whole|near|shared|backward"
    r"|goal|axis|neutral|neutral_right|absorbing|negating|identity|increasing|inverse|expands|result_dtype|is_convert|keeps|involution|idempotent"
    r"|selects|wraps|is_true|is_false|at_most|apart|unit_moves|nothing|unbroadcast|unreshape|untranspose|unslice"
)
"""What egshape states: a rule that did would make wrong rules of the shipped ones, and nobody would tell which."""
_STRING, _FLOAT = re.compile(r'"'), re.compile(r"-?\d+\.\d*(?:[eE][-+]?\d+)?|-?inf|NaN")


def check_rule(rule: PlainRule, scheme: Scheme, registry: Registry, unread: Collection[str] = ()) -> list[Diagnostic]:
    """Everything that is wrong with the words of one rule. ``unread``: names that may mean anything."""
    work = _Rule(rule, scheme, registry, unread)
    work.body()
    work.actions()
    return list(dict.fromkeys([*work.problems, *check_strings(rule, registry)]))


def variable_sorts(rule: PlainRule, scheme: Scheme, registry: Registry) -> dict[str, str]:
    """The sort of each variable of a rule, as conditions and actions show it; "" where nothing does."""
    work = _Rule(rule, scheme, registry)
    work.body()
    work.actions()
    return {name: sort for name, (sort, _) in work.sorts.items()}


@dataclass
class _Rule:
    rule: PlainRule
    scheme: Scheme
    registry: Registry
    unread: Collection[str] = ()
    problems: list[Diagnostic] = field(default_factory=list)
    sorts: dict[str, tuple[str, SExpr]] = field(default_factory=dict)
    """The sort of each variable, and where it was seen."""
    quiet: bool = False

    def say(self, expr: SExpr, code: str, message: str, hint: str = "", severity: str = "error") -> None:
        if not self.quiet:
            self.problems.append(wrong(expr, code, message, hint, rule=self.rule.name, severity=severity))

    # -- body ----

    def body(self) -> None:
        self.quiet = True
        for _ in range(2):  # what a later fact says of a variable helps to read an earlier one
            for fact in self.rule.body:
                self.fact(fact)
        self.quiet = False
        for fact in self.rule.body:
            self.fact(fact)
        self.unbound_guards()

    def fact(self, fact: SExpr) -> None:
        if not isinstance(fact, List):
            self.say(fact, "form", f"{fact} stands alone, it is no condition", "write (= variable term), or a relation")
        elif fact.head == "=":
            if len(fact.items) < 3:
                self.say(fact, "arity", "= takes at least 2 arguments", "write (= variable term)")
                return
            known = ""
            for item in fact.items[1:]:
                known = known or self.sort(item, "")
            for item in fact.items[1:]:
                self.sort(item, known)
        else:
            self.sort(fact, "", condition=True)

    def unbound_guards(self) -> None:
        bound = bound_by(self.rule.body)
        for fact in self.rule.body:
            for atom in _variables(fact):
                if atom.text not in bound:
                    inside = any(atom in call.items for call in _calls(fact) if call.head in _MADE_OF)
                    hint = "an element of a vector v is bound by (= name (vec-get v 0)), not by (vec-of name ...)"
                    self.say(
                        atom,
                        "unbound",
                        f"nothing binds the variable {atom.text}",
                        hint if inside else meant(atom.text, bound, "let a pattern in the rule's body hold it"),
                    )
                    bound.add(atom.text)

    # -- actions ----

    def actions(self) -> None:
        bound = set(self.sorts) | bound_by(self.rule.body)
        for action in self.rule.actions:
            self.action(action, bound)

    def action(self, action: SExpr, bound: set[str]) -> None:
        if not isinstance(action, List):
            self.say(action, "form", f"{action} is no action", "write (union a b), (set (f x) v), or a relation")
            return
        head, items = action.head, action.items
        if head in _REFUSED:
            self.say(
                action, "action", f"the action {head} {_REFUSED[head]}", "a rule only adds: union, set, or a relation"
            )
            return
        self.bound(items[2] if head == "let" and len(items) > 2 else action, bound)
        if head == "let":
            if len(items) == 3 and is_variable(items[1]):
                self.sorts[str(items[1])] = (self.sort(items[2], ""), items[1])
                bound.add(str(items[1]))
            else:
                self.say(action, "arity", "let takes a variable and a term", "write (let name term)")
        elif head == "union":
            self.union(action)
        elif head == "subsume":
            return  # of the left side, which was read as a condition
        elif head == "set":
            if len(items) != 3 or not isinstance(items[1], List):
                self.say(action, "arity", "set takes a function's term and a value", "write (set (f x) value)")
                return
            self.reserved(items[1])
            self.sort(items[2], self.sort(items[1], ""))
        else:
            self.reserved(action)
            self.sort(action, "", condition=True)
        self.may_fail(action)

    def union(self, action: List) -> None:
        if len(action.items) != 3:
            self.say(action, "arity", f"union takes 2 terms, not {len(action.items) - 1}", "write (union a b)")
            return
        left, right = action.items[1:]
        sort = self.sort(left, "")
        other = self.sort(right, sort)
        if not sort and other:
            self.sort(left, other)

    def bound(self, expr: SExpr, bound: set[str]) -> None:
        for atom in _variables(expr):
            if atom.text not in bound and atom.text != "root__":
                self.say(
                    atom,
                    "unbound",
                    f"nothing binds the variable {atom.text}",
                    meant(atom.text, bound - {"root__"}, "let the left side or a condition hold it"),
                )

    def reserved(self, target: List) -> None:
        if _RESERVED.fullmatch(target.head) and target.head in self.scheme.signatures:
            self.say(
                target, "reserved", f"rules do not write {target.head}: egshape fills it", "use it in conditions only"
            )

    def may_fail(self, action: SExpr) -> None:
        """Name arithmetic that can have no value: a failing primitive in an action ends the engine."""
        for call in _calls(action):
            primitive = PRIMITIVES.get(call.head)
            if primitive is None or not primitive.partial or self.cannot_fail(call):
                continue
            kind = "can overflow" if primitive.result == "i64" else "can have no value"
            self.say(
                call,
                "overflow" if primitive.result == "i64" else "may-fail",
                f"({call.head} ...) in an action {kind}, and that ends the engine",
                f"compute it in the body, where that is no match: (= v {call})",
            )

    def cannot_fail(self, call: List) -> bool:
        """(- v n) with a guard that keeps v above 0; an element that the body has read already."""
        if call.head in ("vec-get", "vec-set"):
            reading = f"(vec-get {' '.join(map(str, call.items[1:3]))})"
            return any(reading == str(each) for fact in self.rule.body for each in _calls(fact))
        if call.head != "-" or len(call.items) != 3:
            return False
        left, right = call.items[1:]
        if not (is_variable(left) and isinstance(right, Atom) and right.text.isdigit()):
            return False
        guards = [fact for fact in self.rule.body if isinstance(fact, List) and len(fact.items) == 3]
        return any(
            str(fact.items[1]) == str(left) and fact.head in (">", ">=") and str(fact.items[2]).isdigit()
            for fact in guards
        )

    # -- sorts ----

    def sort(self, expr: SExpr, wanted: str, condition: bool = False) -> str:
        """The sort of an expression, "" if it cannot be told; complaints where it is not the wanted one."""
        if isinstance(expr, Atom):
            found = self.atom(expr, wanted)
        elif not expr.head:
            self.say(expr, "form", "a term begins with the name of an op, function or relation", "(op operand ...)")
            return ""
        elif expr.head in _MADE_OF:
            found = self.vector(expr, wanted)
        else:
            found = self.call(expr, condition)
        if wanted and found and found != wanted:
            self.say(expr, "sort", f"{_short(expr)} is {_a(found)}, {_a(wanted)} is wanted here", _sort_hint(wanted))
        return found

    def vector(self, call: List, wanted: str) -> str:
        """The sort of a vector that is written out: its elements, or what is wanted of it, tell which it is."""
        of, items = self.scheme.vec_sorts, call.items[1:]
        if call.head == "vec-empty" and items:
            self.say(call, "arity", f"vec-empty takes 0 arguments, not {len(items)}", "(vec-of ...) has elements")
        if wanted in of or not wanted:
            element = of.get(wanted, "")
            found = {self.sort(item, element) for item in items}
            return wanted or next((sort for sort, each in of.items() if found == {each}), "")
        for item in items:
            self.sort(item, "")
        hint = f"a shape of these sizes is (Sh {_short(call)})" if wanted == "Shape" else _sort_hint(wanted)
        self.say(call, "sort", f"{_short(call)} is a vector, {_a(wanted)} is wanted here", hint)
        return ""

    def atom(self, atom: Atom, wanted: str) -> str:
        if atom.is_string:
            return "String"
        if _FLOAT.fullmatch(atom.text):
            return "f64"
        if atom.text.lstrip("-").isdigit():
            return "i64"
        if atom.text in ("true", "false"):
            return "bool"
        if not is_variable(atom):
            return ""
        known = self.sorts.get(atom.text)
        if known is None:
            if wanted:
                self.sorts[atom.text] = (wanted, atom)
            return wanted
        sort, place = known
        if wanted and sort and sort != wanted:
            self.say(
                atom,
                "sort",
                f"{atom.text} is {_a(wanted)} here, and {_a(sort)} at {place.at.line}:{place.at.column}",
                "use two variables",
            )
            return wanted
        if not sort and wanted:
            self.sorts[atom.text] = (wanted, atom)
        return sort or wanted

    def call(self, call: List, condition: bool) -> str:
        signature = self.scheme.signatures.get(call.head)
        args = [item for item in call.items[1:] if not str(item).startswith(":")]
        if signature is not None:
            if len(args) != len(signature.args):
                self.say(
                    call,
                    "arity",
                    f"{call.head} takes {_count(signature.args)}, not {len(args)}",
                    f"{call.head} : ({' '.join(signature.args)}) -> {signature.result or 'relation'}",
                )
                for arg in args:
                    self.sort(arg, "")
                return signature.result
            for arg, wanted in zip(args, signature.args, strict=True):
                self.sort(arg, wanted)
            if call.head.lower() in ELEMENTWISE and call.head[0].isupper():
                self.function(call, args)
            if not signature.result and not condition:
                self.say(call, "sort", f"{call.head} is a relation, it has no value", "make it a condition of its own")
            return signature.result
        primitive = PRIMITIVES.get(call.head)
        if primitive is None:
            if call.head not in self.unread:
                self.unknown(call)
            for arg in args:
                self.sort(arg, "")
            return ""
        return self.primitive(call, args, primitive)

    def primitive(self, call: List, args: Sequence[SExpr], primitive: Primitive) -> str:
        if not primitive.least <= len(args) <= primitive.most:
            many = f"{primitive.least}" if primitive.least == primitive.most else f"at least {primitive.least}"
            self.say(call, "arity", f"{call.head} takes {many} arguments, not {len(args)}", "see rulesets/README.md")
            return ""
        found = [self.sort(arg, primitive.args) for arg in args]
        if call.head == "vec-get":
            self.sort(args[1], "i64")
            return self.scheme.vec_sorts.get(found[0], "")
        if call.head in _SAME_VECTOR:
            return found[0]
        return primitive.result

    def unknown(self, call: List) -> None:
        names = {name for name in self.scheme.signatures if not name.startswith("in_")} | set(PRIMITIVES)
        known_op = call.head in self.registry and self.registry[call.head].family in ELEMENTWISE
        if known_op:
            family = self.registry[call.head].family.capitalize()
            operands = " ".join(self.registry[call.head].operands)
            hint = f'an elementwise op is ({family} "{call.head}" {operands})'
        else:
            elementwise = {decl.name for decl in self.registry if decl.family in ELEMENTWISE}
            near = nearest(call.head, names) or nearest(call.head, elementwise)
            hint = f"did you mean {near}?" if near else "egshape rules prelude lists all ops, functions and relations"
            if near in elementwise and near not in names:
                hint = f'did you mean ({self.registry[near].family.capitalize()} "{near}" ...)?'
        self.say(call, "unknown-op", f"no op, function or relation is named {call.head}", hint)

    def function(self, call: List, args: Sequence[SExpr]) -> None:
        """The name of an elementwise function, where it is written out."""
        first = args[0]
        if not isinstance(first, Atom) or not first.is_string:
            return
        name, *values = first.value.split(".")
        family = call.head.lower()
        fitting = {decl.name for decl in self.registry if decl.family == family}
        if name not in self.registry or self.registry[name].family not in ELEMENTWISE:
            self.say(
                first,
                "unknown-op",
                f"no elementwise op is named {name}",
                meant(name, fitting, "`egshape rules prelude` lists them"),
            )
        elif name not in fitting:
            takes = _count(self.registry[name].operands, "operand")
            self.say(
                first,
                "arity",
                f"{name} takes {takes}, {call.head} is for {ELEMENTWISE[family]}",
                f"write ({self.registry[name].family.capitalize()} {first.text} ...)",
            )
        elif len(values) != len(self.registry[name].attrs):
            wanted = ".".join([name, *(attr.name.upper() for attr in self.registry[name].attrs)])
            self.say(
                first,
                "attribute",
                f"{name} has {_count(self.registry[name].attrs, 'attribute')}, written behind dots",
                f'write "{wanted}"',
            )


def bound_by(body: Iterable[SExpr]) -> set[str]:
    """The variables that a body binds: those in patterns, and those equal to something computed from bound ones."""
    facts = list(body)
    bound = {name for fact in facts for name in _in_patterns(fact)}
    changed = True
    while changed:
        changed = False
        for fact in facts:
            if not isinstance(fact, List) or fact.head != "=":
                continue
            sides = fact.items[1:]
            if any(_known(side, bound) for side in sides):
                new = {str(side) for side in sides if is_variable(side)} - bound
                changed = changed or bool(new)
                bound |= new
    return bound


def _known(side: SExpr, bound: set[str]) -> bool:
    if isinstance(side, Atom):
        return not is_variable(side) or side.text in bound
    return side.head not in PRIMITIVES or set(variables_in(side)) <= bound


def _in_patterns(fact: SExpr) -> Iterator[str]:
    if not isinstance(fact, List):
        return
    pattern = fact.head not in PRIMITIVES and fact.head != "="  # an unknown name is complained about elsewhere
    for item in fact.items[1:]:
        if isinstance(item, List):
            yield from _in_patterns(item)
        elif pattern and is_variable(item):
            yield item.text


def _variables(expr: SExpr) -> Iterator[Atom]:
    if isinstance(expr, List):
        for item in expr.items[1:]:
            yield from _variables(item)
    elif is_variable(expr) and not expr.text.startswith(":"):
        yield expr


def _calls(expr: SExpr) -> Iterator[List]:
    if isinstance(expr, List):
        yield expr
        for item in expr.items[1:]:
            yield from _calls(item)


def _count(items: Sequence[object], what: str = "argument") -> str:
    return f"{len(items)} {what}{'' if len(items) == 1 else 's'}"


def _short(expr: SExpr) -> str:
    text = str(expr)
    return text if len(text) <= 40 else text[:37] + "..."


_SORTS = {
    "T": "a tensor",
    "Ts": "a list of tensors",
    "Dim": "a size",
    "Shape": "a shape",
    "Dims": "a vector of sizes",
    "Axes": "a list of axes",
    "i64": "an integer",
    "String": "a string",
    "f64": "a float",
    "bool": "a truth value",
}


def _a(sort: str) -> str:
    return f"{_SORTS[sort]} ({sort})" if sort in _SORTS else f"a {sort}"


_HINTS = {
    "Dim": "a number as a size is (Num n)",
    "Shape": "a shape is (Sh sizes), or (ShapeOf tensor)",
    "Ts": "a list is (Cons first rest), it ends with (Nil)",
    "Axes": "axes are (vec-of 1 0)",
    "String": 'names are in quotes: "add"',
}


def _sort_hint(wanted: str) -> str:
    return _HINTS.get(wanted, "`egshape rules prelude` shows what each op takes")


__all__ = ["PRIMITIVES", "WARNING", "bound_by", "check_rule"]
