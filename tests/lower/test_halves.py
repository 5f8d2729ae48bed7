"""Products of bf16 and f16: of whole numbers, whose sums are exact; the interpreter's for every layout and CPU."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from egshape.dims import const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.types import numpy_dtype
from egshape.lower.llvm import gemm, native
from egshape.lower.llvm.pairs import Pairs
from egshape.plan.cpu.halves import paired
from egshape.plan.ir.loops import Product
from egshape.plan.ir.program import Run
from egshape.plan.ir.walk import buffers, statements
from egshape.plan.targets import plan
from tests.fuzz.differential import argument, graph_of
from tests.lower.checking import check, compiled
from tests.lower.test_bytes import CPUS
from tests.ops.test_reduce import scalar_region

B, M, N, K = (symbol(name) for name in "bmnk")
KINDS = ("bf16", "f16")
FLOATS = (*KINDS, "f32")
SIZES = ((0, 1, 1), (1, 1, 0), (1, 7, 3), (5, 33, 9), (20, 49, 33), (9, 127, 2), (17, 24, 8))


def numbers(rng, dtype, shape):
    return rng.integers(-8, 9, shape).astype(numpy_dtype(dtype))


def on_cpu(cpu, monkeypatch):
    """Compile for a CPU of CPUS, or for one with tiles, if this machine has its instructions."""
    here = native.host_machine()
    features = here.features if cpu == "tiles" else CPUS[cpu]
    lacking = {each for each in features.split(",") if each} - set(here.features.split(","))
    if not here.triple.startswith("x86_64") or lacking or (cpu == "tiles" and not gemm.by_tiles(features)):
        pytest.skip("this machine has not the instructions of this CPU")
    name = here.cpu if cpu == "tiles" else "x86-64" if cpu == "knl" else cpu
    monkeypatch.setattr(native, "host_machine", lambda: replace(here, cpu=name, features=features))


def dot(b, left, right, *, turned=False, batch=(), dtype="bf16"):
    """(batch, m, k) by (batch, k, n), or (batch, n, k) if ``turned``."""
    last = len(batch) + 1
    attrs = {"lhs_batch": batch, "rhs_batch": batch, "lhs_contract": (last,), "dtype": dtype}
    return b.one("dot_general", [left, right], {**attrs, "rhs_contract": (last if turned else last - 1,)})


def products(graph):
    """The products by panels in a graph's program."""
    runs = [step for step in plan(graph).steps if isinstance(step, Run)]
    return [stmt for step in runs for stmt in statements(step.kernel.body) if isinstance(stmt, Product)]


def two_arguments(kind, turned, dtype):
    b = BlockBuilder()
    x, y = argument(b, "x", kind, [M, K]), argument(b, "y", kind, [N, K] if turned else [K, N])
    return graph_of(b, dot(b, x, y, turned=turned, dtype=dtype))


def feed(rng, kind, turned, m, n, k):
    return [numbers(rng, kind, (m, k)), numbers(rng, kind, (n, k) if turned else (k, n))]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("wide", [False, True])
def test_layouts_and_results(kind, turned, wide):
    graph = two_arguments(kind, turned, "f32" if wide else kind)
    (made,) = products(graph)
    assert made.elements == ("bf16" if kind == "bf16" else "")
    rng = np.random.default_rng(1)
    check(graph, *(feed(rng, kind, turned, *sizes) for sizes in SIZES))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("deep", [36, 37])
