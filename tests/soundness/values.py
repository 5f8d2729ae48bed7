"""Small programs that a careless optimizer gets wrong: bits of values, wrapping integers, shape code of models."""

from __future__ import annotations

import numpy as np

from egshape.dims import const
from egshape.frontends import stablehlo
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Value
from tests.fuzz.differential import argument, constant, data, graph_of, region
from tests.soundness.programs import M, N, careless, compare, f, i, scalar, size

SPECIAL = np.array([-0.0, 0.0, np.nan, np.inf, -np.inf, 1.5, -2.0, 1e-45, -1e-45, 3e38], np.float32)


def full(b: BlockBuilder, value: object, dtype: str, like: Value) -> Value:
    """A constant in every element."""
    return b.one("broadcast_in_dim", (constant(b, value, dtype),), {"dims": (), "shape": like.type.dims})


@careless(valid=[(SPECIAL,), (f(0),), (f(13),)])
def neutral_elements_of_float_addition() -> Graph:
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    out = []
    for name in ("add", "subtract"):
        for number in (0.0, -0.0):
            neutral = full(b, number, "f32", x)
            out += [b.one(name, (x, neutral)), b.one(name, (neutral, x))]
    return graph_of(b, *out)


@careless(valid=[(SPECIAL,), (f(0),), (f(13),)])
def neutral_elements_of_float_products_and_extremes() -> Graph:
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    out = []
    pairs = (
        ("multiply", 1.0),
        ("multiply", 0.0),
        ("multiply", -1.0),
        ("divide", 1.0),
        ("power", 1.0),
        ("power", 0.0),
        ("maximum", -np.inf),
        ("maximum", np.inf),
        ("minimum", np.inf),
        ("maximum", 0.0),
        ("minimum", 0.0),
        ("maximum", -3.4028235e38),
        ("minimum", -0.0),
        ("multiply", np.nan),
        ("remainder", np.inf),
    )
    for name, number in pairs:
        other = full(b, number, "f32", x)
        out += [b.one(name, (x, other)), b.one(name, (other, x))]
    return graph_of(b, *out)


@careless(valid=[(SPECIAL,), (f(0),)])
def an_operand_with_itself() -> Graph:
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    names = ("subtract", "divide", "maximum", "minimum", "add", "multiply", "remainder", "atan2")
    out = [b.one(name, (x, x)) for name in names]
    out += [
        b.one("compare", (x, x), {"direction": d, "kind": k})
        for d in ("EQ", "NE", "LE", "LT")
        for k in ("FLOAT", "TOTALORDER")
    ]
    return graph_of(b, *out)


@careless(valid=[(SPECIAL,), (f(0),)])
def signs_twice() -> Graph:
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    out = []
    for one in ("negate", "abs", "sign", "floor", "ceil", "round_nearest_even", "round_nearest_afz", "sqrt"):
        for two in ("negate", "abs", "sign", "floor", "round_nearest_afz"):
            out.append(b.one(two, (b.one(one, (x,)),)))
    zero = full(b, 0.0, "f32", x)
    return graph_of(b, *out, b.one("subtract", (zero, x)))


@careless(valid=[(SPECIAL, SPECIAL[::-1].copy()), (f(0), f(0))], violating=[(f(2), f(3))])
def select_with_nan_in_its_predicate() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N]), argument(b, "y", "f32", [M])

    def than(direction: str) -> Value:
        return b.one("compare", (x, y), {"direction": direction, "kind": "FLOAT"})

    larger = b.one("select", (than("GT"), x, y))
    other = b.one("select", (b.one("not", (than("LE"),)), x, y))
    same = b.one("select", (than("EQ"), x, x))
    known = b.one("select", (full(b, False, "i1", x), x, y))
    return graph_of(b, larger, other, b.one("maximum", (x, y)), same, known)


