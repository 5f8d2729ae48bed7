"""A size function as an author declares it in a ruleset:

    (size isqrt (n) :python "math.isqrt(n)" :defined "n >= 0")
    (size round_up (n k) :is "cdiv(n, k)*k")

`:is` is an expression over known functions, which proofs unfold. `:python` is a formula (``egshape.dims.pure``) that
computes the value, also in saved models and compiled code, if `:emitted` says no expression that they compute instead.
`:defined` says where it has a value, beside what the expressions need: comparisons with >= or !=, separated by `;`.
Rules write the value as `(isqrt n)`."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from egshape.dims.names import RESERVED
from egshape.dims.pure import read_formula
from egshape.errors import EgshapeError, ParseError
from egshape.rulelang.diagnostic import wrong
from egshape.rulelang.provenance import is_variable, keyword_options
from egshape.rulelang.sexpr import Atom, List, Position, SExpr, read

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_OPTIONS = (":is", ":python", ":emitted", ":defined")
FORM = '(size NAME (ARGUMENT ...) :is "EXPRESSION"), or :python "FORMULA"'


@dataclass(frozen=True, slots=True)
class SizeDecl:
    """What is declared of a size function; texts are "" where nothing is said."""

    name: str
    params: tuple[str, ...]
    equal: str
    formula: str
    emitted: str
    defined: str
    at: Position

    def commands(self) -> Iterator[List]:
        """The declarations and the rule that the engine needs: how a value comes in from a table of Python's."""
        count = len(self.params)
        args = " ".join(f"a{i}" for i in range(count))
        parts = " ".join(f"(P a{i})" for i in range(count))
        for item in read(
            f"(constructor {self.name} ({' '.join(['Dim'] * count)}) Dim)"
            f"(relation in_{self.name} ({' '.join(['i64'] * (count + 1))}))"
            f"(rule ((in_{self.name} q {args})) ((union (P q) ({self.name} {parts})))"
            f' :ruleset prelude.shape :name "prelude.shape/in-{self.name}")',
            self.at.file,
        ):
            assert isinstance(item, List)
            yield replace(item, at=self.at)


def read_size(command: List, ruleset: str) -> SizeDecl:
    """The declaration of a size function in a ruleset. Raises EgshapeError (code "rules") with the place and the way
    out."""
    items = command.items
    if len(items) < 3 or not isinstance(items[1], Atom) or not isinstance(items[2], List):
        raise _wrong(command, f"the size function is not of the form {FORM}")
    name, params = str(items[1]), tuple(map(str, items[2].items))
    if not _NAME.fullmatch(name) or (name in RESERVED and not ruleset.startswith("size.")) or keyword.iskeyword(name):
        raise _wrong(items[1], f"{name} cannot be the name of a size function",
                     "small letters, digits and _; not min, max, mod, cdiv, floordiv, bcast")  # fmt: skip
    if not params or len(set(params)) != len(params) or not all(is_variable(each) for each in items[2].items):
        raise _wrong(items[2], f"{name} needs arguments with names of their own", "such as (n k)")
    if not all(_NAME.fullmatch(each) and not keyword.iskeyword(each) and each not in RESERVED for each in params):
        raise _wrong(items[2], f"the arguments of {name} are no plain names", "small letters, digits and _")
    texts = {}
    for key, value in keyword_options(command).items():
        if key not in _OPTIONS or not isinstance(value, Atom) or not value.is_string:
            raise _wrong(command, f"{key} of {name} is not understood", f'known: {", ".join(_OPTIONS)}, each a "text"')
        texts[key] = value.value
    if (":is" in texts) == (":python" in texts):
        raise _wrong(command, f"{name} says how it is computed by one of :is and :python", FORM)
    if ":emitted" in texts and ":is" in texts:
        raise _wrong(command, f"{name} is an expression already", "leave :emitted out")
    equal, formula, emitted, defined = (texts.get(key, "") for key in _OPTIONS)
    try:
        _ = formula and read_formula(formula, params)
    except ParseError as error:
        raise _wrong(command, f"the formula of {name}: {error.message} ({error.where})", error.hint) from None
    return SizeDecl(name, params, equal, formula, emitted, defined, command.at)


def _wrong(expr: SExpr, message: str, hint: str = "") -> EgshapeError:
    return wrong(expr, "size-function", message, hint).error()
