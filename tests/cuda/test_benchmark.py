"""The CUDA benchmark on a device that is not there: every group runs, wrong results are rows, and what ends a process
ends one case."""

from __future__ import annotations

import json
import math
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.fresh import fresh

pytest.importorskip("llvmlite", reason="the host program is LLVM's (extra llvm)")
pytest.importorskip("jax", reason="the models are written in JAX (extra stablehlo)")

from benchmarks.cuda import __main__ as cuda
from benchmarks.cuda import bench as cuda_bench
from benchmarks.cuda import cases as cuda_cases
from benchmarks.cuda import checks, static, table, tune, weights
from benchmarks.cuda import groups as cuda_groups
from benchmarks.cuda import timed as cuda_timed
from benchmarks.cuda.rows import Broken, Context, Row
from egshape.adapters.cuda import compile_function
from egshape.ir.graph import Graph
from egshape.runtime.core.function import CompiledFunction
from tests.cuda.device import Emulated, image

MATRIX = ({"rows": 16, "width": 24}, {"rows": 5, "width": 7})
TEXTS = ({"batch": 2, "length": 8}, {"batch": 1, "length": 5})
SMALL: dict[str, dict[str, Any]] = {
    "softmax(x+b)": {"points": MATRIX},
    "column sums": {"points": MATRIX},
    "transpose f16": {"points": MATRIX[:1]},
    "encoder layer bf16": {"points": TEXTS, "options": {"layers": 1, "width": 32, "heads": 2}},
    "attention decode bf16": {"points": ({"batch": 2, "past": 9},), "options": {"heads": 2, "depth": 16, "causal": 0}},
    "attention f16": {"small": TEXTS, "points": TEXTS, "options": {"heads": 2, "depth": 16, "causal": 0}},
    "BERT-base f32": {
        "points": TEXTS[:1],
        "cycle": ("length", (3, 4, 5)),
        "draws": cuda_cases._ids(50, 3),
        "options": {"layers": 1, "width": 32, "heads": 2, "words": 50, "places": 16},
    },
    "28 inputs": {"small": ({"rows": 2, "width": 3},)},
    "tiny LLaMA": {
        "variants": cuda_cases.PLAIN,
        "small": ({"batch": 2, "past": 3},),
        "options": {"layers": 1, "width": 32, "heads": 4, "groups": 2, "inner": 48, "words": 50},
    },
}


def compiled(graph: Graph) -> CompiledFunction:
    """For the emulated device."""
    return compile_function(graph, ("sm_90",), make=image)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts of small cases of every group, and of an op."""
    where = tmp_path_factory.mktemp("cases")
    chosen = [replace(case, **SMALL[case.name]) for case in cuda_cases.CASES if case.name in SMALL]
    knobs = [
        tune.Knob("egshape.plan.gpu.turned:NARROW_SIDE", ("transpose f16", "missing"), (0.5, 1)),
        tune.Knob("egshape.plan.gpu.turned:MISSING", ("transpose f16",)),
    ]
    cuda_cases.make(where, [*chosen, *tune.cases(knobs, chosen)], compiled)
    checks.ops(where, compiled, ("tanh",), ("f32",))
    checks.programs(where, compiled, (20, 83))
    return where


def context(folder: Path, torch: Any = None, **options: Any) -> Context:
    """What groups run with, on a new device."""
    driver = Emulated().driver()

    def load(path: Path) -> cuda_bench.CudaFunction:
        found = cuda_bench.loaded(path)
        found._open = lambda: driver
        return found

    bench = cuda_bench.Bench(folder, driver, load, torch, "cpu", runs=2)
    return Context(bench, compiler={"backend": "eager"}, **{"keep": lambda _: None, **options})


def rows(found: Context, group: str) -> list[Row]:
    """The rows of a group, none of which says that something is wrong."""
    listed = [row for row in cuda.rows_of(found, group) if found.bench.torch is not None or "bf16" not in row.case]
    assert all(row.status == "ok" for row in listed), [row for row in listed if row.status != "ok"]
    return listed


@pytest.mark.long
@pytest.mark.parametrize("group", [each for each in cuda.ORDER if each not in ("streams", "sanitizer")])
@pytest.mark.parametrize("peers", ["alone", "torch"])
def test_groups(group: str, peers: str, folder: Path) -> None:
    torch = pytest.importorskip("torch", reason="peers are torch's") if peers == "torch" else None
    kept: list[str] = []
    listed = rows(context(folder, torch, keep=kept.append), group)
    text = table.report(listed)
    assert group == "check" or all(f"| {row.case} | {row.sizes} |" in text for row in listed), text
    if group == "bandwidth":
        assert [bool(row.values.get("ours facts")) for row in listed] == [True, False, True, False, True]
        assert all(row.values["of a copy"] > 0 for row in listed)
    if group == "tune":
        assert "turned:NARROW_SIDE: transpose f16 | rows 16 width 24 | NARROW_SIDE=32: " in text
    if group == "check":
        right = {row.case: row.values["right"] for row in listed if "right" in row.values}
        assert right["all other ops"] >= 1 and right["all other programs"] == 2
    if group in ("models", "attention"):
        assert any("a run" in text for text in kept), "the profile of a slow case is kept"
    assert listed or (peers, group) == ("alone", "gemm")
    if peers == "torch" and group not in ("check", "host", "tune"):
        timed = [row for row in listed if "new at each call" not in row.sizes]
        assert all(0 <= row.values["error"] < 1 for row in timed), timed


class Pretended:
    """torch, whose device is the emulated one: tensors are the host's, streams are the driver's."""

    def __init__(self, torch: Any, driver: Any) -> None:
        self._torch = torch
        self.cuda = SimpleNamespace(
            Stream=lambda: SimpleNamespace(cuda_stream=driver.made("cuStreamCreate", 0)),
            set_stream=lambda _: None,
            stream=lambda _: nullcontext(),
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    def from_dlpack(self, result: Any) -> Any:
        """A copy of a result."""
        return self._torch.from_numpy(np.array(result))


class Near(cuda_bench.Bench):
    """Takes the host's tensors for those of the device."""

    def call(self, function: cuda_bench.CudaFunction, out: Any = None) -> Any:
        """With numpy's arrays, which emulated programs take."""
        given = None if out is None else [np.asarray(each) for each in out]
        run = super().call(function, given)
        return lambda *items: run(*[np.asarray(each) for each in items])


