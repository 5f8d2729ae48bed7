"""Small programs for pictures and reports."""

from __future__ import annotations

from functools import cache

import egshape
from egshape.api import Result
from egshape.ir.graph import Graph
from egshape.ir.text import parse_graph

TEN = """
graph ten(%x: f32[n, 8], %y: f32[y.0, 8]) {
  symbols n = size(%x, 0), y.0 = size(%y, 0)
  %0: i32[] = get_dimension_size(%x) {dim=0}
  %1: i32[1] = constant() {value=i32[1]{8}}
  %2: i32[1] = reshape(%0) {shape=<1>}
  %3: i32[2] = concatenate(%2, %1) {dim=0}
  %4: f32[n, 8] = add(%x, %y)
  %5: f32[n, 8] = reshape(%4, %3) {shape=<n, 8>}
  %6: f32[8, n] = transpose(%5) {permutation=[1, 0]}
  %7: f32[n, 8] = transpose(%6) {permutation=[1, 0]}
  %8: f32[n, 8] = exponential(%7)
  %9: f32[n, 8] = multiply(%8, %4)
  return %9 as out0
}
"""

LOOP = """
graph loop(%x: f32[n]) {
  symbols n = size(%x, 0)
  %0: i32[] = constant() {value=i32[]{0}}
  %1: i32[], %2: f32[n] = while(%0, %x) {} (%i: i32[], %v: f32[n]) {
    %3: i32[] = constant() {value=i32[]{3}}
    %4: i1[] = compare(%i, %3) {direction=LT, kind=SIGNED}
    return %4
  } (%j: i32[], %w: f32[n]) {
    %5: i32[] = constant() {value=i32[]{1}}
    %6: i32[] = add(%j, %5)
    %7: f32[n] = add(%w, %w)
    return %6, %7
  }
  return %2 as out0
}
"""

HOSTILE = "a\"b\\</script><b>&[x]\n\u2028\u0001'"
"""A name that ends every kind of text in which it may stand."""


@cache
def ten() -> Result:
    """Ten ops, optimized: the shape code and a pair of transposes go, a check stays."""
    return egshape.optimize(parse_graph(TEN))


def loop() -> Graph:
    """A graph with regions."""
    return parse_graph(LOOP)


def renamed(graph: Graph, name: str) -> Graph:
    """The graph under another name."""
    return Graph(name, graph.body, graph.output_names, graph.facts, graph.metadata)
