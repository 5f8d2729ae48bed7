"""Functions of several blocks, read as ifs and loops; loops that never run; what has no structured form."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax")

from egshape.errors import EgshapeError, Unsupported
from egshape.frontends.stablehlo import read
from egshape.frontends.stablehlo.emit import write
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret

IF = """func.func @main(%p: tensor<i1>, %x: tensor<?xf32>) -> tensor<?xf32> {
  %b = tensor.extract %p[] : tensor<i1>
  cf.cond_br %b, ^bb1, ^bb2(%x : tensor<?xf32>)
^bb1:
  %y = stablehlo.add %x, %x : tensor<?xf32>
  cf.br ^bb2(%y : tensor<?xf32>)
^bb2(%z: tensor<?xf32>):
  return %z : tensor<?xf32> }"""
RETURNS_EARLY = """func.func @main(%p: tensor<i1>, %x: tensor<?xf32>) -> tensor<?xf32> {
  %b = tensor.extract %p[] : tensor<i1>
  cf.cond_br %b, ^bb1, ^bb2
^bb2:
  return %x : tensor<?xf32>
^bb1:
  %y = stablehlo.add %x, %x : tensor<?xf32>
  return %y : tensor<?xf32> }"""
BOTH = """func.func @main(%p: tensor<i1>, %q: tensor<i1>, %x: tensor<?xf32>) -> tensor<?xf32> {
  %b = tensor.extract %p[] : tensor<i1>
  %c = tensor.extract %q[] : tensor<i1>
  cf.cond_br %b, ^second, ^no
^second:
  cf.cond_br %c, ^yes, ^no
^yes:
  %y = stablehlo.add %x, %x : tensor<?xf32>
  cf.br ^end(%y : tensor<?xf32>)
^no:
  %n = stablehlo.negate %x : tensor<?xf32>
  cf.br ^end(%n : tensor<?xf32>)
^end(%z: tensor<?xf32>):
  return %z : tensor<?xf32> }"""
LOOP = """func.func @main(%n: tensor<i32>, %x: tensor<?xf32>) -> tensor<?xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  cf.br ^head(%zero, %x : tensor<i32>, tensor<?xf32>)
^head(%i: tensor<i32>, %a: tensor<?xf32>):
  %p = stablehlo.compare GE, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %pb = tensor.extract %p[] : tensor<i1>
  cf.cond_br %pb, ^done, ^body
^body:
  %j = stablehlo.add %i, %one : tensor<i32>
  %r = stablehlo.remainder %i, %two : tensor<i32>
  %q = stablehlo.compare EQ, %r, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %qb = tensor.extract %q[] : tensor<i1>
  cf.cond_br %qb, ^even, ^head(%j, %a : tensor<i32>, tensor<?xf32>)
^even:
  %b = stablehlo.add %a, %a : tensor<?xf32>
  cf.br ^head(%j, %b : tensor<i32>, tensor<?xf32>)
