"""Size functions of authors, made of the rulesets that declare them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from egshape.dims.functions import SHIPPED, SizeFunction, declared, size_function
from egshape.errors import EgshapeError
from egshape.ops import REGISTRY
from egshape.rulelang import at_once
from egshape.rulelang.at_once import Spelling
from egshape.rulelang.diagnostic import ERROR
from egshape.rulelang.loader import LoadedRules, Loader, find_rulesets
from egshape.rulelang.rulefile import Rule
from egshape.rulelang.schema import declarations
from egshape.rulelang.size_decl import SizeDecl
from egshape.rulelang.typecheck import check_rule

_HEAD = "# The rules of {}, made by egshape.rulelang.at_once.\n\n"


def functions_of(loaded: LoadedRules) -> dict[str, SizeFunction]:
    """The size functions that loaded rulesets declare, with their rules, by name.

    Raises EgshapeError (code "rules") where a declaration or a rule that must run at once is wrong."""
    order = {name: place for ruleset in loaded.rulesets for place, name in enumerate(ruleset.at_once)}
    found: dict[str, SizeFunction] = {}
    for decl in loaded.sizes:
        spelled = _spelled([*(each for each in loaded.sizes if each.name in found), decl])
        for rule in loaded.rules:
            if decl.name not in SHIPPED and at_once.about(rule, spelled) == decl.name:
                _refuse_wrong(rule, loaded)
        found[decl.name] = _function(decl, loaded.rules, order, spelled, found)
    return found


def without_rules(sizes: Sequence[SizeDecl]) -> dict[str, SizeFunction]:
    """Declared size functions as what texts name, by name; their rules do not count.

    Raises EgshapeError (code "rules") where a declaration is wrong."""
    found: dict[str, SizeFunction] = {}
    for decl in sizes:
        found[decl.name] = _function(decl, (), {}, _spelled(sizes), found)
    return found


def refuse_late(rule: Rule, sizes: Sequence[SizeDecl]) -> None:
    """Raises EgshapeError (code "rules") for a rule of a right form that cannot run at once, where that is about one of
    some declared size functions."""
    spelled = _spelled(sizes)
    name = at_once.about(rule, spelled)
    if name in {each.name for each in sizes}:
        at_once.functions(name, (rule,), {rule.name: 0}, spelled)


def _spelled(sizes: Iterable[SizeDecl]) -> dict[str, Spelling]:
    return {**at_once.FUNCTIONS, **{each.name: _spelling(each.name, len(each.params)) for each in sizes}}


def _function(
    decl: SizeDecl,
    rules: Iterable[Rule],
    order: Mapping[str, int],
    spelled: Mapping[str, Spelling],
    before: Mapping[str, SizeFunction],
) -> SizeFunction:
    if decl.name in SHIPPED:
        return SHIPPED[decl.name]
    code = _HEAD.format(decl.name) + "\n\n".join(at_once.functions(decl.name, rules, order, spelled))
    texts = " ".join((code, decl.equal, decl.emitted, decl.defined))
    uses = tuple(each for name, each in before.items() if re.search(rf"\b{name}\b", texts))
    try:
        found = size_function(decl.name, decl.params, decl.equal or decl.emitted, bool(decl.equal), decl.formula,
                              decl.defined, code, uses)  # fmt: skip
        found.check()
    except EgshapeError as error:
        where = f" ({error.where})" if error.where else ""
        raise _wrong(decl, f"the size function {decl.name}: {error.message}{where}", error.hint) from None
    return found


def _refuse_wrong(rule: Rule, loaded: LoadedRules) -> None:
    """Raise the first error in the words of a rule, which are to become code."""
    for problem in check_rule(at_once.plain(rule), loaded.scheme, REGISTRY):
        if problem.severity == ERROR:
            raise problem.error()


def _spelling(name: str, arity: int) -> Spelling:
    args = ", ".join(f"{{{i}}}" for i in range(arity))
    return Spelling(name, arity, f'sizes.call(F["{name}"], ({args},))', f'theory.call_parts(F["{name}"], {{0}})')


def _wrong(decl: SizeDecl, message: str, hint: str) -> EgshapeError:
    return EgshapeError(message, where=f"{decl.at.file}:{decl.at.line}", hint=hint, code="rules")


@contextmanager
def size_functions(
    rules: str | Path | Collection[str | Path], omit: frozenset[str] = frozenset()
) -> Iterator[dict[str, SizeFunction]]:
    """Texts that are read inside of the ``with`` may name the size functions that rulesets, given by path or name,
    declare or need; their rules are not tried. Gives them by name. omit: names of rules that do not count.

    Raises EgshapeError (code "rules") for a wrong file, and where two files mean two functions by one name."""
    items = [rules] if isinstance(rules, str | Path) else rules
    if not items:
        yield {}
        return
    loader = Loader({"prelude.tensor": declarations(REGISTRY)}, provenance=False, omit=omit)
    for item in items:
        for each in find_rulesets(str(item)):
            loader.load(each, "")
    found = functions_of(loader.loaded())
    with declared(found):
        yield found
