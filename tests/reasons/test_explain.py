"""Chains of reasons: genuine ones replay without the prover, tampered ones are rejected."""

from __future__ import annotations

import copy
import functools
import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import egshape
from egshape import api
from egshape.api import Result
from egshape.cli import main
from egshape.errors import InvalidInput
from egshape.facts import Facts
from egshape.ir.graph import Block, Graph, blocks_of
from egshape.reasons.explain import Givens, check_explanation, givens, replay_explanation, replayed
from egshape.report import Explanation, Step
from tests.behaviours.programs import Program


def sizes(*names: str) -> Graph:
    """A graph with one input for each size, named after it."""
    program = Program()
    return program.graph(*(program.one("negate", (program.input(f"in_{name}", [name]),)) for name in names))


@functools.lru_cache
def solved(names: str, *assume: str) -> Result:
    return egshape.optimize(sizes(*names.split()), assume, validate=False)


PROVED = [
    ("a b", ("a == b",), "a", "b"),
    ("a b c", ("a == b", "b == c"), "a", "c"),
    ("a b", ("a + b == 1024",), "a", "1024 - b"),
    ("a b", ("a + b == 1024", "a == b"), "a", "512"),
    ("n", ("n % 8 == 0",), "8*(n//8)", "n"),
    ("n", ("n % 8 == 0",), "n % 4", "0"),
    ("n", ("n % 8 == 0",), "(n + 7)//8", "n//8"),
    ("a b c", ("a*b == c", "b >= 1"), "c//b", "a"),
    ("a b k", ("a*k == b*k", "k >= 1"), "a", "b"),
    ("a b", ("a <= b",), "min(a, b)", "a"),
    ("a b", ("a >= b", "b >= 3"), "max(a - b, 0)", "a - b"),
    ("n", ("n in [3, 3]",), "n*n", "9"),
    ("n m", ("n == 2*m", "m >= 1"), "n//m", "2"),
    ("a b c", ("a <= b", "b <= c", "c <= a"), "a", "c"),
]


@pytest.mark.parametrize(("names", "assume", "a", "b"), PROVED)
def test_genuine_chains_replay(names: str, assume: tuple[str, ...], a: str, b: str) -> None:
    result = solved(names, *assume)
    explanation = result.explain(a, b)
    assert explanation.status == "proved"
    assert check_explanation(explanation, givens(result)) == []
    assert len(explanation.why) > 1 or explanation.why[0].rule in ("assumed", "same expression")
    stated = {step.to for step in explanation.why}
    assert all(text in stated for step in explanation.why for text in step.from_)


def test_arithmetic_is_replayed_as_arithmetic() -> None:
    explanation = solved("a b", "a + b == 1024", "a == b").explain("3*a", "1536")
    how = [each.how for each in replay_explanation(explanation, givens(solved("a b", "a + b == 1024", "a == b")))]
    assert how[-1] == "ring"
    assert set(how) == {"given", "ring"}


def test_what_was_only_sampled_says_so() -> None:
    result = solved("a b", "a <= b")
    assert replayed(result, result.explain("min(a, b)", "a")).checked[-1] == "sampled"


def test_facts_alone_suffice() -> None:
    explanation = solved("a b c", "a == b", "b == c").explain("a", "c")
    assert check_explanation(explanation, Facts.parse("a == b; b == c")) == []
    assert check_explanation(explanation, Facts.parse("a == b"))


def test_not_equal_and_not_known() -> None:
    result = solved("a b", "a <= b")
    found = result.explain("a", "b")
    assert found.status == "refuted"
    assert found.counterexample is not None
    assert found.counterexample["a"] < found.counterexample["b"]
    assert check_explanation(found, givens(result)) == []
    wrong = found.model_copy(update={"counterexample": {"a": 4, "b": 4}})
    assert check_explanation(wrong, givens(result))


def changed(index: int, **fields: object) -> Callable[[Explanation], Explanation]:
    """An explanation with other fields in one of its steps."""

    def tamper(explanation: Explanation) -> Explanation:
        steps = list(explanation.why)
        data = {**steps[index].model_dump(by_alias=True), **fields}
        steps[index] = Step.model_validate(data)
        return explanation.model_copy(update={"why": tuple(steps)})

    return tamper


def without(index: int) -> Callable[[Explanation], Explanation]:
    """An explanation without one of its steps."""

    def tamper(explanation: Explanation) -> Explanation:
        steps = list(explanation.why)
        del steps[index]
        return explanation.model_copy(update={"why": tuple(steps)})

    return tamper


