"""Checks in ONNX files: nodes that every runtime makes, that are read back as checks, and that no save doubles."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")
pytest.importorskip("onnxruntime", reason="ONNX needs the extra onnx")

import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import egshape
from egshape.dims import Dim, const, parse
from egshape.errors import CheckFailed, EgshapeError
from egshape.facts import Relation, parse_facts
from egshape.frontends.onnx.checks import TITLE
from egshape.frontends.onnx.messages import whole
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret

F, INT, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
LEVELS = ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL")


def rounded(opset: int = 17) -> onnx.ModelProto:
    """The rows up to a multiple of 8: a Slice that a fact makes needless."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "zero", "one", "zero"], ["n_"]),
        helper.make_node("Div", ["n_", "eight"], ["d"]),
        helper.make_node("Mul", ["d", "eight"], ["m"]),
        helper.make_node("Slice", ["x", "zero", "m", "zero"], ["y"]),
        helper.make_node("Tanh", ["y"], ["out"]),
    ]
    held = [
        numpy_helper.from_array(np.array([number], np.int64), name)
        for name, number in (("zero", 0), ("one", 1), ("eight", 8))
    ]
    graph = helper.make_graph(
        nodes,
        "rounded",
        [helper.make_tensor_value_info("x", F, ["n", "c"])],
        [helper.make_tensor_value_info("out", F, None)],
        held,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def load(model: onnx.ModelProto) -> Graph:
    return egshape.load(model.SerializeToString(), "onnx")


def saved(graph: Graph, folder: Path, **options: object) -> onnx.ModelProto:
    egshape.save(graph, folder / "m.onnx", **options)  # type: ignore[arg-type]
    model = onnx.load(folder / "m.onnx")
    onnx.checker.check_model(model, full_check=True)
    return model


def checks(model: onnx.ModelProto) -> list[str]:
    return [node.name.removeprefix(TITLE) for node in model.graph.node if node.name.startswith(TITLE)]


def sessions(model: onnx.ModelProto) -> list[ort.InferenceSession]:
    """ONNX Runtime at all levels of optimization."""
    out = []
    for level in LEVELS:
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
        out.append(ort.InferenceSession(model.SerializeToString(), options))
    return out


def outcomes(
    model: onnx.ModelProto, feed: Mapping[str, np.ndarray], runtimes: Sequence[ort.InferenceSession] = ()
) -> set[str]:
    """What runtimes do: the reference evaluator, and ONNX Runtime at all levels of optimization."""
    out = set()
    for session in runtimes or sessions(model):
        try:
            session.run(None, dict(feed))
            out.add("runs")
        except Exception as error:
            out.add("rejects" if TITLE in str(error) else str(error))
    try:
        ReferenceEvaluator(model).run(None, dict(feed))
        out.add("runs")
    except (IndexError, ValueError):
        out.add("rejects")
    return out


def agrees(graph: Graph, model: onnx.ModelProto, points: Sequence[Sequence[np.ndarray]]) -> None:
    """The written model rejects exactly what the graph rejects."""
    seen, runtimes = set(), sessions(model)
    for arrays in points:
        try:
            interpret(graph, [array.copy() for array in arrays])
            wanted = "runs"
        except CheckFailed:
            wanted = "rejects"
        seen.add(wanted)
        names = [value.name for value in graph.inputs]
        assert outcomes(model, dict(zip(names, arrays, strict=True)), runtimes) == {wanted}, [a.shape for a in arrays]
    assert seen == {"runs", "rejects"}


def rows(*shapes: tuple[int, ...]) -> list[list[np.ndarray]]:
    return [[np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)] for shape in shapes]


