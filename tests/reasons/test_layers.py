"""What is told of values inside of shared layers, behind checks and in functions holds for the names that they have."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.decoder import decoder
from benchmarks.encoder_decoder import encoder_decoder
from egshape.api import Result, load, optimize, save
from egshape.cli import main
from egshape.dims import const
from egshape.errors import EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Location, Value
from egshape.ir.interpret import interpret
from egshape.repeats import outlined
from egshape.report import ValueExplanation
from egshape.viz.report.data import report_data
from tests.egraph.test_behind import TARGETS, TEXT

LAYERS = 4
_NAME = re.compile(r"%([\w.]+)")


def _located(graph: Graph) -> Graph:
    """The graph with a location of its own for each op."""
    ops = (replace(op, location=Location(name=f"node{at}")) for at, op in enumerate(graph.body.ops))
    return replace(graph, body=replace(graph.body, ops=tuple(ops)))


def _chain(crossing: bool) -> Graph:
    """Layers of 35 ops, each with a weight, a detour that goes inside of the layer, and, if ``crossing``, one that goes
    only with the layer behind it."""
    b = BlockBuilder()
    x = b.arg("x", "f32", [None, 8], ["n", None])
    turn = {"permutation": (1, 0)}

    def layer(x: Value, number: int) -> Value:
        y = b.one("transpose", (x,), turn) if crossing else x
        weight = b.one("constant", (), {"value": np.full((8, 8), number, np.float32)})
        side = (weight, y) if crossing else (y, weight)
        contract = {"lhs_contract": (1,), "rhs_contract": (0,), "lhs_batch": (), "rhs_batch": (), "dtype": "f32"}
        y = b.one("dot_general", side, contract)
        for _ in range(15):
            y = b.one("tanh", (b.one("negate", (y,)),))
        y = b.one("transpose", (b.one("transpose", (y,), turn),), turn)
        return b.one("transpose", (y,), turn) if crossing else y

    for number in range(LAYERS):
        x = layer(x, number)
    return _located(Graph("chain", b.finish([x]), ("y",)))


def _composed() -> Graph:
    """Layers of 33 ops, each with two composites that have a detour inside."""
    b = BlockBuilder()
    x = b.arg("x", "f32", [None, 8], ["n", None])
    turn = {"permutation": (1, 0)}
    for _ in range(LAYERS):
        for _ in range(15):
            x = b.one("tanh", (b.one("negate", (x,)),))
        for _ in range(2):
            inner = b.child()
            y = inner.arg(None, "f32", x.type.dims)
            y = inner.one("transpose", (inner.one("transpose", (y,), turn),), turn)
            region = inner.finish([inner.one("sine", (y,))])
            x = b.one("composite", (x,), {"name": "turned"}, regions=(region,))
        x = b.one("exponential", (x,))
    return _located(Graph("composed", b.finish([x]), ("y",)))


def test_of_composites_in_layers() -> None:
    graph = _composed()
    assert len([op for op in outlined(graph.body).ops if op.name == "call"]) == LAYERS
    apart, shared = (optimize(graph, share_layers=each) for each in (False, True))
    assert not shared.report.notes and str(apart.graph.body) == str(shared.graph.body)
    names = [value.name for op in graph.body.walk() for value in op.results]
    one, two = ({name: result.explain_value(name) for name in names} for result in (apart, shared))
    assert {name: (each.status, each.stands) for name, each in one.items()} == {
        name: (each.status, each.stands) for name, each in two.items()
    }
    assert "gone" in {each.status for each in two.values() if each.op == "transpose"}


def _told(graph: Graph, result: Result) -> dict[str, ValueExplanation]:
    ops = graph.body.ops[:: 1 + len(graph.body.ops) // 300]  # of a large one some
    return {value.name: result.explain_value(value.name) for op in ops for value in op.results[:1]}


def _holds(graph: Graph, result: Result, told: dict[str, ValueExplanation]) -> None:
    """Names are those of the model, or of the result where something stands in it; places are those of the model."""
    source = {value.name for op in graph.body.walk() for value in op.results} | {each.name for each in graph.inputs}
    made = {value.name: op for op in result.graph.body.walk() for value in op.results}
    places = {value.name: str(op.location) for op in graph.body.walk() for value in op.results}
    for name, each in told.items():
        assert each.location == places[name]
        if each.stands is not None and " = " in each.stands:
            shown, reads = _NAME.findall(each.stands)[0], _NAME.findall(each.stands)[1:]
            assert [value.name for value in made[shown].operands] == reads, each.stands
        for step in each.why:
            assert set(_NAME.findall(" ".join(step.from_))) <= source
            assert set(_NAME.findall(step.to)) <= source | made.keys()
            assert step.location in places.values()


@pytest.mark.parametrize("crossing", [False, True], ids=["inside of layers", "across them"])
def test_of_layers_the_same_is_told_as_of_them_apart(crossing: bool) -> None:
    graph = _chain(crossing)
    apart, shared = (optimize(graph, share_layers=each) for each in (False, True))
    assert not [note for note in shared.report.notes if "layer" in note]
    one, two = _told(graph, apart), _told(graph, shared)
    _holds(graph, shared, two)
    for name, each in one.items():
        now = two[name]
        if now.status == "gone" and each.status == "rewritten":  # it went inside of the layer, before it met its equal
            assert crossing and now.why
        else:
            assert (now.status, now.stands) == (each.status, each.stands)
        assert bool(now.why) == bool(each.why)
        assert crossing or {step.rule for step in each.why} <= {step.rule for step in now.why}
    assert [each.value for each in apart.explain_removed()] == [each.value for each in shared.explain_removed()]
    assert apart.explain_removed()
    assert str(apart.graph.body) == str(shared.graph.body), "names and places are those of each layer"


@pytest.mark.parametrize(
    "graph", [decoder(1_200, layers=4), encoder_decoder(3, 3)], ids=["a layer", "an encoder's and a decoder's"]
)
def test_of_a_decoder(graph: Graph) -> None:
    graph = _located(graph)
    apart, shared = (optimize(graph, share_layers=each, validate=False) for each in (False, True))
    one, two = _told(graph, apart), _told(graph, shared)
    _holds(graph, shared, two)
    assert {name: each.status for name, each in one.items()} == {name: each.status for name, each in two.items()}
    assert [str(op.location) for op in apart.graph.ops] == [str(op.location) for op in shared.graph.ops]
    for name, each in one.items():
        assert {step.rule for step in each.why} <= {step.rule for step in two[name].why}


def test_the_slider_has_the_rewrites_of_each_layer() -> None:
    graph = _located(encoder_decoder(3, 3))
    found = []
    for shared in (False, True):
        data = report_data(optimize(graph, share_layers=shared, validate=False))
        texts = data["texts"]
        found.append({(texts[rule], texts[location]) for rule, _, _, location in data["steps"]})
    apart, shared_ones = found
    assert apart <= shared_ones
    places = {str(op.location) for op in graph.body.walk()}
    assert {location for _, location in shared_ones} <= places


def test_checks_are_said_of_ops_and_not_of_layers() -> None:
    graph = _located(encoder_decoder(3, 3))
    apart, shared = (optimize(graph, share_layers=each, validate=False) for each in (False, True))
    assert [each.location for each in apart.report.checks] == ["node508"]
    assert shared.report.checks == apart.report.checks
    said = [
        [(str(op.location), op.attrs["message"]) for op in result.graph.ops if op.name == "check"]
        for result in (apart, shared)
    ]
    assert said[0] == said[1] and said[0]


def _cutting() -> Graph:
    """Layers that need two elements of y."""
    b = BlockBuilder()
    x, y = b.arg("x", "f32", [None], ["n"]), b.arg("y", "f32", [None], ["m"])
    (size,) = y.type.dims
    for _ in range(LAYERS):
        for _ in range(18):
            x = b.one("negate", (b.one("tanh", (x,)),))
        part = b.one("slice", (y,), {"starts": (const(2),), "limits": (size,), "strides": (const(1),)})
        spread = b.one("broadcast_in_dim", (part,), {"dims": (0,), "shape": x.type.dims})
        x = b.one("multiply", (x, spread))
    return _located(Graph("cutting", b.finish([x]), ("z",)))


def test_what_is_wrong_is_said_of_ops_and_not_of_layers() -> None:
    said = []
    for shared in (False, True):
        assert not optimize(_cutting(), share_layers=shared).report.notes
        with pytest.raises(EgshapeError) as caught:
            optimize(_cutting(), assume="m == 1", share_layers=shared)
        said.append(str(caught.value))
    assert said[0] == said[1] and said[0].startswith("node36: slice start: expected 2 <= m")


def test_sizes_are_explained_where_layers_are_shared() -> None:
    graph = decoder(1_200, layers=4)
    apart, shared = (optimize(graph, assume="p == b", share_layers=each, validate=False) for each in (False, True))
    one, two = (result.explain("b", "p") for result in (apart, shared))
    assert one.status == two.status == "proved" and str(one) == str(two)


@pytest.mark.parametrize("times", [1, 2])
def test_of_values_of_functions(times: int) -> None:
    """One that is called once stands in line in the result."""
    b = BlockBuilder()
    given = [b.arg(name, "f32", [None], ["n"]) for name in "xy"[:times]]
    made, regions = [], []
    for x in given:
        inner = b.child()
        value = inner.one("negate", (inner.one("negate", (inner.arg(None, "f32", x.type.dims),)),))
        regions.append(inner.finish([inner.one("sine", (inner.one("tanh", (value,)),))]))
        made.append(b.one("call", (x,), {"name": "f"}, regions=(regions[-1],)))
    graph = Graph("g", b.finish(made), tuple(f"out{k}" for k in range(times)))
    result = optimize(graph)
    for region in regions:
        told = [result.explain_value(op.results[0].name) for op in region.ops]
        assert [each.status for each in told] == ["gone", "rewritten", "kept", "kept"]
        made_now = {value.name for op in result.graph.body.walk() for value in op.results}
        for each in told[2:]:
            shown = (each.stands or "").partition(" = ")[0].removeprefix("%")
            assert shown in made_now, "an op of the result is named"


def test_of_values_behind_a_check() -> None:
    """What stands behind a check of a size that data gives goes through the stages once more."""
    _, last, _, _ = TARGETS["a square"]
    text = TEXT.replace("TARGET", TARGETS["a square"][0]).replace("GRID", f"tensor<?x{last}xf32>")
    graph = load(text.encode(), format="mlir")
    result = optimize(graph, allow_larger=True)
    told = _told(graph, result)
    made = {value.name for op in result.graph.ops for value in op.results} | {"x", "c", "k"}
    assert all(set(_NAME.findall((each.stands or "").partition(" : ")[0])) <= made for each in told.values())
    behind = {each.op: each for each in told.values() if each.op in ("exponential", "add")}
    assert {each.status for each in behind.values()} == {"kept"}
    assert told["f"].status == "rewritten" and str(told["f"].stands).startswith("%a = slice(%x) : ")


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = tmp_path / "m.mlir", tmp_path / "out.mlir"
    save(_chain(crossing=False), model)
    assert main(["optimize", str(model), "-o", str(out), "--share-layers", "--json"]) == 0
    stages = [each["name"] for each in json.loads(capsys.readouterr().out)["stages"]]
    assert "layers" in stages and out.read_text().count("stablehlo.transpose") == 0
    assert main(["explain", str(model), "%36", "--share-layers", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["value"] == "%36" and found["status"] in ("gone", "rewritten", "kept")
    assert main(["compile", str(model), "-o", str(tmp_path / "m.egx"), "--share-layers", "--no-optimize"]) == 2
    assert "--share-layers" in capsys.readouterr().err


def _drawn(seed: int) -> Graph:
    """Eight layers that are equal up to one of two weights, some on the same inputs, some of which nobody reads."""
    rng = np.random.default_rng(seed)
    b = BlockBuilder()
    turn = {"permutation": (1, 0)}
    contract = {"lhs_contract": (1,), "rhs_contract": (0,), "lhs_batch": (), "rhs_batch": (), "dtype": "f32"}
    kinds = rng.integers(0, 4, size=20)

    def layer(x: Value, number: int) -> tuple[Value, Value]:
        weight = b.one("constant", (), {"value": np.full((8, 8), number, np.float32) / 8})
        y = b.one("dot_general", (x, weight), contract)
        for kind in kinds:
            if kind == 0:
                y = b.one("tanh", (y,))
            elif kind == 1:
                y = b.one("transpose", (b.one("transpose", (y,), turn),), turn)
            elif kind == 2:
                y = b.one("negate", (b.one("negate", (y,)),))
            else:
                y = b.one("add", (y, b.one("negate", (y,))))
        return y, b.one("tanh", (y,))

    values, outputs = [b.arg("x", "f32", [None, 8], ["n", None])], []
    for _ in range(8):
        first, second = layer(values[-1 if rng.random() < 0.6 else 0], int(rng.integers(0, 2)))
        values += [first] if rng.random() < 0.6 else []
        outputs += [second] if rng.random() < 0.4 else []
    outputs.append(values[-1])
    return _located(Graph("drawn", b.finish(outputs), tuple(f"out{k}" for k in range(len(outputs)))))


@pytest.mark.parametrize("seed", range(4))
def test_what_stands_for_a_value_computes_it(seed: int) -> None:
    graph = _drawn(seed)
    assert len([op for op in outlined(graph.body).ops if op.name == "call"]) > 2
    apart, shared = (optimize(graph, share_layers=each, validate=False) for each in (False, True))
    one, two = _told(graph, apart), _told(graph, shared)
    _holds(graph, shared, two)
    for name, each in one.items():
        assert two[name].status == each.status or (two[name].status, each.status) == ("gone", "rewritten")
    standing = shared.optimized.outcome.standing
    stood = [(value, standing[value]) for op in graph.ops for value in op.results if value in standing]
    names = tuple(value.name for value, _ in stood)
    was = Graph("was", replace(graph.body, results=tuple(value for value, _ in stood)), names)
    now = Graph("now", replace(shared.graph.body, results=tuple(value for _, value in stood)), names)
    given = {"x": np.random.default_rng(seed).standard_normal((3, 8)).astype(np.float32)}
    for name, left, right in zip(names, interpret(was, given), interpret(now, given), strict=True):
        np.testing.assert_array_equal(left, right, err_msg=name)


@pytest.mark.parametrize("shared", [False, True])
def test_values_that_a_step_calls_equal_are(shared: bool) -> None:
    """And not one that was made while a value was rewritten."""
    graph = _drawn(0)
    values = tuple(value for op in graph.ops for value in op.results)
    names = tuple(value.name for value in values)
    given = {"x": np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)}
    every = dict(zip(names, interpret(Graph("all", replace(graph.body, results=values), names), given), strict=True))
    every |= given
    said = 0
    for told in _told(graph, optimize(graph, share_layers=shared, validate=False)).values():
        for step in told.why:
            pair = re.fullmatch(r"%(\w+) = %(\w+)", step.to)
            if pair is not None:
                said += 1
                np.testing.assert_array_equal(every[pair[1]], every[pair[2]], err_msg=str(step))
    assert said
