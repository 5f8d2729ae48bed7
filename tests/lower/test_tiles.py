"""Products by tiles (AMX), where this machine has them: exact sums, at every number of rows and columns."""

import re

import numpy as np
import pytest

import egshape
from egshape.dims import const, symbol
from egshape.errors import EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.ir.interpret import interpret
from egshape.ir.types import numpy_dtype
from egshape.lower.llvm import gemm, native
from egshape.lower.llvm.elements import Element
from egshape.lower.llvm.kernel import function_of
from egshape.plan.cpu.parts import arranged
from egshape.plan.cpu.program import on_processor
from egshape.plan.ir.program import Run
from egshape.plan.targets import plan
from egshape.runtime.abi import tiles
from egshape.runtime.cpu import features
from tests.fresh import with_artifact
from tests.fuzz.differential import argument, graph_of
from tests.lower.checking import compiled
from tests.lower.test_attention import fold
from tests.lower.test_halves import FLOATS, dot, numbers, products, two_arguments

TILES = "+amx-tile,+amx-bf16,+amx-int8"
here = pytest.mark.skipif(not tiles.has_tiles(), reason="this machine has no tile registers (AMX)")
ALL = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def parts(column):
    """The larger and smaller parts of a column of f16, as f32."""
    packed = arranged(column[:, None]).view(np.uint16).reshape(2, -1)[:, : len(column)]
    return (packed.astype(np.uint32) << 16).view(np.float32)


def test_an_f16_is_two_bf16():
    """Exactly; none is 0 where the number is not, and both have its sign."""
    finite = ALL[np.isfinite(ALL)]
    larger, smaller = parts(finite)
    np.testing.assert_array_equal(larger + smaller, finite.astype(np.float32))
    np.testing.assert_array_equal(np.signbit(larger), np.signbit(finite))
    np.testing.assert_array_equal(np.signbit(smaller), np.signbit(finite))
    assert ((larger != 0) == (finite != 0)).all() and ((smaller != 0) == (finite != 0)).all()
    assert np.isnan(parts(ALL[np.isnan(ALL)])).any(0).all()
    np.testing.assert_array_equal(parts(np.float16([np.inf, -np.inf])), [[np.inf, -np.inf]] * 2)


def test_who_multiplies_by_tiles():
    on = frozenset(TILES.split(","))
    assert all(Element(kind, "float", 4, 16, on).tiled for kind in ("bf16", "f16", "u8s8", "s8u8"))
    assert not any(Element(kind, "float", 4, 16, on).tiled for kind in ("f32", "f64"))
    assert not Element("bf16", "float", 4, 16, on - {"+amx-bf16"}).tiled
    assert gemm.by_tiles(TILES) == FLOATS and not gemm.by_tiles("+avx512f,-amx-tile")


def test_the_environment_says_what_is_multiplied_by_tiles(monkeypatch):
    monkeypatch.setattr(native, "has_tiles", lambda: True)
    for word, floats in (("all", FLOATS), ("narrow", FLOATS[:2]), ("", FLOATS)):
        monkeypatch.setenv("EGSHAPE_TILES", word)
        assert gemm.by_tiles(TILES) == floats
    monkeypatch.setenv("EGSHAPE_TILES", "none")
    assert "+amx" not in native.host_machine().features
    monkeypatch.setenv("EGSHAPE_TILES", "some")
    with pytest.raises(EgshapeError, match=r"EGSHAPE_TILES='some' is neither 'none' nor 'narrow' nor 'all'"):
        native.host_machine()


def test_f16_in_parts_is_planned_for_tiles_alone():
    graph = two_arguments("f16", False, "f32")
    assert [each.elements for each in products(graph)] == [""]
    steps = plan(graph, tiles=FLOATS).steps
    assert any(step.kernel.label == "split" for step in steps if hasattr(step, "kernel"))


def test_a_system_that_does_not_lend_them(monkeypatch):
    """Code is made for vectors; an artifact that has tiles is refused."""
    monkeypatch.setattr(native, "has_tiles", lambda: False)
    monkeypatch.setattr(features, "has_tiles", lambda: False)
    assert "+amx" not in native.host_machine().features
    assert "amx_tile" in features.missing_features(TILES)


@here
@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_all_rows_and_columns(kind):
    function, rng = compiled(two_arguments(kind, True, "f32")), np.random.default_rng(1)
    for m in (*range(1, 19), 33):
        for n, k in ((1, 1), (16, 31), (17, 32), (48, 33), (63, 64), (64, 65), (65, 2), (130, 96)):
            x, y = numbers(rng, kind, (m, k)), numbers(rng, kind, (n, k))
            found = np.asarray(function(x, y))
            np.testing.assert_array_equal(found, x.astype(np.float32) @ y.astype(np.float32).T, f"{m} {n} {k}")


@here
@pytest.mark.parametrize("kinds", [("i8", "ui8"), ("ui8", "i8"), ("i8", "i8")])
def test_bytes(kinds):
    b = BlockBuilder()
    m, n, k = (symbol(name) for name in "mnk")
    x, y = argument(b, "x", kinds[0], [m, k]), argument(b, "y", kinds[1], [k, n])
    wide = [b.one("convert", [each], {"dtype": "i32"}) for each in (x, y)]
    function, rng = compiled(graph_of(b, dot(b, *wide, dtype="i32"))), np.random.default_rng(2)
    for rows in (1, 3, 4, 5, 15, 16, 17, 33):
        for columns, deep in ((1, 1), (17, 3), (48, 64), (64, 65), (65, 130)):
            shapes = zip(kinds, ((rows, deep), (deep, columns)), strict=True)
            one, two = (rng.integers(*limits(kind), shape).astype(numpy_dtype(kind)) for kind, shape in shapes)
            wanted = one.astype(np.int32) @ two.astype(np.int32)
            np.testing.assert_array_equal(np.asarray(function(one, two)), wanted, f"{rows} {columns} {deep}")


