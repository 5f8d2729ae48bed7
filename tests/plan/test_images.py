"""Which graphs do the same to each image (``plan/analysis/images.py``), one op at a time."""

from collections.abc import Callable

import numpy as np
import pytest

from egshape.dims import Dim, const, symbol
from egshape.ir.graph import Value
from egshape.plan.analysis.images import images
from egshape.plan.targets import plan
from tests.fuzz.differential import graph_of
from tests.plan.test_channels import Images

ONE, ZERO = const(1), const(0)
N = symbol("n")


def begun():
    """A builder and an image behind a convolution, [n, 16, h, w]."""
    b = Images()
    return b, b.conv(b.input())


def sliced(b, x, **changed):
    sides = {"starts": (ZERO,) * 4, "limits": x.type.dims, "strides": (ONE,) * 4}
    return b.b.one("slice", [x], {**sides, **changed})


def padded(b, x, axis):
    sides = tuple(const(int(each == axis)) for each in range(4))
    return b.b.one("pad", [x, b.constant(0.0)], {"low": sides, "high": (ZERO,) * 4, "interior": (ZERO,) * 4})


def taken(b, x, axis):
    """Places 0 and 0 of an axis."""
    places = b.b.one("constant", (), {"value": np.zeros((2, 1), np.int64)})
    sizes = tuple(ONE if each == axis else size for each, size in enumerate(x.type.dims))
    attrs = {
        "offset_dims": (1, 2, 3) if axis == 0 else (0, 2, 3),
        "collapsed": (axis,),
        "operand_batch": (),
        "indices_batch": (),
        "start_index_map": (axis,),
        "index_vector_dim": 1,
        "sizes": sizes,
        "sorted": False,
    }
    return b.b.one("gather", [x, places], attrs)


def multiplied(b, x, contract):
    """[n, 16] with constants [16, 5], or with itself over the images."""
    rows = b.fold(x, (2, 3))
    other = rows if contract == 0 else b.constant(np.ones((16, 5)))
    batch = {"lhs_batch": (), "rhs_batch": (), "precision": (), "dtype": "f32"}
    return b.b.one("dot_general", [rows, other], {**batch, "lhs_contract": (contract,), "rhs_contract": (0,)})


def counted(b, x, axis):
    return b.b.one("add", [x, b.b.one("iota", [], {"dtype": "f32", "dim": axis, "shape": x.type.dims})])


def number_of_images(b, x):
    """x times the number of images."""
    count = b.b.one("dims", [], {"elements": (N,), "shape": (), "dtype": "i64"})
    count = b.b.one("convert", [count], {"dtype": "f32"})
    return b.b.one("multiply", [x, b.spread(count, x, ())])


