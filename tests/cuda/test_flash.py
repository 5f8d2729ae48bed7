"""Attention in one kernel: equal to the interpreter, free of races, exact where scores are not finite; what is taken as
attention and what is not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="planning needs the extra llvm")

import egshape
from egshape.dims import symbol
from egshape.errors import EgshapeError
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from egshape.ir.text import parse_graph, print_graph
from egshape.ir.types import numpy_dtype
from egshape.lower.cuda.compiler import cubin, source
from egshape.lower.cuda.kernel import kernel as printed
from egshape.plan.gpu.attention import finite as flash_finite
from egshape.plan.gpu.attention import joined as flash_joined
from egshape.plan.gpu.attention import split as flash_split
from egshape.plan.gpu.attention import tiles as flash_tiles
from egshape.plan.gpu.attention.find import SWITCH
from egshape.plan.gpu.attention.masks import lines
from egshape.plan.gpu.launching import launches
from egshape.plan.ir.launch import Launch, Mma
from egshape.plan.ir.loops import Attend, Buffer, Call, Const, Index, Kernel, Var
from egshape.plan.ir.walk import buffers, statements
from egshape.plan.targets import plan
from tests.cuda.attention import MASKS, TOLERANCE, Case
from tests.cuda.device import Emulated, compiled
from tests.cuda.emulate import chosen, emulated, kernels
from tests.cuda.test_mma import sass
from tests.cuda.text import ORDERS, Texts
from tests.cuda.text_device import TextDevice
from tests.cuda.threads import Machine, check_launch, contents
from tests.lower.checking import check_model
from tests.lower.test_attention import scores_of_scores

SIZES = [(1, 1, 1), (2, 3, 5), (1, 40, 70), (1, 0, 3), (2, 2, 0), (0, 2, 2), (1, 3, 140)]
"""Of batch, queries and keys: none, one, no multiples of anything, several blocks, keys that are split."""


@pytest.fixture(autouse=True)
def fused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One kernel wherever that can be."""
    monkeypatch.setenv(SWITCH, "fused")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so small that few rows and keys make several of them."""
    for place, name, value in (
        (flash_tiles, "WARPS", 2),
        (flash_tiles, "FEW_WARPS", 1),
        (flash_tiles, "KEYS", 16),
        (flash_split, "CHUNK", 64),
        (flash_split, "KEYS", 16),
        (flash_finite, "LONG", 32),
    ):
        monkeypatch.setattr(place, name, value)


def attends(graph: Graph) -> list[Attend]:
    """The attention of a graph's plan."""
    return [
        stmt
        for kernel in kernels(plan(graph, target="cuda").steps)
        for stmt in statements(kernel.body)
        if isinstance(stmt, Attend)
    ]


def reference(case: Case, arrays: list[np.ndarray]) -> np.ndarray:
    """What the interpreter gives; in f32, as its sums of 16 bits would lose more than what is tested."""
    if case.dtype != "f32":
        case = replace(case, dtype="f32", soft="f32")
        arrays = [each if each.dtype.kind in "bi" else each.astype(np.float32) for each in arrays]
    with np.errstate(all="ignore"):
        return interpret(case.graph(), arrays)[0].astype(np.float64)


def check(case: Case, given: Iterable[list[np.ndarray]], threads: int = 256) -> None:
    """The emulated kernels against the interpreter."""
    graph = case.graph()
    assert len(attends(graph)) == 1, "the attention is not found"
    function = emulated(graph, threads)
    for arrays in given:
        found, limit = np.asarray(function(*arrays)).astype(np.float64), TOLERANCE[case.dtype]
        np.testing.assert_allclose(
            found, reference(case, arrays), limit, limit, err_msg=f"{case} of {[each.shape for each in arrays]}"
        )


CASES = [Case(mask=mask) for mask in MASKS] + [
    Case("f16", "causal"),
    Case("bf16", "length"),
    Case("f16", "additive", soft="f16"),
    Case("bf16", "triangle", last=True, heads=4, groups=2, depth=16, width=16),
    Case("f16", last=True, turned=True),
    Case("f32", "causal", last=True, turned=True, depth=5, width=3),
    Case("f16", "bool", depth=20, width=40),
    Case("f32", "additive", guard=True),
    Case("bf16", groups=2, depth=72, width=24, soft="bf16"),
    Case("bf16", "length", wide=True),
]


