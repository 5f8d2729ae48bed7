"""Size functions that an author adds in one file: facts, proofs, programs, formats, native code, mistakes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import egshape
from egshape import rulebook
from egshape.adapters.xla import run_stablehlo
from egshape.dims import Dim, const, parse, symbol
from egshape.dims.functions import SizeFunction
from egshape.editor.document import Document
from egshape.errors import CheckFailed, EgshapeError, ParseError, UndefinedSize
from egshape.facts import parse_facts
from egshape.ops.base import REGISTRY
from egshape.prove import prove
from egshape.rulebook.trial import proofs
from egshape.rulebook.trial.soundness import CannotSample
from egshape.rulelang.provenance import desugar
from egshape.rulelang.sexpr import read_lists

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = {path.stem: path for path in sorted((ROOT / "examples" / "sizes").glob("*.egg"))}
HEADER = """; ruleset: my.test
; about:   a test
; needs:   {needs}
; law:     an equation holds at all sizes
; ends:    each rule bounds a value
"""


def written(folder: Path, text: str, needs: str = "prelude.shape", name: str = "test.egg") -> str:
    path = folder / name
    path.write_text(HEADER.format(needs=needs) + "\n" + text)
    return str(path)


def test_words_of_the_engine_are_no_names(tmp_path: Path) -> None:
    (problem,) = rulebook.check(written(tmp_path, '(size floor (n) :is "n + 1")')).problems
    assert "Primitive floor already declared" in problem.message and problem.at.line == 7
    assert problem.hint == "floor is a word of the engine, so give it another name"


def status(goal: str, name: str, given: str = "") -> str:
    return prove(goal, given or (), str(EXAMPLES[name])).status


def test_the_examples_are_short() -> None:
    assert set(EXAMPLES) == {"gcd", "isqrt", "next_pow2", "round_up"}
    assert all(len(path.read_text().splitlines()) < 30 for path in EXAMPLES.values())


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_examples_hold(name: str) -> None:
    assert not rulebook.check(str(EXAMPLES[name])).problems
    verdicts = rulebook.test(str(EXAMPLES[name]))
    assert verdicts and [each.why for each in verdicts if not each.good] == []


@pytest.mark.parametrize(
    ("name", "goal", "given", "wanted"),
    [
        ("isqrt", "n <= 24", "isqrt(n) == 4", "proved"),
        ("isqrt", "isqrt(n) <= 4", "n <= 24", "proved"),
        ("isqrt", "isqrt(n*n) == n", "", "proved"),
        ("isqrt", "isqrt(n) == 5", "isqrt(n) == 4", "refuted"),
        ("isqrt", "isqrt(n - 5) >= 0", "", "unknown"),
        ("isqrt", "isqrt(n - 5) >= 0", "n >= 5", "proved"),
        ("isqrt", "isqrt(17) == 4", "", "proved"),
        ("gcd", "gcd(a, b) == gcd(b, a)", "", "proved"),
        ("gcd", "gcd(a, b) == a", "a == b", "proved"),
        ("gcd", "gcd(a, b) == 1", "", "refuted"),
        ("next_pow2", "next_pow2(next_pow2(n)) == next_pow2(n)", "", "proved"),
        ("next_pow2", "next_pow2(n) <= 2*n - 1", "n >= 1", "proved"),
        ("next_pow2", "next_pow2(n) <= 2*n - 1", "", "refuted"),
        ("round_up", "round_up(n, 8) % 8 == 0", "", "proved"),
        ("round_up", "round_up(n, k) == n", "n % k == 0; k >= 1", "proved"),
        ("round_up", "round_up(n, k) >= n", "", "unknown"),
    ],
)
def test_questions(name: str, goal: str, given: str, wanted: str) -> None:
    assert status(goal, name, given) == wanted


def test_a_name_is_known_where_it_is_declared_only() -> None:
    with egshape.size_functions(str(EXAMPLES["isqrt"])):
        assert str(parse("2*isqrt(n) + 1")) == "2*isqrt(n) + 1"
    with pytest.raises(ParseError, match="unknown function 'isqrt'"):
        parse("isqrt(n)")


def test_two_functions_of_one_name_are_two(tmp_path: Path) -> None:
    one = written(tmp_path, '(size twice (n) :is "2*n")', name="one.egg")
    two = written(tmp_path, '(size twice (n) :is "n + n*n")', name="two.egg")
    assert [prove("twice(n) == 2*n", (), path).status for path in (one, two, one)] == ["proved", "refuted", "proved"]
    with egshape.size_functions(one) as mine, egshape.size_functions(one) as again:
        assert mine["twice"] is again["twice"]
        with pytest.raises(EgshapeError, match="two size functions named twice"), egshape.size_functions(two):
            pass


def test_one_function_uses_another(tmp_path: Path) -> None:
    needs = f"prelude.shape {EXAMPLES['round_up']}"
    path = written(tmp_path, '(size tiles (n) :is "round_up(n, 128)//128")', needs)
    assert prove("tiles(n) == cdiv(n, 128)", (), path).status == "proved"


ROUND_UP = EXAMPLES["round_up"].read_text()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(= d (round_up n k)) (Dvd", "(= d (round_up n k k)) (Dvd", "round_up takes 2 arguments, not 3"),
        ("(= d (round_up n k)) (Dvd", "(= d (round_up n)) (Dvd", "round_up takes 2 arguments, not 1"),
        ("(= x (lo k)) (> x 0)) ((union", "(= x (lo)) (> x 0)) ((union", "lo takes 1 argument, not 0"),
    ],
)
def test_a_rule_of_a_wrong_form_is_an_error_with_its_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "wrong.egg"
    path.write_text(ROUND_UP.replace(old, new, 1))
    assert path.read_text() != ROUND_UP
    assert message in [each.message for each in rulebook.check(str(path)).errors]
    with pytest.raises(EgshapeError, match=message) as raised, egshape.size_functions(path):
        pass
    assert raised.value.where.startswith(f"{path}:11:")


WRONG_RULES = [
    ("(= x (lo a))", "(= x (loo a))", "unknown-op", 13),
    ("((= d (gcd a a))", "((= d (gcd a))", "arity", 13),
    ("((= d (gcd a (Num 1)))) ((union d (Num 1)))", "((= d (gcd a (Num 1)))) ((union d q))", "unbound", 18),
    (' :name "my.gcd/one"', "", "no-name", 18),
    ("((union d a)) :rul", "((edge d a 0)) :rul", "at-once", 13),
]


@pytest.mark.parametrize(("old", "new", "code", "line"), WRONG_RULES, ids=[each[2] for each in WRONG_RULES])
def test_of_a_wrong_rule_it_is_told_and_nothing_of_examples(
    tmp_path: Path, old: str, new: str, code: str, line: int
) -> None:
    path, text = tmp_path / "wrong.egg", EXAMPLES["gcd"].read_text()
    path.write_text(text.replace(old, new, 1))
    assert path.read_text() != text
    assert [(each.code, each.at.line) for each in rulebook.check(str(path)).errors] == [(code, line)]
    assert [(each.code, each.at.line) for each in Document(path, path.read_text()).problems] == [(code, line)]
    with pytest.raises(EgshapeError) as raised:
        rulebook.test(str(path))
    assert raised.value.where.startswith(f"{path}:{line}")


DECLARED = '(size gcd (a b) :python "math.gcd(a, b)")'
UNREAD = [
    (DECLARED.replace("size", "siz"), "command"),
    (DECLARED.replace(":python", ":pythn"), "size-function"),
    (DECLARED.replace("(a b)", "(a a)"), "size-function"),
    (DECLARED.replace("gcd (a b)", "(gcd a b)"), "size-function"),
    (DECLARED[:-1], "syntax"),
    ("(relation gcd (Dim Dim))", "command"),
    (f'{DECLARED.replace(":python", ":pythn")}\n\n(size twice (n) :is "2*gcd(n, n)")', "size-function"),
]


@pytest.mark.parametrize(("declared", "code"), UNREAD)
def test_of_a_declaration_that_cannot_be_read_it_is_told_and_nothing_of_uses(
    tmp_path: Path, declared: str, code: str
) -> None:
    path, text = tmp_path / "wrong.egg", EXAMPLES["gcd"].read_text()
    path.write_text(text.replace(DECLARED, declared))
    assert [(each.code, each.at.line) for each in rulebook.check(str(path)).errors] == [(code, 9)]
    assert [(each.code, each.at.line) for each in Document(path, path.read_text()).problems] == [(code, 9)]


def test_uses_of_a_name_that_is_declared_nowhere_are_told_each(tmp_path: Path) -> None:
    path, text = tmp_path / "wrong.egg", EXAMPLES["gcd"].read_text().replace(DECLARED, "")
    path.write_text(text)
    codes = [each.code for each in rulebook.check(str(path)).errors]
    assert [each.code for each in Document(path, text).problems] == codes and len(codes) == 10


def test_a_declaration_between_rules(tmp_path: Path) -> None:
    """In an editor the rules of a file are checked apart from each other."""
    text = EXAMPLES["gcd"].read_text() + LAST
    found = Document(tmp_path / "x.egg", text)
    assert [(each.code, each.at.line) for each in found.problems] == [
        ("command", text[: text.index("(rel")].count("\n") + 1)
    ]
    missing = Document(tmp_path / "x.egg", text.replace("(relation close (Dim Dim))", ""), found.memory)
    assert [each.code for each in missing.problems] == ["unknown-op"]


LAST = """
(relation close (Dim Dim))