SAME = {
    "nothing more": lambda b, x: x,
    "an elementwise op": lambda b, x: b.b.one("tanh", [x]),
    "a clamp between scalars": lambda b, x: b.b.one("clamp", [b.constant(0.0), x, b.constant(6.0)]),
    "a bias": lambda b, x: b.b.one("add", [x, b.spread(b.constant(np.ones(16)), x, (1,))]),
    "a bias with an axis of 1": lambda b, x: b.b.one("add", [x, b.spread(b.constant(np.ones((1, 16))), x, (0, 1))]),
    "sums over places": lambda b, x: b.fold(x, (2, 3)),
    "windows": lambda b, x: b.window(x),
    "channels beside channels": lambda b, x: b.b.one("concatenate", [x, x], {"dim": 1}),
    "a part of the channels": lambda b, x: sliced(b, x, limits=(x.type.dims[0], const(4), *x.type.dims[2:])),
    "channels backwards": lambda b, x: b.b.one("reverse", [x], {"dims": (1,)}),
    "a margin": lambda b, x: padded(b, x, 2),
    "channels by a table": lambda b, x: taken(b, x, 1),
    "channels last": lambda b, x: b.b.one("transpose", [x], {"permutation": (0, 2, 3, 1)}),
    "channels in groups": lambda b, x: b.b.one(
        "reshape", [x], {"shape": (x.type.dims[0], const(4), const(4), *x.type.dims[2:])}
    ),
    "a linear layer": lambda b, x: multiplied(b, x, 1),
    "numbers of lines": lambda b, x: counted(b, x, 2),
}
OTHER = {
    "sums over images": lambda b, x: b.fold(x, (0,)),
    "means over images, spread again": lambda b, x: b.b.one("subtract", [x, b.spread(b.fold(x, (0,)), x, (1, 2, 3))]),
    "images beside images": lambda b, x: b.b.one("concatenate", [x, x], {"dim": 0}),
    "every second image": lambda b, x: sliced(b, x, strides=(const(2), ONE, ONE, ONE)),
    "images backwards": lambda b, x: b.b.one("reverse", [x], {"dims": (0,)}),
    "an image in front": lambda b, x: padded(b, x, 0),
    "images by a table": lambda b, x: taken(b, x, 0),
    "images last": lambda b, x: b.b.one("transpose", [x], {"permutation": (1, 2, 3, 0)}),
    "images and channels in one": lambda b, x: b.b.one(
        "reshape", [x], {"shape": (x.type.dims[0] * 16, *x.type.dims[2:])}
    ),
    "images times images": lambda b, x: multiplied(b, x, 0),
    "numbers of images": lambda b, x: counted(b, x, 0),
    "how many images": number_of_images,
    "images there and back": lambda b, x: b.b.one(
        "transpose",
        [b.b.one("reverse", [b.b.one("transpose", [x], {"permutation": (1, 0, 2, 3)})], {"dims": (1,)})],
        {"permutation": (1, 0, 2, 3)},
    ),
}


@pytest.mark.parametrize(
    ("make", "wanted"),
    [(make, wanted) for table, wanted in ((SAME, "n"), (OTHER, "")) for make in table.values()],
    ids=[*SAME, *OTHER],
)
def test_what_is_the_same_for_each_image(make: Callable[[Images, Value], Value], wanted: str) -> None:
    b, x = begun()
    graph = graph_of(b.b, make(b, x))
    assert images(graph) == wanted
    assert plan(graph).images == wanted


def test_what_is_dear_and_the_same_for_all_images_is_not_done_again_for_each_part() -> None:
    b, x = begun()
    style = b.conv(b.b.arg("style", "f32", [const(1), const(16), None, None], [None, None, "p", "q"]))
    graph = graph_of(b.b, b.b.one("multiply", [x, b.spread(b.fold(style, (0, 2, 3)), x, (1,))]))
    assert images(graph) == ""


def test_the_name_of_the_size_may_be_any() -> None:
    b = Images()
    x = b.conv(b.b.arg("x", "f32", [None, const(3), None, None], ["batch size", None, "h", "w"]))
    assert images(graph_of(b.b, x)) == "batch size"


def test_each_output_must_have_the_images_first() -> None:
    b, x = begun()
    assert images(graph_of(b.b, x, b.constant(np.ones(3)))) == ""


def test_a_graph_without_convolutions_is_left_whole() -> None:
    b = Images()
    assert images(graph_of(b.b, b.b.one("tanh", [b.input()]))) == ""


def check(b: Images, low: Dim, high: Dim) -> None:
    b.b.add("check", [], {"relation": "<=", "sides": (low, high), "message": "too small", "args": ()})


def test_a_check_that_one_image_passes_does_not_matter() -> None:
    b, x = begun()
    check(b, ONE, N * 24)
    assert plan(graph_of(b.b, x)).images == "n"


@pytest.mark.parametrize("low", [const(2), symbol("h")])
def test_a_check_that_one_image_could_fail_does(low: Dim) -> None:
    b, x = begun()
    check(b, low, N)
    graph = graph_of(b.b, x)
    assert images(graph) == "" and plan(graph).images == ""


def test_a_device_runs_all_images_at_once() -> None:
    b, x = begun()
    assert plan(graph_of(b.b, x), target="cuda").images == ""