@pytest.fixture
def paired(monkeypatch: pytest.MonkeyPatch, small: None) -> None:
    """Warps with two tiles of rows."""
    monkeypatch.setattr(flash_tiles, "BLOCKS", 1)


@pytest.mark.parametrize("case", [Case("bf16", "causal"), Case("f16", "bool", depth=20, width=40)], ids=str)
def test_two_tiles_of_rows(case: Case, paired: None) -> None:
    (kernel,) = kernels(plan(case.graph(), target="cuda").steps)
    every = [each for launch in launches(kernel, lambda dim: 64.0) for each in _all([launch])]
    products = [stmt for each in every for stmt in statements(each.kernel.body) if isinstance(stmt, Mma)]
    assert max(each.rows for each in products) == 2
    check(case, (case.inputs(*sizes) for sizes in ((1, 40, 70), (2, 17, 33), (1, 0, 3))))


@pytest.mark.long_but("*'f32', mask='causal'*", "*'bf16', mask='length'*", "*'f16', mask='bool'*")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_equals_the_interpreter(case: Case, small: None) -> None:
    check(case, (case.inputs(*sizes) for sizes in SIZES))


def test_blocks_of_full_size() -> None:
    case = Case("bf16", "causal", depth=16, width=16)
    check(case, (case.inputs(*sizes) for sizes in ((1, 150, 150), (2, 3, 600))))


@pytest.mark.parametrize(
    "case",
    [Case("f16"), Case("bf16", "causal"), Case("f16", "additive"), Case("bf16", "triangle")],
    ids=str,
)
@pytest.mark.parametrize("size", [1.0, 40.0])
def test_bases_follow_the_largest_scores(case: Case, size: float, small: None) -> None:
    """Scores that rise, fall, and are so large that a base times a number is not exact."""

    case = replace(case, wide=True)

    def changed() -> Iterable[list[np.ndarray]]:
        for ramp in (np.linspace(0.1, 6, 70), np.linspace(6, 0.1, 70), np.linspace(-6, 6, 70)):
            arrays = case.inputs(1, 40, 70)
            for side, by in ((0, size), (1, ramp[:, None])):
                arrays[side] = (arrays[side].astype(np.float32) * by).astype(arrays[side].dtype)
            yield arrays

    check(case, changed())