; gcd(a, b) <= a
(rule ((= d (gcd a b)) (close a b)) ((union d a)) :ruleset my.gcd :name "my.gcd/close")
;; example   gcd(a, b)  =>  a
"""


def test_a_rule_that_only_the_engine_can_use(tmp_path: Path) -> None:
    """It need not run at once, unless the header says so."""
    path = tmp_path / "nested.egg"
    text = EXAMPLES["gcd"].read_text()
    path.write_text(text + NESTED)
    assert not rulebook.check(str(path)).problems
    with egshape.size_functions(str(path)):
        assert egshape.prove("gcd(a, a) == a").status == "proved"
    path.write_text((text + NESTED).replace("; at once: itself", "; at once: nested, itself"))
    (only,) = rulebook.check(str(path)).problems
    assert only.code == "at-once" and only.rule == "my.gcd/nested"


def test_a_header_that_names_a_rule_that_is_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "gcd.egg"
    path.write_text(EXAMPLES["gcd"].read_text().replace("; only at once: swapped", "; only at once: swaped"))
    with pytest.raises(EgshapeError, match="no rule of this file is named my") as found:
        egshape.prove("gcd(a, a) == a", rules=str(path))
    assert found.value.where.endswith("gcd.egg:7:17") and found.value.hint == "did you mean swapped?"


NESTED = """
; gcd(a*b, a) >= 0
(rule ((= d (gcd (Mul a b) a))) ((set (lo d) 0)) :ruleset my.gcd :name "my.gcd/nested")
;; example   gcd(a*b, a)  =>  it >= 0
"""


@pytest.mark.parametrize("actions", ["()", "((union d n) (union d n))"])
@pytest.mark.parametrize("header", ["", "; at once: exact\n"])
def test_a_rule_of_no_or_two_actions(tmp_path: Path, actions: str, header: str) -> None:
    """It is no law; where it must simplify that is an error."""
    path = tmp_path / "actions.egg"
    path.write_text(ROUND_UP.replace("((union d n))", actions, 1).replace("; law:", f"{header}; law:", 1))
    if header:
        with pytest.raises(EgshapeError, match="cannot run at once"), egshape.size_functions(path):
            pass
    else:
        assert prove("round_up(n, 8) >= n", (), str(path)).status == "proved"


def test_the_same_size_in_every_process() -> None:
    with egshape.size_functions(str(EXAMPLES["gcd"])) as mine:
        size = mine["gcd"](symbol("b") + 1, symbol("a")) * 2
        assert str(size) == "2*gcd(a, b + 1)" and parse(str(size)) is size
    assert pickle.loads(pickle.dumps(size)) is size


def test_undefined_where_it_says() -> None:
    with egshape.size_functions(str(EXAMPLES["isqrt"])):
        size = parse("isqrt(n - 3)")
    assert (size.evaluate({"n": 7}), str(size.substitute({"n": 12}))) == (2, "3")
    assert [str(each) for each in size.divisors_maybe_zero()] == ["n - 2"] or size.divisors_maybe_zero()
    with pytest.raises(UndefinedSize, match="has no value"):
        size.evaluate({"n": 0})


# -- mistakes ----


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('(size max (n) :is "n")', "max cannot be the name"),
        ('(size f (n n) :is "n")', "arguments with names of their own"),
        ("(size f (n))", "one of :is and :python"),
        ('(size f (n) :is "n" :python "n")', "one of :is and :python"),
        ('(size f (n) :is "g(n)")', "unknown function 'g'"),
        ('(size f (n) :is "n + m")', "f has no argument m"),
        ('(size f (n) :python "open(n)")', "'open.n.' is no part of a formula"),
        ('(size f (n) :python "n.__class__")', "is no part of a formula"),
        ('(size f (n) :python "n ** n")', "is no part of a formula"),
        ('(size f (n) :python "(lambda: n)()")', "is no part of a formula"),
        ('(size f (n) :python "n +")', "cannot read 'n .'"),
        ('(size f (n) :python "n" :defined "n == 1")', "expected >= or !="),
        ('(size f (n) :python "n*n" :emitted "2*n")', "the formula gives 1, the expression 2 at n = 1"),
        ('(size Relu (n) :is "n")', "Relu cannot be the name"),
        ('(size lo (n) :is "n")', "something else is called lo"),
        ('(size f (n) :speed "n")', ":speed of f is not understood"),
    ],
)
def test_a_wrong_declaration(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(EgshapeError, match=message) as found, egshape.size_functions(written(tmp_path, text)):
        pass
    assert "test.egg:7" in found.value.where


WRONG = {
    "less": "(edge d n 1)",
    "itself": "(union d n)",
    "small": "(set (hi d) 10)",
    "divides": "(Dvd d n)",
}
RULE = """; a wrong equation
(rule ((= d (isqrt n))) ({}) :ruleset my.test :name "my.test/wrong")
;; example   isqrt(n)  =>  it >= 0
"""


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_wrong_rule_is_found(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, RULE.format(WRONG[name]), f"prelude.shape {EXAMPLES['isqrt']}")
    (verdict,) = rulebook.test(path)
    assert not verdict.good and "the body holds, but not" in verdict.why


STATEMENTS = {
    "isqrt": {
        "((= d (isqrt n))) ((edge (Mul d d) n 0))": "proved",
        "((= d (isqrt n)) (= x (lo n)) (> x 1)) ((edge d n 1))": "proved",
        "((= d (isqrt n))) ((edge d n 1))": "refuted",
    },
    "round_up": {
        "((= d (round_up n k)) (= x (lo k)) (> x 0)) ((edge n d 0))": "proved",
        "((= d (round_up n k))) ((edge n d 0))": "refuted",
    },
    "next_pow2": {  # 12 choices one behind the other: z3 may give up
        "((= d (next_pow2 n))) ((set (lo d) 1))": "proved or unknown",
        "((= d (next_pow2 n))) ((edge d (Mul (Num 2) n) 1))": "refuted or unknown",
    },
    "gcd": {"((= d (gcd a b)) (= x (lo a)) (> x 0)) ((edge d a 0))": "sampled"},  # its loop is too long for z3
}


@pytest.mark.skipif(not proofs.available(), reason="needs the extra verify")
@pytest.mark.parametrize(("name", "rule"), [(name, rule) for name, all in STATEMENTS.items() for rule in all])
def test_proofs_know_formulas_and_expressions(name: str, rule: str) -> None:
    plain = desugar(read_lists(f"(rule {rule})")[0], "x", "x")[0]
    with egshape.size_functions(str(EXAMPLES[name])):
        try:
            found = proofs.prove_rule(plain).status
        except CannotSample:
            found = "sampled"  # type: ignore[assignment]
    assert found in STATEMENTS[name][rule].split(" or ")


# -- programs ----

TEXT = """
func.func @f(%x: tensor<?x4xf32>, %y: tensor<4xf32>) -> tensor<?x4xf32> {
  %0 = stablehlo.constant dense<4> : tensor<1xi32>
  %1 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
  %2 = stablehlo.reshape %1 : (tensor<i32>) -> tensor<1xi32>
  %3 = stablehlo.concatenate %2, %0, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %4 = stablehlo.dynamic_broadcast_in_dim %y, %3, dims = [1] : (tensor<4xf32>, tensor<2xi32>) -> tensor<?x4xf32>
  %5 = stablehlo.add %x, %4 : tensor<?x4xf32>
  return %5 : tensor<?x4xf32>
}
"""


@pytest.fixture
def graph() -> egshape.Graph:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    return egshape.load(TEXT.encode(), format="mlir")


def feed(rows: int) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(rows * 4, dtype=np.float32).reshape(rows, 4), np.ones(4, np.float32)


def test_a_fact_about_one_decides_sizes(graph: egshape.Graph) -> None:
    facts = ["isqrt(arg0.0)*isqrt(arg0.0) == arg0.0", "isqrt(arg0.0) == 4"]
    result = egshape.optimize(graph, facts, str(EXAMPLES["isqrt"]))
    assert str(result.graph.outputs[0].type) == "f32[16, 4]" and not result.report.notes
    assert result.explain("arg0.0", "isqrt(arg0.0)*4").status == "proved"
    run = egshape.compile(result, "interpret")
    assert np.array_equal(run(*feed(16)), feed(16)[0] + 1)
    with pytest.raises(CheckFailed, match=r"the assumed fact isqrt\(arg0.0\).* does not hold"):
        run(*feed(17))


def test_one_with_an_expression_goes_into_every_format(graph: egshape.Graph, tmp_path: Path) -> None:
    result = egshape.optimize(graph, "round_up(arg0.0, 8) == arg0.0", str(EXAMPLES["round_up"]))
    assert "round_up(arg0.0, 8)" in str(result.graph)
    egshape.save(result, tmp_path / "f.mlir")
    assert "round_up" not in (tmp_path / "f.mlir").read_text().replace("the assumed fact round_up", "")
    again = egshape.load(tmp_path / "f.mlir")
    runs = [egshape.compile(again, "interpret"), egshape.compile(result, "interpret")]
    if pytest.importorskip("llvmlite", reason="native code needs the extra llvm"):
        runs.append(egshape.compile(result, "llvm"))
    for run in runs:
        assert np.array_equal(run(*feed(8)), feed(8)[0] + 1)
        with pytest.raises(CheckFailed):
            run(*feed(7))


def test_onnx_gets_the_expression_too(graph: egshape.Graph, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="running ONNX models needs ONNX Runtime")
    result = egshape.optimize(graph, "round_up(arg0.0, 8) == arg0.0", str(EXAMPLES["round_up"]))
    egshape.save(result, tmp_path / "f.onnx")
    session = runtime.InferenceSession(str(tmp_path / "f.onnx"))
    x, y = feed(16)
    assert np.array_equal(session.run(None, {"arg0": x, "arg1": y})[0], x + 1)
    with pytest.raises(Exception, match="round_up"):
        session.run(None, dict(zip(("arg0", "arg1"), feed(7), strict=True)))


FORMULAS = {
    "gcd": "gcd(arg0.0, 12) <= 3",
    "isqrt": "isqrt(arg0.0) <= 2",
    "next_pow2": "next_pow2(arg0.0) <= 8",
    "digits": "digits(arg0.0) <= 1",
    "ones": "ones(arg0.0) <= 1",
    "below": "below(arg0.0) <= 1",
}
MINE = {
    "digits": """(size digits (n) :python "
  count = 1
  for i in range(18):
    n //= 10
    if n > 0: count += 1
  return count")""",
    "ones": """(size ones (n) :python "
  ones = 0
  for i in range(63): ones, n = ones + n % 2, n // 2
  return ones")""",
    "below": '(size below (n) :python "(n - 7) // 2 if n else 5 // n" :defined "n >= 1")',  # negative, and undefined
}
RUNS = ("interpret", "llvm", "mlir", "onnx")


