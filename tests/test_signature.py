"""Sizes as arguments and results: ``--expand-signature``; sizes that elements of inputs say are held to the axes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import egshape
from egshape.cli import app
from egshape.errors import EgshapeError
from egshape.ir.graph import Graph
from egshape.ir.verify import verify
from egshape.signature import with_sizes

TARGETS = ("interpret", "llvm")


def graph(tmp_path: Path, text: str) -> Graph:
    path = tmp_path / "t.egs"
    path.write_text(text)
    return egshape.load(path)


@pytest.fixture
def joined(tmp_path: Path) -> Graph:
    return graph(
        tmp_path,
        """graph joined(%x: f32[n, x.1], %y: f32[n, 4], %z: f32[n, k]) {
  symbols n = size(%x, 0), x.1 = size(%x, 1), k = size(%z, 1)
  %0: f32[n, x.1 + 4] = concatenate(%x, %y) {dim=1}
  %1: f32[n, k + x.1] = concatenate(%x, %z) {dim=1}
  %2: f32[n, x.1 + 4] = tanh(%0)
  return %0 as a, %1 as b, %2 as c, %x as d
}
""",
    )


def arrays(n: int, m: int, k: int) -> list[np.ndarray]:
    return [np.ones((n, size), np.float32) for size in (m, 4, k)]


def test_each_size_crosses_the_boundary_once(joined: Graph) -> None:
    found = with_sizes(joined)
    verify(found)
    assert [value.name for value in found.inputs] == ["x", "y", "z", "n", "x_1", "k"]
    assert found.output_names == ("a", "b", "c", "d", "a_1", "b_1")
    assert {str(value.type) for value in (*found.inputs[3:], *found.outputs[4:])} == {"i64[]"}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("n", "m", "k"), [(2, 3, 5), (0, 1, 0), (1, 0, 7)])
def test_results_and_their_sizes(joined: Graph, target: str, n: int, m: int, k: int) -> None:
    plain, wide = (egshape.compile(joined, target, expand_signature=each) for each in (False, True))
    *results, first, second = wide(*arrays(n, m, k), n=np.int64(n), x_1=np.int64(m), k=np.int64(k))
    assert (int(first), int(second)) == (m + 4, m + k)
    for one, two in zip(results, plain(*arrays(n, m, k)), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("told", [(3, 3, 5), (2, 4, 5), (2, 3, 6), (2, 3, 4), (-2, 3, 5), (2, 3, 2**40)])
def test_another_size_than_that_of_the_axis_is_rejected(joined: Graph, target: str, told: tuple[int, ...]) -> None:
    function = egshape.compile(joined, target, expand_signature=True)
    with pytest.raises(EgshapeError, match=r"size|no size"):
        function(*arrays(2, 3, 5), *map(np.int64, told))


@pytest.mark.parametrize("target", TARGETS)
def test_an_axis_that_is_a_product_of_elements_is_held_to_it(tmp_path: Path, target: str) -> None:
    found = graph(
        tmp_path,
        """graph product(%x: f32[n*m], %n: i64[], %m: i64[]) {
  symbols n = element(%n, 0), m = element(%m, 0)
  %0: f32[n, m] = reshape(%x) {shape=<n, m>}
  return %0 as out
}
""",
    )
    function = egshape.compile(found, target, optimize=False)
    x = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(function(x, np.int64(2), np.int64(3)), x.reshape(2, 3))
    for n, m in ((2, 4), (0, 0), (6, 6), (1, 5), (-2, -3)):
        with pytest.raises(EgshapeError, match="size"):
            function(x, np.int64(n), np.int64(m))


@pytest.mark.parametrize("target", TARGETS)
def test_a_size_that_is_data_is_a_result(tmp_path: Path, target: str) -> None:
    found = graph(
        tmp_path,
        """graph wide(%x: f32[2], %s: i64[1]) {
  symbols k = element(%s, 0)
  %0: f32[k, 2] = broadcast_in_dim(%x) {dims=[1], shape=<k, 2>}
  %c: f32[] = constant() {value=f32[]{0.0}}
  %1: f32[k + 1, 2] = pad(%0, %c) {low=<1, 0>, high=<0, 0>, interior=<0, 0>}
  return %1 as out
}
""",
    )
    out, size = egshape.compile(found, target, expand_signature=True)(np.ones(2, np.float32), np.array([3]))
    assert out.shape == (4, 2) and int(size) == 4


def test_a_graph_of_static_sizes_stays(tmp_path: Path) -> None:
    fixed = graph(tmp_path, "graph g(%x: f32[2]) {\n  %0: f32[2] = tanh(%x)\n  return %0 as out\n}\n")
    assert str(with_sizes(fixed)) == str(fixed)


def test_the_header_of_c_names_the_sizes(joined: Graph, tmp_path: Path) -> None:
    egshape.save(joined, tmp_path / "m.egs")
    said = CliRunner().invoke(
        app,
        ["compile", str(tmp_path / "m.egs"), "-o", str(tmp_path / "c"), "--emit", "c", "--expand-signature"],
    )
    assert said.exit_code == 0, said.output
    (header,) = (tmp_path / "c").glob("*.h")
    text = header.read_text()
    assert "inputs[3]: int64_t [], no axes: n" in text and "inputs[4]: int64_t [], no axes: x_1" in text
    assert "outputs[4]: int64_t [], no axes: a_1" in text
