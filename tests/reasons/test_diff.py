"""What a diff says of ops inside of regions, of ops with several results, and of long chains."""

from __future__ import annotations

import pytest

import egshape
from egshape.ir.text import parse_graph
from egshape.reasons.diff import REASONS, DiffRow
from egshape.report import Step

REDUCED = """graph f(%x: f32[n, 4]) {
  symbols n = size(%x, 0)
  %t: f32[4, n] = transpose(%x) {permutation=[1, 0]}
  %zero: f32[] = constant() {value=f32[]{0.0}}
  %sum: f32[4] = reduce(%t, %zero) {dims=[1]} (%a: f32[], %b: f32[]) {
    %in: f32[] = add(%a, %b)
    return %in
  }
  return %sum as y
}"""

SORTED = """graph f(%x: f32[n]) {
  symbols n = size(%x, 0)
  %at: i32[n] = iota() {dtype=i32, dim=0, shape=<n>}
  %first: f32[n], %second: i32[n] = sort(%x, %at) {dim=0, stable=true} (%a: f32[], %b: f32[], %c: i32[], %e: i32[]) {
    %less: i1[] = compare(%a, %b) {direction=LT, kind=FLOAT}
    return %less
  }
  %same: i32[n] = reshape(%second) {shape=<n>}
  return %same as y
}"""


@pytest.mark.parametrize(("text", "stays"), [(REDUCED, "in"), (SORTED, "less")])
def test_ops_of_regions_are_the_same_ones(text: str, stays: str) -> None:
    found = egshape.diff(egshape.optimize(parse_graph(text)))
    assert {row.change for row in found.rows if row.value == f"%{stays}"} == {"same"}
    assert not [row for row in found.changes if row.change == "added"]


def test_an_op_of_which_one_result_is_read_is_the_same_one() -> None:
    found = egshape.diff(egshape.optimize(parse_graph(SORTED)))
    assert [row.change for row in found.rows if "sort(" in row.before] == ["same"]


def test_long_chains_are_cut_in_the_text() -> None:
    why = tuple(Step(rule="elements", to=f"%{k} = [n]") for k in range(REASONS + 3))
    lines = str(DiffRow("removed", "%1", "%1: i32[] = get_dimension_size(%x) {dim=0}", "", why, "")).splitlines()
    assert lines[2:] == [*(f"    by elements: %{k} = [n]" for k in range(REASONS)), "    ... 3 more in its `why`"]
