"""Names that the model has mean its sizes: an axis that is said to be a multiple of itself is a clash of names."""

from __future__ import annotations

import pytest

import egshape
from egshape.errors import InvalidInput
from egshape.ir.graph import Graph
from egshape.sizes import size_of


def image() -> Graph:
    text = "graph g(%x: f32[h, w]) {\n  symbols h = size(%x, 0), w = size(%x, 1)\n  %0: f32[h, w] = tanh(%x)\n  return %0 as y\n}\n"
    return egshape.load(text.encode(), format="egs")


@pytest.mark.parametrize("said", ["8*h, 8*w", "8*w, 8*h", "h + 1, w", "h, w*h", "2*w, h"])
def test_a_circle(said: str) -> None:
    with pytest.raises(InvalidInput, match="the model's own") as found:
        egshape.annotate(image(), {"x": f"f32[{said}]"})
    assert "p" in found.value.hint


@pytest.mark.parametrize("said", ["h, w", "w, h", "8*p, 8*q", "h//8*8, w", "max(h, 8), w", "2*w, w", "?, h"])
def test_no_circle(said: str) -> None:
    egshape.annotate(image(), {"x": f"f32[{said}]"})


def test_outputs_have_names() -> None:
    assert [str(size_of(image(), text)) for text in ("x.0", "y.1", "y.0 + y.1")] == ["h", "w", "h + w"]
