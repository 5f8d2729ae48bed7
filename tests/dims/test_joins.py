"""Sizes of broadcast axes, taken back from what computes them."""

from __future__ import annotations

import pytest

from egshape.dims import Call, Dim, parse
from egshape.dims.core import Atom
from egshape.dims.forms import FORMS
from egshape.dims.joins import leaves, rejoined


def written_out(dim: Dim) -> Dim:
    """The size as compiled code computes it."""

    def value(atom: Atom) -> Dim:
        args = [written_out(each) for each in atom.args]
        whole = atom.function.unfolded(*args) if isinstance(atom, Call) else None
        return FORMS.remade(atom, args) if whole is None else written_out(whole)

    return dim.map_atoms(value)


@pytest.mark.parametrize(
    "text",
    [
        "bcast(a, b)",
        "bcast(a, 4)",
        "bcast(a, b)*c + bcast(b, c)",
        "(bcast(a, b) - c)*(bcast(a, b) - 1)",
        "(b - 1)*(b - bcast(a, bcast(b, c)))",
        "bcast(a, b)//4",
        "max(bcast(a + 1, 2*b), c)",
    ],
)
def test_a_common_size_gets_its_name_back(text: str) -> None:
    size = parse(text)
    assert written_out(size) is not size
    assert rejoined(written_out(size)) is size


@pytest.mark.parametrize("text", ["max(a, b) % (a*b + 2)", "max(a, b)//(a*b + 1)", "a % (b + 1)", "a"])
def test_what_is_none_stays(text: str) -> None:
    size = parse(text)
    assert rejoined(size).evaluate({"a": 3, "b": 3}) == size.evaluate({"a": 3, "b": 3})


def test_leaves() -> None:
    assert sorted(map(str, leaves(parse("bcast(a, bcast(b + 1, c))")))) == ["a", "b + 1", "c"]