def runner(result: egshape.Result, how: str, folder: Path) -> Callable[..., list[np.ndarray]]:
    """What runs a result: back ends of ours, or XLA and ONNX Runtime where it is saved."""
    if how == "mlir":
        text = egshape.save(result, folder / "f.mlir") or (folder / "f.mlir").read_text()
        return lambda *inputs: run_stablehlo(text, inputs)
    if how == "onnx":
        runtime = pytest.importorskip("onnxruntime", reason="running ONNX models needs ONNX Runtime")
        egshape.save(result, folder / "f.onnx")
        session = runtime.InferenceSession(str(folder / "f.onnx"))
        names = [each.name for each in session.get_inputs()]
        return lambda *inputs: session.run(None, dict(zip(names, inputs, strict=False)))
    fn = egshape.compile(result, how)
    return lambda *inputs: [fn(*inputs)]


@pytest.mark.parametrize("how", RUNS)
@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_a_formula_is_computed_in_every_format(graph: egshape.Graph, tmp_path: Path, name: str, how: str) -> None:
    rules = written(tmp_path, MINE[name]) if name in MINE else str(EXAMPLES[name])
    result = egshape.optimize(graph, FORMULAS[name], rules)
    with egshape.size_functions(rules):
        (fact,) = parse_facts(FORMULAS[name])
    run, said = runner(result, how, tmp_path), set()
    for rows in range(12):
        x, y = feed(rows)
        try:
            holds = fact.lhs.evaluate({"arg0.0": rows}) <= fact.rhs.evaluate({})
        except UndefinedSize:
            holds = False
        said.add(holds)
        if holds:
            assert np.array_equal(run(x, y)[0], x + 1)
        else:
            with pytest.raises(Exception, match=name):
                run(x, y)
    assert said == {True, False}


