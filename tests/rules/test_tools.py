"""The rules commands, the Python functions behind them, rulesets of packages, and custom ops."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import egshape
from egshape import rulebook
from egshape.cli import main
from egshape.errors import EgshapeError, Unsupported
from egshape.ir.expand import expand
from egshape.ir.graph import Graph
from egshape.ir.text import parse_graph
from egshape.ops import REGISTRY
from egshape.rulelang import plugins

ROOT = Path(__file__).resolve().parents[2]
MODEL = """graph small(%x: f32[n, 4]) {
  symbols n = size(%x, 0)
  %0: f32[4, n] = transpose(%x) {permutation=[1, 0]}
  %1: f32[4, n] = negate(%0)
  %2: f32[n, 4] = transpose(%1) {permutation=[1, 0]}
  %3: f32[n, 4] = my_silu(%2)
  %4: f32[n, 4] = my_turn(%3) {n=1, axis=0}
  %5: f32[n, 4] = my_turn(%4) {n=2, axis=0}
  return %5 as out0
}
"""
RULES = """; ruleset: turns
; about:   an op that a user declared
; needs:   prelude.shape, prelude.tensor, tensor.types
; law:     keeps dtype, shape and every bit of the value
; ends:    fewer ops

; my_turn(my_turn(x, n, k), m, k) = my_turn(x, n + m, k)
; sound: turns add up
(rule ((= e (my_turn (my_turn x n k) m k)) (= s (+ n m))) ((union e (my_turn x s k)))
  :ruleset turns :name "turns/twice")
