"""What an editor shows of a rule file: a text about the word under the cursor, and the words that may come next."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from egshape.editor.document import Document
from egshape.editor.halves import Word
from egshape.editor.words import COMMANDS, KEYWORDS, about_keyword, about_size, about_word, shipped
from egshape.ops import REGISTRY
from egshape.rulelang.loader import shipped_rulesets
from egshape.rulelang.rulefile import Rule
from egshape.rulelang.schema import ELEMENTWISE
from egshape.rulelang.typecheck import PRIMITIVES

Told = Callable[[Rule], Sequence[str]]
"""What else is known of a rule, as lines: how it was tested, on which models it was used."""

_ACTIONS = ("union", "set", "let")
_VARIABLE = re.compile(r"[A-Za-z_]\w*")
_HEADER = re.compile(r";\s?(needs|at once|only at once):")


@dataclass(frozen=True, slots=True)
class Offer:
    """A word that may come next. ``kind``: keyword, op, function, relation, constructor, size, variable, name."""

    word: str
    kind: str
    detail: str = ""
    about: str = ""


# -- about the word under the cursor ----


def hover(document: Document, line: int, column: int, told: Told) -> tuple[str, Word] | None:
    """What is said (Markdown) of the word at a place, with the word; None where nothing is."""
    word = document.word(line, column)
    if word is None:
        return None
    named = document.rule_named(word) if word.quoted or word.comment else None
    inside = document.rule_at(line)
    rule = named or (inside if word.opens and word.text in COMMANDS else None)
    if rule is not None:
        return about_rule(rule, told(rule), _needed_by(rule)), word
    text = "" if word.comment else _about(document, word, inside)
    return (text, word) if text else None


def _about(document: Document, word: Word, inside: Rule | None) -> str:
    name = word.text.split(".")[0] if word.quoted else word.text
    if not word.quoted and name in document.sizes:
        return about_size(document.sizes[name])
    entry = shipped().entries.get(name)
    if entry is not None and (word.opens or word.quoted):
        return about_word(entry)
    if word.quoted:
        return ""
    if word.opens or word.text.startswith(":"):
        return about_keyword(name)
    if inside is not None and _VARIABLE.fullmatch(name):
        sort = document.sort_of(inside, name)
        return f"```egg\n{name} : {sort}\n```\na variable of {inside.name}" if sort else ""
    return ""


def about_rule(rule: Rule, told: Sequence[str], needed_by: Sequence[str]) -> str:
    """A rule, as Markdown: what it states, why that is so, how it was tested, where it is used."""
    lines = [f"**{rule.name}**", f"```\n{rule.comment}\n```"]
    lines += [f"{key}: {text}" for key, text in (("sound", rule.sound), ("ends", rule.ends)) if text]
    if rule.guards:
        lines.append(f"guards: {', '.join(f'`{each}`' for each in rule.guards)}")
    lines += told
    lines += [f"needed by {', '.join(needed_by)}"] if needed_by else []
    return "\n\n".join([*lines, f"{rule.where}"])


def _needed_by(rule: Rule) -> list[str]:
    return shipped().used_by(rule.ruleset)


# -- what may come next ----


def completion(document: Document, line: int, column: int) -> list[Offer]:
    """The words that may stand at a place, those that begin as what is written there."""
    word = document.begun(line, column)
    begun = word.text.lower()
    return [each for each in _offers(document, word, word.at.line) if each.word.lower().startswith(begun)]


def _offers(document: Document, word: Word, line: int) -> Iterator[Offer]:
    if word.comment:
        return _in_comment(document, line)
    if word.quoted:
        return _in_string(document, word)
    if word.text.startswith(":"):
        return (Offer(each, "keyword", about) for each, about in KEYWORDS.items() if each.startswith(":"))
    if not word.opens:
        return _arguments(document, word, line)
    if not word.head:
        return (Offer(each, "keyword", KEYWORDS[each]) for each in COMMANDS)
    return _terms(document)


def _in_comment(document: Document, line: int) -> Iterator[Offer]:
    text = document.text.split("\n")[line - 1]
    header = _HEADER.match(text)
    if header and header[1] == "needs":
        yield from (Offer(each, "name") for each in ("prelude.shape", "prelude.tensor", *shipped_rulesets()))
    elif header and document.file.header:
        yield from (Offer(rule.name.rpartition("/")[2], "name", rule.comment) for rule in document.own)
    elif text.startswith(";;"):  # an example names ops as the text form does
        for decl in REGISTRY:
            yield Offer(decl.name, "op", f"{decl.name}({', '.join(decl.operands)})", decl.doc)


def _in_string(document: Document, word: Word) -> Iterator[Offer]:
    """The name of an elementwise op, of a rule."""
    if word.head.lower() in ELEMENTWISE:
        for decl in REGISTRY:
            if decl.family == word.head.lower():
                name = ".".join([decl.name, *(attr.name.upper() for attr in decl.attrs)])
                yield Offer(name, "op", f'({word.head} "{name}" {" ".join(decl.operands)})', decl.doc)
    elif word.head in COMMANDS and document.file.header:
        yield Offer(f"{document.file.header.name}/", "name")


def _arguments(document: Document, word: Word, line: int) -> Iterator[Offer]:
    """Variables of the rule that is being written, and the ruleset of the file."""
    if word.head in COMMANDS and document.file.header:
        yield Offer(document.file.header.name, "name", "the ruleset of this file")
    lines = document.text.split("\n")
    first = line - 1
    while first and not lines[first].startswith(("(", ";")):
        first -= 1
    written = re.sub(r'"(?:[^"\\]|\\.)*"|;[^\n]*|:\S+|\([^\s()]*', " ", "\n".join(lines[first:line]))
    for each in dict.fromkeys(_VARIABLE.findall(written)):
        if each != word.text:
            yield Offer(each, "variable")


_KINDS = {
    "op": "op",
    "elementwise op": "op",
    "constructor": "constructor",
    "function": "function",
    "relation": "relation",
    "input table": "",
}


def _terms(document: Document) -> Iterator[Offer]:
    """What a term, condition or action may begin with."""
    for name, decl in document.sizes.items():
        yield Offer(name, "size", f"({name} {' '.join(decl.params)})", about_size(decl))
    for name, entry in shipped().entries.items():
        if _KINDS[entry.kind] and entry.kind != "elementwise op":
            types = f"{' '.join(entry.args)} -> {entry.result or 'fact'}"
            yield Offer(name, _KINDS[entry.kind], types, about_word(entry))
    for name in ("=", *PRIMITIVES):
        yield Offer(name, "function", "of the engine", about_keyword(name))
    for name in _ACTIONS:
        yield Offer(name, "keyword", KEYWORDS[name])
