"""Products and convolutions of bytes: the interpreter's numbers for every kind, zero point, layout and CPU."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from egshape.adapters.native import compile_function
from egshape.dims import const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.types import numpy_dtype
from egshape.lower.llvm import gemm, native
from egshape.lower.llvm.quads import Quads
from egshape.plan.ir.loops import Product
from egshape.plan.ir.program import Run
from egshape.plan.ir.walk import statements
from egshape.plan.targets import plan
from tests.fuzz.differential import argument, graph_of
from tests.lower.checking import check, compiled

B, M, N, K = (symbol(name) for name in "bmnk")
KINDS = ("i8", "ui8")
SIZES = ((0, 1, 1), (1, 1, 0), (1, 7, 3), (5, 33, 9), (20, 49, 33), (9, 127, 2), (17, 24, 8))
CPUS = {
    "haswell": "+sse2,+sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2",
    "nehalem": "+sse2,+sse4.2",
    "x86-64": "",
    "skylake-avx512": "+sse2,+avx,+avx2,+fma,+avx512f,+avx512bw,+avx512dq,+avx512vl",
    "knl": "+sse2,+avx,+avx2,+fma,+avx512f",
}


def numbers(rng, dtype, shape):
    bounds = np.iinfo(numpy_dtype(dtype))
    return rng.integers(bounds.min, bounds.max + 1, shape).astype(bounds.dtype)


def wide(b, value, zero=None, axes=()):
    """A value as i32, minus a zero point."""
    out = b.one("convert", [value], {"dtype": "i32"})
    if zero is None:
        return out
    point = b.one("convert", [zero], {"dtype": "i32"})
    return b.one("subtract", [out, b.one("broadcast_in_dim", [point], {"dims": axes, "shape": value.type.dims})])


def dot(b, left, right, turned=False, batch=()):
    last = len(batch) + 1
    return b.one(
        "dot_general",
        [left, right],
        {
            "lhs_batch": batch,
            "rhs_batch": batch,
            "lhs_contract": (last,),
            "rhs_contract": (last if turned else last - 1,),
            "dtype": "i32",
        },
    )


def products(program):
    """The products of bytes in a program."""
    return [
        stmt
        for step in program.steps
        if isinstance(step, Run)
        for stmt in statements(step.kernel.body)
        if isinstance(stmt, Product) and stmt.elements
    ]


def pair(one, two, zeros, turned=False):
    """A product of two arguments with zero points: none, one, or one a row and a column."""
    b = BlockBuilder()
    x, y = argument(b, "x", one, [M, K]), argument(b, "y", two, [N, K] if turned else [K, N])
    p, q = (
        argument(b, name, dtype, shape)
        for name, dtype, shape in (
            ("p", one, [] if zeros[0] == "one" else [M]),
            ("q", two, [] if zeros[1] == "one" else [N]),
        )
    )
    left = wide(b, x, None if zeros[0] == "none" else p, () if zeros[0] == "one" else (0,))
    right = wide(b, y, None if zeros[1] == "none" else q, () if zeros[1] == "one" else (0 if turned else 1,))
    return graph_of(b, dot(b, left, right, turned))


def feed(rng, one, two, zeros, turned, m, n, k):
    return [
        numbers(rng, one, (m, k)),
        numbers(rng, two, (n, k) if turned else (k, n)),
        numbers(rng, one, () if zeros[0] == "one" else (m,)),
        numbers(rng, two, () if zeros[1] == "one" else (n,)),
    ]


@pytest.mark.parametrize("one,two", list(itertools.product(KINDS, KINDS)))
@pytest.mark.parametrize("zeros", [("none", "none"), ("one", "none"), ("none", "many"), ("many", "one")])
def test_kinds_and_zero_points(one, two, zeros):
    rng = np.random.default_rng(1)
    turned = zeros[0] == "one"
    graph = pair(one, two, zeros, turned)
    assert products(plan(graph)), "no product of bytes"
    check(graph, *(feed(rng, one, two, zeros, turned, *sizes) for sizes in SIZES))


@pytest.mark.parametrize("dtype,low,high", [("i8", -128, 127), ("ui8", 0, 255)])
def test_extremes_do_not_saturate(dtype, low, high):
    graph = pair(dtype, dtype, ("none", "none"))
    for x, y in itertools.product((low, high), repeat=2):
        check(
            graph,
            [
                np.full((9, 70), x, numpy_dtype(dtype)),
                np.full((70, 50), y, numpy_dtype(dtype)),
                np.zeros(9, numpy_dtype(dtype)),
                np.zeros(50, numpy_dtype(dtype)),
            ],
        )


@pytest.mark.parametrize("kind", ["i8", "ui8", "i32"])
@pytest.mark.parametrize("side", [0, 1])
def test_constants_are_packed_once(kind, side):
    """Weights lie in panels, those that came as i32 of few values too."""
    rng = np.random.default_rng(2)
    b = BlockBuilder()
    data = numbers(rng, "ui8" if kind == "i32" else kind, (37, 50) if side else (50, 37))
    weights = b.one("constant", [], {"value": data.astype(numpy_dtype(kind))})
    x = argument(b, "x", "ui8", [M, const(37)] if side else [const(37), M])
    point = argument(b, "p", "ui8", [])
    fixed = weights if kind == "i32" else wide(b, weights)
    moving = wide(b, x, point)
    graph = graph_of(b, dot(b, moving, fixed) if side else dot(b, fixed, moving))
    program = plan(graph)
    (made,) = products(program)
    assert made.right.kind == "const" and made.elements == "u8s8"
    check(graph, *([numbers(rng, "ui8", (m, 37) if side else (37, m)), numbers(rng, "ui8", ())] for m in (0, 1, 9)))


def test_batches_epilogues_and_other_readers():
    """A batch, what follows a product in its kernel, and an operand that something else reads as i32 too."""
    rng = np.random.default_rng(3)
    b = BlockBuilder()
    x, y = argument(b, "x", "ui8", [B, M, K]), argument(b, "y", "i8", [B, K, N])
    left = wide(b, x)
    total = dot(b, left, wide(b, y), batch=(0,))
    scaled = b.one("convert", [total], {"dtype": "f32"})
    half = b.one(
        "broadcast_in_dim", [b.one("constant", [], {"value": np.float32(0.5)})], {"dims": (), "shape": scaled.type.dims}
    )
    graph = graph_of(b, b.one("tanh", [b.one("multiply", [scaled, half])]), b.one("negate", [left]))
    check(
        graph,
        *(
            [numbers(rng, "ui8", (c, m, k)), numbers(rng, "i8", (c, k, n))]
            for c, m, n, k in ((0, 1, 1, 1), (1, 1, 1, 1), (3, 5, 50, 7), (2, 9, 3, 0))
        ),
    )


def test_zero_points_along_the_depth_are_no_products():
    b = BlockBuilder()
    x, y, p = argument(b, "x", "ui8", [M, K]), argument(b, "y", "i8", [K, N]), argument(b, "p", "ui8", [K])
    graph = graph_of(b, dot(b, wide(b, x, p, (1,)), wide(b, y)))
    assert not products(plan(graph))
    rng = np.random.default_rng(4)
    check(
        graph,
        *(
            [numbers(rng, "ui8", (m, k)), numbers(rng, "i8", (k, n)), numbers(rng, "ui8", (k,))]
            for m, n, k in ((1, 1, 0), (3, 4, 5))
        ),
    )


# -- convolutions -----------------------------------------------------------------------------------------------------

H, W = symbol("h"), symbol("w")


def convolution(x_dtype, kernel, zero, padding=(1, 1, 1, 1), strides=(1, 1), dilation=(1, 1), groups=1):
    b = BlockBuilder()
    x = argument(b, "x", x_dtype, [B, const(kernel.shape[1] * groups), H, W])
    point = argument(b, "p", x_dtype, [])
    weights = b.one("constant", [], {"value": kernel.astype(np.int32)})
    space = (2, 3)
    return graph_of(
        b,
        b.one(
            "convolution",
            [wide(b, x, point if zero else None), weights],
            {
                "numbers": (0, 1, space, 1, 0, space, 0, 1, space),
                "strides": strides,
                "padding": tuple(const(each) for each in padding),
                "lhs_dilation": (1, 1),
                "rhs_dilation": dilation,
                "reversal": (0, 0),
                "feature_groups": groups,
                "batch_groups": 1,
                "dtype": "i32",
            },
        ),
    )


@pytest.mark.parametrize("x_dtype", KINDS)
@pytest.mark.parametrize(
    "shape,low,high,options",
    [
        ((5, 8, 3, 3), -128, 128, {}),
        ((49, 5, 3, 3), -115, 141, {"strides": (2, 2)}),
        ((24, 1, 3, 3), 0, 256, {"strides": (2, 2)}),
        ((24, 24, 1, 1), -100, 156, {"padding": (0, 0, 0, 0)}),
        ((3, 6, 2, 3), -255, 1, {"padding": (2, 0, 1, 3), "strides": (3, 1), "dilation": (2, 2)}),
        ((4, 1, 3, 3), -115, 141, {"groups": 4}),
        ((8, 2, 3, 3), -115, 141, {"groups": 2}),
        ((3, 4, 3, 3), -300, 300, {}),
    ],
)
def test_convolutions(x_dtype, shape, low, high, options):
    """Kernels as i8, and as more than that; padding is the zero point; groups and other numbers go as i32."""
    rng = np.random.default_rng(5)
    graph = convolution(x_dtype, rng.integers(low, high, shape), True, **options)
    assert bool(products(plan(graph))) == (options.get("groups", 1) == 1 and high - low <= 256)
    channels = shape[1] * options.get("groups", 1)
    check(
        graph,
        *(
            [numbers(rng, x_dtype, (n, channels, h, w)), numbers(rng, x_dtype, ())]
            for n, h, w in ((1, 3, 3), (2, 5, 7), (1, 16, 40), (3, 9, 3), (0, 4, 4))
        ),
    )


# -- CPUs -------------------------------------------------------------------------------------------------------------


def test_instructions_follow_the_cpu():
    def how(lanes, features):
        return Quads(lanes, False, frozenset(features.split(","))).how

    assert how(16, "+avx512f,+avx512bw,+avx512vnni") == "dot" and how(8, "+avx2,+avxvnni") == "dot"
    assert [how(16, "+avx512f,+avx512bw"), how(8, "+avx2"), how(4, "+sse2")] == ["pairs"] * 3
    assert [how(16, "+avx512f"), how(4, "+neon")] == ["plain"] * 2
    for name, features in (("u8s8", "+avx2,+fma,+avxvnni"), ("s8u8", "+avx2,+fma,+avxvnni")):
        code = (
            native.assembly(
                gemm.text(name, features, gemm.BLOCK),
                replace(native.host_machine(), cpu="x86-64", features=f"{features},+sse2"),
            )
            if native.host_machine().triple.startswith("x86_64")
            else "vpdpbusd"
        )
        assert "vpdpbusd" in code


@pytest.mark.parametrize("cpu", sorted(CPUS))
def test_other_cpus(cpu, monkeypatch):
    here = native.host_machine()
    wanted = {each for each in CPUS[cpu].split(",") if each}
    if not here.triple.startswith("x86_64") or not wanted <= set(here.features.split(",")):
        pytest.skip("this machine has not the instructions of this CPU")
    cpu_name = "x86-64" if cpu == "knl" else cpu
    monkeypatch.setattr(native, "host_machine", lambda: replace(here, cpu=cpu_name, features=CPUS[cpu]))
    rng = np.random.default_rng(6)
    for one, two in itertools.product(KINDS, KINDS):
        function = compiled(pair(one, two, ("one", "one")))
        for m, n, k in SIZES:
            x, y, p, q = feed(rng, one, two, ("one", "one"), False, m, n, k)
            wanted_here = (x.astype(np.int32) - p) @ (y.astype(np.int32) - q)
            np.testing.assert_array_equal(function(x, y, p, q), wanted_here)


def test_other_architectures_compile():
    machine = native.Machine("aarch64-unknown-linux-gnu", "generic", "+neon", "")
    native._binding().initialize_all_targets()
    native._binding().initialize_all_asmprinters()
    for name in ("u8s8", "s8u8", "i32"):
        assert len(native.object_code(gemm.text(name, machine.features, gemm.BLOCK), machine)) > 500


def test_saturating_conversions_to_bytes():
    """Floats that become bytes: truncated, saturated, NaN as 0; by vectors."""
    for dtype in ("i8", "ui8", "i16", "ui16"):
        for source in ("f32", "f64"):
            b = BlockBuilder()
            graph = graph_of(b, b.one("convert", [argument(b, "x", source, [N])], {"dtype": dtype}))
            edges = [
                0.0,
                -0.0,
                0.5,
                -0.9,
                126.9,
                127.5,
                128.0,
                254.9,
                255.9,
                256.0,
                -128.5,
                -129.0,
                65535.9,
                65536.0,
                1e9,
                -1e9,
                3e38,
                np.inf,
                -np.inf,
                np.nan,
            ]
            check(graph, [np.asarray(edges * 3, numpy_dtype(source))])


def test_threads_do_not_change_results():
    rng = np.random.default_rng(7)
    graph = convolution("ui8", rng.integers(-115, 141, (100, 20, 3, 3)), True)
    feed_of = [numbers(rng, "ui8", (2, 20, 40, 50)), numbers(rng, "ui8", ())]
    one, two = (compile_function(graph, threads=threads)(*feed_of) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)
    graph = pair("ui8", "ui8", ("many", "one"))
    feed_of = feed(rng, "ui8", "ui8", ("many", "one"), False, 200, 300, 130)
    one, two = (compile_function(graph, threads=threads)(*feed_of) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("kind", ["i32", "ui8"])
@pytest.mark.parametrize("way", ["merged", "turned", "repeated"])
def test_integers_in_other_axes_are_multiplied(kind, way):
    """Of i32 that are no bytes, and of bytes, through reshapes whose axes do not stay apart."""
    b = BlockBuilder()
    x, y = argument(b, "x", kind, [M, 6]), argument(b, "y", "i32", [3, N])
    wide = x if kind == "i32" else b.one("convert", [x], {"dtype": "i32"})
    if way == "turned":
        wide = b.one("transpose", [wide], {"permutation": (1, 0)})
    if way == "repeated":
        wide = b.one("broadcast_in_dim", [wide], {"dims": (1, 2), "shape": (const(2), M, const(6))})
    rows = M * (4 if way == "repeated" else 2)
    wide = b.one("reshape", [wide], {"shape": (rows, const(3))})
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "dtype": "i32"}
    rng = np.random.default_rng(0)
    arrays = [
        (rng.integers(0, 250, (m, 6)).astype(numpy_dtype(kind)), rng.integers(-9, 9, (3, n)).astype(np.int32))
        for m, n in ((0, 1), (1, 1), (3, 5), (17, 33))
    ]
    check(graph_of(b, b.one("dot_general", [wide, y], attrs)), *arrays)


@pytest.mark.parametrize("dtype", ["i8", "ui8"])
def test_differences_of_bytes_wrap(dtype):
    """They are bytes, not bytes and a zero point."""
    b, (m, n, k) = BlockBuilder(), (symbol(name) for name in "mnk")
    x, y, z = argument(b, "x", dtype, [m, k]), argument(b, "y", dtype, [k, n]), argument(b, "z", dtype, [])
    less = b.one("subtract", [x, b.one("broadcast_in_dim", [z], {"dims": (), "shape": x.type.dims})])
    graph = graph_of(b, dot(b, less, y))
    rng = np.random.default_rng(0)
    check(graph, [numbers(rng, dtype, (3, 5)), numbers(rng, dtype, (5, 4)), numbers(rng, dtype, ())])
