"""What the Python API says to a first, wrong try."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import egshape
import egshape.api
from egshape.cli import main
from egshape.errors import EgshapeError
from egshape.ir.text import parse_graph
from egshape.ops import REGISTRY

TEXT = """graph f(%x: f32[n, 4]) {
  symbols n = size(%x, 0)
  %t: f32[n, 4] = negate(%x)
  return %t as y
}"""


@pytest.fixture(scope="module")
def graph() -> egshape.Graph:
    return parse_graph(TEXT)


def test_something_else_than_a_graph_is_named() -> None:
    with pytest.raises(EgshapeError, match=r"takes a Graph or a Result, got a str.*egshape.load"):
        egshape.save("model.mlir", "x.mlir")  # type: ignore[arg-type]


@pytest.mark.parametrize("call", [egshape.load, egshape.optimize, egshape.compile])
def test_what_is_no_model_is_named(call: Callable[[Any], object]) -> None:
    with pytest.raises(EgshapeError, match=r"cannot load a list \(give a path, bytes, "):
        call([1])
    with pytest.raises(EgshapeError, match=r"no\.mlir: cannot be read: No such file"):
        call("no.mlir")
    with pytest.raises(EgshapeError, match=r"cannot load a function \(export a function of JAX first"):
        call(lambda x: x)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "metal"}, "the target 'metal' is not there yet"),
        ({"facts": egshape.Facts()}, "go to assume"),
        ({"target": "llvm", "architectures": ("sm_90",)}, "architectures go with target='cuda'"),
    ],
)
def test_wrong_options_are_named_before_the_work(options: dict[str, Any], message: str) -> None:
    with pytest.raises(EgshapeError, match=message):
        egshape.compile("no.mlir", **options)


def test_a_result_is_not_optimized_again(graph: egshape.Graph) -> None:
    result = egshape.optimize(graph)
    with pytest.raises(EgshapeError, match=r"cannot load a Result \(give its .graph, or its .source\)"):
        egshape.optimize(result)
    with pytest.raises(EgshapeError, match="a Result was optimized before"):
        egshape.compile(result, assume="n % 8 == 0")


def forms(graph: egshape.Graph, folder: Path) -> dict[str, Any]:
    """The same program in everything that ``compile`` takes."""
    import jax
    import onnx
    from jax import export

    (n,) = export.symbolic_shape("n")
    text, model = folder / "f.mlir", folder / "f.onnx"
    egshape.save(graph, text)
    egshape.save(graph, model)
    return {
        "graph": graph,
        "result": egshape.optimize(graph),
        "path": text,
        "text of a path": str(model),
        "bytes": text.read_bytes(),
        "ModelProto": onnx.load(model),
        "Exported": export.export(jax.jit(lambda x: -x))(jax.ShapeDtypeStruct((n, 4), np.float32)),
    }


def test_everything_that_is_a_model_compiles(graph: egshape.Graph, tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    for what, model in forms(graph, tmp_path).items():
        np.testing.assert_array_equal(egshape.compile(model)(x), -x, err_msg=what)
        if what != "result":
            assert isinstance(egshape.optimize(model), egshape.Result), what
            np.testing.assert_array_equal(egshape.api.run(egshape.load(model), [x])[0], -x)
    model = (tmp_path / "f.onnx").read_bytes()
    np.testing.assert_array_equal(egshape.compile(model, format="onnx")(x), -x)
    with pytest.raises(EgshapeError, match="optimize=False was given"):
        egshape.compile(model, format="onnx", optimize=False, rules="none.egg")


TWICE = TEXT.replace("return %t", "%u: f32[n, 4] = negate(%t)\n  return %u")


def test_what_is_compiled_is_optimized_once_if_at_all() -> None:
    def kept(made: Any) -> list[str]:
        return [op.name for op in made.graph.ops]

    twice = parse_graph(TWICE)
    result = egshape.optimize(twice)
    assert kept(egshape.compile(twice, "interpret", optimize=False)) == ["negate", "negate"]
    assert kept(egshape.compile(twice, "interpret")) == kept(result) == []
    assert not twice.optimized and result.graph.optimized
    for again in (result, result.graph):
        assert egshape.compile(again, "interpret").graph is result.graph
    some = egshape.compile(result.graph, "interpret", assume="n <= 8")
    assert kept(some) == ["check"]
    with pytest.raises(EgshapeError, match="n <= 8"):
        some(np.zeros((9, 4), np.float32))


@pytest.fixture
def bodiless() -> Iterator[str]:
    """The name of an op that only Python computes."""

    @egshape.custom_op("bodiless", operands=("x",), elementwise=True)
    class _Bodiless:
        def shape(x):  # type: ignore[no-untyped-def]
            return x

        def reference(x):  # type: ignore[no-untyped-def]
            return x + 1

    yield "bodiless"
    REGISTRY.drop("bodiless")


def test_a_graph_that_native_code_cannot_hold_is_interpreted(bodiless: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llvmlite")
    text = TEXT.replace("negate", bodiless)
    with pytest.warns(RuntimeWarning, match=r"bodiless has no body.*; the graph is interpreted") as caught:
        found = egshape.compile(parse_graph(text))(np.zeros((2, 4), np.float32))
    assert caught[0].filename == __file__ and (found == 1).all()
    with pytest.raises(EgshapeError, match="bodiless has no body"):
        egshape.compile(parse_graph(text), "llvm")
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    with pytest.warns(RuntimeWarning, match=r"llvmlite is not installed \(pip install .*; the graph is interpreted"):
        assert isinstance(egshape.compile(parse_graph(TEXT)), egshape.api.Compiled)
    with pytest.raises(EgshapeError, match="llvmlite is not installed"):
        egshape.compile(parse_graph(TEXT), "llvm")


def test_what_is_interpreted_has_no_artifact(graph: egshape.Graph) -> None:
    with pytest.raises(EgshapeError, match=r"x\.egx: is interpreted, .*target='llvm'"):
        egshape.compile(graph, "interpret").save("x.egx")


def test_printed_is_what_the_commands_print(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "f.mlir")
    egshape.save(parse_graph(TWICE), path)
    result = egshape.optimize(path, assume="x.0 % 8 == 0")
    for command, told in (
        (("x.0", "%0.0"), result.explain("x.0", "%0.0")),
        (("x.0 % 4 == 0",), None),
        (("x.0", "x.1"), result.explain("x.0", "x.1")),
        (("%0",), result.explain_value("%0")),
    ):
        main(["explain", path, *command, "--assume", "x.0 % 8 == 0"])
        assert capsys.readouterr().out == f"{told or result.explain_fact('x.0 % 4 == 0')}\n"
    main(["prove", "a*b == b*a"])
    assert capsys.readouterr().out == f"{egshape.prove('a*b == b*a')}\n"
    main(["optimize", path, "--assume", "x.0 % 8 == 0"])
    shown = capsys.readouterr().out.splitlines()
    for told, counted in ((result, "2 statements -> 4 statements"), (result.report, "2 ops -> 1 ops")):
        first, *rest = str(told).splitlines()
        assert first.startswith(f"f: {counted} (saturated, ") and rest[-1] in shown  # the checks
    assert shown[0].startswith("f: 2 statements -> 4 statements ")  # as the file has them, here too
    assert repr(result.source).endswith(", 2 statements>")
    assert repr(result) == f"<Result for {str(result).splitlines()[0]}>"
    assert repr(result.graph) == "<Graph f: (x: f32[x.0, 4]) -> (f32[x.0, 4]), 1 ops>"
    table = str(egshape.api.shapes_table(result.source)).splitlines()
    assert table[0].split() == ["value", "op", "type", "from", "location"] and len(table) == 4


def test_notes_are_printed(graph: egshape.Graph) -> None:
    report = egshape.optimize(graph).report.model_copy(update={"notes": ("one", "two")})
    assert str(report).endswith("\nnote: one\nnote: two")


def test_the_axis_of_an_inner_value(graph: egshape.Graph) -> None:
    result = egshape.optimize(graph)
    with pytest.raises(EgshapeError, match=r"no size 't\.0' \(an axis of a value inside is written %t\.0\)"):
        result.explain("t.0", "n")
    assert result.explain("%t.0", "n").status == "proved"


def test_one_fact_needs_no_list(graph: egshape.Graph) -> None:
    assert egshape.optimize(graph, assume="n % 8 == 0").facts.assumed == ("n % 8 == 0",)
    assert egshape.prove("n % 4 == 0", given="n % 8 == 0").status == "proved"
    with pytest.raises(EgshapeError, match=r"no\.egg"):
        egshape.optimize(graph, rules="no.egg")


def test_types_of_compiled_functions(graph: egshape.Graph, tmp_path: Path) -> None:
    """What a compiled function has beside its call; ``egshape/commands/viz.py`` holds the overloads to it."""
    pytest.importorskip("llvmlite")
    fn = egshape.compile(graph, target="llvm")
    fn.save(tmp_path / "f.egx")
    assert fn.profile(np.ones((2, 4), np.float32)).runs == 10
    assert "f32[n, 4]" in repr(fn)
    assert "f32[n, 4]" in repr(egshape.compile(graph))
    assert "f32[n, 4]" in repr(egshape.runtime.load(tmp_path / "f.egx"))


@pytest.mark.parametrize("text", [b"graph g(%x: f32[n]) { symbols n = size(%x, 0)  return %x as y }", b"graph g("])
@pytest.mark.parametrize("on", [True, False])
def test_loading_leaves_the_collector_as_it_was(text: bytes, on: bool) -> None:
    (gc.enable if on else gc.disable)()
    try:
        with contextlib.suppress(egshape.EgshapeError):
            egshape.load(text, "egs")
        assert gc.isenabled() == on
    finally:
        gc.enable()
