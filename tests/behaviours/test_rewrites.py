"""Ops that go away or change places (lines S035 to S043 and S073 to S091, S111, S143 to S149)."""

from __future__ import annotations

import numpy as np

from tests.behaviours.programs import Program, checks, dims, ops, shapes, solved


def test_s035_a_broadcast_to_its_own_shape_is_removed() -> None:
    p = Program()
    x = p.input("x", ["a", "b"])
    stated = p.broadcast(x, (0, 1), "a", "b")
    computed = p.one("broadcast_in_dim", (stated, p.vector(p.size(x, 0), p.size(x, 1))), {"dims": (0, 1)})
    assert ops(solved(p.graph(computed))) == []
    q = Program()
    y, other = q.input("y", ["a", 1]), q.input("other", ["b"])
    assert ops(solved(q.graph(q.broadcast(y, (0, 1), "a", "b"), other))) == ["broadcast_in_dim"]


def test_s037_a_unit_axis_that_expands_at_once_is_one_broadcast() -> None:
    p = Program()
    x, w = p.input("x", ["a", "b"]), p.input("w", ["c"])
    stated = p.broadcast(p.reshape(x, "a", "b", 1), (0, 1, 2), "a", "b", "c")
    target = p.vector(p.size(x, 0), p.size(x, 1), p.size(w, 0))
    dynamic = p.one("broadcast_in_dim", (p.reshape(w, 1, 1, "c"), target), {"dims": (0, 1, 2)})
    result = solved(p.graph(stated, dynamic))
    assert ops(result) == ["broadcast_in_dim", "broadcast_in_dim"]
    assert [op.attrs["dims"] for op in result.graph.ops if op.name == "broadcast_in_dim"] == [(0, 1), (2,)]


def test_s039_powers_keep_their_bits() -> None:
    p = Program()
    x = p.input("x", ["a"])
    result = solved(p.graph(p.one("power", (x, p.full(3.0, x))), p.one("power", (x, p.full(3.01, x)))))
    assert ops(result).count("power") == 2
    assert "multiply" not in ops(result), "products round differently"


def test_s041_a_predicate_padded_with_true_is_true() -> None:
    p = Program()
    x, y = p.input("x", ["a"]), p.input("y", ["h"])
    attrs = {"low": dims(2), "high": dims("h"), "interior": dims(0)}
    yes, no = p.number(True, "i1"), p.number(False, "i1")
    value = p.one("pad", (x, p.number(0, "f32")), attrs)
    always = p.one("pad", (p.broadcast(yes, (), "a"), yes), attrs)
    assert ops(solved(p.graph(p.one("select", (always, value, p.full(0.0, value))), y))) == ["constant", "pad"]
    inside = p.one("pad", (p.broadcast(yes, (), "a"), no), attrs)
    assert "select" in ops(solved(p.graph(p.one("select", (inside, value, p.full(7.0, value))), y)))


def test_s043_a_transpose_that_is_returned_too_is_not_repeated() -> None:
    p = Program()
    turned = p.one("transpose", (p.input("x", ["a", "b"]),), {"permutation": (1, 0)})
    assert ops(solved(p.graph(turned, p.one("abs", (turned,))))) == ["transpose", "abs"]


def test_s073_s075_unit_axes_come_and_go_in_one_reshape() -> None:
    p = Program()
    x, y, z = p.input("x", []), p.input("y", ["a", "b"]), p.input("z", ["n", 1])
    grown = p.one("reshape", (z, p.vector(p.size(z, 0), 1, 1)))
    result = solved(p.graph(p.reshape(x, 1, 1), p.reshape(y), grown, p.reshape(grown, 1, 1, "n", 1)), accepted=1)
    assert ops(result) == ["reshape"] * 4
    assert checks(result) == ["a*b == 1"], "only the collapse to a scalar depends on the sizes"


def test_s077_a_split_and_a_merge_are_one_reshape_without_a_check() -> None:
    p = Program()
    x = p.input("x", [6, "a", "b"])
    again = p.one("reshape", (x, p.vector(6, p.size(x, 1), p.size(x, 2))))
    result = solved(p.graph(p.reshape(again, 3, 2, "a*b")))
    assert (ops(result), checks(result), shapes(result)) == (["reshape"], [], ["[3, 2, a*b]"])


def test_s079_a_chain_of_reductions_that_keep_their_axis_has_plain_reshapes() -> None:
    p = Program()
    sizes: list[int | str] = ["a", "b", "c"]
    x = p.input("x", sizes)
    for axis in range(3):
        sizes[axis] = 1
        x = p.reshape(p.reduce("minimum", x, np.inf, axis), *sizes)
    result = solved(p.graph(x))
    assert (checks(result), shapes(result)) == ([], ["[1, 1, 1]"])
    assert all(op.operands[0].type.rank == 2 for op in result.graph.ops if op.name == "reshape")