FACTS = [
    "n % 8 == 0",
    "n == 9",
    "n in [1,8] or [16,24]",
    "n in {8, 16}",
    "n <= 8",
    "n >= 8",
    "n != c",
    "n < c",
    "c == 2*n",
    "n*c % 8 == 0",
    "n*c in [1,9] or [16,64]",
    "n == c or n == 1 or c == 1",
    "n == 8 or n == c",
    "n >= 8 or c == 1",
    "n % 8 == 0 or c == 4",
    "n - c in [-3,5]",
    "min(n, c) == 3",
    "n % c == 2",
    "n // c == 2",
    "cdiv(n, 4)*4 == c",
    "n*c == 24",
    "c == 3",
]
SIZES = (
    (8, 3),
    (16, 8),
    (8, 8),
    (9, 3),
    (0, 3),
    (8, 0),
    (24, 1),
    (4, 8),
    (3, 4),
    (5, 3),
    (3, 6),
    (12, 2),
    (6, 7),
    (1, 1),
)


@pytest.mark.parametrize("fact", FACTS)
def test_a_kept_fact_fails_in_any_runtime_and_comes_back_as_a_check(fact: str, tmp_path: Path) -> None:
    result = egshape.optimize(load(rounded()), assume=fact)
    model = saved(result.graph, tmp_path)
    assert checks(model)
    agrees(result.graph, model, rows(*SIZES))
    again = load(model)
    agrees(again, model, rows(*SIZES))
    twice = saved(egshape.optimize(again).graph, tmp_path)
    assert checks(twice) == checks(model)
    assert len(twice.graph.node) <= len(model.graph.node)
    assert _texts(twice) == _texts(model)
    third = saved(egshape.optimize(load(twice)).graph, tmp_path)
    assert [node.op_type for node in third.graph.node] == [node.op_type for node in twice.graph.node]
    assert checks(third) == checks(twice) and _texts(third) == _texts(twice)


def _texts(model: onnx.ModelProto) -> list[str]:
    return [node.doc_string for node in model.graph.node if node.doc_string]


@pytest.mark.parametrize(
    ("facts", "most"),
    [
        (["n % 8 == 0"], 3),
        (["n <= 512"], 3),
        (["n >= 3"], 3),
        (["n == 9"], 3),
        (["n != 4"], 3),
        (["n <= c"], 3),
        (["n == c"], 3),
        (["n < c"], 3),
        (["n >= 3", "c >= 2"], 6),
        (["n >= 3", "n <= 8"], 5),
        (["n % 8 == 0", "c <= 64", "c >= 2"], 7),
        (["n % 8 == 0", "c % 2 == 0", "n <= 64"], 7),
    ],
)
def test_a_check_takes_at_most_three_nodes(facts: list[str], most: int, tmp_path: Path) -> None:
    """Beside the nodes that read sizes; conditions that are places share the node that joins them."""
    result = egshape.optimize(load(rounded()), assume=facts)
    added = list(saved(result.graph, tmp_path).graph.node)
    egshape.save(result.graph, tmp_path / "n.onnx", checks="none")
    for node in onnx.load(tmp_path / "n.onnx").graph.node:
        added.remove(next(each for each in added if each.op_type == node.op_type))
    assert sum(node.op_type != "Shape" for node in added) <= most
    assert len({node.name for node in added if node.name.startswith(TITLE)}) == len(facts)


@pytest.mark.parametrize(
    ("fact", "nodes"),
    [
        ("n in [1,4] or [8,16]", 3),
        ("n in [0,0] or [2,3]", 3),
        ("n in {0, 1, 9}", 3),
        ("n in [0,3] or [7,inf]", 4),
        ("n in [2,3] or [6,6] or [9,inf]", 4),
    ],
)
def test_a_list_of_intervals_takes_three_nodes(fact: str, nodes: int, tmp_path: Path) -> None:
    """A table of distances, which ends with the last interval, a place, and the node that joins it; for one without
    end the smaller one of the size and where it begins."""
    result = egshape.optimize(load(rounded()), assume=fact)
    model = saved(result.graph, tmp_path)
    bare = saved(result.graph, tmp_path, checks="none")
    most, found = ([node.op_type != "Shape" for node in each.graph.node] for each in (bare, model))
    assert sum(found) <= sum(most) + nodes
    (listed,) = parse_facts(fact)
    runtimes = sessions(model)
    for n in range(20):
        array = rows((n, 2))[0][0]
        assert outcomes(model, {"x": array}, runtimes) == {"runs" if listed.holds({"n": n}) else "rejects"}, n
    again = egshape.optimize(model)
    assert _relations(again.graph) == _relations(result.graph)
    assert _texts(saved(again.graph, tmp_path)) == _texts(model)