;; example   my_turn(my_turn(x: [a, b], 1, 0), 2, 0)  =>  my_turn(x, 3, 0)
;; counter   my_turn(my_turn(x: [a, b], 1, 1), 2, 0)
"""


@pytest.fixture
def ops() -> Iterator[None]:
    @egshape.custom_op("my_silu", operands=("x",), elementwise=True)
    class Silu:
        """x * sigmoid(x)"""

        def shape(x):  # type: ignore[no-untyped-def]
            return x

        def reference(x):  # type: ignore[no-untyped-def]
            return x * REGISTRY["logistic"].reference(x)

        def body(b, x):  # type: ignore[no-untyped-def]
            return b.multiply(x, b.logistic(x))

    @egshape.custom_op("my_turn", operands=("x",), attrs={"n": "int", "axis": "int"})
    class Turn:
        """x moved on along an axis."""

        def shape(x, *, n, axis):  # type: ignore[no-untyped-def]
            return x

        def reference(x, *, n, axis):  # type: ignore[no-untyped-def]
            return np.roll(x, n, axis)

    yield
    for name in ("my_silu", "my_turn"):
        REGISTRY.drop(name)


@pytest.fixture
def graph(ops: None) -> Graph:
    return parse_graph(MODEL)


@pytest.fixture
def rules(tmp_path: Path) -> str:
    path = tmp_path / "turns.egg"
    path.write_text(RULES)
    return str(path)


def test_a_custom_op_goes_the_whole_way(graph: Graph, rules: str) -> None:
    result = egshape.optimize(graph, rules=[rules])
    assert result.report.status == "saturated", result.report.notes
    names = [op.name for op in result.graph.ops]
    assert names.count("my_turn") == 1
    assert "transpose" not in names  # the rules about elementwise ops hold for my_silu
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    before, after = (egshape.compile(each, "interpret", optimize=False) for each in (graph, result))
    assert np.array_equal(before(x), after(x))
    assert "turns/twice" in str(egshape.diff(result))


def test_a_body_stands_in_where_a_back_end_does_not_know_an_op(graph: Graph) -> None:
    opened = expand(graph, keep=True)
    assert [op.name for op in opened.ops].count("logistic") == 1
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    before, after = (egshape.compile(each, "interpret", optimize=False) for each in (graph, opened))
    assert np.array_equal(before(x), after(x))
    with pytest.raises(Unsupported, match="my_turn has no body"):
        egshape.compile(graph, target="llvm", optimize=False)


def test_a_custom_op_survives_stablehlo(graph: Graph, tmp_path: Path) -> None:
    pytest.importorskip("jax")
    egshape.save(graph, tmp_path / "m.mlir")
    again = egshape.load(tmp_path / "m.mlir")
    assert [dict(op.attrs) for op in again.ops if op.name == "my_turn"] == [{"n": 1, "axis": 0}, {"n": 2, "axis": 0}]


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("My.Op", {"operands": ("x",)}, "small letters"),
        ("my_op", {"operands": ("x", "x")}, "one name"),
        ("my_op", {"operands": ("*x", "y")}, "only the last operand"),
        ("my_op", {"operands": ("x", "y", "z"), "elementwise": True}, "1 or 2 operands"),
        ("my_op", {"operands": ("x",), "attrs": {"k": "int"}, "elementwise": True}, "are text"),
        ("my_op", {"operands": ("x",)}, "has no shape"),
        ("add", {"operands": ("x",)}, "declared twice"),
    ],
)
def test_a_wrong_declaration_is_one_message(name: str, options: dict[str, object], said: str) -> None:
    body = {} if "no shape" in said else {"shape": lambda x: x, "reference": lambda x: x}
    with pytest.raises(EgshapeError, match=said):
        egshape.custom_op(name, **options)(type("Op", (), body))  # type: ignore[arg-type]


def test_a_fault_in_a_users_function_names_the_op(graph: Graph) -> None:
    @egshape.custom_op("my_silu", operands=("x",), elementwise=True)
    class Broken:
        def shape(x):  # type: ignore[no-untyped-def]
            return x

        def reference(x):  # type: ignore[no-untyped-def]
            return x.nothing

    with pytest.raises(EgshapeError, match="the reference of the custom op my_silu fails: AttributeError"):
        egshape.compile(graph, "interpret", optimize=False)(np.zeros((2, 4), np.float32))


def test_rulesets_of_packages(graph: Graph, rules: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(rules).parent
    (folder / "turns.egg").write_text(RULES.replace("turns", "acme.turns"))
    point = EntryPoint("acme", "acme.rules:FOLDER", plugins.GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda self: folder)
    monkeypatch.setattr(plugins, "packages", lambda: (point,))
    for name in ("acme", "acme.turns"):
        result = egshape.optimize(graph, rules=[name])
        assert [op.name for op in result.graph.ops].count("my_turn") == 1
    assert [op.name for op in egshape.optimize(graph).graph.ops].count("my_turn") == 2
    with pytest.raises(EgshapeError, match="no ruleset named acne"):
        egshape.optimize(graph, rules=["acne"])


def test_profile_says_which_rules_the_result_hangs_on(graph: Graph, rules: str) -> None:
    found = rulebook.profile(graph, rules=[rules])
    rows = {row.rule: row for row in found.rules}
    assert rows["turns/twice"].decisive
    assert rows["turns/twice"].without == "1 more op"
    assert (found.ops_before, found.ops_after) == (6, 3)
    assert all(step.after != step.before or step.seconds >= 0 for step in found.steps)
    assert found.steps


def test_trace_shows_each_application(graph: Graph, rules: str) -> None:
    (row,) = rulebook.trace(graph, rules=[rules], rule="turns").applications
    assert (row.before, row.after) == ("my_turn(my_turn(%3, 1, 0), 2, 0)", "my_turn(%3, 3, 0)")
    assert (row.value, row.rule, row.where) == ("5", "turns/twice", f"{rules}:9")
    assert not rulebook.trace(graph, rules=[rules], value="%x", rule="turns").applications


def test_a_wrong_rule_of_the_user_never_changes_a_model(graph: Graph, rules: str) -> None:
    Path(rules).write_text(RULES.replace("my_turn x n k) m k)) (= s", "my_turn x n k) m l)) (= s"))
    broken = parse_graph(MODEL.replace("{n=2, axis=0}", "{n=2, axis=1}"))
    result = egshape.optimize(broken, rules=[rules])
    assert result.report.status == "saturated"
    assert result.report.dropped_rules == ("turns/twice",)
    assert "the rule turns/twice is left out" in result.report.notes[0]


def test_prelude_lists_custom_ops(ops: None) -> None:
    words = {word.name: word for word in rulebook.prelude()}
    assert words["my_turn"].form == "(my_turn x n axis)"
    assert words["my_silu"].form == '(Unary "my_silu" x)'
    assert words["transpose"].args == ("T", "Axes")
    assert words["Dvd"].kind == "relation"
    assert words["Cons"].form == "(Cons T Ts)"


def test_prelude_documents_each_word_by_the_comment_above_it() -> None:
    words = rulebook.prelude()
    docs = {word.name: word.doc for word in words}
    assert docs["Dvd"] == "(Dvd k d): k divides d."
    assert docs["axis"] == "Axis numbers in use."
    assert docs["lo"] == docs["hi"]  # one comment above both
    assert not [name for name, doc in docs.items() if not doc], "words without a doc"
    kinds = [word.kind for word in words]
    assert [kind for k, kind in enumerate(kinds) if k == 0 or kinds[k - 1] != kind] == list(dict.fromkeys(kinds))


Captured = pytest.CaptureFixture[str]


def ran(capsys: Captured, *argv: str) -> tuple[int, str]:
    code = main(["rules", *argv])
    return code, capsys.readouterr().out


def test_commands(capsys: Captured, tmp_path: Path) -> None:
    code, out = ran(capsys, "list", "tensor.slice", "--json")
    assert code == 0
    assert any(row["name"] == "tensor.slice/slice-full" for row in json.loads(out)["rules"])
    assert "slice(x, ...) = x where the shape is that of x" in ran(capsys, "show", "tensor.slice/slice-full")[1]
    assert main(["rules", "show", "tensor.slice/slice-ful"]) == 2
    assert "did you mean tensor.slice/slice-full?" in capsys.readouterr().err
    mistakes = ROOT / "tests" / "invalid" / "rules" / "mistakes"
    code, out = ran(capsys, "check", str(mistakes / "unknown-op.egg"))
    assert code == 2
    assert "did you mean reverse?" in out
    code, out = ran(capsys, "check", str(mistakes / "unknown-op.egg"), "--json")
    assert json.loads(out)["problems"][0]["code"] == "unknown-op"
    wrong = mistakes.parent / "wrong" / "sizes.egg"
    code, out = ran(capsys, "test", str(wrong), "--rule", "wrong.sizes/wrong-itself-at-zero", "--json")
    assert code == 1
    assert json.loads(out)["rules"][0]["counterexample"].startswith("at k = 0")
    code, out = ran(capsys, "test", "size.order", "--no-proofs")
    assert code == 0
    assert "sampled" in out
    assert "(transpose x permutation)" in ran(capsys, "prelude", "transpose")[1]


def test_commands_on_a_model(capsys: Captured) -> None:
    pytest.importorskip("jax")
    model = str(ROOT / "examples" / "encoder.mlir")
    code, out = ran(capsys, "profile", model, "--seconds", "0")
    assert code == 0
    assert "tensor.broadcast/broadcast-broadcast" in out
    code, out = ran(capsys, "trace", model, "--rule", "tensor.neutral", "--json")
    assert {row["rule"] for row in json.loads(out)["applications"]} >= {"tensor.neutral/convert-same"}


def test_a_user_ruleset_over_sizes(tmp_path: Path) -> None:
    path = tmp_path / "own.egg"
    path.write_text("""; ruleset: own
; about:   sizes
; needs:   prelude.shape, size.interval
; law:     an equation holds at all sizes
; ends:    a bound

; h//k <= h for h >= 0
; sound: k >= 1 and h >= 0
(rule ((= q (FloorDiv h k)) (= a (hi h)) (= b (lo h)) (>= b 0) (= c (lo k)) (> c 0)) ((set (hi q) a))
  :ruleset own :name "own/at-most")
;; example   h//k given h <= 9; k >= 1  =>  it <= 9
;; counter   h//k given k >= 1  =>  it <= 9
""")
    (verdict,) = rulebook.test(str(path))
    assert verdict.good, verdict.why
