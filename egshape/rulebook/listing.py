"""Which rules there are, what each says of itself, and the language that rules speak."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, cast, get_args

from egshape.decide.reason import Rule as Label
from egshape.egraph.program import preludes
from egshape.errors import EgshapeError
from egshape.ops import REGISTRY
from egshape.ops.base import OpDecl
from egshape.reasons.steps import GIVENS, KINDS, StepKind
from egshape.rulebook.models import OpEntry, RuleEntry
from egshape.rulelang import plugins
from egshape.rulelang.loader import LoadedRules, Rule, find_rulesets, load_rulesets, shipped_rulesets
from egshape.rulelang.schema import CORE, ELEMENTWISE, constructor, has_constructor
from egshape.rulelang.sexpr import Comment, List, read
from egshape.spelling import meant

Kind = Literal["op", "elementwise op", "constructor", "function", "relation", "input table"]


def list_rules(items: Sequence[str] = ()) -> list[RuleEntry]:
    """The rules of some files or rulesets; of all that are shipped and installed if none are given.

    Raises EgshapeError for a wrong file and an unknown name."""
    named = bool(items)
    wanted = items if named else (*shipped_rulesets(), *(point.name for point in plugins.packages()))
    files = [each for item in wanted for each in find_rulesets(item)]
    loaded = load_rulesets(files, provenance=False, preludes=preludes())
    packages = {str(path): point.name for point in plugins.packages() for path in plugins.files_of(point).values()}
    asked = {name for file in files for name in _names_of(file, loaded)}
    return [_entry(rule, packages) for rule in loaded.rules if rule.ruleset in asked]


def _names_of(item: str, loaded: LoadedRules) -> Iterator[str]:
    yield from (each.name for each in loaded.rulesets if item in (each.name, each.file))


def _entry(rule: Rule, packages: Mapping[str, str]) -> RuleEntry:
    origin = "shipped" if rule.ruleset in shipped_rulesets() else packages.get(rule.file, "file")
    return RuleEntry(
        name=rule.name,
        ruleset=rule.ruleset,
        origin=origin,
        where=rule.where,
        about=rule.comment,
        sound=rule.sound,
        ends=rule.ends,
        guards=rule.guards,
        examples=tuple(_line(each.before, each.after) for each in rule.examples),
        counters=tuple(_line(each.before, each.after) for each in rule.counters),
        text=rule.text,
    )


def _line(before: str, after: str) -> str:
    return f"{before}  =>  {after}" if after else before


def find_rule(name: str, items: Sequence[str] = ()) -> RuleEntry:
    """One rule by name, or what else a step may be named after. Raises EgshapeError for an unknown name, with
    the nearest one."""
    if name in KINDS:
        return _kind(KINDS[name])
    found = [*list_rules(), *(list_rules(items) if items else ())]
    every: dict[str, RuleEntry] = {each.name: each for each in found}
    name = Label.of(name).name
    if name in every:
        return every[name]
    hint = meant(name, {**every, **KINDS}, "egshape rules list shows all")
    raise EgshapeError(f"there is no rule named {name}", hint=hint, code="rules")


def _kind(kind: StepKind) -> RuleEntry:
    """What is no rule of a file: given, or theory."""
    return RuleEntry(
        name=kind.name,
        ruleset="",
        origin="given" if kind in GIVENS else "theory",
        where="docs/explain.md",
        about=kind.about,
        sound=kind.sound,
        ends="",
        guards=(),
        examples=(kind.example,),
        counters=(),
        text=kind.states,
    )


def show_rule(entry: RuleEntry) -> str:
    """A rule as a person reads it."""
    lines = [f"{entry.name}   ({entry.where}, {entry.origin})", f"  {entry.about}"]
    for what, text in (("sound", entry.sound), ("ends", entry.ends), ("guards", " ".join(entry.guards))):
        if text:
            lines.append(f"  {what}: {text}")
    lines += [
        f"  {entry.text}",
        *(f"  example   {each}" for each in entry.examples),
        *(f"  counter   {each}" for each in entry.counters),
    ]
    return "\n".join(lines)


# -- the language ----


def prelude(word: str = "") -> list[OpEntry]:
    """All ops, functions and relations that rules may use, or those whose name contains a word."""
    kinds = get_args(Kind)
    words = sorted([*_ops(), *_declared()], key=lambda each: kinds.index(each.kind))
    return [each for each in words if word.lower() in each.name.lower()]


def _ops() -> Iterator[OpEntry]:
    for decl in cast("list[OpDecl]", sorted(REGISTRY, key=lambda each: each.name)):
        if decl.family in ELEMENTWISE:
            name = ".".join([decl.name, *(attr.name.upper() for attr in decl.attrs)])
            operands = " ".join(decl.operands)
            yield OpEntry(
                name=decl.name,
                kind="elementwise op",
                custom=decl.custom,
                doc=decl.doc,
                result="T",
                form=f'({decl.family.capitalize()} "{name}" {operands})',
                args=("T",) * len(decl.operands),
            )
        elif has_constructor(decl):
            form = constructor(decl)
            names = [*(each.removeprefix("*") for each in decl.operands), *(attr.name for attr in decl.attrs)]
            yield OpEntry(
                name=decl.name,
                kind="op",
                custom=decl.custom,
                doc=decl.doc,
                result="T",
                form=f"({' '.join([decl.name, *names])})",
                args=(*form.operands, *form.attrs),
            )


def _declared() -> Iterator[OpEntry]:
    """The words of both preludes; the comment above a group of declarations is the doc of each."""
    shape = load_rulesets(["prelude.shape"], provenance=False).sources
    for text in (*shape.values(), CORE):
        comment: list[Comment] = []
        for item in read(text):
            if isinstance(item, Comment):  # one that does not go on from the line above starts over
                comment = [*(comment if comment and comment[-1].at.line == item.at.line - 1 else []), item]
            elif isinstance(item, List):
                yield from _words(item, " ".join(each.text.lstrip("; ") for each in comment))


def _words(item: List, doc: str) -> Iterator[OpEntry]:
    """What one command declares: a word, or each form of a datatype."""
    if item.head in ("constructor", "function", "relation"):
        args, result = item.items[2], "" if item.head == "relation" else str(item.items[3])
        yield _word(item.head, str(item.items[1]), args.items if isinstance(args, List) else (), result, doc)
    elif item.head == "datatype":
        for form in item.items[2:]:
            if isinstance(form, List):
                yield _word("constructor", form.head, form.items[1:], str(item.items[1]), doc)


def _word(head: str, name: str, sorts: Sequence[object], result: str, doc: str) -> OpEntry:
    args = tuple(map(str, sorts))
    table = re.match(r"(in_|fold_|name_)", name) is not None
    return OpEntry(
        name=name,
        kind="input table" if table else cast(Kind, head),
        form=f"({' '.join([name, *args])})",
        args=args,
        result=result,
        doc=doc,
    )