def _relations(graph: Graph) -> set[tuple[object, ...]]:
    return {(op.attrs["relation"], *op.attrs["sides"]) for op in graph.ops if op.name == "check"}


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4)])
def test_a_condition_alone_is_joined_at_every_rank(shape: tuple[int, ...], tmp_path: Path) -> None:
    b = BlockBuilder()
    x, flag = b.arg("x", "f32", shape), b.arg("flag", "i1", ())
    b.add("check", (flag,), {"message": "the flag is off"})
    graph = Graph("g", b.finish([b.one("tanh", (x,))]), ("out0",))
    model = saved(graph, tmp_path)
    assert len(model.graph.node) <= 4 and checks(model) == ["the flag is off"]
    points = [[np.ones(shape, np.float32), np.array(flag)] for flag in (True, False)]
    agrees(graph, model, points)
    again = load(model)
    agrees(again, saved(again, tmp_path), points)


def test_a_target_that_no_tensor_has_is_a_check_whoever_wrote_it() -> None:
    """A condition that chooses between two shapes that a tensor can have is none."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[a,b] x) => (float[c,d] y) <int64[2] kept = {0, 0},
    int64[2] other = {%s}, int64[1] zero = {0}, int64 most = {5}> {
      s = Shape(x) n = Gather(s, zero) f = Less(n, most) t = Where(f, kept, other) r = Reshape(x, t) y = Tanh(r) }"""
    found = load(onnx.parser.parse_model(text % f"{2**62}, 2"))
    assert [op.attrs["sides"] for op in found.ops if op.name == "check"] == [(parse("a"), const(5))]
    assert [op.name for op in found.ops if op.results][-1] == "tanh"
    for sizes in (f"{2**62}, 0", "3, 4"):
        assert not any(
            op.name == "check" and op.attrs["sides"][-1] == const(5)
            for op in load(onnx.parser.parse_model(text % sizes)).ops
        )


def test_the_message_says_the_fact_and_survives(tmp_path: Path) -> None:
    result = egshape.optimize(load(rounded()), assume="n % 8 == 0")
    model = saved(result.graph, tmp_path)
    assert checks(model) == ["n%8 == 0"]
    with pytest.raises(CheckFailed, match="the assumed fact n%8 == 0 does not hold: n is 9"):
        interpret(load(model), rows((9, 3))[0])


def test_metadata_and_none(tmp_path: Path) -> None:
    result = egshape.optimize(load(rounded()), assume=["n % 8 == 0", "c in [1,4] or [8,9]"])
    notes = egshape.save(result.graph, tmp_path / "m.onnx", checks="metadata")
    assert any("only listed in the metadata" in note for note in notes)
    model = onnx.load(tmp_path / "m.onnx")
    assert [node.op_type for node in model.graph.node] == ["Tanh"]
    agrees(load(model), saved(load(model), tmp_path), rows((8, 3), (9, 3), (8, 6), (16, 8)))
    twice = tmp_path / "twice.onnx"
    egshape.save(egshape.optimize(load(model)).graph, twice, checks="metadata")
    listed = [
        {each.key: each.value for each in proto.metadata_props}["egshape.checks"] for proto in (model, onnx.load(twice))
    ]
    assert json.loads(listed[0]) == json.loads(listed[1]) and len(json.loads(listed[0])) == 4
    notes = egshape.save(result.graph, tmp_path / "n.onnx", checks="none")
    assert len(notes) == 4
    assert "egshape.checks" not in {each.key for each in onnx.load(tmp_path / "n.onnx").metadata_props}
    with pytest.raises(EgshapeError, match="nodes, metadata, none"):
        egshape.save(result.graph, tmp_path / "n.onnx", checks="nowhere")