@careless(valid=[(SPECIAL,), (f(0),), (f(1),)])
def reductions_that_start_from_a_neutral_element() -> Graph:
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    out = []
    for name, start in (("add", 0.0), ("add", -0.0), ("multiply", 1.0), ("maximum", -np.inf), ("minimum", np.inf)):
        body = region(b, name, "f32")
        out.append(b.one("reduce", (x, constant(b, start, "f32")), {"dims": (0,)}, regions=(body,)))
        out.append(b.one("reduce", (x, constant(b, start, "f32")), {"dims": ()}, regions=(body,)))
    count = b.one("convert", (size(b, x),), {"dtype": "f32"})
    return graph_of(b, *out, b.one("divide", (out[0], count)))


@careless(valid=[(data("f32", (7, 5), 2),), (f(0, 3),), (f(3, 0),)])
def sum_keeps_its_order() -> Graph:
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N, M])
    body = region(b, "add", "f32")
    zero = constant(b, 0.0, "f32")
    turned = b.one("transpose", (x,), {"permutation": (1, 0)})
    flat = b.one("reshape", (x,), {"shape": (N * M,)})
    out = [
        b.one("reduce", (value, zero), {"dims": dims}, regions=(body,))
        for value, dims in ((x, (0, 1)), (turned, (0, 1)), (flat, (0,)), (x, (0,)), (turned, (1,)))
    ]
    both = b.one("reduce", (out[3], zero), {"dims": (0,)}, regions=(body,))
    reversed_ = b.one("reduce", (b.one("reverse", (flat,), {"dims": (0,)}), zero), {"dims": (0,)}, regions=(body,))
    return graph_of(b, *out, both, reversed_)


@careless(
    valid=[
        (data("i8", (40,), 3), data("ui8", (40,), 4), data("i1", (40,), 5)),
        (data("i8", (0,)), data("ui8", (0,)), data("i1", (0,))),
    ]
)
def small_and_unsigned_integers_wrap() -> Graph:
    b = BlockBuilder()
    x, u, p = argument(b, "x", "i8", [N]), argument(b, "u", "ui8", [N]), argument(b, "p", "i1", [N])
    q = b.one("reverse", (p,), {"dims": (0,)})
    out = [b.one(name, (p, q)) for name in ("add", "multiply", "xor", "maximum")]
    for value, dtype in ((x, "i8"), (u, "ui8")):
        one, none, other = (full(b, number, dtype, value) for number in (1, 0, 7))
        more = b.one("add", (value, one))
        out += [
            more,
            b.one("subtract", (more, one)),
            b.one("negate", (value,)),
            b.one("negate", (more,)),
            b.one("divide", (value, none)),
            b.one("remainder", (value, none)),
            b.one("subtract", (none, value)),
            b.one("divide", (b.one("multiply", (value, other)), other)),
            b.one("maximum", (value, none)),
            b.one("shift_left", (value, none)),
            b.one("shift_left", (value, full(b, 8, dtype, value))),
        ]
        kind = "SIGNED" if dtype == "i8" else "UNSIGNED"
        out.append(b.one("compare", (value, more), {"direction": "LT", "kind": kind}))
    out.append(b.one("abs", (x,)))
    return graph_of(b, *out)


@careless(valid=[(SPECIAL, data("i32", (20,), 6)), (f(0), data("i32", (0,)))])
def conversions_that_lose_bits() -> Graph:
    b = BlockBuilder()
    x, k = argument(b, "x", "f32", [N]), argument(b, "k", "i32", [M])

    def through(value: Value, *dtypes: str) -> Value:
        for dtype in dtypes:
            value = b.one("convert", (value,), {"dtype": dtype})
        return value

    out = [
        through(x, *path)
        for path in (
            ("f16", "f32"),
            ("bf16", "f32"),
            ("f64", "f32"),
            ("i32", "f32"),
            ("f32",),
            ("i1", "f32"),
            ("i8", "f32"),
        )
    ]
    out += [
        through(k, *path)
        for path in (
            ("i8", "i32"),
            ("i64", "i32"),
            ("ui32", "i32"),
            ("f32", "i32"),
            ("i1", "i32"),
            ("ui8", "i8", "i32"),
            ("i32",),
        )
    ]
    return graph_of(b, *out)


