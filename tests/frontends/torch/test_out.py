"""Graphs as modules of torch and as files that torch loads: both compute what the graph does, and refuse what it
refuses."""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import egshape
from egshape.errors import CheckFailed, EgshapeError, Unsupported
from egshape.facts import Facts
from egshape.frontends.frontend import kept_whole
from egshape.frontends.torch.registry import COMPOSITES
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from egshape.ir.points import points_of
from egshape.validate import inputs_at
from tests.behaviours.programs import Program
from tests.frontends.torch.networks import NETWORKS
from tests.frontends.torch.running import exported, tensors_of, torch
from tests.frontends.torch.test_programs import Counting
from tests.fuzz.engine import program
from tests.lower.test_updates import PLACES, windows

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def results_of(found: Any) -> list[Any]:
    """The results of a module in order."""
    return list(found.values()) if isinstance(found, dict) else list(found) if isinstance(found, tuple) else [found]


def compared(graph: Graph, most: int = 8) -> int:
    """At how many points the module of a graph gives what the interpreter gives, or refuses what that refuses."""
    module, ran = egshape.torch.module(graph), 0
    for number, point in enumerate(islice(points_of(graph, graph, graph.facts), most)):
        arrays = inputs_at(graph, point, number)
        if arrays is None:
            continue
        wanted: list[np.ndarray] | None = None
        try:
            with np.errstate(all="ignore"):
                wanted = interpret(graph, arrays)
        except CheckFailed:
            pass
        except EgshapeError:
            continue
        tensors = [torch.from_numpy(np.array(array)) for array in arrays]
        ran += 1
        if wanted is None:
            with pytest.raises((RuntimeError, IndexError, EgshapeError)):
                module(*tensors)
            continue
        try:
            found = results_of(module(*tensors))
        except RuntimeError as error:  # torch has no convolution without features
            assert "at least 1 at dimension 0" in str(error), error
            continue
        if point.data != "plain":
            continue  # sums of the largest floats are infinite in one order, and not in another
        for one, two in zip(wanted, found, strict=True):
            assert two.numpy().dtype == one.dtype
            assert two.shape == one.shape, point.sizes
            np.testing.assert_allclose(two.numpy(), one, rtol=1e-4, atol=1e-5, equal_nan=True)
    return ran


def equal(module: Any, other: Any, args: Sequence[Any]) -> None:
    """Two modules give the same."""
    with torch.no_grad():
        pairs = list(zip(tensors_of(module(*args)), tensors_of(other(*args)), strict=True))
    for one, two in pairs:
        assert (one.dtype, one.shape) == (two.dtype, two.shape)
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5, equal_nan=True)


# -- modules -----------------------------------------------------------------------------------------------------------


@pytest.mark.long_but("convolutions", "counted", "lstm", "mixture")
@pytest.mark.parametrize("name", NETWORKS)
def test_the_module_of_a_network_gives_what_the_network_gives(name: str) -> None:
    make, args, axes, sizes = NETWORKS[name]
    model = make().eval()
    program = exported(model, args(*sizes[0]), axes)
    for whole in (False, True):
        with kept_whole(whole):
            graph = egshape.load(program)
        for each in (graph, egshape.optimize(graph)):
            module = egshape.torch.module(each)
            for point in sizes:
                equal(model, module, args(*point))


@pytest.mark.long_but("0", "3")
@pytest.mark.parametrize("part", range(8))
def test_random_programs_are_the_same_as_modules(part: int) -> None:
    ran = 0
    for seed in range(10 * part, 10 * part + 10):
        graph = program(seed)[1]
        try:
            ran += compared(graph)
            ran += compared(egshape.optimize(graph, validate=False).graph)
        except Unsupported as error:
            assert "has no form in torch" in error.message
        except EgshapeError as error:
            assert error.code in ("violated", "contradiction")
    assert ran > 10


@pytest.mark.long
@pytest.mark.parametrize("name", ["ten.mlir", "encoder.mlir", "decode.mlir", "features/blocks.mlir"])
def test_programs_of_jax_are_the_same_as_modules(name: str) -> None:
    graph = egshape.load(EXAMPLES / name)
    assert compared(graph, 4)
    assert compared(egshape.optimize(graph).graph, 4)


