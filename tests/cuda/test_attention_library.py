"""Attention by cuDNN, which is not there: what is offered to it and where its tensors lie, what it is told of sizes,
and the kernel where it does not run."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the emulated device needs the extra llvm")

from egshape.dims import const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from egshape.lower.device import attend
from egshape.lower.drivers.cuda import Cuda, compile_cuda
from egshape.plan.gpu.attention.find import SWITCH
from egshape.plan.ir.program import Attention
from egshape.plan.targets import plan
from egshape.runtime.cuda import cudnn
from egshape.runtime.cuda.function import CudaFunction
from tests.cuda.attention import TOLERANCE, TYPES, Case, fold
from tests.cuda.attention_library import AttentionLibrary
from tests.cuda.device import ARCHITECTURE, Emulated, compiled, image, loaded
from tests.fuzz.differential import argument, graph_of

SIZES = [(1, 1, 1), (2, 3, 5), (1, 40, 70), (1, 0, 3), (2, 2, 0), (0, 2, 2), (2, 3, 5), (2, 3, 5), (2, 3, 5), (1, 7, 7)]
CASES = [
    Case("bf16"),
    Case("f16", last=True),
    Case("bf16", "causal", "bf16", last=True),
    Case("f16", "triangle", depth=16, width=24),
    Case("f16", "causal", wide=True, heads=4, groups=2),
    Case("bf16", turned=True),
]


@pytest.fixture(autouse=True)
def offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the library, whatever the work is."""
    monkeypatch.setenv(SWITCH, "cudnn")
    monkeypatch.setattr(attend, "LEAST_WORK", 1)


def _steps(graph: Graph) -> list[Attention]:
    return [step for step in plan(graph, target="cuda").steps if isinstance(step, Attention)]


@cache
def _made(least: int) -> Cuda:
    """The first case, compiled; ``least``: the work from which the library is called."""
    assert least == attend.LEAST_WORK
    return compile_cuda(CASES[0].graph(), (ARCHITECTURE,), make=image)


def _check(case: Case, function: CudaFunction, sizes: tuple[int, int, int]) -> None:
    inputs = case.inputs(*sizes)
    (wanted,) = interpret(case.graph(), inputs)
    tolerance = TOLERANCE[case.dtype]
    found = np.asarray(function(*inputs), np.float64)
    np.testing.assert_allclose(found, np.asarray(wanted, np.float64), tolerance, tolerance)


@pytest.mark.long_but("bf16-causal-*")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.dtype}-{case.mask}-{case.heads}x{case.width}")
def test_the_library_computes_it_at_all_sizes(case: Case) -> None:
    device = Emulated()
    library = AttentionLibrary(device)
    function = compiled(case.graph(), device, attention=library.functions)
    for sizes in SIZES:
        _check(case, function, sizes)
    assert not device.faults and not library.faults and not function.library_faults()
    assert {(run[0], run[2], run[5]) for run in library.ran} == {sizes for sizes in SIZES if all(sizes)}
    assert len(library.ran) < len([sizes for sizes in SIZES if all(sizes)])  # what is captured is not called again
    assert library.calls["cudnnGetExecutionPlanWorkspaceSize"] == len(library.ran)
    plans = [each for each in library.objects.values() if each["kind"] == 5]
    assert len(plans) == 1  # for all sizes
    own = [name for name in device.launched if "attention" in name]
    assert len(own) == len([sizes for sizes in SIZES if sizes[0] and sizes[1] and not sizes[2]])  # without keys


def _grouped(order: str, groups: int) -> Graph:
    """Attention of groups of three heads: axes of queries in an order, keys and values (b, group, t, d)."""
    size = {"b": symbol("b"), "g": const(groups), "r": const(3), "s": symbol("s"), "t": symbol("t"), "d": const(8)}
    b = BlockBuilder()
    q = argument(b, "q", "bf16", [size[axis] for axis in order])
    k, v = (argument(b, name, "bf16", [size[axis] for axis in "bgtd"]) for name in "kv")
    q = b.one("transpose", [q], {"permutation": tuple(order.index(axis) for axis in "bgrsd")})
    dot = {"lhs_batch": (0, 1), "rhs_batch": (0, 1)}
    scores = b.one("dot_general", [q, k], {**dot, "lhs_contract": (4,), "rhs_contract": (3,), "dtype": "f32"})
    shape = tuple(size[axis] for axis in "bgrst")
    peak = fold(b, scores, "maximum", float("-inf"))
    wide = {"dims": (0, 1, 2, 3), "shape": shape}
    gap = b.one("subtract", [scores, b.one("broadcast_in_dim", [peak], wide)])
    weights = b.one("exponential", [gap])
    total = b.one("broadcast_in_dim", [fold(b, weights, "add", 0.0)], wide)
    weights = b.one("convert", [b.one("divide", [weights, total])], {"dtype": "bf16"})
    attrs = {**dot, "lhs_contract": (4,), "rhs_contract": (2,), "dtype": "bf16"}
    return graph_of(b, b.one("dot_general", [weights, v], attrs))


