"""Every elementwise op in every dtype that it takes, special values included."""

import numpy as np
import pytest

from egshape.api import optimize
from egshape.dims import symbol
from egshape.errors import EgshapeError, Unsupported
from egshape.ir.builder import BlockBuilder
from egshape.ir.types import numpy_dtype
from egshape.ops import REGISTRY
from egshape.plan.analysis.elements import REFUSED
from tests.cuda.attention import fold
from tests.fuzz.differential import argument, constant, data, graph_of
from tests.lower.checking import check, compiled

DTYPES = ("i1", "i8", "i32", "i64", "ui8", "ui32", "ui64", "f16", "bf16", "f32", "f64")
N = symbol("n")
OPS = [
    decl.name
    for decl in REGISTRY
    if decl.family in ("unary", "binary")
    and decl.name not in ("convert", "bitcast_convert", "compare")
    and decl.name not in REFUSED
]
SIZES = (0, 1, 7, 33)


def arrays(dtype, count, n):
    return [data(dtype, (n,), seed) for seed in range(count)]


def graph(name, dtypes, attrs=None):
    """One op on arguments of the dtypes; None where it is not defined."""
    b = BlockBuilder()
    values = [argument(b, f"x{k}", dtype, [N]) for k, dtype in enumerate(dtypes)]
    try:
        return graph_of(b, b.one(name, values, attrs or {}))
    except EgshapeError:
        return None


@pytest.mark.parametrize("name", OPS)
def test_op(name):
    count = len(REGISTRY[name].operands)
    ran = 0
    for dtype in DTYPES:
        found = graph(name, [dtype] * count)
        if found is None:
            continue
        check(found, *(arrays(dtype, count, n) for n in SIZES))
        ran += 1
    assert ran


@pytest.mark.parametrize("source", DTYPES)
def test_convert(source):
    b = BlockBuilder()
    x = argument(b, "x", source, [N])
    check(
        graph_of(b, *(b.one("convert", [x], {"dtype": target}) for target in DTYPES)),
        *(arrays(source, 1, n) for n in SIZES),
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_compare(dtype):
    b = BlockBuilder()
    x, y = (argument(b, name, dtype, [N]) for name in "xy")
    kinds = ("FLOAT", "TOTALORDER") if "f" in dtype else ("UNSIGNED" if dtype[0] == "u" or dtype == "i1" else "SIGNED",)
    results = [
        b.one("compare", [x, y], {"direction": direction, "kind": kind})
        for direction in ("EQ", "NE", "LT", "LE", "GT", "GE")
        for kind in kinds
    ]
    check(graph_of(b, *results), *(arrays(dtype, 2, n) for n in SIZES))


@pytest.mark.parametrize("dtype", DTYPES)
def test_select_and_clamp(dtype):
    b = BlockBuilder()
    p, q = argument(b, "p", "i1", [N]), argument(b, "q", "i1", [])
    x, y = (argument(b, name, dtype, [N]) for name in "xy")
    low = argument(b, "low", dtype, [])
    results = [b.one("select", [p, x, y]), b.one("select", [q, x, y]), b.one("clamp", [low, x, y])]
    check(
        graph_of(b, *results),
        *([data("i1", (n,)), data("i1", ()), *arrays(dtype, 2, n), data(dtype, (), 5)] for n in SIZES),
    )


def test_the_bits_of_another_dtype():
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    y = b.one("bitcast_convert", [x], {"dtype": "i32"})
    check(graph_of(b, y, b.one("bitcast_convert", [y], {"dtype": "f32"})), *(arrays("f32", 1, n) for n in SIZES))


def test_the_bits_of_another_dtype_where_a_check_makes_sizes_equal():
    """The operand's size is one symbol, that of the result another: their forms differ, their widths do not."""
    b = BlockBuilder()
    n, x = argument(b, "n", "f32", [N]), argument(b, "x", "i32", [symbol("m")])
    b.add("check", (), {"relation": "==", "sides": (symbol("m"), N), "message": "sizes differ", "args": ()})
    result = optimize(graph_of(b, n, b.one("bitcast_convert", [x], {"dtype": "f32"}))).graph
    assert result.outputs[1].type.shape != result.inputs[1].type.shape
    check(result, *([data("f32", (size,), 0), data("i32", (size,), 1)] for size in SIZES))


def test_refusals_name_the_op():
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    with pytest.raises(Unsupported, match="digamma"):
        compiled(graph_of(b, b.one("digamma", [x])))
    b = BlockBuilder()
    with pytest.raises(Unsupported, match="complex"):
        compiled(graph_of(b, b.one("negate", [argument(b, "z", "c64", [N])])))


@pytest.mark.parametrize(
    ("wide", "narrow"), [("f32", "ui8"), ("f64", "i32"), ("i64", "bf16"), ("f32", "f16"), ("ui64", "i8")]
)
def test_bits_of_another_width(wide, narrow):
    b = BlockBuilder()
    x = argument(b, "x", wide, [N])
    parts = b.one("bitcast_convert", [x], {"dtype": narrow})
    back = b.one("bitcast_convert", [b.one("reverse", [parts], {"dims": (0,)})], {"dtype": wide})
    integer = narrow if narrow in ("ui8", "i32", "i8") else "i16"
    shown = parts if integer == narrow else b.one("bitcast_convert", [parts], {"dtype": integer})
    check(graph_of(b, shown, back), *(arrays(wide, 1, n) for n in SIZES))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_every_number_of_16_bits(kind):
    """What f32 gives, rounded once, for all bits there are, NaN with any payload included."""
    every = np.arange(1 << 16, dtype=np.uint16)
    values = [every.view(numpy_dtype(kind)), (every * np.uint16(40503)).view(numpy_dtype(kind))]
    ran = 0
    for name in OPS:
        count = len(REGISTRY[name].operands)
        short, wide = graph(name, [kind] * count), graph(name, ["f32"] * count)
        if short is None or name == "next_after":
            continue
        found = np.asarray(compiled(short)(*values[:count]))
        exact = np.asarray(compiled(wide)(*(each.astype(np.float32) for each in values[:count])))
        with np.errstate(all="ignore"):
            exact = exact.astype(found.dtype)
            same = (found == exact) | (np.isnan(found) & np.isnan(exact))
        assert same.all(), (name, *(each[: len(same)][~same][:4] for each in values[:count]))
        ran += 1
    assert ran > 40


@pytest.mark.parametrize("what", ["compare", "sign"])
def test_quotients_that_are_compared_are_divided(what):
    """x over the largest of its row is 1 where x is that."""
    b = BlockBuilder()
    x = argument(b, "x", "f32", [symbol("n"), symbol("m")])
    wide = {"dims": (0,), "shape": x.type.dims}
    over = b.one("divide", [x, b.one("broadcast_in_dim", [fold(b, x, "maximum", -np.inf)], wide)])
    one = b.one("broadcast_in_dim", [constant(b, 1.0, "f32")], {"dims": (), "shape": x.type.dims})
    if what == "compare":
        found = b.one("compare", [over, one], {"direction": "EQ", "kind": "FLOAT"})
    else:
        found = b.one("sign", [b.one("subtract", [over, one])])
    array = np.random.default_rng(0).uniform(1, 9, (200, 8)).astype(np.float32)
    check(graph_of(b, found), [array])
