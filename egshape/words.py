"""The words of rules, for rules that are written in Python: every name is one.

    from egshape.words import ShapeOf, slice, transpose

What a word is, and whether there is one of that name, the check of the rule says (docs/rules.md, "Rules in Python")."""

from __future__ import annotations

from egshape.rulelang.patterns import Word

__all__: list[str] = []


def __getattr__(name: str) -> Word:
    if name.startswith("__"):
        raise AttributeError(name)
    return Word(name)
