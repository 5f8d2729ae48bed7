"""Result types of ops with control flow."""

import numpy as np
import pytest

from egshape.dims import symbol
from egshape.errors import EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.ops import REGISTRY
from egshape.ops.kinds import region_kind


@pytest.fixture
def builder():
    return BlockBuilder()


def branch(builder, *values):
    return builder.child().finish(values)


def test_if_keeps_the_sizes_on_which_branches_agree(builder):
    pred = builder.arg("p", "i1", [])
    x = builder.arg("x", "f32", [None, None], ["n", "m"])
    y = builder.arg("y", "f32", [None, None], ["n", "k"])
    got = builder.one("if", (pred,), regions=[branch(builder, x), branch(builder, y)])
    assert got.type.dims[0] is symbol("n")
    assert got.type.dims[1].symbols().isdisjoint({"m", "k"})


def test_sizes_that_only_a_branch_knows_do_not_leave_it(builder):
    pred = builder.arg("p", "i1", [])
    shape = builder.arg("s", "i32", [1])
    x = builder.arg("x", "f32", [])
    child = builder.child()
    inner = child.finish([child.one("broadcast_in_dim", (x, shape), {"dims": ()})])
    (size,) = inner.results[0].type.dims
    got = builder.one("case", (builder.arg("i", "i32", []),), regions=[inner])
    assert got.type.dims[0] is not size
    with pytest.raises(EgshapeError):
        builder.one("if", (pred,), regions=[inner, branch(builder, x)])


@pytest.mark.parametrize(
    "make",
    [
        lambda b, p, x: b.one("if", (p,), regions=[branch(b, x)]),
        lambda b, p, x: b.one("if", (x,), regions=[branch(b, x), branch(b, x)]),
        lambda b, p, x: b.one("if", (p,), regions=[branch(b, x), branch(b, p)]),
        lambda b, p, x: b.one("if", (p,), regions=[branch(b, x), branch(b, x, x)]),
        lambda b, p, x: b.one("case", (p,), regions=[branch(b, x)]),
        lambda b, p, x: b.one("while", (x,), regions=[branch(b, p), branch(b, x)]),
        lambda b, p, x: b.one("composite", (x,), {"name": "c"}, regions=[branch(b, x)]),
    ],
)
def test_wrong_regions_are_rejected(builder, make):
    p, x = builder.arg("p", "i1", []), builder.arg("x", "f32", [None])
    with pytest.raises(EgshapeError):
        make(builder, p, x)


def test_while_and_barrier_keep_types(builder):
    x = builder.arg("x", "f32", [None, 2], ["n", None])
    cond, body = builder.child(), builder.child()
    cond.arg(None, "f32", x.type.dims)
    p = cond.one("constant", (), {"value": np.array(False)})
    carried = body.arg(None, "f32", x.type.dims)
    got = builder.one("while", (x,), regions=[cond.finish([p]), body.finish([carried])])
    assert got.type == x.type
    assert [value.type for value in builder.add("optimization_barrier", (x, got))] == [x.type, x.type]


def test_composite_has_the_types_of_its_decomposition(builder):
    x = builder.arg("x", "f32", [None], ["n"])
    inner = builder.child()
    arg = inner.arg(None, "f32", x.type.dims)
    got = builder.one(
        "composite",
        (x,),
        {"name": "twice"},
        regions=[inner.finish([inner.one("concatenate", (arg, arg), {"dim": 0})])],
    )
    assert got.type.dims == (symbol("n") * 2,)


def test_case_out_of_range_takes_the_last():
    regions = tuple((lambda number=number: [np.int32(number)]) for number in range(3))
    got = [REGISTRY["case"].reference(np.int32(i), regions=regions)[0] for i in (-1, 0, 1, 2, 3)]
    assert got == [2, 0, 1, 2, 2]


@pytest.mark.parametrize(
    ("name", "swap", "attrs", "kind"),
    [
        ("add", False, {}, "add"),
        ("maximum", True, {}, "maximum"),
        ("subtract", False, {}, None),
        ("compare", False, {"direction": "LT", "kind": "FLOAT"}, "compare:0:LT:FLOAT"),
        ("compare", True, {"direction": "LT", "kind": "TOTALORDER"}, "compare:0:GT:TOTALORDER"),
        ("compare", False, {"direction": "LE", "kind": "FLOAT"}, None),
    ],
)
def test_kind_of_a_region(builder, name, swap, attrs, kind):
    child = builder.child()
    args = [child.arg(None, "f32", []) for _ in range(2)]
    out = child.one(name, args[::-1] if swap else args, attrs)
    assert region_kind(child.finish([out])) == kind


def test_kind_of_a_region_that_is_none(builder):
    child = builder.child()
    one, two = child.arg(None, "f32", []), child.arg(None, "f32", [])
    twice = child.one("add", (one, one))
    assert region_kind(child.finish([twice])) is None
    assert region_kind(builder.child().finish([two])) is None