def backwards(explanation: Explanation) -> Explanation:
    return explanation.model_copy(update={"why": explanation.why[::-1]})


TAMPERINGS = {
    "a fact that nobody gave": changed(0, to="a == 7*b"),
    "a wrong conclusion": changed(-1, to="a == c + 1"),
    "a conclusion about something else": changed(-1, to="2*b == 2*b"),
    "a fact is missing": without(0),
    "the conclusion is missing": without(-1),
    "a premise is missing": changed(-1, **{"from": []}),
    "a premise that nobody stated": changed(-1, **{"from": ["a == c"]}),
    "a conclusion disguised as a fact": changed(-1, rule="assumed", **{"from": []}),
    "a fact disguised as a rule": changed(0, rule="size.order/chain", to="a == c"),
    "the wrong order": backwards,
    "a place that states something else": changed(0, location="elsewhere.mlir:3:1"),
    "no statement at all": changed(0, to="a equals b"),
}


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_tampered_chains_are_rejected(tampering: str) -> None:
    result = solved("a b c", "a == b", "b == c")
    genuine = result.explain("a", "c")
    assert check_explanation(genuine, givens(result)) == []
    assert check_explanation(TAMPERINGS[tampering](genuine), givens(result))


def test_another_claim_is_rejected() -> None:
    result = solved("a b c", "a == b")
    explanation = result.explain("a", "b").model_copy(update={"b": "c"})
    assert check_explanation(explanation, givens(result))


def test_a_rule_without_its_premise_is_rejected() -> None:
    result = solved("n", "n % 8 == 0")
    explanation = result.explain("(n + 7)//8", "n//8")
    assert check_explanation(changed(-1, **{"from": []})(explanation), givens(result))


def test_nothing_is_given_beyond_what_is_passed() -> None:
    explanation = solved("n", "n % 8 == 0").explain("8*(n//8)", "n")
    assert check_explanation(explanation, Givens({}))


# -- models --------------------------------------------------------------------------------------------------------


@functools.lru_cache
def of_model(path: Path) -> Result:
    return api.optimize(api.load(path), validate=False)


def test_equalities_of_the_models(model_name: str, shared_models: Path) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    result = of_model(shared_models / f"{model_name}.mlir")
    given = givens(result)
    for a, b, why in result.report.equalities:
        explanation = result.explain(a, b)
        assert explanation.status == "proved"
        assert explanation.why == why
        assert check_explanation(explanation, given) == []
        assert any(step.location for step in why)


def test_removed_ops_of_the_models_have_reasons(model_name: str, shared_models: Path) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    result = of_model(shared_models / f"{model_name}.mlir")
    removed = result.explain_removed()
    before, after = result.report.ops.before.total, result.report.ops.after.total
    assert len(removed) >= before - after - len(result.report.checks)
    for each in removed:
        assert each.why, each.value
        assert all(step.rule and step.to for step in each.why)
        assert (each.stands is None) == (each.status == "gone")


# -- values --------------------------------------------------------------------------------------------------------


def transposed() -> Graph:
    program = Program()
    x = program.input("x", ["n", "m"])
    once = program.one("transpose", (x,), {"permutation": (1, 0)})
    twice = program.one("transpose", (once,), {"permutation": (1, 0)})
    return program.graph(program.one("negate", (twice,)))


def test_a_value_that_is_another_one() -> None:
    graph = transposed()
    result = egshape.optimize(graph, validate=False)
    once, twice = (f"%{op.result.name}" for op in graph.ops[:2])
    found = result.explain_value(twice)
    assert found.status == "rewritten"
    assert found.stands is not None
    assert found.stands.startswith("%x")
    assert any(step.rule.startswith("tensor.transpose/") for step in found.why)
    gone = result.explain_value(once)
    assert gone.status == "gone"
    assert any(step.rule.startswith("tensor.transpose/") for step in gone.why)
    assert result.explain_value(f"%{graph.ops[2].result.name}").status == "kept"
    assert result.explain_value("%x").status == "input"
    assert {each.value for each in result.explain_removed()} == {once, twice}


def test_of_many_values_a_result_is_gone_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    result = api.optimize(transposed())
    walked: list[Block] = []

    def walk(body: Block) -> Iterator[Block]:
        walked.append(body)
        return blocks_of(body)

    monkeypatch.setattr("egshape.reasons.explain_value.blocks_of", walk)
    told = [result.explain_value(op.results[0].name) for op in result.source.ops]
    assert result.explain_removed() == tuple(each for each in told if each.status != "kept")
    assert walked == [result.source.body]