@pytest.mark.parametrize("form", ["f.mlir", "f.onnx"])
def test_a_formula_is_read_back(graph: egshape.Graph, tmp_path: Path, form: str) -> None:
    result = egshape.optimize(graph, FORMULAS["isqrt"], str(EXAMPLES["isqrt"]))
    egshape.save(result, tmp_path / form)
    again = egshape.compile(egshape.load(tmp_path / form), "interpret", optimize=False)
    for rows in (0, 1, 8):
        assert np.array_equal(again(*feed(rows)), feed(rows)[0] + 1)
    with pytest.raises(CheckFailed, match="isqrt"):
        again(*feed(9))


@pytest.fixture
def padded() -> Iterator[SizeFunction]:
    """A custom op whose result has a size that an author's function gives."""
    with egshape.size_functions(str(EXAMPLES["round_up"])) as mine:
        round_up = mine["round_up"]

    def missing(size: Dim) -> Dim:
        return round_up(size, 8) - size

    @egshape.custom_op("pad_up", operands=("x",))
    class PadUp:
        """x with zeros up to a multiple of 8."""

        def shape(x):  # type: ignore[no-untyped-def]
            return x.dtype, (round_up(x.dims[0], 8), x.dims[1])

        def reference(x):  # type: ignore[no-untyped-def]
            return np.pad(x, ((0, -len(x) % 8), (0, 0)))

        def body(b, x):  # type: ignore[no-untyped-def]
            none, high = const(0), missing(x.type.dims[0])
            return b.pad(x, b.const(0.0, "f32"), low=(none, none), high=(high, none), interior=(none, none))

    yield round_up
    REGISTRY.drop("pad_up")


