"""Exported programs: inputs, outputs, state, guards, files, and what is refused."""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import egshape
from egshape.errors import CheckFailed, EgshapeError, ParseError, Unsupported
from egshape.facts import Facts
from egshape.frontends.torch import guards
from egshape.frontends.torch.scope import Program, Scope
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from tests.frontends.torch.running import Call, exported, loaded, same, torch


class Counting(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Changes a buffer, and gives a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: Any, scale: Any = None) -> Any:
        self.seen.add_(1)
        return {"y": x * self.weight + self.seen, "size": x.sum(0)}


def test_inputs_outputs_and_state_are_named() -> None:
    graph = loaded(Counting(), (torch.ones(2, 3),), ((0,),))
    assert [each.name for each in graph.inputs] == ["x", "seen"]
    assert graph.output_names == ("y", "size", "seen.new")
    found = interpret(graph, [np.ones((1, 3), np.float32), np.full(1, 4, np.float32)])
    assert [each.tolist() for each in found] == [[[6, 6, 6]], [1, 1, 1], [5]]


def test_parameters_are_constants_on_torchs_memory() -> None:
    model = torch.nn.Linear(3, 4)
    graph = loaded(model, (torch.ones(2, 3),))
    held = [op.attrs["value"] for op in graph.ops if op.name == "constant"]
    for tensor in (model.weight, model.bias):
        assert any(np.shares_memory(each, tensor.detach().numpy()) for each in held)


def test_ops_bear_the_line_of_the_model() -> None:
    graph = loaded(Counting(), (torch.ones(2, 3),))
    (op,) = (op for op in graph.ops if op.name == "multiply")
    assert Path(op.location.file).name == "test_programs.py"
    assert op.location.line


def test_sizes_are_symbols_of_the_first_axis_that_has_them() -> None:
    graph = loaded(lambda x, y: x + y, (torch.ones(4, 3), torch.ones(4, 3)), ((0,), (0,)))
    assert [str(each.type) for each in graph.inputs] == ["f32[args_0.0, 3]", "f32[args_0.0, 3]"]


def test_a_derived_size_is_checked() -> None:
    half = torch.export.Dim("half", min=1)
    model = torch.nn.Unflatten(0, (-1, 2))
    program = torch.export.export(model, (torch.ones(6, 3),), dynamic_shapes=({0: 2 * half},))
    graph = egshape.load(program)
    assert [each.shape for each in interpret(graph, [np.ones((8, 3), np.float32)])] == [(4, 2, 3)]
    with pytest.raises(EgshapeError):
        interpret(graph, [np.ones((7, 3), np.float32)])


def test_bounds_of_the_author_are_checked_and_those_of_torch_are_none() -> None:
    batch = torch.export.Dim("batch", min=3, max=8)
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(4, 3),), dynamic_shapes=({0: batch},))
    graph = egshape.load(program)
    with pytest.raises(CheckFailed, match="takes 3 or more"):
        interpret(graph, [np.ones((2, 3), np.float32)])
    with pytest.raises(CheckFailed, match="8 at most"):
        interpret(graph, [np.ones((9, 3), np.float32)])
    free = loaded(torch.nn.ReLU(), (torch.ones(4, 3),), ((0,),))
    assert "check" not in [op.name for op in free.ops]
    assert interpret(free, [np.ones((1, 3), np.float32)])[0].shape == (1, 3)


def test_a_guard_is_a_check_as_in_torchs_own_module() -> None:
    def branch(x: Any) -> Any:
        return x * 2 if x.shape[0] % 2 == 0 else x * 3

    program = exported(branch, (torch.ones(4, 3),), ((0,),))
    graph = egshape.load(program)
    assert graph.metadata["notes"] == ()
    interpret(graph, [np.ones((6, 3), np.float32)])
    with pytest.raises(CheckFailed, match="the program was exported for"):
        interpret(graph, [np.ones((5, 3), np.float32)])


def test_guards_of_torch_are_where_they_are_read() -> None:
    """``_guards_code`` is private: this fails when a version of torch drops it."""
    program = exported(lambda x: x * (2 if x.shape[0] > 3 else 3), (torch.ones(4, 3),), ((0,),))
    assert any("size()" in each for each in program._guards_code)


@pytest.mark.parametrize(
    ("guard", "good", "bad"),
    [
        ("L['x'].size()[0] != 1 or L['x'].size()[1] == 3", [(1, 3), (2, 5)], [(1, 2)]),
        ("not (L['x'].size()[0] == 1 or L['x'].size()[1] >= 9)", [(2, 8), (0, 0)], [(1, 3), (2, 9)]),
        ("2 <= L['x'].size()[0] <= 4 and L['x'].size()[1] % 2 == 0", [(2, 2), (4, 0)], [(1, 2), (5, 2), (3, 1)]),
        ("(1 < L['x'].size()[0] < 4) or L['x'].size()[1] == 0", [(2, 3), (9, 0)], [(1, 1), (4, 4)]),
        ("True", [(1, 1)], []),
    ],
)
def test_a_guard_is_a_check(guard: str, good: Sequence[tuple[int, int]], bad: Sequence[tuple[int, int]]) -> None:
    program = Program()
    scope = Scope(program, BlockBuilder(decide=program.bounds.decide))
    value = scope.builder.arg("x", "f32", (None, None), ["a", "b"])
    assert guards.add(scope, [guard], {"x": value}) == []
    graph = Graph("g", scope.builder.finish([value]), ("y",), Facts(), {})
    for shape in good:
        interpret(graph, [np.zeros(shape, np.float32)])
    for shape in bad:
        with pytest.raises(CheckFailed, match="the program was exported for"):
            interpret(graph, [np.zeros(shape, np.float32)])


