"""egshape's own text as a format."""

from __future__ import annotations

from pathlib import Path

import pytest

import egshape
from egshape.errors import EgshapeError
from egshape.ir.text import print_graph

TEXT = """graph f(%x: f32[n, 8], %y: f32[m, 8]) {
  symbols n = size(%x, 0), m = size(%y, 0)
  %0: f32[n, 8] = add(%x, %y)
  return %0 as out0
}
"""


def test_a_graph_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "f.egs"
    path.write_text(TEXT)
    result = egshape.optimize(egshape.load(path), assume=["m % 2 == 0"])
    egshape.save(result, tmp_path / "g.egs")
    assert print_graph(egshape.load(tmp_path / "g.egs")) == print_graph(result.graph)


def test_a_size_that_is_written_otherwise_than_the_op_gives_it_is_required(tmp_path: Path) -> None:
    """It is checked: a text cannot say what is not so."""
    path = tmp_path / "f.egs"
    path.write_text(TEXT.replace("%0: f32[n, 8]", "%0: f32[5, 8]"))
    result = egshape.optimize(egshape.load(path))
    assert sorted(each.text for each in result.report.checks if each.status == "kept") == ["n == 5", "n == m"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("add", "adds"), "no op is named 'adds'"),
        (("%x, %y)", "%x, %z)"), "f.egs:3:27: %z is not defined here"),
        (("%0: f32[n, 8]", "%0: f32[n]"), "the op gives f32[n, 8]"),
        (("%0: f32[n, 8]", "%0: f32[k, 8]"), "the symbol 'k', which is not defined here"),
        (("graph", "graf"), "expected 'graph'"),
        (("add(%x, %y)", "reshape(%x)"), "lacks the attribute 'shape'"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    path = tmp_path / "f.egs"
    path.write_text(TEXT.replace(*change, 1))
    with pytest.raises(EgshapeError, match=r"f\.egs") as caught:
        egshape.load(path)
    assert message in str(caught.value)