def test_a_value_by_its_place(tmp_path: Path) -> None:
    """By an output's name, a line and a line with a column; not by what is no place."""
    path = tmp_path / "f.mlir"
    path.write_text("""func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %first = stablehlo.negate %x : tensor<?xf32>
  %second = stablehlo.abs %first : tensor<?xf32>
  return %second : tensor<?xf32>
}
""")
    result = egshape.optimize(path)
    for name, value in (("f.mlir:2", "%first"), ("f.mlir:3", "%second"), (result.source.output_names[0], "%second")):
        assert result.explain_value(name).value == value
        assert result.explain_value(result.explain_value(name).location).value == value
    for name in ("", "%", "f.mlir", "f.mlir:4", "3"):
        with pytest.raises(InvalidInput, match="has no value"):
            result.explain_value(name)


def test_a_node_of_onnx_by_its_name(tmp_path: Path) -> None:
    helper = pytest.importorskip("onnx", reason="ONNX needs the extra onnx").helper
    made = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["a"], "turn"), helper.make_node("Abs", ["a"], ["y"], "size")],
        "g",
        [helper.make_tensor_value_info("x", 1, ["n"])],
        [helper.make_tensor_value_info("y", 1, ["n"])],
    )
    result = egshape.optimize(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)]))
    assert result.explain_value("turn").value == "%a" and result.explain_value("a").value == "%a"
    assert repr(result.source).endswith(", 2 nodes>") and result.changes.unit == "nodes"


def test_sizes_inside_of_a_region(shared_models: Path) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    result = of_model(shared_models / "scan_rnn.mlir")
    given = givens(result)
    inner = [
        value
        for op in result.source.body.ops
        for region in op.regions
        for each in region.ops
        for value in each.results
        if any(dim.const is None for dim in value.type.shape or ())
    ]
    assert inner
    for value in inner:
        for axis, dim in enumerate(value.type.dims):
            explanation = result.explain(f"%{value.name}.{axis}", str(dim))
            assert explanation.status == "proved"
            assert check_explanation(explanation, given) == []
        assert result.explain_value(f"%{value.name}").status in ("kept", "rewritten", "gone")


SMALL = """
func.func @main(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %u = stablehlo.transpose %t, dims = [1, 0] : (tensor<4x?xf32>) -> tensor<?x4xf32>
  %w = stablehlo.transpose %u, dims = [1, 0] : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %z = stablehlo.transpose %w, dims = [1, 0] : (tensor<4x?xf32>) -> tensor<?x4xf32>
  %0 = stablehlo.add %z, %y : tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
"""


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    path = tmp_path / "small.mlir"
    path.write_text(SMALL)
    assert main(["explain", str(path), "arg0.0", "arg1.0", "--check", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["why"][0]["rule"] == "check"
    assert "small.mlir:7" in data["why"][0]["location"]
    assert data["checked"][0] == "given"
    assert main(["explain", str(path), "%u"]) == 0
    out = capsys.readouterr().out
    assert "tensor.transpose/" in out
    assert "in the result: %arg0" in out
    assert main(["explain", str(path), "%nothing"]) == 2
    assert "%nothing" in capsys.readouterr().err


FACTS = [
    ("n", ("n >= 3",), "in_n.0 >= 2"),
    ("n", ("n % 8 == 0",), "(4*n) % 32 == 0"),
    ("a b", ("a <= b",), "2*a <= 2*b + 1"),
    ("a b", ("a == b", "b >= 1"), "%0.0 >= 1"),
]


@pytest.mark.parametrize(("names", "assume", "text"), FACTS, ids=[text for _, _, text in FACTS])
def test_a_statement_is_explained_and_its_chain_replays(names: str, assume: tuple[str, ...], text: str) -> None:
    result = solved(names, *assume)
    explanation = result.explain_fact(text)
    assert (explanation.status, check_explanation(explanation, givens(result))) == ("proved", [])
    tampered = explanation.model_copy(update={"a": "n >= 100" if "n" in names else "a >= 100"})
    assert check_explanation(tampered, givens(result))


def test_a_statement_that_does_not_follow_is_not_explained() -> None:
    explanation = solved("n", "n >= 3").explain_fact("n >= 4")
    assert (explanation.status, explanation.counterexample) == ("refuted", {"n": 3})


def test_a_result_is_copied_and_not_pickled() -> None:
    result = egshape.optimize(sizes("n", "m"))
    assert copy.copy(result) is result and copy.deepcopy([result])[0] is result
    with pytest.raises(TypeError, match="pickle its graph and its report"):
        pickle.dumps(result)
    assert str(pickle.loads(pickle.dumps(result.graph))) == str(result.graph)
