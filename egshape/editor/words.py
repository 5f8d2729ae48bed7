"""The words that rules may use, where each is declared, and how an editor shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from egshape.ops import REGISTRY
from egshape.rulebook.listing import prelude
from egshape.rulebook.models import OpEntry
from egshape.rulelang import schema
from egshape.rulelang.loader import CONTRACTS, LoadedRules, load_rulesets, locate, shipped_rulesets
from egshape.rulelang.rulefile import Rule
from egshape.rulelang.schema import declarations
from egshape.rulelang.sexpr import Atom, List, read
from egshape.rulelang.size_decl import SizeDecl
from egshape.rulelang.typecheck import PRIMITIVES

KEYWORDS: Mapping[str, str] = {
    "rule": "(rule (FACT ...) (ACTION ...) :ruleset R :name N)",
    "rewrite": "(rewrite LEFT RIGHT :when (CONDITION ...) :ruleset R :name N)",
    "birewrite": "(birewrite LEFT RIGHT :ruleset R :name N): both ways",
    "size": '(size NAME (ARGUMENT ...) :is "EXPRESSION"), or :python "FORMULA"',
    "union": "(union a b): an action; both are equal",
    "set": "(set (f x) value): an action; the value of a function",
    "let": "(let name term): an action; a name for a term",
    ":when": "conditions of a rewrite",
    ":ruleset": "the ruleset of the file, in each rule",
    ":name": '"ruleset/words-with-dashes"',
    ":subsume": "the left side is dropped once the rule has fired",
    ":is": "a size function as an expression",
    ":python": "a size function as a formula",
    ":emitted": "what saved models and compiled code compute instead of the formula",
    ":defined": "where a size function has a value",
}
COMMANDS = ("rule", "rewrite", "birewrite", "size")
"""The keywords that begin a command."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is declared: a path, and line, column and length, counted from 1."""

    path: Path
    line: int
    column: int = 1
    length: int = 1


@dataclass(frozen=True)
class Shipped:
    """What egshape itself declares: words with their entries, where they are declared, and all rules."""

    entries: Mapping[str, OpEntry]
    places: Mapping[str, Place]
    rules: LoadedRules

    def used_by(self, ruleset: str) -> list[str]:
        """The rulesets that need a ruleset, in the order of their names."""
        return sorted(each.name for each in self.rules.rulesets if ruleset in each.needs)


def shipped() -> Shipped:
    """Made once for each set of custom ops."""
    return _shipped(REGISTRY.version)


@lru_cache(maxsize=2)
def _shipped(version: int) -> Shipped:
    loaded = load_rulesets(shipped_rulesets(), provenance=False, preludes={"prelude.tensor": declarations(REGISTRY)})
    return Shipped({each.name: each for each in prelude()}, dict(_places()), loaded)


def _places() -> Iterator[tuple[str, Place]]:
    """Where the words of the preludes and the ops are declared; the contract of an op is its declaration for rules."""
    path = locate("prelude.shape", "")[0].resolve()
    yield from _declared(path.read_text(encoding="utf-8"), path, 0)
    home = Path(schema.__file__)
    lines = home.read_text(encoding="utf-8").partition('CORE = """')[0].count("\n")
    yield from _declared(schema.CORE, home, lines)
    for path in sorted((Path(str(files("egshape"))) / "rulesets" / CONTRACTS.strip(".")).glob("*.egg")):
        for item in read(path.read_text(encoding="utf-8"), str(path)):
            if isinstance(item, List) and item.head == "contract":
                named = item.items[1]
                for each in named.items if isinstance(named, List) else (named,):
                    yield str(each), Place(path.resolve(), each.at.line, each.at.column, len(str(each)))


def _declared(text: str, path: Path, lines: int) -> Iterator[tuple[str, Place]]:
    """What declarations in a text declare; ``lines``: those that stand before it in the file."""
    for item in read(text, str(path)):
        if not isinstance(item, List) or item.head not in ("sort", "constructor", "function", "relation", "datatype"):
            continue
        forms = [each.items[0] for each in item.items[2:] if isinstance(each, List)] if item.head == "datatype" else []
        for each in (item.items[1], *forms):
            if isinstance(each, Atom):
                yield each.text, Place(path, each.at.line + lines, each.at.column, len(each.text))


def place_of_rule(rule: Rule) -> Place:
    """Where a rule is written; the files of shipped ones are named from the package."""
    path = Path(rule.file)
    if not path.is_absolute() and rule.file.startswith("rulesets/"):
        path = Path(str(files("egshape"))) / path
    return Place(path.resolve(), rule.line, rule.command.at.column, 1 + len(rule.command.head))


def place_of_ruleset(item: str, folder: Path) -> Place | None:
    """The file of what a header names, None where there is none."""
    path = folder / item if item.endswith(".egg") else None
    if path is None and (item in shipped_rulesets() or item == "prelude.shape"):
        path = locate(item, "")[0]
    return Place(path.resolve(), 1) if path is not None and path.is_file() else None


def about_word(entry: OpEntry) -> str:
    """An entry of the prelude, as Markdown."""
    types = f"{' '.join(entry.args)} -> {entry.result or 'fact'}" if entry.args or entry.result else "fact"
    return f"```egg\n{entry.form}   ; {types}\n```\n{entry.kind}: {entry.doc.replace('``', '`')}"


def about_size(decl: SizeDecl) -> str:
    """A size function of an author, as Markdown."""
    said = f':is "{decl.equal}"' if decl.equal else f':python "{decl.formula}"'
    more = f"\n\ndefined where {decl.defined}" if decl.defined else ""
    return f"```egg\n(size {decl.name} ({' '.join(decl.params)}) {said})\n```\na size function of this file{more}"


def about_keyword(word: str) -> str:
    """A keyword, or a function of the engine, as Markdown; "" for another word."""
    if word in KEYWORDS:
        return f"```egg\n{word}\n```\n{KEYWORDS[word]}"
    known = PRIMITIVES.get(word)
    if known is None:
        return ""
    many = f"{known.least}" if known.least == known.most else f"at least {known.least}"
    fails = "; it may have no value: in a condition that is no match, in an action an error" if known.partial else ""
    kinds = f" of sort {known.args}" if known.args else ""
    return f"```egg\n({word} ...)\n```\na function of the engine: {many} arguments{kinds}{fails}"