def test_listed_checks_that_cannot_be_read_say_so() -> None:
    model = rounded()
    helper.set_model_props(model, {"egshape.checks": json.dumps(["k % 8 == 0", "n <= 64"])})
    graph = load(model)
    assert any("k%8 == 0" in note for note in egshape.optimize(graph).report.notes)
    with pytest.raises(CheckFailed, match="n <= 64"):
        interpret(graph, rows((65, 1))[0])
    helper.set_model_props(model, {"egshape.checks": "[1]"})
    with pytest.raises(EgshapeError, match=r"egshape\.checks"):
        load(model)


def test_old_opsets(tmp_path: Path) -> None:
    for opset in (9, 10, 11, 12, 13, 15, 21):
        if opset == 9:
            graph = replace(
                checked("<=", parse("n"), const(4)),
                metadata={
                    "format": "onnx",
                    "opsets": (("", 9),),
                    "ir_version": 8,
                    "producer": ("", "", "", 0),
                    "doc": "",
                    "outputs": (),
                },
            )
        else:
            graph = egshape.optimize(load(rounded(opset)), assume="n in [0,4] or [8,8]").graph
        agrees(graph, saved(graph, tmp_path), rows((8, 3), (6, 3), (4, 2), (9, 1)))
    graph = replace(checked("<=", parse("n"), const(4)), metadata={**graph.metadata, "opsets": (("", 8),)})
    notes = egshape.save(graph, tmp_path / "m.onnx")
    assert any("opset 8" in note for note in notes)
    converted = saved(egshape.optimize(load(rounded(13)), assume="n % 8 == 0").graph, tmp_path, opset=18)
    assert outcomes(converted, {"x": rows((9, 3))[0][0]}) == {"rejects"}


# -- graphs of other sources ---------------------------------------------------------------------------------------


def checked(kind: str, lhs: Dim, rhs: Dim) -> Graph:
    b = BlockBuilder()
    x = b.arg("x", "f32", [None, None], ["n", "c"])
    b.add("check", (), {"relation": kind, "sides": (lhs, rhs), "message": "sizes are {0}", "args": (lhs,)})
    return Graph("g", b.finish([b.one("tanh", (x,))]), ("out0",))


@pytest.mark.parametrize("output", ["vector", "scalar"])
def test_checks_of_data_stand_before_an_output(output: str, tmp_path: Path) -> None:
    b = BlockBuilder()
    x, flag = b.arg("x", "f32", [None], ["n"]), b.arg("flag", "i1", ())
    b.add("check", (), {"relation": "<=", "sides": (parse("n"), const(4)), "message": "too long"})
    b.add("check", (flag,), {"message": "the flag is off"})
    zero = b.one("constant", (), {"value": np.float32(0)})
    inner = b.child()
    one, two = inner.arg(None, "f32", ()), inner.arg(None, "f32", ())
    body = inner.finish([inner.one("add", (one, two))])
    y = b.one("tanh", (x,)) if output == "vector" else b.one("reduce", (x, zero), {"dims": (0,)}, regions=(body,))
    graph = Graph("g", b.finish([y]), ("out0",))
    model = saved(graph, tmp_path) if output == "vector" else None
    if model is None:  # a reduction of ours has no ONNX form: a scalar goes through as it is
        b = BlockBuilder()
        s, flag = b.arg("s", "f32", ()), b.arg("flag", "i1", ())
        b.add("check", (flag,), {"message": "the flag is off"})
        graph = Graph("g", b.finish([b.one("tanh", (s,))]), ("out0",))
        agrees(graph, saved(graph, tmp_path), [[np.array(1, np.float32), np.array(flag)] for flag in (True, False)])
        return
    assert checks(model) == ["n <= 4", "the flag is off"]
    agrees(graph, model, [[np.zeros(size, np.float32), np.array(flag)] for size in (4, 5) for flag in (True, False)])
    twice = saved(egshape.optimize(load(model)).graph, tmp_path)
    assert checks(twice) == checks(model)


