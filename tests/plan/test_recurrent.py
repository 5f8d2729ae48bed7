"""Which loops over time steps become one kernel, and that those do what the loop did: states that read each other, rows
that meet, weights that are inputs."""

import numpy as np
import pytest

import egshape
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from egshape.plan.ir.loops import LetIndex, Loop
from egshape.plan.ir.program import Repeat, Run
from egshape.plan.ir.walk import statements
from egshape.plan.targets import plan

ARGS = "(%i: i64[], %a: f32[b, 8], %c: f32[b, 16], %y: f32[t, b, 16])"
OUT = "%n: i64[], %la: f32[b, 8], %lc: f32[b, 16], %ly: f32[t, b, 16]"
DEPTH = "lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0], precision=[], dtype=f32"
TEXT = """graph g(%a0: f32[b, 8], %c0: f32[b, 16], %w: f32[8, 16], %y0: f32[t, b, 16]) {
  symbols t = size(%y0, 0), b = size(%a0, 0)
  %start: i64[] = constant() {value=i64[]{0}}
  %count: i64[] = dims() {elements=<t>, shape=[], dtype=i64}
  OUT = while(%start, %a0, %c0, %y0) ARGS {
    %go: i1[] = compare(%i, %count) {direction=LT, kind=SIGNED}
    return %go
  } ARGS {
    %one: i64[] = constant() {value=i64[]{1}}
    %zero: i64[] = constant() {value=i64[]{0}}
    %next: i64[] = add(%i, %one)
    %product: f32[b, 16] = dot_general(%a, %w) {DEPTH}
    BODY
    %row: f32[1, b, 16] = reshape(%newc) {shape=<1, b, 16>}
    %newy: f32[t, b, 16] = dynamic_update_slice(%y, %row, AT, %zero, %zero)
    return %next, %newa, %newc, %newy
  }
  return %la as a, %lc as c, %ly as y
}"""
OWN = """%sum: f32[b, 16] = add(%product, %c)
    %newc: f32[b, 16] = tanh(%sum)
    %part: f32[b, 8] = slice(%c) {starts=<0, 4>, limits=<b, 12>, strides=<1, 1>}
    %newa: f32[b, 8] = add(%part, %a)"""
MET = """%sum: f32[b, 16] = reverse(%product) {dims=[0]}
    %newc: f32[b, 16] = tanh(%sum)
    %newa: f32[b, 8] = negate(%a)"""
ALL = """%low: f32[] = constant() {value=f32[]{0.0}}
    %fold: f32[16] = reduce(%product, %low) {dims=[0]} (%p: f32[], %q: f32[]) {
      %r: f32[] = add(%p, %q)
      return %r
    }
    %newc: f32[b, 16] = broadcast_in_dim(%fold) {dims=[1], shape=<b, 16>}
    %newa: f32[b, 8] = negate(%a)"""
CHECK = """check() {relation="<=", message="too many", sides=<b, 1000>, args=<>, fact=""}
    """
BACK = """%last: i64[] = subtract(%count, %one)
    %at: i64[] = subtract(%last, %i)
    """


def graph(body: str, at: str) -> Graph:
    text = TEXT
    for name, part in (("BODY", body), ("AT", at), ("ARGS", ARGS), ("OUT", OUT), ("DEPTH", DEPTH)):
        text = text.replace(name, part)
    return egshape.load(text.encode(), format="egs")


@pytest.mark.parametrize(
    ("body", "at", "one"),
    [
        (OWN, "%i", True),
        (BACK + OWN, "%at", True),
        (MET, "%i", False),
        (ALL, "%i", False),
        (OWN, "%next", False),
        (CHECK + OWN, "%i", False),
    ],
    ids=[
        "states that read each other",
        "backwards",
        "rows that meet",
        "a sum of rows",
        "another row is written",
        "a check",
    ],
)
def test_loops_over_rows(body, at, one):
    given = graph(body, at)
    steps = plan(given).steps
    assert any(isinstance(step, Run) and step.kernel.label == "recurrence" for step in steps) is one
    assert any(isinstance(step, Repeat) for step in steps) is not one
    run, rng = egshape.compile(given, target="llvm"), np.random.default_rng(0)
    for t, b in ((1, 1), (3, 0), (0, 2), (4, 3), (5, 40)):
        arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((b, 8), (b, 16), (8, 16), (t, b, 16))]
        for found, wanted in zip(run(*arrays), interpret(given, arrays), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4, err_msg=f"{t} x {b}")


def test_rounds_go_through_panels_there_and_back():
    """Of a matrix that a core's cache does not hold each round finds the panels that the one before ended with."""
    text = str(graph(OWN, "%i")).replace("16]", "160]").replace("16>", "160>")
    given = egshape.load(text.encode(), format="egs")
    (kernel,) = (s.kernel for s in plan(given).steps if isinstance(s, Run) and s.kernel.label == "recurrence")
    (panels,) = (s for s in statements(kernel.body) if isinstance(s, Loop) and isinstance(s.body[0], LetIndex))
    way = panels.body[0].value.dim
    (turn,) = way.symbols() - {panels.var}
    orders = [[way.substitute({panels.var: k, turn: u}).const for k in range(3)] for u in range(3)]
    assert panels.extent.const == 3 and orders == [[0, 1, 2], [2, 1, 0], [0, 1, 2]]
    run, rng = egshape.compile(given, target="llvm"), np.random.default_rng(0)
    for t, b in ((4, 1), (5, 9)):
        arrays = [rng.standard_normal(s).astype(np.float32) for s in ((b, 8), (b, 160), (8, 160), (t, b, 160))]
        for found, wanted in zip(run(*arrays), interpret(given, arrays), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
