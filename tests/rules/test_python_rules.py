"""Rules written in Python: what they are compiled to, where they are used, and at which line mistakes are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import egshape
from egshape import rulebook
from egshape.cli import main
from egshape.errors import EgshapeError
from egshape.ir.text import parse_graph
from egshape.rulelang import python_names
from egshape.rulelang.rulefile import read_rule_file
from egshape.words import (
    Binary,
    Cons,
    Dvd,
    FloorDiv,
    Mul,
    Nil,
    Num,
    Sh,
    ShapeOf,
    add,
    compare,
    concatenate,
    edge,
    lo,
    min_,
    multiply,
    must_eq,
    negate,
    power,
    set_,
    slice,
    sqrt,
    tanh,
    transpose,
    union,
    vec_get,
)

Captured = pytest.CaptureFixture[str]


@egshape.rule(example="negate(negate(x: [a]))  =>  x")
def twice(x):  # type: ignore[no-untyped-def]
    """-(-x) = x"""
    return negate(negate(x)), x


def command(text: str) -> str:
    """The rule of a text, in one line."""
    (rule,) = read_rule_file(text, "x").rules
    return rule.text


def written(function, **options):  # type: ignore[no-untyped-def]
    return command(egshape.rule(example="x: [a] => x", **options)(function).text)


def test_a_rewrite_is_what_a_file_would_say() -> None:
    assert twice.text == (
        "; ruleset: test_python_rules.twice\n"
        "; about: -(-x) = x\n"
        "; needs: prelude.shape, prelude.tensor, tensor.types\n"
        "; law: keeps dtype, shape and every bit of the value\n"
        "; ends: it is one rule; where that may match its own result it says why that ends\n"
        "\n"
        "; -(-x) = x\n"
        '(rewrite (Unary "negate" (Unary "negate" x)) x\n'
        '  :ruleset test_python_rules.twice :name "test_python_rules.twice/twice")\n'
        ";; example negate(negate(x: [a]))  =>  x\n"
    )
    assert twice.endswith("test_python_rules:twice")


def test_conditions_options_and_both_ways() -> None:
    def full(x, a, b, t):  # type: ignore[no-untyped-def]
        """one"""
        return slice(x, a, b, t), x, ShapeOf(slice(x, a, b, t)) == ShapeOf(x)

    text = written(full, subsume=True)
    assert ":when ((= (ShapeOf (slice x a b t)) (ShapeOf x))) :subsume" in text
    assert text.startswith("(rewrite (slice x a b t) x")

    def swap(f, x, y):  # type: ignore[no-untyped-def]
        """two"""
        return Binary(f, x, y), Binary(f, y, x)

    assert written(swap, both_ways=True).startswith("(birewrite (Binary f x y) (Binary f y x)")


def test_rules_over_sizes_and_relations() -> None:
    def exact(q, h, k, a, v):  # type: ignore[no-untyped-def]
        """k*(h//k) = h"""
        facts = [q == FloorDiv(h, k), Dvd(k, h), a == lo(k), a > 0, v == a * 2 - min_(a, 3), v != 7, 1 + v >= a % 2]
        return facts, [union(Mul(k, q), h), set_(lo(h), v), edge(q, h, 0)]

    text = written(exact)
    assert "(= v (- (* a 2) (min a 3))) (!= v 7) (>= (+ 1 v) (% a 2)))" in text
    assert "((union (Mul k q) h) (set (lo h) v) (edge q h 0))" in text
    assert "; needs: prelude.shape, size.interval\n" in egshape.rule(example="x")(exact).text

    def together(i, a, b, u):  # type: ignore[no-untyped-def]
        """glue"""
        return [Sh(u) == ShapeOf(a), vec_get(u, 0) == Num(1)], [must_eq(i, "glue", a, b)]

    assert '((must_eq i "glue" a b))' in written(together)


def test_elementwise_ops_lists_and_attributes_by_name() -> None:
    def several(x, y, p):  # type: ignore[no-untyped-def]
        """all"""
        return compare(x, add(x, y), "LT", "FLOAT"), concatenate(
            Cons(x, Cons(transpose(y, permutation=(1, 0)), Nil())), 0
        )

    text = written(several)
    assert '(Binary "compare.LT.FLOAT" x (Binary "add" x y))' in text
    assert "(concatenate (Cons x (Cons (transpose y (vec-of 1 0)) (Nil))) 0)" in text


def test_a_tolerance_makes_it_approximate() -> None:
    def far(x, y):  # type: ignore[no-untyped-def]
        """sqrt(x)*sqrt(y) = sqrt(x*y)"""
        return multiply(sqrt(x), sqrt(y)), sqrt(multiply(x, y))

    example = "multiply(sqrt(x: [a]), sqrt(y: [a]))  =>  sqrt(multiply(x, y))"
    found = egshape.rule(example=example, tolerance=1e-6)(far)
    assert found.text == (
        "; ruleset: approx.test_python_rules.far\n"
        "; about: sqrt(x)*sqrt(y) = sqrt(x*y)\n"
        "; needs: prelude.shape, prelude.tensor, tensor.types\n"
        "; law: keeps dtype and shape, and the value within the tolerance\n"
        "; ends: it is one rule; where that may match its own result it says why that ends\n"
        "; tolerance: 1e-06\n"
        "\n"
        "; sqrt(x)*sqrt(y) = sqrt(x*y)\n"
        '(rewrite (Binary "multiply" (Unary "sqrt" x) (Unary "sqrt" y)) (Unary "sqrt" (Binary "multiply" x y))\n'
        '  :ruleset approx.test_python_rules.far :name "approx.test_python_rules.far/far")\n'
        f";; example {example}\n"
    )
    assert found.file.header is not None and found.file.header.tolerance == 1e-6
    assert rulebook.check(found).errors == ()
    assert rulebook.test(found)[0].result == "failed", "of two negative numbers the one side is a number"


def test_a_rule_that_is_declared_anew_is_tried_as_it_is_now() -> None:
    """The second of a name, too, is tried as it is said now."""

    def less(x):  # type: ignore[no-untyped-def]
        """x^x = tanh(x^x), which is wrong"""
        return power(x, x), tanh(power(x, x))

    example = "power(x: [a], x)  =>  tanh(power(x, x))"
    assert rulebook.test(egshape.rule(example=example)(less))[0].result == "failed"

    def less(x):  # type: ignore[no-untyped-def]
        """-(-x) = x"""
        return negate(negate(x)), x

    (verdict,) = rulebook.test(egshape.rule(example="negate(negate(x: [a]))  =>  x", tolerance=0.25)(less))
    assert verdict.good and verdict.fired.graphs, verdict


@pytest.mark.parametrize("tolerance", [0.0, 1.0, -1e-3])
def test_a_tolerance_that_is_none(tolerance: float) -> None:
    found = egshape.rule(example="negate(negate(x: [a]))  =>  x", tolerance=tolerance)(lambda x: (negate(x), x))
    assert "is no number between 0 and 1" in rulebook.check(found).errors[0].message


def test_it_is_used_beside_files(tmp_path: Path) -> None:
    graph = parse_graph(
        "graph g(%x: f32[n]) {\n  symbols n = size(%x, 0)\n  %0: f32[n] = tanh(%x)\n  return %0 as out0\n}"
    )

    @egshape.rule(example="tanh(x: [a])  =>  x")
    def wrong(x):  # type: ignore[no-untyped-def]
        """tanh(x) = x"""
        return tanh(x), x

    result = egshape.optimize(graph, rules=[wrong, twice])
    assert list(result.report.dropped_rules) == ["test_python_rules.wrong/wrong"]
    assert egshape.optimize(graph, rules=twice).report.status == "saturated"
    assert rulebook.test(wrong)[0].result == "failed"


def test_it_is_checked_and_tested_as_a_file() -> None:
    assert rulebook.check(twice).problems == ()
    (verdict,) = rulebook.test(twice, prove=False)
    assert verdict.good and verdict.fired.graphs
    assert verdict.where.partition(":")[0].endswith("test_python_rules.py")
    (entry,) = rulebook.list_rules([twice])
    assert entry.about == "-(-x) = x"


MODULE = '''import egshape
from egshape.words import negate, transpse


@egshape.rule(
    example="negate(negate(x: [a]))  =>  x",
)
def good(x):
    """-(-x) = x"""
    return negate(negate(x)), x


@egshape.rule(example="negate(negate(x: [a], 3))  =>  x")
def bad(x, y):
    return negate(
        transpse(x, [1, 0])), negate(y)
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("some_rules.py").write_text(MODULE)
    return Path("some_rules.py")


def test_mistakes_are_said_at_their_place_in_python(module: Path, capsys: Captured) -> None:
    assert main(["rules", "check", "some_rules.py", "--json"]) == 2
    found = json.loads(capsys.readouterr().out)["problems"]
    assert {(each["code"], each["line"], each["column"], each["length"]) for each in found} == {
        ("no-comment", 14, 5, 8),
        ("unbound", 16, 38, 1),
        ("unknown-op", 16, 9, 9),
        ("example", 13, 46, 1),
    }
    assert {each["file"] for each in found} == {"some_rules.py"}
    assert main(["rules", "check", "some_rules.py"]) == 2
    assert "   16 |         transpse(x, [1, 0])), negate(y)\n" in capsys.readouterr().out


def test_by_module_and_function(module: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["rules", "check", "some_rules.py:good"]) == 0
    assert main(["rules", "check", "some_rules:good"]) == 0
    assert main(["rules", "test", "some_rules:good", "--no-proofs"]) == 0
    assert "some_rules.good/good" in capsys.readouterr().out
    module.write_text(MODULE.replace('"""-(-x) = x"""', '"""said anew"""'))
    assert main(["rules", "list", "some_rules.py:good"]) == 0
    assert "said anew" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("some_rules:goood", "egshape: there is no rule goood in some_rules (did you mean good?)\n"),
        ("no_such_module:f", "no_such_module cannot be imported: ModuleNotFoundError"),
        ("none.py", "none.py: cannot be read: there is no such file"),
        ("none.py:f", "none.py: cannot be read: there is no such file"),
        ("broken.py", "broken.py: does not run: ZeroDivisionError"),
        ("empty.py", "there is no rule in empty.py"),
    ],
)
def test_names_of_nothing(module: Path, item: str, said: str, capsys: Captured) -> None:
    Path("broken.py").write_text("1 / 0")
    Path("empty.py").write_text("")
    assert main(["rules", "check", item]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return x", "the rule returns x"),
        ("return None", "the rule returns None"),
        ("return [x], x", "the rule returns"),
        ("return negate(x), x, 0 < x < 3", "a condition has no truth value"),
        ("return negate(x), {1: 2}[3]", "the rule does not run: KeyError: 3"),
        ("return negate(x), negate(object())", "a rule cannot hold"),
        ("return negate(x), transpose(x, perm=(1, 0))", "the arguments of transpose do not fit"),
        ("a, b = negate(x)\n    return a, b", "has no parts"),
        ("return negate(x), missing(x)", "NameError"),
    ],
)
def test_what_is_no_rule_is_refused_at_its_line(tmp_path: Path, body: str, said: str) -> None:
    head = 'import egshape\nfrom egshape.words import negate, transpose\n@egshape.rule(example="a")\ndef f(x):\n    '
    path = tmp_path / "refused.py"
    path.write_text(head + body + "\n")
    with pytest.raises(EgshapeError) as caught:
        python_names.find(str(path))
    assert said in caught.value.message
    where = caught.value.where
    assert where.startswith(f"{path}:4:" if "returns" in said else f"{path}:5:")
    assert caught.value.hint and caught.value.code == "rules"


def test_a_size_function_of_a_file_beside_it(tmp_path: Path) -> None:
    sizes = Path(__file__).resolve().parents[2] / "examples" / "sizes" / "round_up.egg"
    (tmp_path / "round_up.egg").write_text(sizes.read_text())
    path = tmp_path / "more.py"
    path.write_text(
        "import egshape\nfrom egshape.words import round_up, lo, union\n\n"
        '@egshape.rule(needs="round_up.egg", example="round_up(n, 1)  =>  n")\n'
        'def by_one(d, n):\n    """round_up(n, 1) = n"""\n'
        "    from egshape.words import Num\n    return round_up(n, Num(1)), n\n"
    )
    assert rulebook.check(str(path)).errors == ()