CALLS = """
func.func @f(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = stablehlo.custom_call @pad_up(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %1 = stablehlo.custom_call @pad_up(%0) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %2 = stablehlo.add %1, %1 : tensor<?x4xf32>
  return %2 : tensor<?x4xf32>
}
"""


def test_the_type_of_a_custom_op(padded: SizeFunction) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    graph = egshape.load(CALLS.encode(), format="mlir")
    assert str(graph.outputs[0].type) == "f32[round_up(round_up(arg0.0, 8), 8), 4]"
    result = egshape.optimize(graph, rules=str(EXAMPLES["round_up"]))
    assert str(result.graph.outputs[0].type) == "f32[round_up(arg0.0, 8), 4]"
    x = feed(5)[0]
    for target in ("interpret", "llvm"):
        found = egshape.compile(result, target)(x)
        assert found.shape == (8, 4) and np.array_equal(found[:5], 2 * x) and not found[5:].any()


# -- contracts ----

CONTRACTS = """; needs: round_up.egg isqrt.egg

; pad_up(x): x with zeros up to a multiple of 8 rows    of our own
(contract pad_rows ((x T))
  :requires (((= (rank x) 2) "takes a matrix, got {x}"))
  :dtype (dtype x)
  :shape (list (round_up (size x 0) 8) (size x 1))
  :body (pad x (const 0 (dtype x))
    :low (list 0 0) :high (list (- (round_up (size x 0) 8) (size x 0)) 0) :interior (list 0 0)))
;; example  pad_rows(x: [n, 2])  =>  f32[round_up(n, 8), 2]
;; rejects  pad_rows(x: [n])

; as_square(x): the elements of x as a square matrix    of our own
(contract as_square ((x T))
  :requires (
    ((= (rank x) 1) "takes a vector, got {x}")
    ((= (size x 0) (* (isqrt (size x 0)) (isqrt (size x 0)))) "square" "{(size x 0)} is no square"))
  :dtype (dtype x)
  :shape (list (isqrt (size x 0)) (isqrt (size x 0)))
  :body (reshape x :shape (list (isqrt (size x 0)) (isqrt (size x 0)))))
;; example  as_square(x: [n])  =>  f32[isqrt(n), isqrt(n)]
;; implies  as_square(x: [n])  =>  n == isqrt(n)*isqrt(n)
;; rejects  as_square(x: [8])
"""
APPLIED = """
func.func @f(%arg0: tensor<?xf32>) -> tensor<?x?xf32> {
  %0 = stablehlo.custom_call @as_square(%arg0) : (tensor<?xf32>) -> tensor<?x?xf32>
  %1 = stablehlo.custom_call @pad_rows(%0) : (tensor<?x?xf32>) -> tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}
"""


