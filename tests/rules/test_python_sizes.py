"""Size functions written in Python: what they are compiled to, that they mean what a file's mean, and mistakes."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import numpy as np
import pytest

import egshape
from egshape import rulebook
from egshape.cli import main
from egshape.dims import parse, symbol
from egshape.errors import EgshapeError
from egshape.ir.text import parse_graph
from egshape.rulelang import python_names
from egshape.rulelang.loader import parts
from egshape.words import Add, Dvd, Mul, Num, cdiv, edge, lo, min_, set_, swapped, tanh, union

Captured = pytest.CaptureFixture[str]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "sizes"
LANES = 16


@egshape.size_function
def gcd(a, b):  # type: ignore[no-untyped-def]
    """gcd(a, b), the greatest common divisor; gcd(0, 0) is 0"""
    return math.gcd(a, b)


@gcd.rule(example="gcd(a, a)  =>  a", counter="gcd(a - 9, a - 9)  =>  a - 9", at_once=True)
def itself(d, a, x):  # type: ignore[no-untyped-def]
    """gcd(a, a) = a
    sound: a >= 0"""
    return [d == gcd(a, a), x == lo(a), x >= 0], [union(d, a)]


@gcd.rule(example="gcd(a, 1)  =>  1", at_once=True)
def one(d, a):  # type: ignore[no-untyped-def]
    """gcd(a, 1) = 1"""
    return [d == gcd(a, Num(1))], [union(d, Num(1))]


@gcd.rule(example="gcd(b, a) + gcd(a, b)  =>  2*gcd(a, b)", only_at_once=True)
def in_order(d, a, b):  # type: ignore[no-untyped-def]
    """gcd(a, b) = gcd(b, a)
    ends: the arguments are put in order once"""
    return [d == gcd(a, b), swapped(a, b)], [union(d, gcd(b, a))]


@gcd.rule(example="gcd(a, b)  =>  it >= 0")
def divides(d, a, b):  # type: ignore[no-untyped-def]
    """gcd(a, b) >= 0, and it divides a"""
    return [d == gcd(a, b)], [set_(lo(d), 0), Dvd(d, a)]


@egshape.size_function(defined="n >= 0")
def isqrt(n):  # type: ignore[no-untyped-def]
    """the largest whole number whose square is at most n"""
    return math.isqrt(n)


@isqrt.rule(example="isqrt(n) * isqrt(n)  =>  it <= n")
def square_below(d, n):  # type: ignore[no-untyped-def]
    """isqrt(n)**2 <= n"""
    return [d == isqrt(n)], [edge(Mul(d, d), n, 0)]


@isqrt.rule(example="isqrt(n) * isqrt(n) + 2*isqrt(n)  =>  it >= n")
def square_above(d, n):  # type: ignore[no-untyped-def]
    """n < (isqrt(n) + 1)**2"""
    return [d == isqrt(n)], [edge(n, Add(Mul(d, d), Mul(Num(2), d)), 0)]


@egshape.size_function
def padded(n):  # type: ignore[no-untyped-def]
    """the smallest multiple of 16 that is at least n"""
    return cdiv(n, LANES) * LANES


@egshape.size_function
def digits(n):  # type: ignore[no-untyped-def]
    """how many digits a size has
    that is: 1 for 0"""
    count = 1
    for _ in range(18):
        n //= 10
        if n > 0:
            count += 1
    return count


def test_it_is_the_text_of_a_file() -> None:
    assert gcd.text == (
        "; ruleset: test_python_sizes.gcd\n"
        "; about: gcd(a, b), the greatest common divisor; gcd(0, 0) is 0\n"
        "; needs: prelude.shape\n"
        "; law: an equation holds at all sizes at which it is defined\n"
        "; ends: a rule that may match its own result says why that ends\n"
        "; at once: itself, one, in-order\n"
        "; only at once: in-order\n"
        "\n"
        '(size gcd (a b) :python "math.gcd(a, b)")\n'
        "\n"
        "; gcd(a, a) = a\n"
        "; sound: a >= 0\n"
        "(rule ((= d (gcd a a)) (= x (lo a)) (>= x 0)) ((union d a))\n"
        '  :ruleset test_python_sizes.gcd :name "test_python_sizes.gcd/itself")\n'
        ";; example gcd(a, a)  =>  a\n"
        ";; counter gcd(a - 9, a - 9)  =>  a - 9\n"
        "\n"
        "; gcd(a, 1) = 1\n"
        "(rule ((= d (gcd a (Num 1)))) ((union d (Num 1)))\n"
        '  :ruleset test_python_sizes.gcd :name "test_python_sizes.gcd/one")\n'
        ";; example gcd(a, 1)  =>  1\n"
        "\n"
        "; gcd(a, b) = gcd(b, a)\n"
        "; ends: the arguments are put in order once\n"
        "(rule ((= d (gcd a b)) (swapped a b)) ((union d (gcd b a)))\n"
        '  :ruleset test_python_sizes.gcd :name "test_python_sizes.gcd/in-order")\n'
        ";; example gcd(b, a) + gcd(a, b)  =>  2*gcd(a, b)\n"
        "\n"
        "; gcd(a, b) >= 0, and it divides a\n"
        "(rule ((= d (gcd a b))) ((set (lo d) 0) (Dvd d a))\n"
        '  :ruleset test_python_sizes.gcd :name "test_python_sizes.gcd/divides")\n'
        ";; example gcd(a, b)  =>  it >= 0\n"
    )
    assert gcd.endswith("test_python_sizes:gcd")


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (padded, '(size padded (n) :is "cdiv(n, 16) * 16")'),
        (isqrt, '(size isqrt (n) :python "math.isqrt(n)" :defined "n >= 0")'),
        (
            digits,
            '; that is: 1 for 0\n(size digits (n) :python "\n  count = 1\n  for _ in range(18):\n      n //= 10\n'
            '      if n > 0:\n          count += 1\n  return count")',
        ),
    ],
)
def test_the_body_is_an_expression_or_a_formula(function: str, said: str) -> None:
    assert said in python_names.declared(function).text


def test_what_stands_outside_is_put_in() -> None:
    inner = 3
    root = math.isqrt

    def once(n, k):  # type: ignore[no-untyped-def]
        return min_(padded(n) + inner, k * -LANES)

    made = egshape.size_function(once)
    assert '(size once (n k) :is "min(padded(n) + 3, k * -16)")' in made.text
    assert f"; needs: prelude.shape, {padded}\n" in made.text

    def twice(n):  # type: ignore[no-untyped-def]
        inner = root(n)
        return inner + 1 if n < LANES else inner

    text = egshape.size_function(twice).text
    assert "inner = math.isqrt(n)\n  return inner + 1 if n < 16 else inner" in text


@pytest.mark.parametrize("function", [gcd, isqrt, padded, digits])
def test_they_hold(function: str) -> None:
    assert not rulebook.check(function).problems
    assert [each.why for each in rulebook.test(function) if not each.good] == []


@pytest.mark.parametrize(
    ("mine", "goal", "given", "wanted"),
    [
        (gcd, "gcd(a, b) == gcd(b, a)", "", "proved"),
        (gcd, "gcd(a, b) == a", "a == b", "proved"),
        (gcd, "gcd(a, b) == 1", "", "refuted"),
        (isqrt, "n <= 24", "isqrt(n) == 4", "proved"),
        (isqrt, "isqrt(n - 5) >= 0", "", "unknown"),
        (padded, "padded(n) % 8 == 0", "", "proved"),
        (padded, "padded(n) >= n + 1", "", "refuted"),
        (digits, "digits(n) <= 2", "", "refuted"),
    ],
)
def test_questions(mine: str, goal: str, given: str, wanted: str) -> None:
    assert egshape.prove(goal, given or (), mine).status == wanted
    file = EXAMPLES / f"{mine.rpartition(':')[2]}.egg"
    if file.is_file():
        assert egshape.prove(goal, given or (), str(file)).status == wanted, "the file says something else"


def test_calls_give_patterns_and_sizes() -> None:
    assert list(map(str, (gcd(12, 18), padded(0), padded(17), digits(1000)))) == ["6", "0", "32", "4"]
    a, b = symbol("a"), symbol("b")
    assert gcd(a, b) == gcd(b, a) and str(padded(a)) == "padded(a)"
    with egshape.size_functions(gcd):
        assert parse("gcd(b, a)") == gcd(a, b)
    with pytest.raises(TypeError, match="gcd takes 2 sizes"):
        gcd(1)

    @egshape.rule(example="gcd(a, b) given a >= 1  =>  it <= a", counter="gcd(a, b)  =>  it <= a")
    def at_most(d, a, b, x):  # type: ignore[no-untyped-def]
        """gcd(a, b) <= a
        sound: a >= 1"""
        return [d == gcd(a, b), x == lo(a), x > 0], [edge(d, a, 0)]

    assert f"; needs: prelude.shape, size.interval, {gcd}\n" in at_most.text
    assert rulebook.check(at_most).problems == () and rulebook.test(at_most)[0].good


PROGRAM = """graph g(%x: f32[n]) {
  symbols n = size(%x, 0)
  %0: f32[n] = tanh(%x)
  return %0 as out0
}"""


def test_facts_of_a_program_name_it() -> None:
    found = egshape.optimize(parse_graph(PROGRAM), assume=["isqrt(n) == 4"], rules=[isqrt])
    assert found.report.status == "saturated"
    run = egshape.compile(found, "interpret")
    assert run(np.zeros(17, np.float32)).shape == (17,)
    with pytest.raises(EgshapeError):
        run(np.zeros(25, np.float32))


def test_it_goes_to_other_processes_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(gcd)) == str(gcd)
    assert python_names.find(pickle.loads(pickle.dumps(gcd))) == [gcd]


def test_one_that_changes_is_tried_as_it_is_now() -> None:
    @egshape.size_function
    def grown(n):  # type: ignore[no-untyped-def]
        """n and 1"""
        return n + 1

    def less(d, n):  # type: ignore[no-untyped-def]
        """grown(n) = n"""
        return [d == grown(n)], [union(d, n)]

    grown.rule(example="grown(n)  =>  n")(less)
    assert [each.result for each in rulebook.test(grown)] == ["failed"]

    def less(d, n):  # type: ignore[no-untyped-def]
        """grown(n) >= n"""
        return [d == grown(n)], [edge(n, d, 0)]

    grown.rule(example="grown(n)  =>  it >= n")(less)
    assert [each.good for each in rulebook.test(grown)] == [True]


MODULE = '''import egshape
from egshape.words import cdiv, f, union


@egshape.size_function
def halves(n):
    """half of a size, rounded up"""
    return cdiv(n, 2)


@halves.rule(example="halves(n)  =>  n")
def wrong(d, n):
    """cdiv(n, 2) = n"""
    return [d == halves(n)], [union(d, n)]


@halves.rule(example="halfs(n)  =>  n")
def worse(d, n):
    return [d == halves(n, n)], [union(d, f(n))]


@egshape.size_function
def lost(n):
    """a typing error"""
    return cdvi(n, 2)
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("some_sizes.py").write_text(MODULE)
    return Path("some_sizes.py")


def test_mistakes_are_said_at_their_place_in_python(module: Path) -> None:
    found = {(each.code, each.at.line, each.at.column) for each in rulebook.check("some_sizes.py:halves").problems}
    assert found >= {("no-comment", 18, 5), ("arity", 19, 18), ("unknown-op", 19, 43)}
    (only,) = rulebook.check("some_sizes.py:lost").problems
    assert (only.code, only.at.line) == ("size-function", 23) and "unknown function 'cdvi'" in only.message


def test_by_file_module_and_function(module: Path, capsys: Captured) -> None:
    module.write_text(MODULE.partition('@halves.rule(example="halfs')[0])
    assert main(["rules", "check", "some_sizes.py"]) == 0
    assert main(["rules", "test", "some_sizes:halves"]) == 1
    assert "some_sizes.halves/wrong\tfailed" in capsys.readouterr().out
    assert main(["rules", "test", "some_sizes.py:wrong"]) == 2
    assert "one of a size function is found with it" in capsys.readouterr().err
    assert main(["prove", "halves(2*n) == n", "--rules", "some_sizes.py"]) == 0


def test_the_files_that_it_is_in(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend("")
    module.write_text(MODULE.partition("@halves.rule")[0])
    Path("users.py").write_text(
        "import egshape\nfrom some_sizes import halves\nfrom egshape.words import edge\n\n"
        '@egshape.rule(example="halves(n)  =>  it <= n")\n'
        'def less(d, n):\n    """halves(n) <= n"""\n    return [d == halves(n)], [edge(d, n, 0)]\n'
    )
    assert set(parts("users.py:less")) == {Path("users.py"), Path("some_sizes.py")}


@pytest.mark.parametrize(
    ("body", "line", "said"),
    [
        ("    return math.sqrt(n)", 5, "'math.sqrt(n)' is no part of a formula"),
        ("    while n > 0:\n        n -= 1\n    return n", 5, "'while n > 0:' is no part of a formula"),
        ("    if n > 2:\n        return 1.5", 5, "the last line of a formula is 'return VALUE'"),
        ("    pass", 5, "the last line of a formula is 'return VALUE'"),
        ("    return other(n) if n > 1 else 0", 4, "the formula of f calls the size function padded"),
        ("    n += 1\n    return n + True", 6, "'True' is no part of a formula"),
    ],
)
def test_a_body_that_is_none_is_refused_at_its_line(tmp_path: Path, body: str, line: int, said: str) -> None:
    path = tmp_path / "refused.py"
    head = "import math, egshape\nfrom tests.rules.test_python_sizes import padded as other\n"
    path.write_text(f"{head}@egshape.size_function\ndef f(n):\n{body}\n")
    with pytest.raises(EgshapeError) as caught:
        python_names.find(str(path))
    assert said in caught.value.message
    assert caught.value.where.startswith(f"{path}:{line}:") and caught.value.hint


def test_what_is_no_size_function() -> None:
    with pytest.raises(EgshapeError, match="takes sizes only"):
        egshape.size_function(lambda n, k=3: n)
    with pytest.raises(EgshapeError, match="no plain function"):
        egshape.size_function(lambda n: n)
    with pytest.raises(TypeError, match="is no function"):
        egshape.size_function(3)  # type: ignore[call-overload]
    scope = {"egshape": egshape}
    with pytest.raises(EgshapeError, match="cannot be read"):
        exec("@egshape.size_function\ndef f(n):\n    return n", scope)

    def tensors(x):  # type: ignore[no-untyped-def]
        return tanh(x), x

    with pytest.raises(EgshapeError, match="is about sizes alone"):
        gcd.rule(example="tanh(x: [a])  =>  x")(tensors)
