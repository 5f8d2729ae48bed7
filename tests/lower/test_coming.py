"""Blocks of products fetch a share of the next pack, where that may come from far: the shares of all are the pack."""

import re

import numpy as np
import pytest

from egshape.dims import symbol
from egshape.ir.builder import BlockBuilder
from egshape.lower.llvm import gemm
from egshape.lower.llvm.kernel import function_of
from egshape.plan.cpu.program import on_processor
from egshape.plan.ir.program import Run
from egshape.plan.targets import plan
from tests.fuzz.differential import argument, graph_of
from tests.lower.checking import call, compiled

AVX512 = "+avx512f,+avx512vl,+avx2,+fma"
TILES = f"{AVX512},+amx-tile,+amx-bf16,+amx-int8"
CALL = re.compile(r"call void @egs_tile_f32\(.*, ptr %\w+, i64 ([%\w]+)\)")


def product(constant):
    """Rows by 64 x 160 numbers, which are constant or an input."""
    b = BlockBuilder()
    x = argument(b, "x", "f32", [symbol("m"), 64])
    data = np.random.default_rng(0).normal(size=(64, 160)).astype(np.float32)
    y = b.one("constant", (), {"value": data}) if constant else argument(b, "y", "f32", [64, 160])
    dims = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,)}
    return graph_of(b, b.one("dot_general", [x, y], {**dims, "dtype": "f32"})), data


@pytest.mark.parametrize("constant", [True, False])
def test_the_packs_of_constants_are_fetched(constant):
    graph, _ = product(constant)
    steps = [step for step in on_processor(plan(graph)).steps if isinstance(step, Run)]
    (pace,) = (found for step in steps for found in CALL.findall(function_of(step).text))
    assert (pace != "0") is constant


@pytest.mark.parametrize(("dtype", "vectors", "rows", "lines"), [("f32", 3, 4, 0), ("f32", 3, 5, 4), ("f64", 4, 4, 4)])
def test_blocks_of_many_rows_fetch(dtype, vectors, rows, lines):
    """Few are all rows as a rule: they wait for their own pack."""
    text = gemm.text(dtype, AVX512, gemm.BLOCK)
    (body,) = re.findall(rf"^define internal void @egs_block_{dtype}_{rows}_{vectors}\(.*?^}}", text, re.M | re.S)
    assert body.count("i32 0, i32 2, i32 1") == lines


@pytest.mark.parametrize("dtype", ["bf16", "f16", "u8s8"])
def test_tiles_fetch(dtype):
    text = gemm.text(dtype, TILES, gemm.BLOCK)
    assert text.count("%coming.l = phi ptr [ %coming, %entry ], [ %coming.n, %loop ]") == 4


@pytest.mark.parametrize("rows", [0, 1, 5, 8, 9, 17, 40, 65])
def test_what_is_multiplied_is_the_same(rows):
    graph, data = product(True)
    x = np.random.default_rng(rows).normal(size=(rows, 64)).astype(np.float32)
    np.testing.assert_allclose(call(compiled(graph), [x])[0], x @ data, 1e-4, 1e-4)