@pytest.fixture
def contracts(tmp_path: Path) -> Iterator[Path]:
    for name in ("round_up", "isqrt"):
        (tmp_path / f"{name}.egg").write_text(EXAMPLES[name].read_text())
    path = tmp_path / "ops.egg"
    path.write_text(CONTRACTS)
    names = egshape.custom_ops(path)
    yield path
    for name in names:
        REGISTRY.drop(name)


@pytest.mark.parametrize("how", RUNS)
def test_contracts_call_them(contracts: Path, how: str) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    result = egshape.optimize(egshape.load(APPLIED.encode(), format="mlir"))
    assert str(result.graph.outputs[0].type) == "f32[round_up(isqrt(arg0.0), 8), isqrt(arg0.0)]"
    fn = runner(result, how, contracts.parent)
    run = (lambda x: fn(x, None)) if how == "onnx" else fn
    for side in (0, 1, 3, 8, 11):
        x = np.arange(side * side, dtype=np.float32)
        (found,) = run(x)
        assert found.shape == (-(-side // 8) * 8, side) and not found[side:].any()
        assert np.array_equal(found[:side], x.reshape(side, side))
    with pytest.raises(Exception, match="5 is no square" if how != "onnx" else "Reshape"):
        run(np.ones(5, np.float32))


def test_a_contract_of_an_unknown_function(tmp_path: Path) -> None:
    path = tmp_path / "ops.egg"
    path.write_text(CONTRACTS.replace("; needs: round_up.egg isqrt.egg", "; needs: prelude.shape"))
    with pytest.raises(EgshapeError, match="the function round_up is not known"):
        egshape.custom_ops(path)
    assert "pad_rows" not in REGISTRY and "as_square" not in REGISTRY


def test_a_function_that_contracts_have(tmp_path: Path) -> None:
    written(tmp_path, '(size windows (n) :is "n")', name="mine.egg")
    (tmp_path / "ops.egg").write_text(CONTRACTS.replace("round_up.egg isqrt.egg", "mine.egg"))
    with pytest.raises(EgshapeError, match="contracts have a function windows"):
        egshape.custom_ops(tmp_path / "ops.egg")


# -- without rules ----


def test_without_its_rules_nothing_is_known_of_it(tmp_path: Path) -> None:
    text = EXAMPLES["isqrt"].read_text()
    bare = tmp_path / "bare.egg"
    bare.write_text(text[: text.index("; isqrt(n) >= 0")])
    for goal in ("isqrt(n) >= 0", "isqrt(n)*isqrt(n) <= n"):
        assert (status(goal, "isqrt"), prove(goal, (), str(bare)).status) == ("proved", "unknown")
    for goal in ("max(a, b) >= b", "(a//9)//90 == a//810", "isqrt(n) - isqrt(n) + a*b == b*a"):
        assert prove(goal, (), str(bare)).status == "proved" or "isqrt" in goal


def test_a_check_says_what_is_wrong_with_a_formula(tmp_path: Path) -> None:
    text = '(size f (n) :python "\n  while n > 1:\n    n //= 2\n  return n")\n' + RULE.replace("isqrt", "f").format(
        "(edge d n 0)"
    )
    first = rulebook.check(written(tmp_path, text)).problems[0]
    assert (first.at.line, "'while n > 1:' is no part of a formula" in first.message) == (7, True)
