"""Rulesets that never end, or end the engine: what limits are measured and tested with.

Each passes `rules check` because its author claims that it ends. The size of their trouble differs: some grow a little
each step, some need minutes and gigabytes within one, some abort."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

_HEADER = """\
; ruleset: my.{name}
; about:   {about}
; needs:   prelude.shape, prelude.tensor, tensor.types
; law:     keeps dtype, shape and every bit of the value
; ends:    its author says so

"""
_RULE = """\
; {about}
; sound: its author says so
; ends: its author says so
{text}
;; example   add(x: i32[a], y: i32[a])  =>  add(y, x)
"""


_ADD = '(Binary "add" {} {})'
_LEFT, _RIGHT = _ADD.format(_ADD.format("x", "y"), "z"), _ADD.format("x", _ADD.format("y", "z"))
_ANY, _OTHER, _THIRD = "(= e (Binary f x y))", "(= g (Binary h u v))", "(= k (Binary m w z))"
_SIX = " ".join(f"(= e{i} (Binary f{i} x{i} y{i}))" for i in range(6))
_ALL_SIX = "e5"
for _place in range(4, -1, -1):
    _ALL_SIX = _ADD.format(f"e{_place}", _ALL_SIX)

RULES: Mapping[str, tuple[str, ...]] = {
    "ac-add": (f"rewrite {_ADD.format('x', 'y')} {_ADD.format('y', 'x')}", f"rewrite {_LEFT} {_RIGHT}"),
    "both-ways": (f"rewrite {_LEFT} {_RIGHT}", f"rewrite {_RIGHT} {_LEFT}"),
    "wraps": (f'rule ({_ANY}) ((union e (Unary "negate" (Unary "negate" (Binary f y x)))))',),
    "doubles": (f"rule ({_ANY}) ({_ADD.format('e', 'e')} {_ADD.format('e', 'x')} {_ADD.format('y', 'e')})",),
    "pairs": (f"rule ({_ANY} {_OTHER}) ({_ADD.format('e', 'g')})",),
    "triples": (f"rule ({_ANY} {_OTHER} {_THIRD}) ({_ADD.format('e', _ADD.format('g', 'k'))})",),
    "one-step": (f"rule ({_SIX}) ({_ALL_SIX})",),
    "turns": (
        f"rule ({_ANY}) ((union e (transpose (transpose e (vec-of 0)) (vec-of 0))) "
        f"(transpose {_ADD.format('e', 'e')} (vec-of 0)))",
    ),
    "reshapes": (f"rule ({_ANY} (= s (ShapeOf e))) ({_ADD.format('(reshape e s)', '(reshape x s)')})",),
    "joins": (f"rule ({_ANY}) ((concatenate (Cons e (Cons x (Nil))) 0) (Binary f y e) (Binary f e x))",),
    "sizes": (
        f"rule ({_ANY} (= (Sh u) (ShapeOf e)) (= d (vec-get u 0))) "
        f"((reshape {_ADD.format('e', 'e')} (Sh (vec-of (Add d d)))))",
    ),
    "panics": (f"rule ({_ANY} (= (Sh u) (ShapeOf e)) (= v (vec-remove u 99))) ((union e (reshape e (Sh v))))",),
}
"""What each ruleset says, its rulesets and names left open."""


def write(folder: Path) -> Iterator[tuple[str, Path]]:
    """One file for each ruleset."""
    for name, rules in RULES.items():
        text = _HEADER.format(name=name, about=name.replace("-", " "))
        for place, rule in enumerate(rules):
            command = f'({rule} :ruleset my.{name} :name "my.{name}/r{place}")'
            text += _RULE.format(about=f"rule {place}", text=command) + "\n"
        path = folder / f"{name}.egg"
        path.write_text(text, encoding="utf-8")
        yield name, path


def chain(length: int) -> str:
    """A chain of additions, as StableHLO text."""
    arguments = ", ".join(f"%a{i}: tensor<?xi32>" for i in range(length + 1))
    lines = [
        f"  %s{i} = stablehlo.add %{'a0' if i == 1 else f's{i - 1}'}, %a{i} : tensor<?xi32>"
        for i in range(1, length + 1)
    ]
    body = "\n".join(lines)
    return f"func.func @main({arguments}) -> tensor<?xi32> {{\n{body}\n  return %s{length} : tensor<?xi32>\n}}\n"
