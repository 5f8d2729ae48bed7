"""Broadcasts of shapes, their conditions, and what is known of their axes (lines S063 to S071, S081 to S093, S153)."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jaxlib")

from egshape.api import broadcast_axes, optimize
from egshape.errors import CheckFailed
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from tests.behaviours.programs import Program, checks, equal, module, ops, shapes, solved


def broadcast(*types: str, target: str, known: str = "") -> Graph:
    """Operands of these shapes ("4x?"), each broadcast to the shape that they have together, checked before.

    ``known`` is a constant shape that takes part without an operand."""
    full = [f"tensor<{each}xf32>" if each else "tensor<f32>" for each in types]
    ranks = [each.count("x") + 1 if each else 0 for each in types]
    result = f"tensor<{target}xf32>"
    rank = target.count("x") + 1
    lines = [f"%s{k} = shape.shape_of %a{k} : {kind} -> tensor<{ranks[k]}xindex>" for k, kind in enumerate(full)]
    names, kinds = [f"%s{k}" for k in range(len(types))], [f"tensor<{each}xindex>" for each in ranks]
    if known:
        length = known.count(",") + 1
        lines.append(f"%c = shape.const_shape [{known}] : tensor<{length}xindex>")
        names, kinds = ["%c", *names], [f"tensor<{length}xindex>", *kinds]
    listed = f"{', '.join(names)} : {', '.join(kinds)}"
    lines += [f"%w = shape.cstr_broadcastable {listed}", f"%t = shape.broadcast {listed} -> tensor<{rank}xindex>"]
    for k, kind in enumerate(full):
        axes = list(range(rank - ranks[k], rank))
        lines.append(
            f"%r{k} = stablehlo.dynamic_broadcast_in_dim %a{k}, %t, dims = {axes} : "
            f"({kind}, tensor<{rank}xindex>) -> {result}"
        )
    arguments = ", ".join(f"%a{k}: {kind}" for k, kind in enumerate(full))
    out = ", ".join([result] * len(full))
    body = "\n".join(lines)
    return module(
        f"func.func @main({arguments}) -> ({out}) {{\n{body}\n"
        f"return {', '.join(f'%r{k}' for k in range(len(full)))} : {out} }}"
    )


def test_s063_the_number_of_elements_is_a_product() -> None:
    p = Program()
    x = p.input("x", ["a", 6, "b", 5])
    count = p.size(x, 0)
    for axis in (1, 2, 3):
        count = p.one("multiply", (count, p.size(x, axis)))
    assert "elements=<30*a*b>" in str(solved(p.graph(count)).graph)
    graph = module("""func.func @main(%x: tensor<?x6x?x5xf32>) -> tensor<i32> {
      %s = shape.shape_of %x : tensor<?x6x?x5xf32> -> tensor<4xindex>
      %n = shape.num_elements %s : tensor<4xindex> -> index
      %i = arith.index_cast %n : index to i32
      %t = tensor.from_elements %i : tensor<i32>
      return %t : tensor<i32> }""")
    assert "elements=<30*arg0.0*arg0.2>" in str(solved(graph).graph)


def test_s065_sizes_pass_through_ops() -> None:
    p = Program()
    x, pred = p.input("x", ["a", "b", "c"]), p.input("p", ["a", "b", "c"], "i1")
    reduced, turned = p.reduce("add", x, 0.0, 1), p.one("transpose", (x,), {"permutation": (2, 0, 1)})
    chosen = p.one("select", (pred, x, p.one("abs", (x,))))
    sizes = [p.size(reduced, 1), p.size(turned, 0), p.size(turned, 2), p.size(chosen, 1)]
    result = solved(p.graph(*sizes))
    assert set(ops(result)) == {"dims"}
    assert [str(value) for op in result.graph.ops for value in op.attrs["elements"]] == ["c", "b"]


def test_s067_unknown_entries_of_a_target_are_new_symbols() -> None:
    p = Program()
    x, s, t = p.input("x", [None]), p.input("s", [], "i32"), p.input("t", [], "i32")
    result = solved(p.graph(p.one("reshape", (x, p.vector(s, 4, t, 3)), result_names=["y"])), accepted=0)
    assert shapes(result) == ["[%y.0, 4, %y.2, 3]"]


def test_s069_a_projection_has_its_input_sizes_again() -> None:
    p = Program()
    x, w = p.input("x", ["s", 4, "t", 6]), p.input("w", [24, 24])
    turned = p.one("transpose", (x,), {"permutation": (0, 2, 3, 1)})
    rows = p.one("multiply", (p.size(x, 0), p.size(x, 2)))
    flat = p.one("reshape", (turned, p.vector(rows, 24)))
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "dtype": "f32"}
    out = p.one("reshape", (p.one("dot_general", (flat, w), attrs), p.vector(p.size(x, 0), p.size(x, 2), 6, 4)))
    result = solved(p.graph(out))
    assert (ops(result), shapes(result)) == (["transpose", "reshape", "dot_general", "reshape"], ["[s, t, 6, 4]"])
    assert all("2147483647" in each for each in checks(result)), "no check on the element counts"


def test_s071_what_does_not_meet_is_known_and_the_rest_is_not() -> None:
    result = solved(broadcast("?", "1x5x?x?", target="1x5x?x?"))
    assert shapes(result)[0] == "[1, 5, arg1.2, bcast(arg0.0, arg1.3)]"
    assert len(checks(result)) == 1, "that the two broadcast is checked once"


@pytest.mark.parametrize(
    ("types", "target", "assume", "wanted"),
    [
        (("?", "?"), "?", (), [("unknown",), ("unknown",)]),
        (("?", "?"), "?", ("arg0.0 == arg1.0",), [("non-expanding",), ("non-expanding",)]),
        (("?", "?"), "?", ("arg0.0 == 1", "arg1.0 >= 2"), [("expanding",), ("non-expanding",)]),
        (("1", "?"), "?", (), [("unknown",), ("non-expanding",)]),
        (("3", "?x3"), "?x3", (), [("non-expanding",), ("non-expanding", "non-expanding")]),
        (("?", "?x?"), "?x?", ("arg0.0 == arg1.1",), [("non-expanding",), ("non-expanding", "non-expanding")]),
        (
            ("1x4x?", "?x1x?"),
            "?x4x?",
            ("arg0.2 == arg1.2", "arg1.0 >= 2"),
            [("expanding", "non-expanding", "non-expanding"), ("non-expanding", "expanding", "non-expanding")],
        ),
    ],
)
def test_s081_axes_are_marked_one_by_one(
    types: tuple[str, ...], target: str, assume: tuple[str, ...], wanted: list[tuple[str, ...]]
) -> None:
    result = solved(broadcast(*types, target=target), *assume, accepted=1)
    assert [each.axes for each in broadcast_axes(result)] == wanted


def test_s081_axes_of_rank_ten() -> None:
    p = Program()
    x, y = p.input("x", [1, "a", 1, "b", 1, "a", 2, 1, "c", 1]), p.input("y", ["n", "m"])
    wide = p.broadcast(x, tuple(range(10)), 2, "a", "n", "b", 1, "a", 2, 3, "m", "n + 2")
    result = solved(p.graph(wide, y), accepted=1)
    (found,) = broadcast_axes(result)
    assert found.axes == (
        "expanding",
        "non-expanding",
        "unknown",
        "non-expanding",
        "non-expanding",
        "non-expanding",
        "non-expanding",
        "expanding",
        "unknown",
        "expanding",
    )


def test_s083_shapes_without_axes_and_with_themselves() -> None:
    graph = module("""func.func @main(%a: tensor<f32>, %b: tensor<?x?xf32>) -> (tensor<f32>, tensor<?x?xf32>) {
      %s = shape.shape_of %a : tensor<f32> -> tensor<0xindex>
      %t = shape.shape_of %b : tensor<?x?xf32> -> tensor<2xindex>
      %u = shape.broadcast %s, %s : tensor<0xindex>, tensor<0xindex> -> tensor<0xindex>
      %v = shape.broadcast %t, %t : tensor<2xindex>, tensor<2xindex> -> tensor<2xindex>
      %x = stablehlo.dynamic_broadcast_in_dim %a, %u, dims = [] : (tensor<f32>, tensor<0xindex>) -> tensor<f32>
      %y = stablehlo.dynamic_broadcast_in_dim %b, %v, dims = [0, 1] : (tensor<?x?xf32>, tensor<2xindex>)
        -> tensor<?x?xf32>
      return %x, %y : tensor<f32>, tensor<?x?xf32> }""")
    assert ops(solved(graph)) == []
    assert ops(solved(broadcast("?x2", "?x2", target="?x2"), "arg0.0 == arg1.0", accepted=1)) == []


def test_s085_unrelated_shapes_are_left() -> None:
    result = solved(broadcast("?", "?", target="?"))
    assert ops(result) == ["broadcast_in_dim", "broadcast_in_dim"]
    assert shapes(result) == ["[bcast(arg0.0, arg1.0)]"] * 2
    assert not equal(result, "arg0.0", "arg1.0")


def test_s087_partial_operands_give_a_whole_result() -> None:
    graph = broadcast("4x?x4x?", "4x?x?", target="4x?x?x?", known="6")
    sizes = [{"arg0.1": 1, "arg0.3": 6, "arg1.1": 4, "arg1.2": 1}, {"arg0.1": 4, "arg0.3": 1, "arg1.1": 1, "arg1.2": 6}]
    result = solved(graph, at=sizes)
    assert shapes(result) == ["[4, 4, 4, 6]"] * 2


def test_s089_a_constant_that_only_adds_axes() -> None:
    ones = solved(broadcast("?", target="?x?", known="1, 1"))
    assert (ops(ones), shapes(ones), checks(ones)) == (["reshape"], ["[1, arg0.0]"], [])
    kept = solved(broadcast("?x?", target="?x?", known="6"), at=[{"arg0.0": 3, "arg0.1": 1}])
    assert shapes(kept) == ["[arg0.0, 6]"]
    assert len(checks(kept)) == 1


def test_s093_checks_that_others_imply_are_dropped() -> None:
    graph = module("""func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>, %c: tensor<?xf32>) -> tensor<?xf32> {
      %s = shape.shape_of %a : tensor<?xf32> -> tensor<1xindex>
      %t = shape.shape_of %b : tensor<?xf32> -> tensor<1xindex>
      %u = shape.shape_of %c : tensor<?xf32> -> tensor<1xindex>
      %0 = shape.cstr_eq %s, %t : tensor<1xindex>, tensor<1xindex>
      %1 = shape.cstr_broadcastable %s, %t : tensor<1xindex>, tensor<1xindex>
      %2 = shape.cstr_broadcastable %s, %u : tensor<1xindex>, tensor<1xindex>
      %3 = shape.cstr_broadcastable %s, %u : tensor<1xindex>, tensor<1xindex>
      %w = shape.assuming_all %0, %1, %2, %3
      %r = shape.assuming %w -> (tensor<?xf32>) {
        %z = stablehlo.add %a, %b : tensor<?xf32>
        shape.assuming_yield %z : tensor<?xf32> }
      return %r : tensor<?xf32> }""")
    result = solved(graph)
    assert len(checks(result)) == 2, "the equality, and one condition that it does not imply"
    assert checks(result)[0] == "arg0.0 == arg1.0"


def test_s153_a_size_that_is_one_or_three_gives_three_but_is_not_picked() -> None:
    result = solved(broadcast("2x?", "3", target="?x?"), at=[{"arg0.1": 1}, {"arg0.1": 3}])
    assert shapes(result) == ["[2, 3]"] * 2
    assert not equal(result, "arg0.1", "3")
    assert str(result.graph.inputs[0].type) == "f32[2, arg0.1]"
    other = solved(broadcast("2x3", "2x?", target="?x?"), at=[{"arg1.1": 1}, {"arg1.1": 3}])
    assert shapes(other) == ["[2, 3]"] * 2
    assert ops(other) == ["broadcast_in_dim"], "the known operand is not broadcast"


TWICE = """func.func @main(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?xf32>) -> tensor<?x?xf32> {
  %r = chlo.broadcast_add %a, %b : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  %q = chlo.broadcast_multiply %r, %c : (tensor<?x?xf32>, tensor<?xf32>) -> tensor<?x?xf32>
  %p = chlo.broadcast_add %q, %b : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  return %p : tensor<?x?xf32> }"""


def test_common_sizes_of_many_are_compared_two_by_two() -> None:
    """That sizes broadcast is a condition on each two of them: no check speaks of a common size, which is written out
    a polynomial that grows with each further one."""
    result = optimize(module(TWICE))
    found = [(str(op.attrs["message"]), op.attrs["sides"]) for op in result.graph.ops if op.name == "check"]
    assert len(found) == 4
    for message, (lhs, _) in found:
        assert message.endswith("do not broadcast") and len(lhs.terms) == 6
    assert str(result.graph.outputs[0].type) == "f32[bcast(arg0.0, arg1.0), bcast(arg0.1, bcast(arg1.1, arg2.0))]"
    assert ops(result) == [
        "broadcast_in_dim",
        "broadcast_in_dim",
        "add",
        "broadcast_in_dim",
        "broadcast_in_dim",
        "multiply",
        "broadcast_in_dim",
        "add",
    ]


@pytest.mark.parametrize(
    "sizes",
    [
        (3, 2, 3, 2, 2),
        (1, 3, 2, 1, 3),
        (0, 1, 1, 2, 1),
        (2, 1, 2, 1, 4),
        (2, 2, 3, 2, 2),
        (2, 3, 2, 3, 2),
        (2, 1, 2, 3, 2),
        (2, 0, 2, 1, 1),
        (2, 0, 2, 1, 2),
    ],
)
def test_common_sizes_are_those_of_numpy(sizes: tuple[int, ...]) -> None:
    a, b, c, d, e = sizes
    arrays = [np.ones(shape, np.float32) for shape in ((a, b), (c, d), (e,))]
    try:
        wanted = np.broadcast_shapes((a, b), (c, d), (e,))
    except ValueError:
        with pytest.raises(CheckFailed, match="do not broadcast"):
            interpret(optimize(module(TWICE)).graph, arrays)
        return
    assert interpret(optimize(module(TWICE)).graph, arrays)[0].shape == wanted