def test_s091_what_is_broadcast_alike_is_computed_before_the_broadcast() -> None:
    p = Program()
    x, y, z, w = (p.input(name, [size]) for name, size in zip("xyzw", ("n", "n", "n", "m"), strict=True))
    wide = [p.broadcast(value, (1,), "m", "n") for value in (x, y, z)]
    result = solved(p.graph(p.one("add", (p.one("multiply", wide[:2]), wide[2])), w))
    assert ops(result) == ["multiply", "add", "broadcast_in_dim"]
    q = Program()
    x, y, w = q.input("x", ["n"]), q.input("y", [1]), q.input("w", ["m"])
    unlike = q.one("add", [q.broadcast(value, (1,), "m", "n") for value in (x, y)])
    assert ops(solved(q.graph(unlike, w))).count("broadcast_in_dim") >= 1


def test_s111_reshape_chains_collapse() -> None:
    p = Program()
    x = p.input("x", ["a", "b"])
    around = p.reshape(p.reshape(p.reshape(x, "a*b"), "b", "a"), "a", "b")
    flat = p.reshape(p.reshape(x, "b", "a"), "a*b")
    result = solved(p.graph(around, flat, p.reshape(x, "a", "b")))
    assert ops(result) == ["reshape"]
    assert result.graph.outputs[0] is result.graph.inputs[0]


def test_s143_partly_dynamic_views_keep_what_is_known() -> None:
    p = Program()
    x = p.input("x", ["n", 12, "k"])
    split = p.one("reshape", (x, p.vector(p.size(x, 0), 3, 4, p.size(x, 2))))
    merged = p.reshape(split, "12*n", "k")
    result = solved(p.graph(split, merged, p.reshape(merged, "n", 12, "k")))
    assert shapes(result) == ["[n, 3, 4, k]", "[12*n, k]", "[n, 12, k]"]
    assert (ops(result), checks(result)) == (["reshape", "reshape"], [])


def test_a_split_by_a_divisor_that_merges_back_is_the_identity() -> None:
    p = Program()
    x, heads = p.input("x", ["n", "h"]), p.input("heads", ["k"])
    attrs = {"shape": dims("n", "k", "h//k")}
    merged = p.reshape(p.one("reshape", (x,), attrs), "n", "h")
    graph = p.graph(merged, heads)
    assert ops(solved(graph, "h % k == 0", "k >= 1")) == []
    assert checks(solved(graph, accepted=1)), "without the fact the split is checked"


def test_s145_affine_sizes() -> None:
    p = Program()
    x, y, w = p.input("x", ["s"]), p.input("y", ["t"]), p.input("w", ["r", 7])
    shifted = p.one("add", (x, p.slice(y, (1,), ("t",))))
    outer = p.one("multiply", (p.broadcast(x, (0,), "s", "s"), p.broadcast(x, (1,), "s", "s")))
    fives = p.reshape(w, "(7*r)//5", 5)
    graph = p.graph(shifted, p.reshape(outer, "s*s"), fives, p.slice(x, (5,), ("s",)))
    result = solved(graph, "t == s + 1", "r == 5*s", accepted=1)
    assert shapes(result) == ["[s]", "[s*s]", "[7*s, 5]", "[s - 5]"]


def test_s147_a_stride_of_half_the_size_takes_two() -> None:
    p = Program()
    x = p.input("x", ["n"])
    doubled = p.one("concatenate", (x, x), {"dim": 0})
    stride = p.reshape(p.size(x, 0), 1)
    limit = p.reshape(p.one("add", (p.size(x, 0), p.size(x, 0))), 1)
    result = solved(p.graph(p.one("slice", (doubled, p.vector(0), limit, stride))))
    assert shapes(result) == ["[2]"]
    assert "1 <= n" in checks(result)


def test_s149_a_flattened_pair_of_axes_is_their_product() -> None:
    p = Program()
    x = p.input("x", ["a", "b", 6])
    count = p.one("multiply", (p.size(x, 0), p.size(x, 1)))
    result = solved(p.graph(p.one("reshape", (x, p.vector(count, 6)))))
    assert (ops(result), shapes(result)) == (["reshape"], ["[a*b, 6]"])
    assert not any("== 1" in each for each in checks(result))


def test_full_slices_and_empty_pads_go() -> None:
    p = Program()
    x, y = p.input("x", ["a"]), p.input("y", ["b"])
    nothing = p.one("pad", (x, p.number(0, "f32")), {"low": dims("a - b"), "high": dims("b - a"), "interior": dims(0)})
    graph = p.graph(p.slice(nothing, (0,), ("b",)), y)
    assert ops(solved(graph, "a == b")) == []
    assert "pad" in ops(solved(graph))


def test_a_slice_of_a_concatenation_lies_in_one_part_where_orders_say_so() -> None:
    p = Program()
    x, y, m = p.input("x", ["a"]), p.input("y", ["b"]), p.input("m", ["m"])
    joined = p.one("concatenate", (x, y), {"dim": 0})
    graph = p.graph(p.slice(joined, (0,), ("m",)), p.slice(joined, ("a + m",), ("a + b",)), m)
    result = solved(graph, "m <= a", "m <= b", accepted=1)
    assert ops(result) == ["slice", "slice"]
    assert [op.operands[0].name for op in result.graph.ops if op.name == "slice"] == ["x", "y"]
    assert ops(solved(p.graph(p.slice(joined, (0,), ("m",)), m), accepted=1)) == ["concatenate", "slice"]
