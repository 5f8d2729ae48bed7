"""Sizes that ops imply, shape code that folds, equalities that follow (lines S001 to S033 and S045 to S047)."""

from __future__ import annotations

from egshape.ir.graph import Value
from tests.behaviours.programs import Program, checks, dims, equal, ops, shapes, solved


def test_s001_a_static_target_refines_the_input_backwards() -> None:
    p = Program()
    x = p.input("x", [None])
    graph = p.graph(p.reshape(x, 6))
    result = solved(graph, refine_signature=True, accepted=1)
    assert (ops(result), str(result.graph.inputs[0].type)) == ([], "f32[6]")
    kept = solved(graph, accepted=1)
    assert (ops(kept), checks(kept), str(kept.graph.inputs[0].type)) == ([], ["x.0 == 6"], "f32[x.0]")


def test_s003_a_concatenation_makes_the_other_axes_equal() -> None:
    p = Program()
    x, y = p.input("x", [None, 6]), p.input("y", [None, 5])
    result = solved(p.graph(p.one("concatenate", (x, y), {"dim": 1})))
    assert shapes(result) == ["[x.0, 11]"]
    assert equal(result, "x.0", "y.0")


def test_s005_a_dot_makes_the_contracted_axes_equal() -> None:
    p = Program()
    x, y = p.input("x", [None, None]), p.input("y", [None, None])
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (0,), "rhs_contract": (1,), "dtype": "f32"}
    result = solved(p.graph(p.one("dot_general", (x, y), attrs)))
    assert shapes(result) == ["[x.1, y.0]"]
    assert equal(result, "x.0", "y.1")
    assert not equal(result, "x.1", "y.0")


def test_s007_s009_elementwise_ops_give_all_operands_one_symbol() -> None:
    p = Program()
    low, x, high = (p.input(name, [None, 3]) for name in ("low", "x", "high"))
    clamped = solved(p.graph(p.one("clamp", (low, x, high))))
    assert equal(clamped, "low.0", "x.0")
    assert equal(clamped, "high.0", "low.0")
    q = Program()
    pred = q.input("p", [None], "i1")
    a, b = q.input("a", [None]), q.input("b", [None])
    chosen = solved(q.graph(q.one("select", (pred, a, b))))
    assert shapes(chosen) == ["[p.0]"]
    assert all(equal(chosen, "p.0", other) for other in ("a.0", "b.0"))


def _inferred(p: Program, x: Value, target: list[Value]) -> list[Value]:
    """A target in which -1 stands for what is left over, as frameworks write it."""
    count, product, minus = p.one("multiply", (p.size(x, 0), p.size(x, 1))), p.number(-1), p.number(-1)
    for size in target:
        product = p.one("multiply", (product, size))
    unusable = p.one("or", (p.compare("EQ", count, p.number(0)), p.compare("LT", product, p.number(0))))
    left = p.one("divide", (count, p.one("select", (unusable, p.number(1), product))))
    return [p.one("select", (p.compare("EQ", size, minus), left, size)) for size in target]


def test_s011_s031_an_index_that_is_never_minus_one_folds_to_the_other_shape() -> None:
    p = Program()
    x, y = p.input("x", ["a", "b"]), p.input("y", ["c", "d"])
    target = p.vector(*_inferred(p, x, [p.size(y, 0), p.size(y, 1)]))
    result = solved(p.graph(p.one("reshape", (x, target))))
    assert (ops(result), shapes(result)) == (["reshape"], ["[c, d]"])
    assert equal(result, "a*b", "c*d")


def test_s013_a_size_that_was_widened_and_cut_is_not_minus_one() -> None:
    p = Program()
    wide = p.one("convert", (p.size(p.input("x", [None]), 0),), {"dtype": "i64"})
    size = p.one("convert", (wide,), {"dtype": "i32"})
    result = solved(p.graph(p.compare("EQ", size, p.number(-1)), p.compare("NE", size, p.number(0))))
    assert ops(result)[0] == "constant"
    assert not bool(result.graph.ops[0].attrs["value"])
    assert len(ops(result)) > 1, "that a size is not 0 is not known"


def test_s015_products_are_equal_through_a_flat_shape() -> None:
    p = Program()
    x, flat, z = p.input("x", ["a", "b"]), p.input("flat", ["m"]), p.input("z", ["p", "q", "r"])
    y = p.one("abs", (p.reshape(x, "m"),))
    result = solved(p.graph(p.reshape(y, "p", "q", "r"), flat, z))
    assert all(equal(result, one, two) for one, two in (("m", "a*b"), ("m", "p*q*r"), ("a*b", "p*q*r")))
    assert not equal(result, "a", "p")


def test_s017_sums_in_a_product_stay_opaque() -> None:
    p = Program()
    result = solved(p.graph(p.reshape(p.input("x", ["a", "b", "c"]), "b + c", "a + b")), accepted=1)
    assert equal(result, "(b + c)*(a + b)", "a*b*c")
    assert not any(equal(result, one, two) for one, two in (("a", "b"), ("a + b", "c"), ("b + c", "a*b")))