def test_constants_share_memory_and_names() -> None:
    model = torch.nn.Linear(3, 4)
    module = egshape.torch.module(egshape.load(exported(model, (torch.ones(2, 3),), ((0,),))))
    held = dict(module.named_buffers())
    assert held.keys() == {"weight", "bias"}
    assert held["weight"].data_ptr() == model.weight.data_ptr()


def test_a_module_is_trained_as_eager_is() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))
    graph = egshape.torch.export(model, (torch.rand(4, 3),), dynamic_shapes=({0: "b"},), trained=True)
    module = egshape.torch.module(egshape.optimize(graph))
    assert [name for name, _ in module.named_parameters()] == [name for name, _ in model.named_parameters()]
    for batch in (5, 1, 0):
        x = torch.rand(batch, 3)
        found = []
        for each in (model, module):
            model.zero_grad()
            each(x).square().sum().backward()
            found.append([parameter.grad.clone() for parameter in model.parameters()])
        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


def test_a_buffer_that_changes_is_the_models() -> None:
    model, other = Counting(), Counting()
    graph = egshape.torch.export(model, (torch.ones(2, 3),), dynamic_shapes={"x": {0: "b"}})
    module = egshape.torch.module(egshape.optimize(graph))
    for _ in range(3):
        equal(other, module, (torch.ones(2, 3),))
    assert module.seen is model.seen
    assert model.seen.item() == 3