def test_a_check_in_a_branch_fails_where_the_branch_runs(tmp_path: Path) -> None:
    b = BlockBuilder()
    x, flag = b.arg("x", "f32", [None], ["n"]), b.arg("flag", "i1", ())
    one, two = b.child(), b.child()
    one.add("check", (), {"relation": "<=", "sides": (parse("n"), const(4)), "message": "too long"})
    then, other = one.finish([one.one("tanh", (x,))]), two.finish([two.one("negate", (x,))])
    graph = Graph("g", b.finish(b.add("if", (flag,), {}, regions=(then, other))), ("out0",))
    model = saved(graph, tmp_path)
    agrees(graph, model, [[np.zeros(size, np.float32), np.array(flag)] for size in (4, 5) for flag in (True, False)])
    again = load(model)
    agrees(
        again,
        saved(egshape.optimize(again).graph, tmp_path),
        [[np.zeros(size, np.float32), np.array(flag)] for size in (4, 5) for flag in (True, False)],
    )


def test_what_a_node_checks_is_not_written_again(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "y"], ["out"])]
    graph = helper.make_graph(
        nodes,
        "add",
        [helper.make_tensor_value_info("x", F, ["n"]), helper.make_tensor_value_info("y", F, [4])],
        [helper.make_tensor_value_info("out", F, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    result = egshape.optimize(load(model))
    assert any(check.status == "kept" for check in result.report.checks)
    assert len(saved(result.graph, tmp_path).graph.node) == 1


@pytest.mark.parametrize("cut", [False, True])
def test_a_product_checks_the_sizes_that_a_sum_before_it_joined(cut: bool, tmp_path: Path) -> None:
    """As in attention with a mask: the sum has the size bcast(p, t), and MatMul wants it to be p. Also where the mask
    is cut to p, which takes what there is."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[n,p] x, float[n,t] mask, float[p,m] v) => (float[n,m] z) <int64[1] zero = {{0}}, int64[1] one = {{1}}>
        {{ p = Shape<start=1>(x) c = Slice(mask, zero, p, one) s = Add(x, {"c" if cut else "mask"})
        q = Softmax(s) z = MatMul(q, v) }}"""
    model = onnx.parser.parse_model(text)
    result = egshape.optimize(load(model))
    written = saved(result.graph, tmp_path)
    kinds = [node.op_type for node in written.graph.node]
    assert kinds == [*(["Shape", "Slice"] if cut else []), "Add", "Softmax", "MatMul"]
    runtimes = sessions(written)
    for p, t in ((3, 3), (3, 1), (1, 1), (1, 5), (3, 4), (4, 3), (0, 1), (0, 0), (1, 0)):
        x, mask, v = (np.ones(shape, np.float32) for shape in ((2, p), (2, t), (p, 4)))
        for session in runtimes:
            try:
                session.run(None, {"x": x, "mask": mask, "v": v})
                runs = True
            except Exception:  # the runtime's errors have no common class
                runs = False
            assert runs is ((min(t, p) if cut else t) in (1, p)), (p, t)


def test_a_size_that_only_a_reshape_has_is_what_is_left(tmp_path: Path) -> None:
    """n // 2 is not computed; that m is not 0 is what a Reshape with -1 checks."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[n,m] x) => (float[k,l,m] y)
        <int64[2] rest = {-1, 2}> { s = Shape<start=1>(x) t = Concat<axis=0>(rest, s) y = Reshape(x, t) }"""
    result = egshape.optimize(load(onnx.parser.parse_model(text)), assume="n % 2 == 0")
    bare = saved(result.graph, tmp_path, checks="none")
    assert [node.op_type for node in bare.graph.node] == ["Shape", "Concat", "Reshape"]
    runtimes = sessions(saved(result.graph, tmp_path))
    for n, m in ((4, 3), (2, 1), (0, 2), (3, 2), (1, 1), (5, 4), (4, 0)):
        for session in runtimes:
            try:
                shape = session.run(None, {"x": np.zeros((n, m), np.float32)})[0].shape
            except Exception:  # the runtime's errors have no common class
                shape = None
            assert shape == ((n // 2, 2, m) if n % 2 == 0 and m else None), (n, m)


def test_a_reshape_that_takes_what_is_left_makes_the_check(tmp_path: Path) -> None:
    nodes = [helper.make_node("Reshape", ["x", "t"], ["r"]), helper.make_node("Tanh", ["r"], ["out"])]
    graph = helper.make_graph(
        nodes,
        "flat",
        [helper.make_tensor_value_info("x", F, ["a", "b", "c"])],
        [helper.make_tensor_value_info("out", F, None)],
        [numpy_helper.from_array(np.array([0, -1], np.int64), "t")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    written = saved(egshape.optimize(load(model)).graph, tmp_path)
    assert len(written.graph.node) == 2
    session = ort.InferenceSession(written.SerializeToString())
    assert session.run(None, {"x": np.zeros((2, 3, 4), np.float32)})[0].shape == (2, 12)
    with pytest.raises(Exception, match="Reshape"):
        session.run(None, {"x": np.zeros((0, 3, 4), np.float32)})


@pytest.mark.parametrize("place", [0, 2, -1, -3])
@pytest.mark.parametrize("opset", [10, 17])
def test_a_gather_checks_that_its_place_is_there(place: int, opset: int, tmp_path: Path) -> None:
    if place < 0 and opset < 11:
        return  # places are counted from the front then
    text = f"g (float[a,b] x) => (float[c] o) <int64 i = {{{place}}}> {{ o = Gather <axis = 1> (x, i) }}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')
    result = egshape.optimize(load(model))
    assert [check.status for check in result.report.checks] == ["kept"]
    written = saved(result.graph, tmp_path)
    assert [node.op_type for node in written.graph.node] == ["Gather"]
    for session in sessions(written):
        for shape in ((2, 0), (0, 0), (2, 1), (0, 1), (2, 3), (0, 3)):
            array = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
            if -shape[1] <= place < shape[1]:
                np.testing.assert_array_equal(session.run(None, {"x": array})[0], array[:, place])
            else:
                with pytest.raises(Exception, match="Gather"):
                    session.run(None, {"x": array})


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("g (float[a,b] x, float[c,d] y) => (float[e,f] o) { s = Shape(y) o = Expand(x, s) }", 2),
        ("g (float[a,b] x, int64[2] s) => (float[e,f] o) { o = Expand(x, s) }", 40),
        ("g (float[a,b] x, int64[k] s) => (float[e,f] o) { o = Expand(x, s) }", 42),
    ],
)
def test_expand_rejects_a_size_that_does_not_broadcast(text: str, most: int, tmp_path: Path) -> None:
    """Also where the larger one is that of the tensor; by itself where it is asked for the sizes of a tensor."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    result = egshape.optimize(load(model))
    written = saved(result.graph, tmp_path)
    assert len(written.graph.node) <= most
    runtimes = sessions(model), sessions(written)
    for shape, asked in (
        ((4, 1), (4, 3)),
        ((4, 3), (1, 1)),
        ((4, 1), (3, 4)),
        ((2, 2), (0, 2)),
        ((1, 2), (0, 1)),
        ((3, 2), (2, 2)),
        ((2, 3), (2, 2)),
    ):
        x, other = np.ones(shape, np.float32), result.graph.inputs[1].name
        feed = {"x": x, other: np.ones(asked, np.float32) if other == "y" else np.array(asked)}
        found = []
        for session in (each for pair in runtimes for each in pair):
            try:
                found.append(session.run(None, feed)[0].shape)
            except Exception:
                found.append(None)
        try:
            found.append(interpret(result.graph, list(feed.values()))[0].shape)
        except EgshapeError:
            found.append(None)
        assert len(set(found)) == 1, (shape, asked, found)


def test_a_reshape_to_known_sizes_takes_what_is_left_where_that_makes_a_check(tmp_path: Path) -> None:
    """Two reshapes whose sizes are all known by copying; each rejects what one of the original's did."""
    nodes = [
        helper.make_node("Reshape", ["x", "s"], ["r"]),
        helper.make_node("Tanh", ["r"], ["out"]),
        helper.make_node("Reshape", ["y", "t"], ["q"]),
        helper.make_node("Tanh", ["q"], ["also"]),
    ]
    graph = helper.make_graph(
        nodes,
        "left",
        [helper.make_tensor_value_info(name, F, ["n", "m", 6]) for name in "xy"],
        [helper.make_tensor_value_info(name, F, None) for name in ("out", "also")],
        [
            numpy_helper.from_array(np.array(target, np.int64), name)
            for name, target in (("s", [0, -1, 2, 3]), ("t", [-1, 0, 3, 2]))
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    result = egshape.optimize(load(model))
    assert sum(check.status == "kept" for check in result.report.checks) == 2
    written = saved(result.graph, tmp_path)
    assert not checks(written) and len(written.graph.node) == 4
    for session in sessions(written):
        for n, m in ((2, 3), (1, 1), (0, 3), (3, 0), (0, 0)):
            array = np.zeros((n, m, 6), np.float32)
            if n and m:
                found = session.run(None, {"x": array, "y": array})
                assert [each.shape for each in found] == [(n, m, 2, 3), (n, m, 3, 2)]
            else:
                with pytest.raises(Exception, match="Reshape"):
                    session.run(None, {"x": array, "y": array})


def test_a_module_with_a_kept_check_rejects_as_a_model(tmp_path: Path) -> None:
    text = """module @jit_f {
  func.func public @main(%arg0: tensor<?x3xf32>) -> tensor<?x3xf32> {
    %0 = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
    %c = stablehlo.constant dense<4> : tensor<i32>
    %1 = stablehlo.remainder %0, %c : tensor<i32>
    %c0 = stablehlo.constant dense<0> : tensor<i32>
    %2 = stablehlo.compare EQ, %1, %c0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%2, %0) {
      api_version = 2 : i32, error_message = "rows {0}", has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
    %3 = stablehlo.tanh %arg0 : tensor<?x3xf32>
    return %3 : tensor<?x3xf32>
  }
}
"""
    (tmp_path / "m.mlir").write_text(text)
    graph = egshape.load(tmp_path / "m.mlir")
    for each in (graph, egshape.optimize(graph).graph):
        agrees(each, saved(each, tmp_path), rows((8, 3), (6, 3), (0, 3)))


def test_what_64_bits_do_not_hold_is_said() -> None:
    found = whole(checked("==", parse("n*n*n*n % 7"), const(0)))
    assert any("64 bits" in note for note in found.notes)
    assert [each.key for each in found.model.metadata_props] == ["egshape.checks"]
    relation = Relation("==", parse("n*n*n*n % 7"), const(0))
    assert json.loads(found.model.metadata_props[0].value) == [str(relation)]


def test_what_fits_64_bits_is_not_asked() -> None:
    """Not even as n // 2 ** 63, which they do not hold."""
    bound = const(2**63 - 1)
    assert not whole(checked("<=", parse("n // (c + 1)"), bound)).notes
    names = [node.op_type for node in whole(checked("<=", parse("n % 7"), bound)).model.graph.node]
    assert "Gather" not in names and "Less" not in names


def test_a_broadcast_size_comes_back_as_one(tmp_path: Path) -> None:
    """The nodes say "b if a is 1, else a"; written out as a polynomial it would take minutes to reason about."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[a] x, float[b] y) => (float[c] z) { z = Add(x, y) }'
    result = egshape.optimize(load(onnx.parser.parse_model(text)), assume="bcast(a, b) == 6")
    again = load(saved(result.graph, tmp_path))
    sides = [op.attrs["sides"][0] for op in again.ops if op.name == "check" and op.attrs["fact"]]
    assert sides == [parse("bcast(a, b)")]
