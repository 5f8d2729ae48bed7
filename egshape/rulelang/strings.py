"""Words in quotes that a rule names: dtypes, elementwise functions, and what their attributes may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from egshape.ir.types import DTYPES
from egshape.ops.base import AttrDecl, OpDecl, Registry
from egshape.rulelang.diagnostic import Diagnostic, wrong
from egshape.rulelang.provenance import PlainRule
from egshape.rulelang.sexpr import Atom, List, SExpr
from egshape.spelling import meant

_COMPARE: Mapping[str, Sequence[str]] = {
    "direction": ("EQ", "NE", "LT", "LE", "GT", "GE"),
    "kind": ("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"),
}
_FUNCTIONS = frozenset(("Unary", "Binary", "Ternary", "neutral", "neutral_right", "absorbing", "result_dtype",
                        "negating", "is_convert", "keeps", "involution", "idempotent", "selects", "wraps"))  # fmt: skip
"""Words whose first argument is an elementwise function."""
_DTYPES: Mapping[str, Sequence[int]] = {
    "result_dtype": (1, 2),
    "is_convert": (1,),
    "keeps": (1,),
    "idempotent": (1,),
    "wraps": (1,),
    "nothing": (1,),
}
"""Places of dtypes among the arguments of relations."""


def values_of(decl: OpDecl, attr: AttrDecl) -> Sequence[str]:
    """What an attribute of an elementwise op may be, () where nobody knows."""
    if attr.kind == "dtype":
        return sorted(DTYPES)
    compares = _COMPARE.keys() <= {each.name for each in decl.attrs}
    return _COMPARE[attr.name] if compares and attr.name in _COMPARE else ()


def check_strings(rule: PlainRule, registry: Registry) -> list[Diagnostic]:
    """What is wrong with the words in quotes of a rule."""
    found: list[Diagnostic] = []
    for call in (call for expr in (*rule.body, *rule.actions) for call in _calls(expr)):
        args = call.items[1:]
        if call.head in _FUNCTIONS and args:
            found += _function(args[0], rule, registry)
        found += [each for place in _places(call, registry) for each in _dtype(args[place], rule)]
    return found


def _calls(expr: SExpr) -> Iterator[List]:
    if isinstance(expr, List):
        yield expr
        for item in expr.items:
            yield from _calls(item)


def _places(call: List, registry: Registry) -> Iterator[int]:
    """The places of dtypes among the arguments."""
    args = call.items[1:]
    places = list(_DTYPES.get(call.head, ()))
    if call.head in ("=", "!=", "set") and any(isinstance(each, List) and each.head == "dtype_of" for each in args):
        places = list(range(len(args)))
    elif call.head in registry:
        decl = registry[call.head]
        places = [len(decl.operands) + place for place, attr in enumerate(decl.attrs) if attr.kind == "dtype"]
    yield from (place for place in places if place < len(args))


def _dtype(expr: SExpr, rule: PlainRule) -> Iterator[Diagnostic]:
    if isinstance(expr, Atom) and expr.is_string and expr.value not in DTYPES:
        hint = meant(expr.value, DTYPES, f"dtypes are {', '.join(DTYPES)}")
        yield wrong(expr, "dtype", f"there is no dtype {expr.value}", hint, rule=rule.name)


def _function(expr: SExpr, rule: PlainRule, registry: Registry) -> Iterator[Diagnostic]:
    """The attributes of a function that is written out; its name and their number are looked at elsewhere."""
    if not (isinstance(expr, Atom) and expr.is_string):
        return
    name, *values = expr.value.split(".")
    if name not in registry or len(values) != len(registry[name].attrs):
        return
    for attr, value in zip(registry[name].attrs, values, strict=True):
        known = values_of(registry[name], attr)
        if known and value not in known:
            what = "dtype" if attr.kind == "dtype" else f"{attr.name} of {name}"
            hint = meant(value, known, f"known are {', '.join(known)}")
            yield wrong(expr, "attribute", f"there is no {what} {value}", hint, rule=rule.name)