@careless(valid=[(data("c64", (9,), 1),), (data("c64", (0,)),)])
def complex_numbers() -> Graph:
    b = BlockBuilder()
    x = argument(b, "x", "c64", [N])
    out = [
        b.one(name, (x, full(b, number, "c64", x)))
        for name, number in (("add", 0), ("multiply", 1), ("subtract", 0), ("divide", 1))
    ]
    parts = b.one("complex", (b.one("real", (x,)), b.one("imag", (x,))))
    return graph_of(b, *out, parts, b.one("negate", (b.one("negate", (x,)),)))


@careless(valid=[(SPECIAL, data("i32", (10,), 7)), (f(0), data("i32", (0,)))], violating=[(f(2), i(1, 2, 3))])
def sort_is_stable_and_orders_nan() -> Graph:
    b = BlockBuilder()
    x, k = argument(b, "x", "f32", [N]), argument(b, "k", "i32", [M])
    out: list[Value] = []
    for direction in ("LT", "GT"):
        inner = b.child()
        p, q = inner.arg(None, "f32", []), inner.arg(None, "f32", [])
        inner.arg(None, "i32", [])
        inner.arg(None, "i32", [])
        order = inner.finish([inner.one("compare", (p, q), {"direction": direction, "kind": "TOTALORDER"})])
        out += b.add("sort", (x, k), {"dim": 0, "stable": True}, regions=(order,))
    return graph_of(b, *out)


# -- shape code that wraps -----------------------------------------------------------------------------------------


def wide(*shape: int) -> np.ndarray:
    """An empty array with huge axes."""
    return np.empty(shape, np.float32)


HUGE = [
    (wide(0, n), wide(0, m))
    for n, m in ((65536, 65536), (2**31 - 1, 1), (2**31 - 1, 2), (46341, 46341), (3, 5), (0, 2**31 - 1), (2**30, 4))
]


@careless(valid=HUGE)
def size_arithmetic_in_i32_wraps() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [0, N]), argument(b, "y", "f32", [0, M])
    n, m = size(b, x, 1), size(b, y, 1)
    product, total = b.one("multiply", (n, m)), b.one("add", (n, m))
    zero = constant(b, 0, "i32")
    return graph_of(
        b,
        product,
        total,
        b.one("convert", (product,), {"dtype": "i64"}),
        b.one("multiply", (b.one("convert", (n,), {"dtype": "i64"}), constant(b, 8, "i64"))),
        b.one("subtract", (total, m)),
        b.one("negate", (total,)),
        b.one("multiply", (product, zero)),
    )


@careless(valid=HUGE)
def comparison_of_sizes_that_wrap() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [0, N]), argument(b, "y", "f32", [0, M])
    n, m = size(b, x, 1), size(b, y, 1)
    zero = constant(b, 0, "i32")
    return graph_of(
        b,
        compare(b, b.one("add", (n, m)), zero, "GE"),
        compare(b, b.one("multiply", (n, n)), n, "GE"),
        b.one("divide", (b.one("multiply", (n, m)), m)),
        b.one("maximum", (b.one("add", (n, m)), zero)),
    )


@careless(
    valid=[(wide(0, 3), wide(0, 5)), (wide(0, 0), wide(0, 2**31 - 1))],
    violating=[(wide(0, 65536), wide(0, 65536)), (wide(0, 2**31 - 1), wide(0, 2))],
)
def broadcast_to_a_size_that_wraps() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [0, N]), argument(b, "y", "f32", [0, M])
    product = b.one("multiply", (size(b, x, 1), size(b, y, 1)))
    shape = b.one("reshape", (product,), {"shape": (const(1),)})
    out = b.one("broadcast_in_dim", (constant(b, 1.0, "f32"), shape), {"dims": ()})
    return graph_of(
        b, b.one("slice", (out,), {"starts": (const(0),), "limits": (const(0),), "strides": (const(1),)}), product
    )


