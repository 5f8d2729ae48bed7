"""Which kernels a program becomes, at loop IR level, and that they compute what the interpreter does."""

import numpy as np
import pytest

from egshape.dims import const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.plan.analysis.parallel import coefficient
from egshape.plan.cpu.strides import with_strides
from egshape.plan.ir.loops import If, Load, Loop
from egshape.plan.ir.program import Copy, Run
from egshape.plan.ir.walk import buffers, expressions, statements
from egshape.plan.targets import plan
from tests.fuzz.differential import argument, constant, data, graph_of, region
from tests.lower.checking import check, compiled

N, M, K = symbol("n"), symbol("m"), symbol("k")
SIZES = ((0, 0), (1, 0), (0, 3), (1, 1), (2, 7), (7, 33), (3, 127), (2, 1024))


def kernels(graph):
    return [step.kernel for step in plan(graph).steps if isinstance(step, Run)]


def shape_of_loops(kernel):
    """Extents of the loops, outer ones first."""
    return [str(stmt.extent) for stmt in statements(kernel.body) if isinstance(stmt, Loop)]


def reduced(b, x, name, dims, start=0):
    (out,) = b.add("reduce", [x, constant(b, start, "f32")], {"dims": dims}, regions=(region(b, name, "f32"),))
    return out


def sizes(*numbers):
    return tuple(map(const, numbers))


def two(n, m):
    return [data("f32", (n, m), 1), data("f32", (n, m), 2)]


def test_elementwise_loops_become_one():
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N, M, 3]), argument(b, "y", "f32", [N, M, 3])
    graph = graph_of(b, b.one("add", [b.one("tanh", [x]), y]))
    (kernel,) = kernels(graph)
    assert shape_of_loops(kernel) == ["3*m*n"]
    check(graph, *([data("f32", (n, m, 3), 1), data("f32", (n, m, 3), 2)] for n, m in SIZES), tolerance=1e-3)


def test_a_broadcast_keeps_the_loops_that_it_needs():
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N, K, M]), argument(b, "y", "f32", [M])
    whole = b.one("broadcast_in_dim", [y], {"dims": (2,), "shape": (N, K, M)})
    graph = graph_of(b, b.one("add", [x, whole]))
    (kernel,) = kernels(graph)
    assert shape_of_loops(kernel) == ["k*n", "m"]
    check(graph, *([data("f32", (n, 5, m), 1), data("f32", (m,), 2)] for n, m in SIZES))


def test_values_of_one_shape_come_from_one_kernel():
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N, M]), argument(b, "y", "f32", [N, M])
    e = b.one("exponential", [x])
    product = b.one("multiply", [e, b.one("tanh", [y])])
    flat = b.one("reshape", [b.one("add", [product, e])], {"shape": (N * M,)})
    graph = graph_of(b, product, b.one("add", [b.one("tanh", [product]), e]), flat)
    program = plan(graph)
    (kernel,) = kernels(graph)
    assert not any(isinstance(step, Copy) for step in program.steps)
    assert all(buffer.kind != "temp" for buffer in buffers(kernel.body)), "what only the round reads is a local"
    check(graph, *(two(n, m) for n, m in SIZES), tolerance=1e-3)


def test_reductions_of_one_input_share_its_rows():
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N, M])
    graph = graph_of(b, reduced(b, x, "add", (1,)), reduced(b, x, "maximum", (1,), -9))
    assert len(kernels(graph)) == 1
    check(graph, *([data("f32", (n, m), 1)] for n, m in SIZES), tolerance=1e-4)


def test_kernels_that_share_nothing_stay_apart():
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N]), argument(b, "y", "f32", [N])
    assert len(kernels(graph_of(b, b.one("tanh", [x]), b.one("tanh", [y])))) == 2


def test_a_shifted_reader_does_not_join():
    """y[i] reads x[n - 1 - i], which a joint round would not have written yet."""
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    e = b.one("exponential", [x])
    graph = graph_of(b, e, b.one("add", [b.one("reverse", [e], {"dims": (0,)}), x]))
    assert len(kernels(graph)) == 2
    check(graph, *([data("f32", (n,), 1)] for n in (0, 1, 2, 7, 33, 127, 1024)))


def test_concatenation_has_a_loop_for_each_part():
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N, M, 4]), argument(b, "y", "f32", [N, K, 4])
    graph = graph_of(b, b.one("tanh", [b.one("concatenate", [x, y, x], {"dim": 1})]))
    (kernel,) = kernels(graph)
    assert shape_of_loops(kernel) == ["n", "4*m", "4*k", "4*m"]
    check(
        graph,
        *(
            [data("f32", (n, m, 4), 1), data("f32", (n, k, 4), 2)]
            for n, m, k in ((0, 0, 0), (1, 0, 3), (2, 3, 0), (7, 33, 2), (1, 1, 1), (3, 127, 5))
        ),
    )


@pytest.mark.parametrize(
    ("low", "high", "gap"),
    [
        ((1, 2, 0), (2, 0, 1), (0, 0, 0)),
        ((0, 2, 0), (2, 0, 1), (0, 1, 0)),
        ((-1, -1, 0), (-1, 3, 0), (0, 0, 0)),
        ((0, 0, 0), (0, 0, -4), (0, 0, 0)),
        ((-3, 0, 0), (3, 0, 0), (0, 0, 0)),
    ],
)
def test_padding_in_pieces(low, high, gap):
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N, M, 4])
    attrs = {"low": sizes(*low), "high": sizes(*high), "interior": sizes(*gap)}
    value = constant(b, 3, "f32")
    check(
        graph_of(b, b.one("pad", [b.one("negate", [x]), value], attrs)),
        *([data("f32", (n, m, 4), 1)] for n, m in ((3, 1), (3, 3), (7, 33), (9, 2))),
    )