def test_constants_are_packed_once(kind, side, deep):
    rng = np.random.default_rng(2)
    b = BlockBuilder()
    weights = b.one("constant", [], {"value": numbers(rng, kind, (deep, 50) if side else (50, deep))})
    x = argument(b, "x", kind, [M, const(deep)] if side else [const(deep), M])
    graph = graph_of(b, dot(b, x, weights, dtype=kind) if side else dot(b, weights, x, dtype=kind))
    (made,) = products(graph)
    assert made.right.kind == "const"
    check(graph, *([numbers(rng, kind, (m, deep) if side else (deep, m))] for m in (0, 1, 9)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("turned", [False, True])
def test_known_rows(kind, rows, turned):
    """Few rows are multiplied where they lie."""
    b = BlockBuilder()
    x = argument(b, "x", kind, [const(rows), K])
    y = argument(b, "y", kind, [N, K] if turned else [K, N])
    graph = graph_of(b, b.one("negate", [dot(b, x, y, turned=turned, dtype=kind)]))
    rng = np.random.default_rng(3)
    check(graph, *(feed(rng, kind, turned, rows, n, k) for n, k in ((0, 3), (1, 1), (5, 0), (70, 33), (129, 8))))


@pytest.mark.parametrize("kind", KINDS)
def test_batches_and_epilogues(kind):
    """Heads that lie between the rows, an operand that is computed, a sum of the result."""
    b = BlockBuilder()
    x, y = argument(b, "x", kind, [M, B, K]), argument(b, "y", kind, [B, N, K])
    heads = b.one("transpose", [x], {"permutation": (1, 0, 2)})
    out = dot(b, b.one("add", [heads, heads]), y, turned=True, batch=(0,), dtype=kind)
    graph = graph_of(b, b.one("abs", [b.one("add", [out, out])]))
    rng = np.random.default_rng(4)
    shapes = ((2, 3, 5, 7), (0, 1, 1, 1), (1, 20, 33, 8), (3, 1, 1, 2))
    check(graph, *([numbers(rng, kind, (m, c, k)), numbers(rng, kind, (c, n, k))] for c, m, n, k in shapes))


def test_sums_are_rounded_once():
    """256 + 1 is 256 in bf16: 300 ones are 300 only if they are added in f32."""
    graph = two_arguments("bf16", False, "bf16")
    one = np.ones((1, 300), numpy_dtype("bf16"))
    assert compiled(graph)(one, one.T.copy()).astype(np.float32).item() == 300


def test_what_is_not_finite():
    graph = two_arguments("bf16", True, "f32")
    x = np.array([[np.inf, 1], [np.nan, 0], [3e38, 3e38], [0, 1]], np.float32).astype(numpy_dtype("bf16"))
    y = np.array([[1, -1], [10, 10]], np.float32).astype(numpy_dtype("bf16"))
    found = compiled(graph)(x, y)
    assert np.isposinf(found[0]).all() and np.isnan(found[1]).all() and found[2].tolist() == [0, np.inf]


def test_paired():
    whole = np.array([[1, 2], [3, 4], [5, 6]], numpy_dtype("bf16"))
    found = paired(whole).view(np.uint16).view(numpy_dtype("bf16")).astype(int)
    assert found.tolist() == [[1, 3, 2, 4], [5, 0, 6, 0]]


# -- constants of f16 that stay so ------------------------------------------------------------------------------------


def times_constant(rng, rows, deep, columns, side=1, batch=()):
    """(*batch, rows, deep) by a constant (*batch, deep, columns), or the constant first; negated. And the constant."""
    whole = numbers(rng, "f16", (*batch, deep, columns) if side else (*batch, columns, deep))
    b = BlockBuilder()
    weights = b.one("constant", [], {"value": whole})
    x = argument(b, "x", "f16", [*map(const, batch), rows, const(deep)] if side else [const(deep), rows])
    sides = (x, weights) if side else (weights, x)
    return graph_of(b, b.one("negate", [dot(b, *sides, batch=tuple(range(len(batch))), dtype="f32")])), whole


@pytest.mark.parametrize(
    ("rows", "tiles", "elements"),
    [
        (M, (), {"", "f32f16"}),
        (const(32), (), {"f32f16"}),
        (const(33), (), {""}),
        (M, FLOATS, {"f16", "f32f16"}),
        (const(16), FLOATS, {"f32f16"}),
        (const(17), FLOATS, {"f16"}),
    ],
)
def test_few_rows_meet_constants_as_they_are(rows, tiles, elements):
    """One copy of two bytes a number, and one of parts where tiles may multiply."""
    graph, _ = times_constant(np.random.default_rng(1), rows, 64, 80)
    kernels = [step.kernel for step in plan(graph, tiles=tiles, widens=True).steps if isinstance(step, Run)]
    made = [stmt for kernel in kernels for stmt in statements(kernel.body) if isinstance(stmt, Product)]
    assert {each.elements for each in made} == elements
    constants = {buffer for kernel in kernels for buffer in buffers(kernel.body) if buffer.data is not None}
    bytes_of = {"f16": 4, "f32f16": 2, "": 0 if "f32f16" in elements else 2}
    assert sum(buffer.data.nbytes for buffer in constants) == 64 * 80 * sum(map(bytes_of.get, elements))


@pytest.mark.parametrize("cpu", ["tiles", "haswell", "skylake-avx512", "knl"])
@pytest.mark.parametrize("side", [0, 1])
def test_constants_of_f16(cpu, side, monkeypatch):
    """Few rows and many, columns that fill no vector or one pack or several; a batch of constants."""
    on_cpu(cpu, monkeypatch)
    rng = np.random.default_rng(2)
    for deep, columns, batch in ((1, 1, ()), (37, 50, ()), (36, 64, ()), (70, 200, ()), (33, 49, (3,))):
        if batch and not side:
            continue
        graph, weights = times_constant(rng, M, deep, columns, side, batch)
        function, wide = compiled(graph), weights.astype(np.float32)
        for m in (0, 1, 7, 16, 17, 32, 33, 70):
            x = numbers(rng, "f16", (*batch, m, deep) if side else (deep, m))
            one = x.astype(np.float32)
            np.testing.assert_array_equal(function(x), -(one @ wide if side else wide @ one), f"{m} {deep} {columns}")


def test_constants_of_f16_that_are_no_ordinary_numbers():
    """Subnormal, infinite and NaN, in few rows and in many."""
    whole = np.float16([[6e-8, np.inf, 1], [-6e-5, 1, np.nan], [0, -0.0, 65504]])
    b = BlockBuilder()
    x = argument(b, "x", "f16", [M, const(3)])
    function = compiled(graph_of(b, dot(b, x, b.one("constant", [], {"value": whole}), dtype="f32")))
    for m in (1, 16, 17, 33):
        found = function(np.repeat(np.float16([[2048, 0.5, 1]]), m, 0))
        wanted = np.float16([2048, 0.5, 1]).astype(np.float32) @ whole.astype(np.float32)
        np.testing.assert_array_equal(found, np.repeat(wanted[None], m, 0))


# -- CPUs -------------------------------------------------------------------------------------------------------------


def test_instructions_follow_the_cpu():
    assert Pairs(16, frozenset({"+avx512bf16"})).dot and Pairs(8, frozenset({"+avx512bf16", "+avx512vl"})).dot
    assert not Pairs(8, frozenset({"+avx512bf16"})).dot and not Pairs(16, frozenset({"+avx512f"})).dot
    here = native.host_machine()
    if here.triple.startswith("x86_64"):
        features = "+sse2,+avx,+avx2,+fma,+avx512f,+avx512bw,+avx512bf16"
        assert "vdpbf16ps" in native.assembly(
            gemm.text("bf16", features, gemm.BLOCK), replace(here, cpu="x86-64", features=features)
        )


@pytest.mark.parametrize("cpu", sorted(CPUS))
def test_other_cpus(cpu, monkeypatch):
    on_cpu(cpu, monkeypatch)
    rng = np.random.default_rng(6)
    kinds = KINDS if "f16c" in CPUS[cpu] or "avx512f" in CPUS[cpu] else KINDS[:1]  # LLVM calls a library for f16 there
    for kind, turned in itertools.product(kinds, (False, True)):
        function = compiled(two_arguments(kind, turned, "f32"))
        for sizes in SIZES:
            x, y = feed(rng, kind, turned, *sizes)
            wide = y.astype(np.float32)
            np.testing.assert_array_equal(function(x, y), x.astype(np.float32) @ (wide.T if turned else wide))


def test_other_architectures_compile():
    machine = native.Machine("aarch64-unknown-linux-gnu", "generic", "+neon", "")
    native._binding().initialize_all_targets()
    native._binding().initialize_all_asmprinters()
    for kind in ("bf16", "f32f16"):
        assert len(native.object_code(gemm.text(kind, machine.features, gemm.BLOCK), machine)) > 500


# -- convolutions -----------------------------------------------------------------------------------------------------


def convolution(kind, dtype, kernel, constant, groups, stride, dilation):
    """Of ``kind``, as ``dtype``."""
    b = BlockBuilder()
    x = argument(b, "x", kind, [N, const(kernel.shape[1] * groups), B, M])
    w = b.one("constant", [], {"value": kernel}) if constant else argument(b, "w", kind, kernel.shape)
    attrs = {
        "strides": (stride, stride),
        "padding": (const(1),) * 4,
        "lhs_dilation": (dilation, dilation),
        "rhs_dilation": (1, 1),
        "reversal": (False, False),
        "numbers": (0, 1, (2, 3), 1, 0, (2, 3), 0, 1, (2, 3)),
        "feature_groups": groups,
        "batch_groups": 1,
        "dtype": dtype,
    }
    return graph_of(b, b.one("negate", [b.one("convolution", [x, w], attrs)]))


@pytest.mark.long_but("3-1-2-1-False-*", "2-3-1-1-*", "3-1-1-2-True-bf16", "1-1-1-1-True-*")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("taps,groups,stride,dilation", [(1, 1, 1, 1), (3, 1, 2, 1), (2, 3, 1, 1), (3, 1, 1, 2)])
def test_convolutions(kind, constant, taps, groups, stride, dilation):
    """Products of places and features, direct sums of groups, the input dilated."""
    rng = np.random.default_rng(7)
    kernel = numbers(rng, kind, (6, 6 // groups, taps, taps))
    graph = convolution(kind, kind, kernel, constant, groups, stride, dilation)
    shapes = ((0, 6, 3, 3), (1, 6, 1, 1), (2, 6, 5, 9), (1, 6, 20, 4))
    check(graph, *([numbers(rng, kind, shape), *([] if constant else [kernel])] for shape in shapes))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("constant,taps,groups,stride", [(True, 3, 1, 2), (True, 3, 6, 1), (False, 1, 1, 1)])
def test_convolutions_whose_sums_stay_f32(kind, constant, taps, groups, stride):
    """As exporters write them, who convert what comes of it: the sums of products of f32, not rounded."""
    rng = np.random.default_rng(8)
    kernel = numbers(rng, kind, (6, 6 // groups, taps, taps))
    graph = convolution(kind, "f32", kernel, constant, groups, stride, 1)
    assert groups > 1 or products(graph)
    wide = convolution("f32", "f32", kernel.astype(np.float32), constant, groups, stride, 1)
    one, two = compiled(graph), compiled(wide)
    for shape in ((0, 6, 3, 3), (1, 6, 1, 1), (2, 6, 5, 9)):
        x = numbers(rng, kind, shape)
        rest = [] if constant else [kernel]
        exact = np.asarray(two(*(each.astype(np.float32) for each in (x, *rest))))
        np.testing.assert_array_equal(np.asarray(one(x, *rest)), exact)


@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_a_reduction_are_rounded_once(kind):
    """Rows and columns of many, and a scalar, folded over no axes, that is also what it begins with."""
    b = BlockBuilder()
    x, y = argument(b, "x", kind, [M, N]), argument(b, "y", kind, [])
    zero = b.one("constant", [], {"value": np.zeros((), numpy_dtype(kind))})
    sums = [(x, zero, (0,)), (x, zero, (1,)), (y, y, ())]
    adds = [
        b.one("reduce", [one, two], {"dims": dims}, regions=[scalar_region(b, "add", kind)]) for one, two, dims in sums
    ]
    graph = graph_of(b, *adds)
    ones = np.ones((4096, 3), numpy_dtype(kind))
    check(graph, [ones, ones[0, 0]], [ones.T, ones[0, 0]], [ones[:0], ones[0, 0]])
    columns, rows, twice = (np.asarray(each).astype(np.float32) for each in compiled(graph)(ones, ones[0, 0]))
    assert columns.tolist() == [4096] * 3 and rows[0] == 3 and twice == 2