def pretended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    """As if there were a device: what is asked of torch is asked of its processor's part."""
    torch = pytest.importorskip("torch", reason="it is torch that is pretended")
    monkeypatch.setattr(cuda_bench, "START", 512)
    monkeypatch.setattr(cuda_bench, "CACHE", 1024)
    plain = context(folder)
    bench = Near(folder, plain.bench.driver, plain.bench.load, Pretended(torch, plain.bench.driver), "cpu", 2, True)
    return replace(plain, bench=bench)


@pytest.mark.long
def test_what_runs_on_a_device_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = pretended(folder, monkeypatch)
    triton = SimpleNamespace(function=lambda kind, made: {"columns": lambda x: x.sum(0)}.get(kind))
    monkeypatch.setattr("benchmarks.cuda.triton", triton, raising=False)
    monkeypatch.setitem(sys.modules, "benchmarks.cuda.triton", triton)  # type: ignore[arg-type]
    listed = rows(found, "bandwidth")
    assert [row.case for row in listed if "triton/ours" in row.values] == ["column sums"] * 2
    assert all(row.values["error"] < 1e-3 for row in listed)
    listed = rows(found, "streams")
    assert [row.sizes for row in listed] == ["other producer", "other reader", "threads"] * 2
    rows(found, "host")


@pytest.mark.long
def test_bits_that_differ_are_noted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = pretended(folder, monkeypatch)
    monkeypatch.setattr(Near, "same", lambda *_: False)
    listed = rows(replace(found, compiler=None), "models")
    assert listed[0].note == "plain: bits differ from run to run"
    assert not any("compiled" in row.values for row in listed)


@pytest.mark.long
def test_streams_say_what_is_wrong(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = pretended(folder, monkeypatch)
    monkeypatch.setitem(cuda_groups.cuda_torch._FUNCTIONS, "columns", lambda torch, w, options: lambda x: x.sum(0) + 1)
    said = [row.note for row in cuda.rows_of(found, "streams") if row.status == "WRONG"]
    assert len(said) == 3 and all("from torch's" in each for each in said), said


def test_onnx_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="it is torch's model that is exported")
    taken: list[Any] = []

    class Session:
        def __init__(self, file: str, providers: Any) -> None:
            assert providers == ["CUDAExecutionProvider"]

        def get_outputs(self) -> Any:
            return [SimpleNamespace(name="out")]

        def io_binding(self) -> Any:
            return SimpleNamespace(bind_input=lambda *each: taken.append(each[:5]), bind_output=lambda *_: None)

        def run_with_iobinding(self, binding: Any) -> None:
            taken.append("run")

    runtime = SimpleNamespace(InferenceSession=Session, get_available_providers=lambda: ["CUDAExecutionProvider"])
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)  # type: ignore[arg-type]
    monkeypatch.setattr(torch.onnx, "export", lambda model, items, file, **_: taken.append(model(*items)))
    items = [torch.ones(2, 3), torch.ones(2, 1, dtype=torch.int32)]
    found = cuda_timed.cuda_torch.onnx_runtime(torch, lambda x, y: x + y, items)
    found["onnxruntime"](*items)
    assert taken[1:] == [("x0", "cuda", 0, "float32", (2, 3)), ("x1", "cuda", 0, "int32", (2, 1)), "run"]
    runtime.get_available_providers = list
    assert cuda_timed.cuda_torch.onnx_runtime(torch, None, items) == {}