@pytest.mark.parametrize("threads", [32, 64])
@pytest.mark.parametrize("case", [Case("f16"), Case(mask="additive", width=5)], ids=str)
def test_many_chunks_are_joined(case: Case, threads: int, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a block takes at a time."""
    monkeypatch.setattr(flash_joined, "THREADS", threads)
    monkeypatch.setattr(flash_split, "CHUNK", 16)
    check(case, (case.inputs(*sizes) for sizes in ((1, 1, 600), (2, 3, 280))))


# -- what is not finite -----------------------------------------------------------------------------------------------

LENGTHS = (1, 40, 70)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("mask", ["none", "causal", "triangle", "additive"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_goes_through(dtype: str, mask: str, value: float, small: None) -> None:
    """In queries, keys and values, in blocks that a mask would let be left out too."""
    case = Case(dtype, mask)

    def changed() -> Iterable[list[np.ndarray]]:
        for side in range(3):
            for at in (0, 33, -1):
                arrays = case.inputs(*LENGTHS)
                arrays[side][0, 1, at, 2] = value
                yield arrays

    check(case, changed())


def test_masked_rows(small: None) -> None:
    """Rows that are masked everywhere, in the first blocks only, or but for one key."""
    for case, bad in (
        (Case(mask="additive"), False),
        (Case(mask="additive", guard=True), False),
        (Case("bf16", "additive"), False),
        (Case(mask="additive", clean=True), False),
        (Case(mask="additive", clean=True), True),
    ):
        arrays = case.inputs(1, 6, 70)
        if bad:  # 0 times infinity is NaN, in rows that are masked everywhere too
            arrays[2][0, 0, 50, 3] = np.inf
        arrays[3][:] = -np.inf
        arrays[3][0, 0, 1, 69] = arrays[3][0, 0, 2, 0] = arrays[3][0, 0, 3, 20:40] = 0
        arrays[3][0, 0, 4, 33] = 0 if bad else np.inf
        check(case, [arrays])


@pytest.mark.parametrize("mask", ["causal", "triangle", "additive"])
@pytest.mark.parametrize("finite", [True, False])
def test_masked_keys_are_left_out(mask: str, finite: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values behind the mask are not read, but for those that are fetched before it is known; unless one is no
    number, whose product with a weight of 0 is none either."""
    for place, name, value in ((flash_tiles, "WARPS", 1), (flash_tiles, "KEYS", 16), (flash_finite, "LONG", 8)):
        monkeypatch.setattr(place, name, value)
    monkeypatch.setattr(flash_split, "FEW", 4)
    case, sizes = Case("f32", mask, heads=1), {"b": 1, "s": 8, "t": 64}
    (kernel,) = kernels(plan(case.graph(), target="cuda").steps)
    arrays = contents(buffers(kernel.body), sizes)
    (values,) = (each for each in arrays if each.name == "v")
    arrays[values][-1] = 1.0 if finite else np.nan
    read = _read(kernel, arrays, sizes)[values]
    assert (max(read) < 48 * case.width) == (finite and mask != "additive")


@pytest.mark.long_but("*f32*causal*")
@pytest.mark.parametrize(
    "case",
    [Case("f32", "causal", heads=1), Case("bf16", "length"), Case("f16", "additive", last=True, heads=1)],
    ids=str,
)
def test_no_two_threads_meet(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thread after thread, in blocks of one and of two warps, of whole rows and of chunks of keys."""
    for place, name, value in (
        (flash_tiles, "KEYS", 16),
        (flash_tiles, "FEW_WARPS", 1),
        (flash_tiles, "BLOCKS", 1),
        (flash_split, "CHUNK", 16),
        (flash_split, "KEYS", 16),
        (flash_finite, "LONG", 8),
        (flash_split, "FEW", 4),
    ):
        monkeypatch.setattr(place, name, value)
    (kernel,) = kernels(plan(case.graph(), target="cuda").steps)
    for warps, s, t in ((1, 3, 36), (2, 20, 20), (1, 0, 2)):
        sizes = {"b": 1, "s": s, "t": t}
        monkeypatch.setattr(flash_tiles, "WARPS", warps)
        wanted = contents(buffers(kernel.body), sizes)
        got = {buffer: array.copy() for buffer, array in wanted.items()}
        Machine(wanted).run(kernel.body, sizes)
        _read(kernel, got, sizes)
        (out,) = kernel.outputs
        limit = TOLERANCE[case.dtype]
        np.testing.assert_allclose(got[out].astype(float), wanted[out].astype(float), limit, limit)


def _read(kernel: Kernel, arrays: dict[Buffer, np.ndarray], sizes: Mapping[str, int]) -> dict[Buffer, set[int]]:
    """Run the launches of a kernel, thread after thread; the elements that the one which stores results has read."""
    found: dict[Buffer, set[int]] = {}
    for each in launches(kernel, lambda dim: 64.0):
        launch = chosen(each, sizes)
        for buffer in set(buffers(launch.kernel.body)) - arrays.keys() - set(launch.shared):
            arrays[buffer] = np.zeros(buffer.size.evaluate(sizes), numpy_dtype(buffer.dtype))
        machine = check_launch(launch, arrays, sizes)
        if set(kernel.outputs) & set(buffers(launch.kernel.body)):
            found = {buffer: set(memory.reads) for buffer, memory in machine.memories.items()}
    return found


# -- the printed text, and a whole program ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case",
    [Case("f32", "causal"), Case("bf16", "length", last=True, groups=2), Case("f16", "additive", depth=20, width=12)],
    ids=str,
)
def test_printed_text(case: Case, texts: Texts, small: None) -> None:
    for order in ORDERS[1:]:
        device = TextDevice(texts, order)
        function = compiled(case.graph(), device)
        for sizes in ((1, 40, 70), (2, 3, 140), (1, 1, 1)):
            arrays, limit = case.inputs(*sizes), TOLERANCE[case.dtype]
            found = np.asarray(function(*arrays)).astype(np.float64)
            assert not device.faults, device.faults
            np.testing.assert_allclose(found, reference(case, arrays), limit, limit, err_msg=f"{order} {sizes}")


@pytest.mark.parametrize(("dtype", "width", "last"), [("bf16", 64, True), ("f16", 8, False), ("f32", 4, True)])
def test_results_are_stored_by_16_bytes(dtype: str, width: int, last: bool) -> None:
    """Those of all keys; a width that is no multiple of 16 bytes is stored element by element."""

    def stores(width: int) -> list[str]:
        case = Case(dtype, "causal", depth=16, width=width, last=last)
        (kernel,) = kernels(plan(case.graph(), target="cuda").steps)
        whole = [each for each in _all(launches(kernel, lambda dim: 1024.0)) if _multiplies(each, kernel)]
        found = []
        for each in whole:
            made = printed(each, "k")
            out = f"b{made.buffers.index(kernel.outputs[0])}"
            found += re.findall(rf"(?:\*\((\w+)\*\)&)?\b{out}\[[^;]*\] = ", made.source)
        assert found
        return found

    assert set(stores(width)) == {"uint4"} and set(stores(width + 2)) == {""}


def _all(found: Iterable[Launch]) -> Iterator[Launch]:
    for each in found:
        now: Launch | None = each
        while now is not None:
            yield now
            now = now.otherwise


def _multiplies(launch: Launch, kernel: Kernel) -> bool:
    """Whether it stores results of all keys."""
    body = launch.kernel.body
    return kernel.outputs[0] in buffers(body) and any(isinstance(stmt, Mma) for stmt in statements(body))


def test_steps_run_where_sizes_ask_for_them(small: None) -> None:
    """Few rows and many keys go in two steps, many rows in one; flags are set where keys are many."""
    device, case = Emulated(), Case("f32", "causal")
    function = compiled(case.graph(), device)
    names = []
    for sizes in ((1, 40, 20), (1, 40, 140), (1, 3, 140), (1, 3, 100), (1, 17, 140)):
        del device.launched[:]
        function(*case.inputs(*sizes))
        names.append([name.split("_", 2)[2] for name in device.launched])
    assert names == [
        ["attention"],
        ["attention_finite", "attention"],
        ["attention", "attention_joined"],
        ["attention"],
        ["attention_finite", "attention"],
    ]
    assert not device.faults


# -- what is attention and what is not --------------------------------------------------------------------------------


def test_what_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """f16 and bf16 always; f32 where scores are many; and what the user says."""
    monkeypatch.delenv(SWITCH)
    assert [bool(attends(Case(dtype).graph())) for dtype in ("f32", "f16", "bf16")] == [False, True, True]
    large = Case().graph()
    facts = large.facts.with_symbol("s", likely=(8192,)).with_symbol("t", likely=(8192,))
    assert attends(replace(large, facts=facts))
    monkeypatch.setenv(SWITCH, "library")
    assert not attends(Case("f16").graph())
    monkeypatch.setenv(SWITCH, "torch")
    with pytest.raises(
        EgshapeError, match="EGSHAPE_CUDA_ATTENTION='torch' is neither 'fused' nor 'library' nor 'cudnn'"
    ):
        attends(Case("f16").graph())


@pytest.mark.parametrize("scale", [None, 1.0])
@pytest.mark.parametrize("mask", ["causal", "triangle"])
def test_masked_scores_that_nothing_scales(mask: str, scale: float | None, small: None) -> None:
    """As of queries that were scaled before: the mask is all that is done to them."""
    case = Case("f16", mask, scale=scale)
    check(case, (case.inputs(*sizes) for sizes in ((1, 40, 40), (1, 5, 70))))


def test_a_difference_without_a_sign_is_no_line() -> None:
    """0 <= row - column < 100, written as one comparison."""
    row, column = (Index("i32", symbol(name)) for name in ("row", "column"))
    gap = Call("ui32", "convert", (Call("i32", "subtract", (row, column)),), (("dtype", "ui32"),))
    keep = Call("i1", "compare", (gap, Const("ui32", 100)), (("direction", "LT"), ("kind", "UNSIGNED")))
    scores = Call("f32", "select", (keep, Var("f32", "score"), Const("f32", float("-inf"))))
    assert not lines(scores, "row", "column", (symbol("s"), symbol("t")))


def test_values_that_are_the_scores_are_no_attention() -> None:
    graph = scores_of_scores()
    assert not attends(graph)
    arrays = [np.random.default_rng(k).normal(size=(5, 8)).astype(np.float32) for k in range(2)]
    np.testing.assert_allclose(emulated(graph, 64)(*arrays), interpret(graph, arrays)[0], 1e-5, 1e-5)


@pytest.mark.parametrize(("dtype", "count"), [("i8", 0), ("ui8", 0), ("i16", 0), ("i32", 1), ("i64", 1)])
def test_indices_that_wrap_end_no_keys(dtype: str, count: int) -> None:
    row, column = symbol("row"), symbol("column")
    attrs = (("direction", "GE"), ("kind", "SIGNED"))
    keep = Call("i1", "compare", (Index(dtype, row), Index(dtype, column)), attrs)
    scores = Call("f32", "select", (keep, Var("f32", "score"), Const("f32", float("-inf"))))
    assert len(lines(scores, "row", "column", (symbol("s"), symbol("t")))) == count


def _jax(name: str) -> Graph:
    jax = pytest.importorskip("jax")
    jnp, export = jax.numpy, jax.export
    b, s, t = export.symbolic_shape("b,s,t")
    q, k = (jax.ShapeDtypeStruct((b, length, heads, 16), jnp.bfloat16) for length, heads in ((s, 4), (t, 2)))
    some = jax.nn.dot_product_attention
    if name == "causal":
        k = jax.ShapeDtypeStruct((b, s, 2, 16), jnp.bfloat16)
        made = export.export(jax.jit(lambda q, k, v: some(q, k, v, is_causal=True)))(q, k, k)
    elif name == "lengths":
        one = jax.ShapeDtypeStruct((b,), jnp.int32)
        made = export.export(jax.jit(lambda q, k, v, n: some(q, k, v, key_value_seq_lengths=n)))(q, k, k, one)
    elif name == "shared values":
        k = jax.ShapeDtypeStruct((b, t, 4, 16), jnp.bfloat16)
        v = jax.ShapeDtypeStruct((b, t, 16), jnp.bfloat16)
        made = export.export(
            jax.jit(
                lambda q, k, v: jnp.einsum(
                    "bhqk,bkd->bqhd",
                    jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32)).astype(jnp.bfloat16),
                    v,
                )
            )
        )(q, k, v)
    else:
        both = [jax.ShapeDtypeStruct((b, 4, s, t), kind) for kind in (jnp.bfloat16, jnp.bool_)]
        made = export.export(jax.jit(lambda q, k, v, x, y: some(q, k, v, bias=x, mask=y)))(q, k, k, *both)
    return egshape.load(made)


@pytest.mark.parametrize("name", ["causal", "lengths", "bias and mask", "shared values"])
def test_of_jax(name: str, small: None) -> None:
    """Grouped heads, masks and lengths as JAX writes them, before and after the optimizer."""
    graph = _jax(name)
    better = egshape.optimize(graph, validate=False, explain=False).graph
    for each in (graph, better):
        (found,) = attends(each)
        assert found.dtype == "bf16" and str(found.k) == str(found.width) == "16"
    rng, arrays = np.random.default_rng(0), []
    for value in better.inputs:
        shape = [size.evaluate(dict.fromkeys(size.symbols(), 9)) for size in value.type.dims]
        kind = numpy_dtype(value.type.dtype)
        arrays.append(
            (
                rng.integers(0, 2, shape)
                if value.type.dtype == "i1"
                else rng.integers(1, 9, shape)
                if value.type.dtype == "i32"
                else rng.normal(size=shape)
            ).astype(kind)
        )
    wanted = interpret(better, arrays)[0].astype(np.float64)
    np.testing.assert_allclose(np.asarray(emulated(better, 256)(*arrays)).astype(np.float64), wanted, 1e-1, 1e-1)


def test_of_onnx(tmp_path: Path) -> None:
    """The operator Attention, whose rows that are masked everywhere are 0; and its parts."""
    onnx = pytest.importorskip("onnx")
    helper, half = onnx.helper, onnx.TensorProto.FLOAT16
    q, k, v, mask = (
        helper.make_tensor_value_info(name, half, shape)
        for name, shape in (
            ("q", ["b", 4, "s", 16]),
            ("k", ["b", 2, "t", 16]),
            ("v", ["b", 2, "t", 16]),
            ("mask", ["s", "t"]),
        )
    )
    y = helper.make_tensor_value_info("y", half, None)
    node = helper.make_node("Attention", ["q", "k", "v", "mask"], ["y"], is_causal=1)
    model = helper.make_model(
        helper.make_graph([node], "g", [q, k, v, mask], [y]), opset_imports=[helper.make_opsetid("", 23)]
    )
    onnx.save(model, tmp_path / "attention.onnx")
    graph = egshape.optimize(egshape.load(tmp_path / "attention.onnx"), validate=False, explain=False).graph
    (found,) = attends(graph)
    rng = np.random.default_rng(0)
    shapes = (1, 4, 5, 16), (1, 2, 7, 16), (1, 2, 7, 16), (5, 7)
    arrays = [rng.normal(size=shape).astype(np.float16) for shape in shapes]
    arrays[3][2] = -np.inf
    wanted = interpret(graph, arrays)[0].astype(np.float64)
    found_ = np.asarray(emulated(graph, 256)(*arrays)).astype(np.float64)
    assert not wanted[:, :, 2].any() and found.dtype == "f16"
    np.testing.assert_allclose(found_, wanted, 5e-3, 5e-3)


def _changed(case: Case, name: str) -> Graph:
    """Attention with something that no softmax has between its products."""
    graph = case.graph()
    text = print_graph(graph)
    for old, new in _CHANGES[name]:
        assert old in text, (name, old)
        text = text.replace(old, new, 1)
    return parse_graph(text)


_CHANGES = {
    "the smallest is taken": [("maximum(", "minimum(")],
    "sums begin at 1": [("value=f32[]{0.0}", "value=f32[]{1.0}")],
    "no largest one to begin with": [("value=f32[]{-inf}", "value=f32[]{0.0}")],
    "another function": [("exponential(", "tanh(")],
    "the largest is added": [("subtract(", "add(")],
}


@pytest.mark.parametrize("name", _CHANGES)
def test_what_is_no_softmax_stays_as_it_is(name: str) -> None:
    assert len(attends(Case().graph())) == 1
    assert not attends(_changed(Case(), name))


# -- machine code -----------------------------------------------------------------------------------------------------


@pytest.mark.long_but("sm_90")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_machine_code(architecture: str, tmp_path: Path) -> None:
    """Matrix instructions, matrices read from shared memory at once, accesses of 16 bytes, no register in memory."""
    found = []
    for dtype, depth in (("f16", 64), ("bf16", 128)):
        graph = Case(dtype, "causal", last=True, depth=depth, width=depth).graph()
        (kernel,) = kernels(plan(graph, target="cuda").steps)
        every = _all(launches(kernel, lambda dim: 1024.0))
        found += [each for each in every if any(isinstance(stmt, Mma) for stmt in statements(each.kernel.body))]
    assert len(found) == 6
    try:
        code = cubin(source([printed(each, f"k{number}") for number, each in enumerate(found)]), architecture)
    except EgshapeError as error:
        if error.code != "dependency":
            raise
        pytest.skip(str(error))
    for number, text in enumerate(sass(code, tmp_path)):
        for wanted in ("HMMA.16816.F32", "LDSM.16.M88.4", "LDSM.16.MT88.4", "MUFU.EX2", "SHFL", "LDG.E.128"):
            assert wanted in text, (number, wanted)
        if found[number].narrow:
            kept = len(re.findall(r"\b(?:STL|LDL)\b", text))
            assert kept <= (20 if found[number].resident and architecture == "sm_90" else 0), (number, kept)


@pytest.mark.long_but("vit_patch")
@pytest.mark.parametrize("name", ["bert_plain", "vit_patch"])
def test_sample_models(name: str, shared_models: Path) -> None:
    device = Emulated()
    graph = egshape.optimize(egshape.load(shared_models / f"{name}.mlir"), validate=False, explain=False).graph
    check_model(compiled(graph, device), name, shared_models)
    assert any("attention" in each for each in device.launched) and not device.faults
