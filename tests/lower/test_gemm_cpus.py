"""The kernels of products on other CPUs than this one: run where this one has their instructions, else compiled."""

import re
from dataclasses import replace
from itertools import product as product_of

import numpy as np
import pytest

from egshape.dims import symbol
from egshape.ir.builder import BlockBuilder
from egshape.lower.host.program import module
from egshape.lower.llvm import gemm, native
from egshape.plan.cpu.program import on_processor
from egshape.plan.targets import plan
from tests.fuzz.differential import argument, graph_of
from tests.lower.checking import call, compiled

M, N, K = symbol("m"), symbol("n"), symbol("k")
CPUS = {"haswell": "+sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2", "nehalem": "+sse4.2", "x86-64": ""}


def product(dtype, turned):
    b = BlockBuilder()
    x, y = argument(b, "x", dtype, [M, K]), argument(b, "y", dtype, [N, K] if turned else [K, N])
    return graph_of(
        b,
        b.one(
            "dot_general",
            [x, y],
            {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (int(turned),), "dtype": dtype},
        ),
    )


def test_blocks_follow_the_registers():
    assert [gemm.shape_for(f) for f in ("+avx512f,+avx2,+fma", "+avx2,+fma", "+avx", "+neon")] == [
        gemm.Shape(64, ((4, 6), (3, 8), (2, 8), (1, 8))),
        gemm.Shape(32, ((3, 4), (2, 4), (1, 4))),
        gemm.Shape(16, ((2, 4), (1, 4))),
        gemm.Shape(16, ((2, 4), (1, 4))),
    ]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("cpu", sorted(CPUS))
def test_other_cpus(cpu, dtype, monkeypatch):
    here = native.host_machine()
    wanted = {each for each in CPUS[cpu].split(",") if each}
    if not here.triple.startswith("x86_64") or not wanted <= set(here.features.split(",")):
        pytest.skip("this machine has not the instructions of this CPU")
    monkeypatch.setattr(native, "host_machine", lambda: replace(here, cpu=cpu, features=CPUS[cpu]))
    rng = np.random.default_rng(1)
    for turned in (False, True):
        function = compiled(product(dtype, turned))
        for m, n, k in (
            (0, 1, 1),
            (1, 1, 0),
            (1, 7, 3),
            (5, 33, 9),
            (8, 48, 16),
            (20, 49, 33),
            (9, 127, 2),
            (17, 24, 17),
            (3, 11, 41),
            (16, 6, 70),
        ):
            one = rng.integers(-4, 5, (m, k)).astype(dtype.replace("f", "float"))
            two = rng.integers(-4, 5, (k, n)).astype(one.dtype)
            (found,) = call(function, [one, np.ascontiguousarray(two.T) if turned else two])
            np.testing.assert_array_equal(found, one @ two)


AVX512 = "+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx2,+fma"
SPILLED = re.compile(r"[yz]mm.*\(%rsp\)|\(%rsp\).*[yz]mm")


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [*product_of(("f32", "f64", "u8s8", "bf16"), (gemm.BLOCK, gemm.RUNS)), ("f32f16", gemm.BLOCK)],
)
@pytest.mark.parametrize(
    ("cpu", "features"),
    [("skylake-avx512", AVX512), ("sapphirerapids", f"{AVX512},+avx512vnni,+avx512bf16"), ("haswell", CPUS["haswell"])],
)
def test_sums_stay_in_registers(cpu, features, dtype, kind):
    """LLVM's scheduler may write sums to the stack for loads that it moves up: products took 1.5 times as long."""
    if dtype in ("u8s8", "bf16") and "bf16" not in features:
        pytest.skip("steps of several instructions take more registers than there are")
    here = native.host_machine()
    machine = replace(here, triple="x86_64-unknown-linux-gnu", cpu=cpu, features=features)
    native._binding().initialize_all_targets()
    native._binding().initialize_all_asmprinters()
    text = native.assembly(native.completed(gemm.text(dtype, features, kind)), machine)
    spilled = [
        name
        for name, body in re.findall(r"^(egs_(?:block|runs)_\w+):(.*?)^\.Lfunc_end", text, re.MULTILINE | re.DOTALL)
        if SPILLED.search(body)
    ]
    assert "egs_" in text and spilled == []


def test_other_architectures_compile():
    machine = native.Machine("aarch64-unknown-linux-gnu", "generic", "+neon", "")
    native._binding().initialize_all_targets()
    native._binding().initialize_all_asmprinters()
    for kind in (gemm.BLOCK, gemm.REACH, gemm.RUNS):
        kernels = gemm.text("f32", machine.features, kind)
        assert "<4 x float>" in kernels and len(native.object_code(kernels, machine)) > 1000
    text = native.whole(module(on_processor(plan(product("f32", True)))).text, machine.features)
    assert len(native.object_code(text, machine)) > 1000