def test_what_no_road_can_read_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first reason is given; a road that can be read is taken."""
    from egshape.adapters import torch_roads

    calls = []

    def read(*given: Any) -> Any:
        calls.append(given)
        if len(calls) < 2:
            raise Unsupported("the first road")
        return graph

    module, given = torch.nn.ReLU(), (torch.ones(2, 3),)
    graph = loaded(module, given, [[0]])
    monkeypatch.setattr(torch_roads, "_read", read)
    assert egshape.torch.export(module, given, dynamic_shapes=({0: "n"},)) is graph and len(calls) >= 2
    monkeypatch.setattr(torch_roads, "_read", lambda *_: (_ for _ in ()).throw(Unsupported("none")))
    with pytest.raises(Unsupported, match="none"):
        egshape.torch.export(module, given, dynamic_shapes=({0: "n"},))


def test_an_assertion_is_a_check() -> None:
    def asserted(x: Any) -> Any:
        torch._check(x.shape[0] <= 8)
        count = x.sum().to(torch.int64).item()
        torch._check(count >= 2)
        return x * count

    graph = loaded(asserted, (torch.ones(2, 2),), ((0,),))
    assert interpret(graph, [np.ones((1, 2), np.float32)])[0].tolist() == [[2, 2]]
    with pytest.raises(CheckFailed):
        interpret(graph, [np.zeros((1, 2), np.float32)])


def test_what_data_tell_is_a_size() -> None:
    def picked(x: Any) -> Any:
        return x[x > 0].cumsum(0)

    graph = loaded(picked, (torch.tensor([1.0, -1.0, 2.0]),), ((0,),))
    for values in ([1.0, -1.0, 2.0], [-1.0], [3.0, 4.0]):
        same(graph, picked, (torch.tensor(values),))


@pytest.mark.parametrize("target", ["interpret", "llvm"])
def test_a_number_that_is_an_argument_may_be_negative(target: str) -> None:
    class Shifted(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, k: Any) -> Any:
            return x + k, x * (k - 2)

    dim = torch.export.Dim
    program = torch.export.export(Shifted(), (torch.ones(3), 5), dynamic_shapes=({0: dim.AUTO}, dim.DYNAMIC))
    function = egshape.compile(program, target=target)
    for k in (5, 0, -3):
        assert [each.tolist() for each in function(torch.ones(2), k)] == [[1 + k] * 2, [k - 2] * 2]


def test_what_has_no_lowering_is_a_call_of_torch() -> None:
    def grown(x: Any) -> Any:
        return torch.linalg.matrix_exp(x) + 1

    args = (torch.eye(3) * 2,)
    graph = loaded(grown, args)
    assert [name for name, _ in graph.metadata["host_calls"]] == ["aten.linalg_matrix_exp.default"]
    same(graph, grown, args)


def test_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    torch.export.save(exported(torch.nn.ReLU(), (torch.ones(4, 3),), ((0,),)), path)
    for found in (egshape.load(path), egshape.load(path.read_bytes())):
        assert found.metadata["format"] == "torch"
        assert [op.name for op in found.ops][-1] == "maximum"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ParseError, match=r"torch\.export\.save"):
        egshape.load(path)


@pytest.mark.long
def test_compiled_programs_equal_eager() -> None:
    pytest.importorskip("llvmlite")
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, 2, 1), torch.nn.BatchNorm2d(4), torch.nn.GELU(), torch.nn.AdaptiveAvgPool2d(2)
    ).eval()
    graph = loaded(model, (torch.ones(2, 3, 8, 8),), ((0,),))
    for batch in (2, 1, 5):
        same(graph, model, (torch.rand(batch, 3, 8, 8),), "llvm")


def test_export_takes_sizes_0_and_1() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Softmax(-1))
    graph = egshape.torch.export(model, (torch.ones(5, 2, 3),), dynamic_shapes=({0: "b", 1: "s"},))
    assert str(graph.inputs[0].type) == "f32[b, s, 3]"
    for sizes in ((5, 2), (1, 1), (0, 4), (3, 0)):
        same(graph, model, (torch.rand(*sizes, 3),))


def test_export_takes_the_sizes_of_its_example() -> None:
    """Of a size without a value torch decides that it is not 1; of the example it knows better."""

    def first_row(x: Any) -> Any:
        return x[:1].squeeze(0) * 2

    graph = egshape.torch.export(Call(first_row), [torch.randn(5, 4)], dynamic_shapes={"args": ({0: "n", 1: "m"},)})
    for sizes in ((5, 4), (1, 1), (3, 0)):
        same(graph, first_row, [torch.randn(sizes)])
    with pytest.raises(CheckFailed, match="an axis of size 0 was of size 1 to be there"):
        interpret(graph, [np.zeros((0, 2), np.float32)])
    (note,) = graph.metadata["notes"]
    assert "could not trace sizes without a value" in note and "was not to be there" in note


def test_export_refuses_names_of_no_argument() -> None:
    with pytest.raises(EgshapeError, match="'z', which is no argument"):
        egshape.torch.export(torch.nn.ReLU(), (torch.ones(2),), dynamic_shapes={"z": {0: "b"}})


@pytest.mark.long
def test_the_example_runs() -> None:
    root = Path(__file__).resolve().parents[3]
    runpy.run_path(str(root / "examples/torch_export.py"), run_name="__main__")