def bytes_product():
    b = BlockBuilder()
    m, n, k = (symbol(name) for name in "mnk")
    bytes_ = (argument(b, "x", "i8", [m, k]), argument(b, "y", "ui8", [k, n]))
    wide = [b.one("convert", [each], {"dtype": "i32"}) for each in bytes_]
    return graph_of(b, dot(b, *wide, dtype="i32"))


def text_of(graph, calling):
    """The text of the kernel that calls a function."""
    steps = on_processor(plan(graph, tiles=FLOATS)).steps
    (found,) = [text for step in steps if isinstance(step, Run) if f"@{calling}(" in (text := function_of(step).text)]
    return found


@pytest.mark.parametrize(("kind", "graph"), [("bf16", two_arguments("bf16", True, "f32")), ("s8u8", bytes_product())])
def test_shapes_of_registers_are_kept_from_block_to_block(kind, graph):
    """None when a kernel begins; each block looks whether it needs others; they are released once, at the end."""
    text = text_of(graph, f"egs_tile_{kind}")
    (held,) = re.findall(r"store ptr null, ptr (%\w+)", text)
    *_, last = (line.strip() for line in text.splitlines() if "call" in line)
    assert last == f"call void @egs_tile_done_{kind}(ptr {held})"
    assert re.search(rf"call void @egs_tile_{kind}\(.*, ptr {held}, ptr %\w+, i64 [%\w]+\)", text)
    kernels = gemm.text(kind, TILES + ",+avx512f", "block")
    assert kernels.count("@llvm.x86.ldtilecfg(ptr %shape)") == 1 == kernels.count("call void @llvm.x86.tilerelease()")
    assert "icmp eq ptr %now, %shape" in kernels


def test_where_bytes_are_stored_is_fetched_before():
    assert "@llvm.prefetch.p0(ptr %" in text_of(bytes_product(), "egs_tile_s8u8")
    assert "prefetch" not in text_of(two_arguments("bf16", True, "f32"), "egs_tile_bf16")


@here
@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_two_products_of_one_kernel_change_the_shapes(kind):
    """Attention: one product is as deep as a head is wide, the other as the text is long."""
    b = BlockBuilder()
    length, width = symbol("length"), const(20)
    q, k, v = (argument(b, name, kind, [length, width]) for name in "qkv")
    scores = dot(b, q, k, turned=True, dtype="f32")
    powers = b.one("exponential", [scores])
    weights = b.one("convert", [b.one("divide", [powers, fold(b, powers, "add", 0.0)])], {"dtype": kind})
    graph = graph_of(b, dot(b, weights, v, dtype="f32"))
    function, rng = compiled(graph), np.random.default_rng(3)
    for size in (1, 4, 16, 19, 33, 70):
        arrays = [numbers(rng, kind, (size, 20)) / 8 for _ in range(3)]
        (wanted,) = interpret(graph, [np.asarray(x, numpy_dtype(kind)) for x in arrays])
        found = np.asarray(function(*(np.asarray(x, numpy_dtype(kind)) for x in arrays)))
        np.testing.assert_allclose(found, wanted, 2e-2, 2e-2, err_msg=str(size))


def limits(kind):
    return (-128, 128) if kind == "i8" else (0, 256)


@here
@pytest.mark.parametrize("rows", [1, 5, 20])
def test_every_f16_comes_through(rows):
    """Times 1, which is exact: denormals too."""
    function = compiled(two_arguments("f16", False, "f32"))
    some = ALL[~np.isnan(ALL)].reshape(1, -1)
    left = np.ones((rows, 1), np.float16)
    np.testing.assert_array_equal(np.asarray(function(left, some)), np.repeat(some.astype(np.float32), rows, 0))


@here
def test_infinities_are_infinities():
    """Also times numbers that one bf16 holds, and times both parts of others; infinity times 0 is no number."""
    function = compiled(two_arguments("f16", True, "f32"))
    x = np.float16([[np.inf, 1], [-np.inf, 1], [1.0009765625, 3], [np.nan, 0]] * 5)
    y = np.float16([[1, 2], [1.0009765625, 2], [-0.5, 7], [0, 1], [np.inf, 1]])
    with np.errstate(invalid="ignore"):
        wanted = x.astype(np.float32) @ y.astype(np.float32).T
    for rows in (1, 4, 20):
        np.testing.assert_array_equal(np.asarray(function(x[:rows], y)), wanted[:rows])


@here
def test_an_artifact_asks_for_itself(tmp_path):
    """In a process that compiles nothing."""
    graph = two_arguments("bf16", True, "f32")
    path = tmp_path / "product.egs"
    egshape.compile(graph).save(path)
    code = "import ml_dtypes; x = np.ones((20, 40), ml_dtypes.bfloat16); print(int(np.asarray(f(x, x)).sum()))"
    assert with_artifact(path, code).split() == [str(20 * 20 * 40)]


@here
def test_groups_of_rows_have_the_bits_of_all():
    """More rows than a group, and one of them alone."""
    function, rng = compiled(two_arguments("f16", False, "f32")), np.random.default_rng(3)
    x, y = (rng.standard_normal(shape).astype(np.float16) for shape in ((600, 70), (70, 50)))
    whole = np.asarray(function(x, y))
    np.testing.assert_array_equal(np.asarray(function(x[256:512], y)), whole[256:512])