def test_the_old_value_of_a_buffer_is_no_view_of_it() -> None:
    class Swapped(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("one", torch.zeros(2))
            self.register_buffer("two", torch.ones(2))

        def forward(self, x: Any) -> Any:
            one, two = self.one.clone(), self.two.clone()
            self.one.copy_(two)
            self.two.copy_(one + x)
            return one

    graph = egshape.torch.export(Swapped(), (torch.ones(2),))
    module, other = egshape.torch.module(graph), Swapped()
    for _ in range(3):
        equal(other, module, (torch.ones(2),))


def test_arguments_that_do_not_fit_are_refused() -> None:
    made = Program()
    x, y = made.input("x", ["n", 2]), made.input("y", ["n", 2])
    module = egshape.torch.module(made.graph(made.one("add", (x, y))))
    assert module(y=torch.ones(3, 2), x=torch.ones(3, 2)).shape == (3, 2)
    for args, kwargs, message in (
        ((torch.ones(3, 2), torch.ones(4, 2)), {}, "n is 3"),
        ((torch.ones(3, 1), torch.ones(3, 2)), {}, "2 is 2"),
        ((torch.ones(3, 2, dtype=torch.int64), torch.ones(3, 2)), {}, "got i64"),
        ((torch.ones(3, 2),), {}, "takes x, y"),
        ((torch.ones(3, 2),), {"z": torch.ones(3, 2)}, "takes x, y"),
    ):
        with pytest.raises(EgshapeError, match=message):
            module(*args, **kwargs)


def test_a_check_keeps_its_message() -> None:
    def asserted(x: Any) -> Any:
        torch._check(x.shape[0] <= 8, lambda: "at most eight rows")
        torch._check(x.sum().to(torch.int64).item() >= 2, lambda: "no less than two")
        return x * 2

    module = egshape.torch.module(egshape.load(exported(asserted, (torch.ones(2, 2),), ((0,),))))
    assert module(torch.ones(1, 2)).tolist() == [[2, 2]]
    for rows in (9, 0):
        with pytest.raises(RuntimeError, match="8 at most" if rows else "u0 >= 2|x.sum"):
            module(torch.ones(rows, 2))


@pytest.mark.parametrize("kind", ["ArgMax", "ArgMin"])
def test_a_reduction_by_a_function_of_its_own_is_a_loop(kind: str, tmp_path: Path) -> None:
    helper = pytest.importorskip("onnx").helper
    ports = [helper.make_tensor_value_info("x", 1, ["a", "b", 3]), helper.make_tensor_value_info("y", 7, None)]
    body = helper.make_graph([helper.make_node(kind, ["x"], ["y"], axis=1)], "arg", ports[:1], ports[1:])
    graph = egshape.load(helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    assert compared(graph) > 3
    egshape.save(graph, tmp_path / "m.pt2")
    x = torch.rand(2, 5, 3)
    wanted = (x if kind == "ArgMax" else -x).argmax(1, keepdim=True)
    assert torch.equal(torch.export.load(tmp_path / "m.pt2").module()(x)["y"], wanted)


def test_an_op_without_a_form_is_named() -> None:
    made = Program()
    x = made.input("x", ["n"], "i32")
    with pytest.raises(Unsupported, match="the op popcnt has no form in torch"):
        egshape.torch.module(made.graph(made.one("popcnt", (x,))))


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(EgshapeError, match="a Graph or a Result"):
        egshape.torch.module("model.pt2")


INTEGERS = [-(2**31), -7, -1, 0, 1, 7, 2**31 - 1]


@pytest.mark.parametrize("op", ["divide", "remainder"])
def test_integers_divide_as_the_interpreter_divides(op: str) -> None:
    made = Program()
    x, y = made.input("x", ["n"], "i32"), made.input("y", ["n"], "i32")
    graph = made.graph(made.one(op, (x, y)))
    pairs = [np.array(each, np.int32).reshape(-1) for each in np.meshgrid(INTEGERS, INTEGERS)]
    found = egshape.torch.module(graph)(*map(torch.from_numpy, pairs))
    assert found.tolist() == interpret(graph, pairs)[0].tolist()


@pytest.mark.parametrize("dtype", ["i8", "ui8", "i32", "i64"])
def test_floats_that_are_no_integers_stop_at_the_ends(dtype: str) -> None:
    made = Program()
    graph = made.graph(made.one("convert", (made.input("x", ["n"]),), {"dtype": dtype}))
    values = np.array([-np.inf, -3e19, -129.5, -1.5, 0, 0.5, 127.5, 256, 2.0**31, 3e19, np.inf, np.nan], np.float32)
    assert egshape.torch.module(graph)(torch.from_numpy(values)).tolist() == interpret(graph, [values])[0].tolist()


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.long_but("convolutions", "masked")
@pytest.mark.parametrize("name", NETWORKS)
def test_torch_loads_the_file_of_a_network(name: str, tmp_path: Path) -> None:
    make, args, axes, sizes = NETWORKS[name]
    model = make().eval()
    result = egshape.optimize(exported(model, args(*sizes[0]), axes))
    assert egshape.save(result, tmp_path / "net.pt2") == ()
    loaded = torch.export.load(tmp_path / "net.pt2").module()
    for point in sizes:
        equal(model, loaded, args(*point))


@pytest.mark.long_but("counted", "masked")
@pytest.mark.parametrize("name", NETWORKS)
def test_calls_of_torch_go_out_as_they_came(name: str, tmp_path: Path) -> None:
    make, args, axes, sizes = NETWORKS[name]
    model = make().eval()
    program = exported(model, args(*sizes[0]), axes)
    with kept_whole():
        graph = egshape.load(program)
    egshape.save(graph, tmp_path / "net.pt2")
    loaded = torch.export.load(tmp_path / "net.pt2")
    for point in sizes:
        equal(model, loaded.module(), args(*point))
    calls = {str(node.target) for node in program.run_decompositions({}).graph.nodes if node.op == "call_function"}
    kept = {f"aten.{each}" for each in COMPOSITES}
    if name not in ("picked", "convolutions"):  # torch takes a pool and a norm apart before; a mask is places
        assert calls & kept <= {str(node.target) for node in loaded.graph.nodes}
    again = egshape.torch.module(egshape.load(tmp_path / "net.pt2"))
    for point in sizes:
        equal(model, again, args(*point))


def test_names_and_buffers_are_in_the_file(tmp_path: Path) -> None:
    graph = egshape.torch.export(Counting(), (torch.ones(2, 3),), dynamic_shapes={"x": {0: "b"}})
    egshape.save(graph, tmp_path / "m.pt2")
    found = egshape.load(tmp_path / "m.pt2")
    assert [value.name for value in found.inputs] == ["x", "seen"]
    assert found.output_names == graph.output_names


def test_derived_sizes_are_checked_by_the_file(tmp_path: Path) -> None:
    made = Program()
    x, y = made.input("x", ["n", 2]), made.input("y", ["2*n"])
    egshape.save(made.graph(made.one("add", (made.reshape(x, "2*n"), y))), tmp_path / "m.pt2")
    module = torch.export.load(tmp_path / "m.pt2").module()
    assert module(torch.ones(3, 2), torch.ones(6)).shape == (6,)
    assert module(torch.ones(0, 2), torch.ones(0)).shape == (0,)
    for rows, size in ((3, 5), (2, 6), (1, 1)):
        with pytest.raises((RuntimeError, AssertionError)):
            module(torch.ones(rows, 2), torch.ones(size))


def test_equal_sizes_are_checked_by_the_file(tmp_path: Path) -> None:
    made = Program()
    x, y = (made.input(name, ["n", 2]) for name in ("x", "y"))
    egshape.save(made.graph(made.one("add", (x, y))), tmp_path / "m.pt2")
    module = torch.export.load(tmp_path / "m.pt2").module()
    assert module(torch.ones(1, 2), torch.ones(1, 2)).shape == (1, 2)
    for rows in ((3, 1), (1, 3), (2, 3)):
        with pytest.raises((RuntimeError, AssertionError)):
            module(*(torch.ones(each, 2) for each in rows))


def test_a_name_that_python_does_not_have_is_noted(tmp_path: Path) -> None:
    made = Program()
    notes = egshape.save(made.graph(made.one("negate", (made.input("input.1", ["n"]),))), tmp_path / "m.pt2")
    assert notes == ("the input input.1 is written as input_1: a name of torch is one of Python",)


def test_optimizing_never_writes_more_nodes() -> None:
    for name in ("masked", "mixture"):
        make, args, axes, sizes = NETWORKS[name]
        with kept_whole():
            graph = egshape.load(exported(make().eval(), args(*sizes[0]), axes))
        before, after = (len(egshape.torch.module(each).graph.nodes) for each in (graph, egshape.optimize(graph)))
        assert after <= before


def _calls(model: Any, name: str, dtype: Any) -> int:
    """The calls of the optimized module of a network whose floats are of a dtype; it gives what the network gives."""
    _, args, axes, sizes = NETWORKS[name]

    def held(*sizes: int) -> Any:
        tensors = torch.utils._pytree.tree_leaves(args(*sizes))
        return [x.to(dtype) if x.is_floating_point() else x for x in tensors]

    model = model.to(dtype)
    with kept_whole():
        graph = egshape.load(exported(model, held(*sizes[0]), axes))
    module = egshape.torch.module(egshape.optimize(graph))
    with torch.no_grad():
        for point in sizes:
            given = held(*point)
            for one, two in zip(tensors_of(model(*given)), tensors_of(module(*given)), strict=True):
                torch.testing.assert_close(one, two, equal_nan=True)
    return sum(node.op == "call_function" for node in module.graph.nodes)


@pytest.mark.long_but("tokens-bfloat16", "mixture-float16")
@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["convolutions", "lstm", "tokens", "mixture", "unet", "masked"])
def test_floats_of_16_bits_are_written_as_such(name: str, kind: str) -> None:
    """As f32 is: nothing is converted to be multiplied."""
    torch.manual_seed(0)
    model = NETWORKS[name][0]().eval()
    assert _calls(model, name, getattr(torch, kind)) <= _calls(model, name, torch.float32)


@pytest.mark.long
def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "torch_out.py"), run_name="__main__")
    assert "batch 0, length 4: the file is equal to eager" in capsys.readouterr().out