@pytest.mark.long_but("2-bsgrd")
@pytest.mark.parametrize("order", ["bgrsd", "bsgrd", "sbgrd"])
@pytest.mark.parametrize("groups", [1, 2])
def test_heads_that_share_keys(groups: int, order: str) -> None:
    graph = _grouped(order, groups)
    (step,) = _steps(graph)
    assert (step.heads.const, step.groups.const) == (3 * groups, groups)
    device = Emulated()
    library = AttentionLibrary(device)
    function = compiled(graph, device, attention=library.functions)
    rng = np.random.default_rng(0)
    size = {"b": 2, "g": groups, "r": 3, "s": 17, "t": 5, "d": 8}
    inputs = [rng.normal(size=[size[axis] for axis in axes]).astype(TYPES["bf16"]) for axes in (order, "bgtd", "bgtd")]
    (wanted,) = interpret(graph, inputs)
    np.testing.assert_allclose(np.asarray(function(*inputs), float), np.asarray(wanted, float), 4e-2, 4e-2)
    assert (
        library.ran == [(2, 3 * groups, 17, 8, groups, 5)]
        and not device.launched
        and not library.faults + device.faults
    )


def test_what_is_offered_and_what_is_not() -> None:
    for case in CASES:
        assert len(_steps(case.graph())) == 1
    others = [
        Case("f32"),
        Case("bf16", "additive"),
        Case("bf16", "length"),
        Case("bf16", "bool"),
        Case("bf16", guard=True),
        Case("bf16", clean=True),
        Case("bf16", depth=12),
        Case("bf16", width=4),
        Case("f16", "triangle", "f16"),  # -1e4 is a score that f16 may have
    ]
    for case in others:
        assert not _steps(case.graph()), case


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_mask_beside_the_diagonal_is_not_offered(shift: int) -> None:
    (step,) = _steps(Case("bf16", "causal").graph())
    assert step.causal
    assert not _steps(_shifted(shift))


def _shifted(shift: int) -> Graph:
    graph = Case("bf16", "causal").graph()
    ops = list(graph.body.ops)
    for number, op in enumerate(ops):
        if op.name == "compare" and op.operands[0].type.dtype == "i32":
            b = BlockBuilder()
            one = b.one("constant", [], {"value": np.asarray(shift, np.int32)})
            wide = b.one("broadcast_in_dim", [one], {"dims": (), "shape": op.operands[0].type.dims})
            more = b.one("add", [op.operands[0], wide])
            ops[number : number + 1] = [*b.ops, replace(op, operands=(more, op.operands[1]))]
            break
    return replace(graph, body=replace(graph.body, ops=tuple(ops)))


def test_only_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "fused")
    assert not _steps(CASES[0].graph())


def test_little_work_is_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attend, "LEAST_WORK", 2 * 2 * 40 * 70 * 16)
    device = Emulated()
    library = AttentionLibrary(device)
    function = loaded(_made(attend.LEAST_WORK), device, attention=library.functions)
    for sizes in ((1, 40, 70), (1, 39, 70)):
        _check(CASES[0], function, sizes)
    assert len(library.ran) == 1 and device.launched


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"starts": False}, "cuDNN does not start"),
        ({"engines": ()}, "proposes no engine"),
        ({"engines": (False, False)}, "this is not supported"),
        ({"fails": 3000}, "cudnnBackendExecute fails with status 3000"),
    ],
)
def test_the_kernel_runs_where_the_library_does_not(settings: dict[str, Any], said: str) -> None:
    device = Emulated()
    library = AttentionLibrary(device, **settings)
    function = loaded(_made(attend.LEAST_WORK), device, attention=library.functions)
    for sizes in ((2, 3, 5), (1, 40, 70)):
        _check(CASES[0], function, sizes)
    assert not library.ran and device.launched and any(said in fault for fault in function.library_faults())
    made = library.calls["cudnnBackendFinalize"]
    _check(CASES[0], function, (2, 4, 5))
    assert settings.get("fails") or library.calls["cudnnBackendFinalize"] == made  # it is not compiled again


def test_the_second_engine_where_the_first_is_refused() -> None:
    device = Emulated()
    library = AttentionLibrary(device, (False, True))
    function = loaded(_made(attend.LEAST_WORK), device, attention=library.functions)
    _check(CASES[0], function, (2, 3, 5))
    assert library.ran and not function.library_faults()


def test_without_a_library_the_kernel_runs() -> None:
    device = Emulated()
    function = loaded(_made(1), device)
    _check(CASES[0], function, (2, 3, 5))
    assert device.launched and not function.library_faults()


def test_no_memory_for_a_workspace() -> None:
    device = Emulated()
    library = AttentionLibrary(device, workspace=1 << 28)
    function = loaded(_made(attend.LEAST_WORK), device, attention=library.functions)
    _check(CASES[0], function, (2, 5, 5))
    assert device.launched and any("no workspace" in fault for fault in function.library_faults())


def test_all_is_given_back() -> None:
    device = Emulated()
    library = AttentionLibrary(device)
    function = compiled(CASES[2].graph(), device, attention=library.functions)
    for sizes in ((2, 3, 5), (1, 40, 70)):
        _check(CASES[2], function, sizes)
    del function
    assert not library.objects and not device.used() and not library.faults


def test_an_old_library_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    version = ctypes.CFUNCTYPE(ctypes.c_size_t)(lambda: 92299)
    found = {"cudnnGetVersion": ctypes.cast(version, ctypes.c_void_p).value or 0}
    monkeypatch.setattr(cudnn, "functions_of", lambda *_: found)
    assert cudnn.addresses() is None
    monkeypatch.setattr(cudnn, "OLDEST", cudnn.OLDEST - 1)
    assert cudnn.addresses() == found
