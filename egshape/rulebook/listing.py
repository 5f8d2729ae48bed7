"""Which rules there are, what each says of itself, and the language that rules speak."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, cast

from egshape.egraph import plugins
from egshape.egraph.diagnostic import meant
from egshape.egraph.program import preludes
from egshape.egraph.rules import LoadedRules, Rule, find_rulesets, load_rulesets, shipped_rulesets
from egshape.egraph.schema import CORE, ELEMENTWISE, constructor, has_constructor
from egshape.egraph.sexpr import Comment, List, read
from egshape.errors import EgshapeError
from egshape.ops import REGISTRY
from egshape.ops.base import OpDecl
from egshape.rulebook.models import OpEntry, RuleEntry

Kind = Literal["op", "elementwise op", "constructor", "function", "relation", "input table"]


def list_rules(items: Sequence[str] = ()) -> list[RuleEntry]:
    """The rules of some files or rulesets; of all that are shipped and installed if none are given.

    Raises EgshapeError for a wrong file and an unknown name."""
    named = bool(items)
    wanted = items if named else (*shipped_rulesets(), *(point.name for point in plugins.packages()))
    files = [each for item in wanted for each in find_rulesets(item)]
    loaded = load_rulesets(files, instrument=False, preludes=preludes())
    packages = {str(path): point.name for point in plugins.packages() for path in plugins.files_of(point).values()}
    asked = {name for file in files for name in _names_of(file, loaded)}
    return [_entry(rule, packages) for rule in loaded.rules if rule.ruleset in asked]


def _names_of(item: str, loaded: LoadedRules) -> Iterator[str]:
    yield from (each.name for each in loaded.rulesets if item in (each.name, each.file))


def _entry(rule: Rule, packages: Mapping[str, str]) -> RuleEntry:
    origin = "shipped" if rule.ruleset in shipped_rulesets() else packages.get(rule.file, "file")
    return RuleEntry(name=rule.name, ruleset=rule.ruleset, origin=origin, where=rule.where, about=rule.comment,
                     sound=rule.sound, ends=rule.ends, guards=rule.guards,
                     examples=tuple(_line(each.before, each.after) for each in rule.examples),
                     counters=tuple(_line(each.before, each.after) for each in rule.counters), text=rule.text)


def _line(before: str, after: str) -> str:
    return f"{before}  =>  {after}" if after else before


def find_rule(name: str, items: Sequence[str] = ()) -> RuleEntry:
    """One rule by name. Raises EgshapeError for an unknown one, with the nearest name."""
    found = [*list_rules(), *(list_rules(items) if items else ())]
    every: dict[str, RuleEntry] = {each.name: each for each in found}
    if name in every:
        return every[name]
    hint = meant(name, every, "`egshape rules list` shows all")
    raise EgshapeError(f"there is no rule named {name}", hint=hint, code="rules")


def show_rule(entry: RuleEntry) -> str:
    """A rule as a person reads it."""
    lines = [f"{entry.name}   ({entry.where}, {entry.origin})", f"  {entry.about}"]
    for what, text in (("sound", entry.sound), ("ends", entry.ends), ("guards", " ".join(entry.guards))):
        if text:
            lines.append(f"  {what}: {text}")
    lines += [f"  {entry.text}", *(f"  example   {each}" for each in entry.examples),
              *(f"  counter   {each}" for each in entry.counters)]
    return "\n".join(lines)


# -- the language ----


def prelude(word: str = "") -> list[OpEntry]:
    """All ops, functions and relations that rules may use, or those whose name contains a word."""
    words = [*_ops(), *_declared()]
    return [each for each in words if word.lower() in each.name.lower()]


def _ops() -> Iterator[OpEntry]:
    for decl in cast("list[OpDecl]", sorted(REGISTRY, key=lambda each: each.name)):
        if decl.family in ELEMENTWISE:
            name = ".".join([decl.name, *(attr.name.upper() for attr in decl.attrs)])
            operands = " ".join(decl.operands)
            yield OpEntry(name=decl.name, kind="elementwise op", custom=decl.custom, doc=decl.doc, result="T",
                          form=f'({decl.family.capitalize()} "{name}" {operands})', args=("T",) * len(decl.operands))
        elif has_constructor(decl):
            form = constructor(decl)
            names = [*(each.removeprefix("*") for each in decl.operands), *(attr.name for attr in decl.attrs)]
            yield OpEntry(name=decl.name, kind="op", custom=decl.custom, doc=decl.doc, result="T",
                          form=f"({' '.join([decl.name, *names])})", args=(*form.operands, *form.attrs))


def _declared() -> Iterator[OpEntry]:
    """The words of both preludes, the input tables last; the comment above a declaration is its doc."""
    shape = load_rulesets(["prelude.shape"], instrument=False).sources
    tables: list[OpEntry] = []
    for text in (*shape.values(), CORE):
        comment = ""
        for item in read(text):
            if isinstance(item, Comment):
                comment = (comment + " " + item.text.lstrip("; ")).strip()
                continue
            if isinstance(item, List) and item.head in ("constructor", "function", "relation"):
                entry = _word(item, "" if comment.startswith("ruleset:") else comment)
                if entry.kind == "input table":
                    tables.append(entry)
                else:
                    yield entry
            comment = comment if item.head in ("constructor", "function", "relation") else ""  # type: ignore[union-attr]
    yield from tables


def _word(item: List, doc: str) -> OpEntry:
    name, sorts = str(item.items[1]), item.items[2]
    args = tuple(str(each) for each in sorts.items) if isinstance(sorts, List) else ()
    table = re.match(r"(in_|fold_|name_)", name) is not None
    kind = "input table" if table else cast(Kind, item.head)
    result = "" if item.head == "relation" else str(item.items[3])
    return OpEntry(name=name, kind=kind, form=f"({' '.join([name, *args])})", args=args, result=result, doc=doc)
