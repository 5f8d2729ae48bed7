"""Rules switched off in this process, the engine's and those that run at once: for finding out what a rule is worth."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any
from unittest.mock import patch

from egshape import pipeline
from egshape.decide import known
from egshape.dims import at_once, bounds, core, forms
from egshape.dims.functions import SHIPPED
from egshape.egraph.program import PLAIN, Program, Variant, program
from egshape.rulelang.at_once import FUNCTIONS, generated

HOLDERS = (bounds, core, known)
"""Modules that hold the functions of ``dims.bounds``."""


@contextmanager
def without(names: Collection[str]) -> Iterator[None]:
    """Leave out these rules wherever they run, inside. Polynomials alone may be brought in."""
    left_out = frozenset(names)

    def loaded(extra: tuple[str, ...] = (), explain: bool = True, variant: Variant = PLAIN) -> Program:
        return program(extra, explain, replace(variant, omit=variant.omit | left_out))

    made = {file: _module(file, text) for file, text in generated(left_out).items()}
    with fresh_sizes(), ExitStack() as stack:
        stack.enter_context(patch.object(pipeline, "program", loaded))
        for name, function in SHIPPED.items():
            for part, now in (("simplify", name), ("laws", f"{name}_laws")):
                stack.enter_context(patch.object(function, part, getattr(made["at_once.py"], now)))
            stack.enter_context(patch.object(function, "_bounds", getattr(made["bounds.py"], f"{name}_bounds")))
        for name in (name for name, *_ in FUNCTIONS.values() if name not in SHIPPED):
            for part in (name, f"{name}_laws"):
                stack.enter_context(patch.object(at_once, part, getattr(made["at_once.py"], part)))
            for holder in HOLDERS:
                bound = getattr(made["bounds.py"], f"{name}_bounds")
                stack.enter_context(patch.object(holder, f"{name}_bounds", bound))
        yield


@contextmanager
def fresh_sizes() -> Iterator[None]:
    """No size but polynomials is made yet, inside: none is as simple as other rules made it."""
    polynomials = {terms: dim for terms, dim in core._DIMS.items() if _is_polynomial(terms)}
    with ExitStack() as stack:
        stack.enter_context(patch.object(core, "_DIMS", polynomials))
        for holder, table in ((core, "_FLOORS"), (core, "_RELUS"), (core, "_CALLS"), (forms, "_LAWS")):
            stack.enter_context(patch.object(holder, table, {}))
        yield


def _is_polynomial(terms: core.Terms) -> bool:
    return all(isinstance(atom, core.Symbol) for monomial, _ in terms for atom, _ in monomial)


def _module(file: str, text: str) -> Any:
    made = ModuleType(file)
    exec(compile(text, file, "exec"), made.__dict__)
    return made