@careless(valid=[(wide(0, 2), scalar(3)), (wide(0, 0), scalar(-(2**31))), (wide(0, 2**31 - 1), scalar(2**31 - 1))])
def sum_of_a_size_and_data_wraps() -> Graph:
    b = BlockBuilder()
    x, k = argument(b, "x", "f32", [0, N]), argument(b, "k", "i32", [])
    total = b.one("add", (size(b, x, 1), k))
    back = b.one("subtract", (total, k))
    small = b.one("convert", (size(b, x, 1),), {"dtype": "i8"})
    return graph_of(b, total, back, compare(b, total, k, "GE"), small, b.one("convert", (small,), {"dtype": "i32"}))


ASSERTED = """
module @m {
  func.func public @main(%x: tensor<?x?xf32>, %y: tensor<?xf32>) -> (tensor<?x?xf32>, tensor<i32>) {
    %a = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x?xf32>) -> tensor<i32>
    %b = stablehlo.get_dimension_size %x, dim = 1 : (tensor<?x?xf32>) -> tensor<i32>
    %c = stablehlo.get_dimension_size %y, dim = 0 : (tensor<?xf32>) -> tensor<i32>
    %ab = stablehlo.multiply %a, %b : tensor<i32>
    %ok = stablehlo.compare EQ, %ab, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%ok, %ab, %c)
      {api_version = 2 : i32, error_message = "product {0} is not {1}", has_side_effect = true}
      : (tensor<i1>, tensor<i32>, tensor<i32>) -> ()
    %flat1 = stablehlo.reshape %ab : (tensor<i32>) -> tensor<1xi32>
    %flat = stablehlo.dynamic_reshape %x, %flat1 : (tensor<?x?xf32>, tensor<1xi32>) -> tensor<?xf32>
    %sum = stablehlo.add %flat, %y : tensor<?xf32>
    %b1 = stablehlo.reshape %b : (tensor<i32>) -> tensor<1xi32>
    %a1 = stablehlo.reshape %a : (tensor<i32>) -> tensor<1xi32>
    %s = stablehlo.concatenate %b1, %a1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %out = stablehlo.dynamic_reshape %sum, %s : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
    return %out, %c : tensor<?x?xf32>, tensor<i32>
  }
}
"""


@careless(
    valid=[(f(2, 3), f(6)), (f(0, 3), f(0)), (f(1, 1), f(1))],
    violating=[(f(2, 3), f(5)), (f(0, 3), f(1)), (wide(0, 9), f(9))],
    message="product",
)
def stablehlo_product_assertion() -> Graph:
    return stablehlo.read(ASSERTED, "asserted.mlir")


DIVIDED = """
module @m {
  func.func public @main(%x: tensor<?xf32>, %k: tensor<?xf32>) -> (tensor<?x?xf32>) {
    %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
    %m = stablehlo.get_dimension_size %k, dim = 0 : (tensor<?xf32>) -> tensor<i32>
    %q = stablehlo.divide %n, %m : tensor<i32>
    %q1 = stablehlo.reshape %q : (tensor<i32>) -> tensor<1xi32>
    %m1 = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>
    %s = stablehlo.concatenate %q1, %m1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %r = stablehlo.dynamic_reshape %x, %s : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
    return %r : tensor<?x?xf32>
  }
}
"""


@careless(
    valid=[(f(6), f(2)), (f(6), f(6)), (f(0), f(3))], violating=[(f(7), f(2)), (f(3), f(0)), (f(0), f(0)), (f(2), f(3))]
)
def stablehlo_division_of_sizes() -> Graph:
    return stablehlo.read(DIVIDED, "divided.mlir")
