"""How a size is computed: few operations, which give the size."""

from __future__ import annotations

import pytest

from egshape.dims import Dim, parse
from egshape.frontends.size_terms import plan


def written(size: Dim) -> str:
    term = plan(size)
    if term.kind in ("symbol", "const"):
        return str(size)
    return f"{term.kind}({', '.join(map(written, term.operands))})"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("min(max(n, 2), 4)", "minimum(maximum(n, 2), 4)"),
        ("max(n - 2, 0) + 2", "maximum(n, 2)"),
        ("min(n - 2, 3) + 2", "minimum(n, 5)"),
        ("min(n, max(m - 1, 4)) + 1", "add(minimum(n, maximum(subtract(m, 1), 4)), 1)"),
        ("max(n, m) + 2", "add(maximum(m, n), 2)"),
        ("min(n - 2, 3) + 5", "add(minimum(n, 5), 3)"),
        ("min(max(n, m), 4) + 2", "add(minimum(maximum(m, n), 4), 2)"),
        ("max(n - 4, 0)", "maximum(subtract(n, 4), 0)"),
        ("min(n, 5) - 1", "subtract(minimum(n, 5), 1)"),
        ("m + max(n, 1)", "add(m, maximum(n, 1))"),
    ],
)
def test_a_number_moves_into_a_maximum_where_it_meets_others(text: str, wanted: str) -> None:
    assert written(parse(text)) == wanted


@pytest.mark.parametrize("text", ["min(max(n, 2), 4)", "max(min(n, 7), 3) - 3", "max(min(n + 1, 8), 2)"])
@pytest.mark.parametrize("n", [0, 1, 3, 5, 9])
def test_what_is_planned_is_the_size(text: str, n: int) -> None:
    def value(size: Dim) -> int:
        term, functions = plan(size), {"maximum": max, "minimum": min}
        if term.kind == "const":
            assert size.const is not None
            return size.const
        if term.kind == "symbol":
            return n
        one, two = map(value, term.operands)
        return functions[term.kind](one, two) if term.kind in functions else one + (two if term.kind == "add" else -two)

    assert value(parse(text)) == parse(text).evaluate({"n": n})