@pytest.mark.long
def test_what_needs_torch_is_skipped(folder: Path) -> None:
    for group in ("streams", "gemm"):
        (row,) = cuda.rows_of(context(folder), group)
        assert row.status == "skipped" and "torch" in row.note


@pytest.mark.long
def test_wrong_results_are_rows(folder: Path, tmp_path: Path) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    cases = json.loads((tmp_path / "cases.json").read_text())
    stored = tmp_path / cases[0]["check"]
    with np.load(stored) as found:
        arrays = dict(found)
    arrays["2_out0"], arrays["2_wide0"] = arrays["2_out0"] + 1, arrays["2_wide0"] + 1
    np.savez(stored, **arrays)
    first, *others = cuda.rows_of(context(tmp_path), "check")
    assert first.status == "WRONG" and first.note.startswith("inputs [[5, 33], [33]], device=False: out0"), first
    assert all(row.status == "ok" for row in others if row.case != first.case)
    report = table.report([first, *others])
    assert "| check | softmax(x+b) |  | WRONG |" in report and "| check: all right |" in report


@pytest.mark.long
def test_timed_results_are_held_against_torch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="the reference is torch's")
    monkeypatch.setitem(cuda_timed.cuda_torch._FUNCTIONS, "columns", lambda torch, w, options: lambda x: x.sum(0) + 1)
    found = [row for row in cuda.rows_of(context(folder, torch), "bandwidth") if row.case == "column sums"]
    assert [row.status for row in found] == ["WRONG", "WRONG"], found
    assert "from exact" in found[0].note


@pytest.mark.long
def test_an_error_ends_a_case(folder: Path) -> None:
    found = context(folder)

    def fails(*_: object) -> float:
        raise ValueError("no time\nfor this")

    found.bench.seconds = fails  # type: ignore[method-assign]
    listed = list(cuda.rows_of(found, "bandwidth"))
    assert [row.note for row in listed] == ["ValueError: no time for this"] * 3


@pytest.mark.long
def test_an_error_that_ends_the_device_ends_the_process(folder: Path, tmp_path: Path) -> None:
    store, begun = cuda.Store(tmp_path), list[str]()
    found = context(folder, began=begun.append)
    found.bench.healthy = lambda: False  # type: ignore[method-assign]
    found.bench.copy_rate = lambda _: math.sqrt(-1)  # type: ignore[method-assign]
    assert cuda.run_group(found, "bandwidth", store) == cuda.BROKEN
    assert len(begun) == 1 and [row.status for row in store.rows()] == ["error"]
    with pytest.raises(Broken):
        list(found.guarded("bandwidth", "x", iter(lambda: math.sqrt(-1), None)))


def test_groups_in_processes(tmp_path: Path) -> None:
    """A group goes on behind what ended its process; one that gets nowhere is left."""
    store, calls = cuda.Store(tmp_path), list[tuple[str, tuple[str, ...]]]()

    def spawn(group: str, seconds: float, done: Any) -> int:
        calls.append((group, tuple(done)))
        assert 0 < seconds <= 60
        if group == "check" and not done:
            store.began(group, "one")
            return -11
        if group == "check":
            store.add(Row("check", "two"))
            return 0
        return 1

    cuda.run(store, ["check", "bandwidth", "models"], 60, spawn)
    assert calls == [("check", ()), ("check", ("one",)), ("bandwidth", ()), ("models", ())]
    notes = [(row.case, row.note) for row in store.rows() if row.status == "error"]
    assert notes == [
        ("one", "its process ended with code -11"),
        ("bandwidth", "its process ended with code 1"),
        ("models", "its process ended with code 1"),
    ]
    assert "| check: all right | 1 of 2 | | one  |" in (tmp_path / "table.md").read_text()
    cuda.run(store, ["host"], 1, spawn)
    assert store.rows()[-1].note == "no time is left"