def test_padding_has_no_test_inside():
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N, M])
    attrs = {"low": sizes(1, 2), "high": sizes(2, 1), "interior": sizes(0, 0)}
    found = kernels(graph_of(b, b.one("pad", [x, constant(b, 0, "f32")], attrs)))
    assert [shape_of_loops(kernel) for kernel in found] == [["m + 3"], ["n", "2", "m"], ["2*m + 6"]]


@pytest.mark.parametrize("by", [0.0, 1e-45, 3.0, -7.0, 1e38, np.inf, np.nan])
def test_division_by_a_number_of_the_row(by):
    """Where the inverse would lose digits, the division stays."""
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N, M]), argument(b, "y", "f32", [N, M])
    most = reduced(b, y, "maximum", (1,), -np.inf)
    wide = b.one("broadcast_in_dim", [most], {"dims": (0,), "shape": (N, M)})
    row = np.float32([[1e-40, -1e-40, 5, 0, -0.0, 1e38, -1e38, -5]])
    check(graph_of(b, b.one("divide", [b.one("negate", [x]), wide])), [row, np.full_like(row, by)])


@pytest.mark.parametrize("name", ["floor", "ceil", "round_nearest_even", "round_nearest_afz", "convert"])
def test_a_quotient_that_is_rounded_is_exact(name):
    """The inverse would move quotients that are whole numbers, or halves, to the wrong side of a step."""
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N, M])
    wide = b.one("broadcast_in_dim", [reduced(b, x, "maximum", (1,), -np.inf)], {"dims": (0,), "shape": (N, M)})
    quotient = b.one(
        "divide",
        [
            x,
            b.one(
                "divide", [wide, b.one("broadcast_in_dim", [constant(b, 255, "f32")], {"dims": (), "shape": (N, M)})]
            ),
        ],
    )
    attrs = {"dtype": "i32"} if name == "convert" else {}
    function = compiled(graph_of(b, b.one(name, [quotient], attrs)))
    for seed in range(20):
        top = np.float32(np.random.default_rng(seed).uniform(0.1, 9))
        scale = top / np.float32(255)
        row = np.append((np.arange(0, 255, 0.5, np.float32) * scale)[:-1], top)[None]
        exact = row / scale
        wanted = {
            "floor": np.floor,
            "ceil": np.ceil,
            "round_nearest_even": np.rint,
            "convert": np.trunc,
            "round_nearest_afz": lambda z: np.floor(z + np.float32(0.5)),
        }[name](exact)
        np.testing.assert_array_equal(function(row), wanted)


def test_a_normalization_over_several_axes_is_one_kernel():
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N, 3, M, 5])
    shape = x.type.dims

    def wide(value, dims=()):
        return b.one("broadcast_in_dim", [value], {"dims": dims, "shape": shape})

    centred = b.one(
        "subtract",
        [
            x,
            wide(
                b.one(
                    "divide",
                    [
                        reduced(b, x, "add", (2, 3)),
                        b.one("broadcast_in_dim", [constant(b, 35, "f32")], {"dims": (), "shape": (N, const(3))}),
                    ],
                ),
                (0, 1),
            ),
        ],
    )
    power = wide(reduced(b, b.one("multiply", [centred, centred]), "add", (2, 3)), (0, 1))
    scale = b.one("rsqrt", [b.one("add", [power, wide(constant(b, 1, "f32"))])])
    graph = graph_of(b, b.one("multiply", [centred, scale]))
    (kernel,) = kernels(graph)
    assert shape_of_loops(kernel) == ["3*n", "5*m", "5*m", "5*m"]
    function = compiled(graph)
    for n, m in ((0, 7), (1, 7), (4, 7)):
        array = np.random.default_rng(n).normal(size=(n, 3, m, 5)).astype(np.float32)
        wanted = array - array.mean((2, 3), keepdims=True)
        wanted = wanted / np.sqrt((wanted**2).sum((2, 3), keepdims=True) + 1)
        np.testing.assert_allclose(function(array), wanted, atol=1e-6)


def test_an_axis_that_may_be_one_has_a_version_for_each_stride():
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N, M]), argument(b, "y", "f32", [K])
    wide = b.one("broadcast_in_dim", [y], {"dims": (1,), "shape": (N, M)})
    graph = graph_of(b, b.one("add", [x, wide]))
    (kernel,) = kernels(graph)
    assert shape_of_loops(kernel) == ["n", "m"]
    two_of_it = with_strides(kernel.body)
    (choice,) = [stmt for stmt in statements(two_of_it) if isinstance(stmt, If)]
    strides = [
        coefficient(expr.index, loop.var).const
        for loop in (*choice.then, *choice.other)
        for expr in expressions(loop.body)
        if isinstance(expr, Load) and expr.buffer.name == "y"
    ]
    assert strides == [1, 0]
    check(graph, *([data("f32", (n, m), 1), data("f32", (k,), 2)] for n, m in SIZES for k in {1, m}))