def test_s019_symbols_that_only_an_attribute_names_stay_alive() -> None:
    p = Program()
    x = p.input("x", ["a"])
    p.input("unused", ["k", "l"])
    sizes = p.one("dims", (), {"elements": dims("k*l", "l + 1"), "shape": (2,), "dtype": "i32"})
    result = solved(p.graph(sizes, p.one("negate", (x,))))
    assert {each.name for each in result.graph.body.symbols} == {"a", "k", "l"}
    assert "k*l" in str(result.graph)


def test_s021_an_element_of_nested_concatenations_is_the_scalar() -> None:
    p = Program()
    a, b, c = (p.input(name, [], "i32") for name in "abc")
    vector = p.one("concatenate", (p.vector(a, b), p.reshape(c, 1)), {"dim": 0})
    result = solved(p.graph(p.pick(vector, 1), p.pick(vector, 2)), accepted=1)
    assert (ops(result), [value.name for value in result.graph.outputs]) == ([], ["b", "c"])


def test_s023_an_element_of_a_reshaped_scalar_is_the_scalar() -> None:
    p = Program()
    a, b = p.input("a", []), p.input("b", [1])
    there, back = p.pick(p.reshape(a, 1), 0), p.reshape(p.reshape(b), 1)
    result = solved(p.graph(there, back), accepted=1)
    assert (ops(result), [value.name for value in result.graph.outputs]) == ([], ["a", "b"])
    q = Program()
    x = q.input("x", ["n", "m"])
    grid = q.reshape(q.reshape(q.vector(q.size(x, 0), q.size(x, 1)), 1, 2), 2, 1, 1)
    last = q.reshape(q.slice(grid, (1, 0, 0), (2, 1, 1)))
    assert "elements=<m>" in str(solved(q.graph(last)).graph), "the index is carried through both reshapes"


def test_s025_a_cast_of_a_shape_vector_is_a_cast_of_its_elements() -> None:
    p = Program()
    x = p.input("x", ["n", "m"])
    wide = p.one("convert", (p.vector(p.size(x, 0), p.size(x, 1)),), {"dtype": "i64"})
    result = solved(p.graph(p.pick(wide, 1)))
    assert ops(result) == ["dims"]
    assert "elements=<m>" in str(result.graph)


def test_s027_a_gather_at_known_places_forwards_elements() -> None:
    p = Program()
    x = p.input("x", ["n", "m"])
    vector = p.vector(p.size(x, 0), p.size(x, 1), p.size(x, 0))
    attrs = {
        "offset_dims": (),
        "collapsed": (0,),
        "operand_batch": (),
        "indices_batch": (),
        "start_index_map": (0,),
        "index_vector_dim": 1,
        "sizes": dims(1),
    }
    found = p.one("gather", (vector, p.reshape(p.number([1, 2]), 2, 1)), attrs)
    result = solved(p.graph(p.pick(found, 0), p.pick(found, 1)))
    assert ops(result) == ["dims", "dims"]
    assert "elements=<m>" in str(result.graph)
    assert "elements=<n>" in str(result.graph)


def test_s029_padding_keeps_static_axes_and_invents_no_equality() -> None:
    p = Program()
    x, low, high = p.input("x", [4, "n"]), p.input("low", ["l"]), p.input("high", ["h"])
    attrs = {"low": dims(0, "l"), "high": dims("h", 0), "interior": dims(0, 0)}
    result = solved(p.graph(p.one("pad", (x, p.number(1, "f32")), attrs), low, high))
    assert shapes(result)[0] == "[h + 4, l + n]"
    assert not equal(result, "h + 4", "4")
    assert not equal(result, "l + n", "n")


def test_s033_a_reshape_to_constants_is_static() -> None:
    p = Program()
    result = solved(p.graph(p.one("reshape", (p.input("x", ["a", "b"]), p.number([2, 3, 2])))), at=[{"a": 4, "b": 3}])
    assert (shapes(result), checks(result)) == (["[2, 3, 2]"], ["a*b == 12"])


def test_s045_reducing_the_dynamic_axis_leaves_a_static_result() -> None:
    p = Program()
    result = solved(p.graph(p.reduce("add", p.input("x", ["n", 4]), 0.0, 0)))
    assert shapes(result) == ["[4]"]


def test_s047_a_concatenation_of_dynamic_axes_is_their_sum_and_static_where_that_is_known() -> None:
    p = Program()
    x, y = p.input("x", ["a", 3]), p.input("y", ["b", 3])
    graph = p.graph(p.one("concatenate", (x, y), {"dim": 0}))
    assert shapes(solved(graph)) == ["[a + b, 3]"]
    known = solved(graph, "x.0 + y.0 == 24")
    assert shapes(known) == ["[24, 3]"]
    assert "f32[24, 3] = concatenate" in str(known.graph)