^done:
  %y = stablehlo.negate %a : tensor<?xf32>
  return %y : tensor<?xf32> }"""
GROWS = """func.func @main(%n: tensor<i32>, %x: tensor<?xf32>) -> (tensor<?xf32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  cf.br ^again(%zero, %x : tensor<i32>, tensor<?xf32>)
^again(%i: tensor<i32>, %a: tensor<?xf32>):
  %b = stablehlo.concatenate %a, %x, dim = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  %j = stablehlo.add %i, %one : tensor<i32>
  %p = stablehlo.compare LT, %j, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %pb = tensor.extract %p[] : tensor<i1>
  cf.cond_br %pb, ^again(%j, %b : tensor<i32>, tensor<?xf32>), ^done
^done:
  return %b, %j : tensor<?xf32>, tensor<i32> }"""
"""Its only block runs before it decides."""
BREAK = LOOP.replace("^head(%j, %a : tensor<i32>, tensor<?xf32>)", "^done").replace("%j, %b", "%j, %a")
MIDDLE = """func.func @main(%p: tensor<i1>) -> tensor<i1> {
  %b = tensor.extract %p[] : tensor<i1>
  cf.cond_br %b, ^one, ^two
^one:
  cf.cond_br %b, ^two, ^end
^two:
  cf.br ^one
^end:
  return %p : tensor<i1> }"""
NO_END = """func.func @main(%p: tensor<i1>) -> tensor<i1> {
  %b = tensor.extract %p[] : tensor<i1>
  cf.cond_br %b, ^one, ^end
^one:
  cf.br ^one
^end:
  return %p : tensor<i1> }"""
SWITCH = """func.func @main(%p: tensor<i32>) -> tensor<i32> {
  %b = tensor.extract %p[] : tensor<i32>
  cf.switch %b : i32, [default: ^one, 42: ^one]
^one:
  return %p : tensor<i32> }"""

true, false = np.array(True), np.array(False)


def results(text: str, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """What the model gives, the same as read and as written and read again."""
    graph = read(text, "t.mlir")
    found, again = (interpret(each, inputs) for each in (graph, read(write(graph), "t.mlir")))
    for one, two in zip(found, again, strict=True):
        np.testing.assert_array_equal(one, two)
    return list(found)


@pytest.mark.parametrize("text", [IF, RETURNS_EARLY])
@pytest.mark.parametrize("size", [0, 1, 3])
def test_branches(text: str, size: int) -> None:
    x = np.arange(size, dtype=np.float32)
    np.testing.assert_array_equal(results(text, [true, x])[0], 2 * x)
    np.testing.assert_array_equal(results(text, [false, x])[0], x)


def test_a_block_that_both_ways_reach() -> None:
    x = np.arange(3, dtype=np.float32)
    for p in (true, false):
        for q in (true, false):
            np.testing.assert_array_equal(results(BOTH, [p, q, x])[0], 2 * x if p and q else -x)


def test_a_loop() -> None:
    x = np.arange(3, dtype=np.float32)
    for n, times in ((0, 1), (1, 2), (2, 2), (5, 8)):
        np.testing.assert_array_equal(results(LOOP, [np.array(n, np.int32), x])[0], -times * x)


def test_a_loop_that_decides_at_its_end() -> None:
    x = np.arange(2, dtype=np.float32)
    for n, times in ((0, 1), (1, 1), (3, 3)):
        grown, rounds = results(GROWS, [np.array(n, np.int32), x])
        np.testing.assert_array_equal(grown, np.tile(x, times + 1))
        assert rounds == times


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        (BREAK, "t.mlir:18:3", "a loop that is left from its inside"),
        (MIDDLE, "t.mlir:7:3", "a branch into the middle of a loop"),
        (NO_END, "t.mlir:5:3", "a loop whose first block does not decide whether it ends"),
        (SWITCH, "t.mlir:3:3", "ends with cf.switch"),
        (LOOP.replace("%p = ", "%u = stablehlo.custom_call @foo() : () -> tensor<i1>\n %p = "), "", "calls something"),
    ],
)
def test_what_has_no_structured_form_is_refused(text: str, place: str, said: str) -> None:
    with pytest.raises(Unsupported, match=said) as caught:
        read(text, "t.mlir")
    assert caught.value.where.startswith(place or "t.mlir:") and "stablehlo" in caught.value.hint


def test_ways_that_meet_late_end() -> None:
    """Each block of a ladder is reached by two ways."""
    blocks = [
        f"^a{k}:\n cf.cond_br %b, ^a{k + 1}, ^b{k + 1}\n^b{k}:\n cf.cond_br %b, ^b{k + 1}, ^a{k + 1}" for k in range(40)
    ]
    text = (
        "func.func @main(%p: tensor<i1>) -> tensor<i1> {\n %b = tensor.extract %p[] : tensor<i1>\n"
        " cf.cond_br %b, ^a0, ^b0\n" + "\n".join(blocks) + "\n^a40:\n return %p : tensor<i1>\n"
        "^b40:\n return %p : tensor<i1>\n}"
    )
    with pytest.raises(Unsupported, match="meet late"):
        read(text, "t.mlir")


def test_an_assertion() -> None:
    graph = read(
        """func.func @main(%p: tensor<i1>, %x: tensor<?xf32>) -> tensor<?xf32> {
  %b = tensor.extract %p[] : tensor<i1>
  cf.assert %b, "p must hold"
  return %x : tensor<?xf32> }""",
        "t.mlir",
    )
    interpret(graph, [true, np.zeros(2, np.float32)])
    with pytest.raises(EgshapeError, match="p must hold"):
        interpret(graph, [false, np.zeros(2, np.float32)])


def loop(condition: str, before: str = "") -> Graph:
    return read(
        f"""func.func @main(%n: tensor<i32>, %x: tensor<?xf32>) -> tensor<?xf32> {{
  %c = stablehlo.constant dense<3> : tensor<i32>
  {before}
  %r:2 = stablehlo.while(%i = %c, %a = %x) : tensor<i32>, tensor<?xf32> cond {{
    {condition} stablehlo.return %p : tensor<i1> }} do {{
    %t = stablehlo.add %a, %a : tensor<?xf32>
    %j = stablehlo.add %i, %i : tensor<i32>
    stablehlo.return %j, %t : tensor<i32>, tensor<?xf32> }}
  return %r#1 : tensor<?xf32> }}""",
        "t.mlir",
    )


LESS = "%p = stablehlo.compare LT, %i, {} : (tensor<i32>, tensor<i32>) -> tensor<i1>"


def test_a_loop_that_never_runs_is_its_input() -> None:
    assert "while" not in str(loop(LESS.format("%c")))
    graph = loop(LESS.format("%n"))
    assert "while" in str(graph)
    for n, times in ((3, 1), (4, 2)):
        (found,) = interpret(graph, [np.array(n, np.int32), np.ones(2, np.float32)])
        np.testing.assert_array_equal(found, np.full(2, times, np.float32))


def test_a_loop_that_runs_once_or_checks_stays() -> None:
    assert "while" in str(loop(LESS.format("%d"), "%d = stablehlo.constant dense<4> : tensor<i32>"))
    test = """%q = stablehlo.compare LT, %n, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%q) {error_message = "q", has_side_effect = true} : (tensor<i1>) -> ()
    """
    graph = loop(test + LESS.format("%c"))
    with pytest.raises(EgshapeError, match="q"):
        interpret(graph, [np.array(5, np.int32), np.ones(2, np.float32)])


def test_a_quantized_sort_is_refused_with_its_place() -> None:
    kind = "!quant.uniform<i8:f32, 0.1:5>"
    with pytest.raises(Unsupported, match=r"stablehlo\.sort of quantized values") as caught:
        read(
            f"""func.func @main(%x: tensor<?x{kind}>) -> tensor<?x{kind}> {{
  %0 = "stablehlo.sort"(%x) ({{
  ^bb0(%a: tensor<{kind}>, %b: tensor<{kind}>):
    %c = stablehlo.compare LT, %a, %b : (tensor<{kind}>, tensor<{kind}>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }}) {{dimension = 0 : i64}} : (tensor<?x{kind}>) -> tensor<?x{kind}>
  return %0 : tensor<?x{kind}> }}""",
            "t.mlir",
        )
    assert caught.value.where == "t.mlir:2:8" and "uniform_dequantize" in caught.value.hint