@pytest.mark.long
def test_a_process_of_its_own(folder: Path, tmp_path: Path) -> None:
    """Where there is no driver, the log says so."""
    assert cuda.spawned(folder, tmp_path)("host", 60, ()) == 2
    assert "error: there is no CUDA driver" in (tmp_path / "log.txt").read_text()


@pytest.mark.long
def test_the_sanitizer(folder: Path, tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.write_text('#!/bin/sh\necho "== ERROR SUMMARY: 1 error"\n[ "$2" = racecheck ] && exit 9\nexit 0\n')
    program.chmod(0o755)
    kept: list[str] = []
    found = list(cuda_groups.sanitizer(context(folder, keep=kept.append), str(program)))
    assert [row.status for row in found] == ["ok", "WRONG", "ok", "ok"] and "exit 9" in found[1].note
    assert len(kept) == len(cuda_groups.TOOLS)
    missing = list(cuda_groups.sanitizer(context(folder), str(tmp_path / "missing")))
    assert {row.status for row in missing} == {"skipped"}
    late = list(cuda_groups.sanitizer(context(folder, until=time.monotonic() + 5), str(program)))
    assert late[0].note == "no time is left"
    assert cuda_groups.sample(context(folder).bench) == []


def test_weights_are_drawn_again(tmp_path: Path) -> None:
    options = {"layers": 1, "width": 16, "heads": 2, "words": 5, "places": 4}
    made = weights.weights("bert", options)
    first, *_ = made.values()
    assert first.array().shape == (5, 16) and abs(first.array()).max() <= 0.5
    assert first.array().tobytes() == weights.Weight(0, (5, 16), 0.5).array().tobytes()
    assert made["first"].array().mean() > 0.9 and not np.array_equal(made["0.q"].array(), made["0.k"].array())


def test_artifacts_without_their_weights(tmp_path: Path) -> None:
    options = {"layers": 1, "width": 32, "heads": 2}
    graph = cuda_cases.cuda_models.build("layer", "f32", options)
    made = list(weights.weights("layer", options).values())
    path = tmp_path / "layer.egx"
    compiled(graph).save(path)
    whole = path.read_bytes()
    with pytest.raises(ValueError, match="is no weight"):
        weights.hollow(path, made[1:], np.float32, 0)
    assert weights.hollow(path, made, np.float32)["drawn"] >= 6
    assert path.stat().st_size < len(whole) / 2
    again = weights.filled(path, tmp_path / "again.egx")
    exact = path.with_name("exact.egx")
    exact.write_bytes(whole)
    one, two = (
        weights._constants(each, count)
        for each in (again, exact)
        for count in [len(cuda_bench.loaded(exact)._constants)]
    )
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert weights.filled(exact, tmp_path / "other.egx") == exact


def test_the_runtime_side_needs_numpy_alone() -> None:
    """The machine with the GPU has no egglog, pydantic or jax of ours."""
    blocked = ("egglog", "ml_dtypes", "pydantic", "jax", "jaxlib", "llvmlite", "onnx", "rich", "typer", "psutil")
    code = (
        "import sys\nclass Block:\n    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {blocked!r}: raise ImportError(name)\n"
        "sys.meta_path.insert(0, Block())\nimport benchmarks.cuda.__main__\n"
    )
    fresh(code)


def test_a_program_that_no_artifact_holds_is_left_out(tmp_path: Path) -> None:
    count, refused = checks.ops(tmp_path, compiled, ("real",), ("f32",))
    assert (count, refused) == (0, ["real-f32"])


def test_facts_and_symbols() -> None:
    by_name = {case.name: case for case in cuda_cases.CASES}
    assert len(by_name) == len(cuda_cases.CASES)
    case = by_name["column sums"]
    graph, inputs = case.build(), case.inputs()
    assert cuda_cases._in_symbols("width % 8 == 0", graph, inputs) == "arg0.1 % 8 == 0"
    attention = by_name["attention f16"]
    told = cuda_cases.optimized(attention, cuda_cases.Variant(), attention.build()).facts
    assert told.symbol("length").likely == (2048,) and told.symbol("batch").likely == (8,)
    assert cuda_cases._divisibility("rows % 8 == 0") == ("rows", 8)
    assert {case.group for case in cuda_cases.CASES} <= set(cuda.ORDER)


def test_goals() -> None:
    values = {"of a copy": 0.9, "bytes": 1 << 30, "compiled/ours": 0.5, "triton/ours": math.nan}
    text = table.report(
        [
            Row("bandwidth", "chain", "rows 8 width 64", values=values),
            Row("bandwidth", "chain", "rows 8 width 63", values={**values, "of a copy": 0.6}),
        ]
    )
    assert "| 85 % of a copy's rate, large sizes that divide | 1 of 1 | 0.9 | chain rows 8 width 64 |" in text
    assert "| 70 % of a copy's rate, large odd sizes | 0 of 1 | 0.6 |" in text
    assert "| as fast as torch.compile(dynamic=True) | 0 of 2 | 0.5 |" in text and "not measured" in text


def test_constants_are_changed_where_they_are_read() -> None:
    name = "egshape.plan.gpu.turned:SIDE"
    before = [(module, own, getattr(module, own)) for module, own in cuda_cases.readers(*name.split(":"))]
    assert before and not cuda_cases.readers("egshape.plan.gpu.turned", "MISSING")
    with cuda_cases.applied(cuda_cases.Variant(switches={"EGSHAPE_X": "1"}, constants={name: 7})):
        assert all(getattr(module, own) == 7 for module, own, _ in before)
    assert all(getattr(module, own) == value for module, own, value in before)


def test_what_is_tried() -> None:
    known = [knob for knob in tune.KNOBS if knob.values()]
    assert known, "the constants have other names now"
    assert all({knob.name.partition(":")[2]} == {name.partition("=")[0] for name in knob.values()} for knob in known)
    assert {name for knob in tune.KNOBS for name in knob.cases} <= {case.name for case in cuda_cases.CASES}
    missing = [knob.name for knob in tune.KNOBS if not knob.values()]
    assert not missing, f"no such constants: {missing}"


def test_blocks_on_a_multiprocessor() -> None:
    machine = static.MACHINES["sm_90"]
    assert machine.resident(256, 32, 0) == 8, "threads bound it"
    assert machine.resident(256, 168, 0) == 1, "registers: 168 * 32 = 21 pieces of 256, 8 warps, 43008 of 65536"
    assert machine.resident(32, 16, 0) == 32, "blocks"
    assert machine.resident(128, 32, 100 << 10) == 2, "shared memory"


def test_programs_of_files_and_cases(tmp_path: Path) -> None:
    path = tmp_path / "turned.mlir"
    path.write_text(
        "func.func @main(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {\n"
        "  %y = stablehlo.transpose %x, dims = [1, 0] : (tensor<?x?xf32>) -> tensor<?x?xf32>\n"
        "  return %y : tensor<?x?xf32>\n}\n"
    )
    found = {name: graph for name, graph, _ in static.programs([path], "column sums")}
    assert list(found) == ["turned", "column sums", "column sums facts", "column sums blind"]
    facts = {name: str(found[name]().facts) for name in found}
    assert "1024" in facts["column sums"] and "1024" not in facts["column sums blind"]
    assert not list(static.programs([], None))


def test_what_is_known_of_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "cubins", lambda functions, architecture: b"image")
    functions, image_bytes = static.compiled(cuda_cases.graphs.build("transpose", "f32", {}), "sm_90")
    (name, *_) = [each.kernel.name for each in functions]
    (row, *_) = static.static(functions, b"", "sm_90")
    assert row.registers is None and "?" in static.cells("model", row)
    texts = {
        "cuobjdump": f"Function {name}:\n  REG:40 STACK:8 SHARED:512 LOCAL:0\n",
        "nvdisasm": f"\t.section x\n.text.{name}:\n  /*0000*/  LDG.E.128 R1;\n /*0010*/ STS.128 [R2];\n"
        " /*0020*/ @P0 LDG.E R3;\n /*0030*/ BAR.SYNC 0;\n /*0040*/ STL R4;\n /*0050*/ NOP;\n",
    }
    monkeypatch.setattr(static, "_tool", lambda tool, *_, image: texts[tool])
    found = {row.name: row for row in static.static(functions, image_bytes, "sm_90")}[name]
    assert (found.registers, found.stack) == (40, 8) and found.shared >= 512 and found.resident
    counts = {kind: count for kind, count in found.counts.items() if count}
    assert counts == {"16-byte": 2, "BAR": 1, "spills": 1, "instructions": 5}
    cells = static.cells("model", found)
    assert cells[:4] == ("model", name, str(found.threads), "40")
    said = f"\nsm_90\n\n| {' | '.join(static.HEAD)} |\n|{'---|' * len(static.HEAD)}\n| {' | '.join(cells)} |\n"
    before = static.earlier(said)
    assert list(before) == [("sm_90", "model", name)] and static.changed(cells, cells) is None
    more = (*cells[:3], "41", *cells[4:])
    assert static.changed(more, before["sm_90", "model", name]) == (*cells[:3], "40 -> 41", *cells[4:])
    assert static.changed(cells, None) == (*cells[:2], f"new: {cells[2]}", *cells[3:])