def test_a_file_keeps_names_of_sizes_and_facts(tmp_path: Path) -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x * y[:, None].sum()

    graph = egshape.torch.export(
        Net(), (torch.ones(2, 3), torch.ones(3)), dynamic_shapes={"x": {0: "b", 1: "s"}, "y": {0: "s"}}
    )
    graph = replace(graph, facts=graph.facts.merge(Facts.parse("likely b = 32", "s <= 4*b")))
    egshape.save(graph, tmp_path / "net.pt2")
    again = egshape.load(tmp_path / "net.pt2")
    assert [str(value.type) for value in again.inputs] == ["f32[b, s]", "f32[s]"]
    assert [str(each) for each in again.facts.statements()] == ["s <= 4*b"]
    assert again.facts.symbol("b").likely == (32,)


@pytest.mark.parametrize("places", PLACES)
def test_a_scatter_of_windows(places: list[int]) -> None:
    graph = windows()
    rng = np.random.default_rng(3)
    arrays = [rng.normal(size=size).astype(np.float32) for size in ((5, 4), (len(places), 3, 4))]
    arrays.insert(1, np.array(places, np.int32)[:, None])
    (wanted,) = interpret(graph, arrays)
    (found,) = results_of(egshape.torch.module(graph)(*map(torch.from_numpy, arrays)))
    np.testing.assert_allclose(found.numpy(), wanted, 1e-6)
