"""Shape functions as strangers write them: one type for all sizes, or one clear error.

Each is held, at all small sizes, against itself run with these numbers: where it takes them, the conditions hold and
the type is the one of numbers; where it refuses them, a condition fails."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import egshape
from egshape.cli import main
from egshape.dims import const, parse, symbol
from egshape.errors import CheckFailed, EgshapeError
from egshape.facts import Facts
from egshape.ir.builder import BlockBuilder
from egshape.ir.types import TensorType
from egshape.ops.base import REGISTRY
from egshape.ops.shape_function import Operand, ShapeFunction, assuming
from egshape.ops.symbolic import Size


def kind(text: str, dtype: str = "f32") -> TensorType:
    return TensorType(dtype, tuple(parse(each) for each in text.split(", ")) if text else ())


def takes_one_arm(x):
    n, m = x.dims
    if n == 1:
        return x.dtype, (m,)
    return x.dtype, (n,)


def broadcasts(x, y):
    out = []
    for a, b in zip(x.shape, y.shape, strict=True):
        if a == 1:
            out.append(b)
        elif b == 1:
            out.append(a)
        else:
            assert a == b, f"{a} and {b} differ"
            out.append(a)
    return x.dtype, out


def ends(x):
    return x.dtype, (max(x.dims), min(x.dims[0], 8), abs(x.dims[0] - x.dims[1]), sum(x.dims), math.prod(x.dims))


def divided(x):
    return x.dtype, (x.dims[0] // x.dims[1], x.dims[0] % x.dims[1])


def divided_or_nothing(x):
    n, k = x.dims
    if k == 0:
        return x.dtype, (0,)
    return x.dtype, (n // k,)


def divided_by_less(x):
    n, k = x.dims
    return x.dtype, (0 if n < 2 else n // (k - 2),)


def padded(x):
    n = x.dims[0]
    return x.dtype, (n if n % 4 == 0 else n + 4 - n % 4,)


def asserted_inside(x):
    n = x.dims[0]
    if n < 4:
        assert n % 2 == 0, "a small one is even"
        return x.dtype, (n // 2,)
    return x.dtype, (4,)


def helped(x):
    def kept(size):
        return size - 2 if size > 2 else 0

    return x.dtype, [kept(size) for size in x.shape]


def chained(x):
    n, m = x.dims
    assert 1 <= n < m or n == 3, "n is 3 or below m"
    return x.dtype, (m - n + 3,)


def counted(x):
    return x.dtype, (int(x.dims[0] == 1) + (x.dims[1] > 2), sum(1 for size in x.dims if size == 1))


def found(x):
    return x.dtype, (5 if 1 in x.dims else 6, 7 if x.dims == (2, 3) else 8)


def negated(x):
    n, m = x.dims
    if not n == m and not ((n == 1) | (m == 1)):  # noqa: SIM201
        return x.dtype, (9,)
    return x.dtype, (n * m,)


def by_truth(x):
    return x.dtype, (x.dims[0] or 1, x.dims[1] and 2)


def rounded(x):
    n, m = x.dims
    return x.dtype, (-(-n // 4), divmod(n, 3)[1], n**2, (n + m) * 2 - m)


def limited_loop(x):
    n, halvings = min(x.dims[0], 8), 0
    while n > 1:
        n, halvings = n // 2, halvings + 1
    return x.dtype, (halvings,)


def several(x):
    n, m = x.dims
    low = min(n, m)
    return [(x.dtype, (n, low)), ("i64", (low,)), x]


def unknown_axis(x):
    return x.dtype, (None, x.dims[0])


def other_dtype(x, y):
    return ("f64" if "f64" in (x.dtype, y.dtype) else "f32"), x.dims


def dict_of_ranks(x):
    return x.dtype, {0: (), 1: (1,), 2: (x.dims[1], x.dims[0])}[x.rank]


def sorted_sizes(x):
    return x.dtype, sorted(x.dims)


RIGHT = [
    takes_one_arm, broadcasts, ends, divided, divided_or_nothing, divided_by_less, padded, asserted_inside, helped,
    chained, counted, found, negated, by_truth, rounded, limited_loop, several, other_dtype, dict_of_ranks,
    sorted_sizes,
]  # fmt: skip


@pytest.mark.parametrize("function", RIGHT, ids=lambda function: function.__name__)
def test_one_type_for_all_sizes(function: Callable[..., Any]) -> None:
    made = ShapeFunction(function.__name__, function)
    types = [kind("n, m"), kind("p, 2")][: function.__code__.co_argcount]
    general = made.infer(types, {})
    conditions = made.conditions(types, {})
    names = sorted({name for each in types for dim in each.dims for name in dim.symbols()})
    for sizes in itertools.product(range(6), repeat=len(names)):
        env = dict(zip(names, sizes, strict=True))
        numbers = [TensorType(each.dtype, tuple(const(dim.evaluate(env)) for dim in each.dims)) for each in types]
        try:
            wanted = made.infer(numbers, {})
        except EgshapeError:
            assert not all(_holds(each.relation, env) for each in conditions), (env, "is refused")
            continue
        assert [each for each in conditions if not _holds(each.relation, env)] == [], (env, "is taken")
        at_sizes = [_at(each, env) for each in _list(general)]
        assert at_sizes == [_at(each, env) for each in _list(wanted)], env


def _holds(relation: Any, env: dict[str, int]) -> bool:
    try:
        return bool(relation.holds(env))
    except EgshapeError:
        return False


def _list(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found]


def _at(found: Any, env: dict[str, int]) -> Any:
    return found[0], [None if dim is None else dim.evaluate(env) for dim in found[1]]


def test_an_axis_may_be_unknown() -> None:
    assert ShapeFunction("f", unknown_axis).infer([kind("n")], {}) == ("f32", (None, symbol("n")))


@pytest.mark.parametrize(
    ("function", "size"),
    [
        (max, "max(n, m)"),
        (lambda n, m: n if n % 8 == 0 else -(-n // 8) * 8, "8*ceildiv(n, 8)"),
        (lambda n, m: n if n == m else m, "m"),
        (lambda n, m: n if n >= 0 else 7, "n"),
        (lambda n, m: m if n > m else n, "min(n, m)"),
        (lambda n, m: broadcasts(Operand(kind("n")), Operand(kind("m")))[1][0], "bcast(m, n)"),
    ],
)
def test_a_choice_is_written_as_a_plain_size_where_it_is_one(function: Callable[..., Any], size: str) -> None:
    found = ShapeFunction("f", lambda x: (x.dtype, (function(*x.dims),))).infer([kind("n, m")], {})
    assert found == ("f32", (parse(size),))


def squeezed(x):
    return (x.dtype, x.dims[1:]) if x.dims[0] == 1 else x


def no_end(x):
    n = x.dims[0]
    while n > 1:
        n = n // 2
    return x.dtype, (n,)


def many_ways(x):
    total = 0
    for k in (2, 3, 5, 7, 11, 13, 17, 19):
        if x.dims[0] % k == 0:
            total += k
    return x.dtype, (total,)


def counts_to_it(x):
    return x.dtype, [1 for _ in range(x.dims[0])]


def repeats(x):
    return x.dtype, [1] * x.dims[0]


def halves(x):
    return x.dtype, (x.dims[0] / 2,)


def in_a_set(x):
    return x.dtype, (len(set(x.dims)),)


def as_float(x):
    return x.dtype, (math.ceil(x.dims[0] * 0.5),)


def never(x):
    raise AssertionError("takes nothing")


def without_words(x):
    if x.dims[0] != x.dims[0] + 1:
        raise AssertionError
    return x


def no_such_axis(x):
    return x.dtype, (x.dims[5],)


def sometimes_integer(x):
    return ("i32" if x.dims[0] == 0 else "f32"), x.dims


WRONG = [
    (squeezed, r"gives f32\[m\] where n == 1, else f32\[n, m\] \(line \d+: return .* == 1.*--assume \"n == 1\""),
    (sometimes_integer, r"gives i32\[n, m\] where n == 0, else f32\[n, m\]"),
    (no_end, r"more than 24 questions about sizes, at line \d+: while n > 1: .a loop over unknown sizes"),
    (many_ways, r"more than 128 runs are needed .* `.*` at line \d+: if x.dims\[0\] % k == 0"),
    (counts_to_it, r"wants the number that n is, at line \d+: return x.dtype, \[1 for _ in range"),
    (repeats, r"wants the number that n is, at line"),
    (halves, r"fails: TypeError: a size is a whole number: divide it with //"),
    (in_a_set, r"fails: TypeError: no set or dict can hold n, .* compare sizes with =="),
    (as_float, r"fails: TypeError: 0.5 is no whole number|fails: TypeError: unsupported operand"),
    (never, r"^takes nothing$"),
    (without_words, r"^fails at line \d+: raise AssertionError$"),
    (no_such_axis, r"fails: IndexError: tuple index out of range \(given were f32\[n, m\]\)"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "error"), WRONG, ids=lambda each: getattr(each, "__name__", ""))
def test_one_clear_error(function: Callable[..., Any], error: str) -> None:
    with pytest.raises(EgshapeError, match=error):
        ShapeFunction(function.__name__, function).infer([kind("n, m")], {})


def test_facts_and_stated_types_say_the_rank() -> None:
    made, types = ShapeFunction("squeezed", squeezed), [kind("n, m")]
    assert made.infer(types, {}, [("f32", (None,))]) == ("f32", kind("m").dims)
    assert [str(each.relation) for each in made.conditions(types, {}, [("f32", (None,))])] == ["n == 1"]
    assert [str(each.relation) for each in made.conditions(types, {}, [("f32", (None, None))])] != []
    with assuming(Facts.parse("n >= 2")):
        assert made.infer(types, {}) == ("f32", kind("n, m").dims)
    with assuming(Facts.parse("m == 2")), pytest.raises(EgshapeError, match="else f32"):
        made.infer(types, {})


def test_sizes_outside_of_a_run() -> None:
    n = Size(symbol("n"))
    assert n >= 0 and bool(n < n - 1) is False
    with pytest.raises(TypeError, match="nothing decides"):
        bool(n == 1)
    with pytest.raises(TypeError, match="is no number"):
        int(n)


def test_a_refused_dtype_is_told_whatever_the_sizes() -> None:
    def shape(x, y):  # type: ignore[no-untyped-def]
        assert x.dims[0] == y.dims[0], "sizes differ"
        return list(x.dims)

    def dtype(x, y):  # type: ignore[no-untyped-def]
        assert x.dtype == y.dtype, "dtypes differ"
        return x.dtype

    made = ShapeFunction("pair", shape, dtype)
    one, other = TensorType("f32", (symbol("n"),)), TensorType("i32", (symbol("m"),))
    with pytest.raises(EgshapeError, match="dtypes differ"):
        made.infer((one, other), {})
    assert [each.lhs for each in made.conditions((one, replace(other, dtype="f32")), {})] == [symbol("n")]


# -- in programs ----


@pytest.fixture
def declared() -> Iterator[None]:
    @egshape.custom_op("halved", operands=("x",))
    class Halved:
        """Every second row."""

        def shape(x):
            assert x.dims[0] % 2 == 0, "halved takes an even number of rows"
            return x.dims[0] // 2, x.dims[1]

        def dtype(x):
            return x.dtype

        def reference(x):
            return x[::2]

    @egshape.custom_op("squeezed", operands=("x",))
    class Squeezed:
        """x without its first axis where that is 1."""

        shape = squeezed

        def reference(x):
            return x[0] if len(x) == 1 else x

    yield
    REGISTRY.drop("halved")
    REGISTRY.drop("squeezed")


HALVED = """func.func @f(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %0 = stablehlo.custom_call @halved(%x) : (tensor<?x3xf32>) -> tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}"""
SQUEEZED = """func.func @f(%x: tensor<?x3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.custom_call @squeezed(%x) : (tensor<?x3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}"""


@pytest.mark.parametrize("optimize", [False, True])
def test_an_assertion_is_a_check(declared: None, optimize: bool) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    graph = egshape.load(HALVED.encode(), format="mlir")
    assert str(graph.outputs[0].type) == "f32[arg0.0//2, 3]"
    run = egshape.compile(graph, "interpret", optimize=optimize)
    assert run(np.zeros((4, 3), np.float32)).shape == (2, 3) and run(np.zeros((0, 3), np.float32)).shape == (0, 3)
    with pytest.raises(CheckFailed, match="halved takes an even number of rows"):
        run(np.zeros((3, 3), np.float32))


def test_a_stated_rank_is_checked(declared: None) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    graph = egshape.load(SQUEEZED.encode(), format="mlir")
    run = egshape.compile(graph, "interpret")
    assert run(np.ones((1, 3), np.float32)).tolist() == [1, 1, 1]
    with pytest.raises(EgshapeError, match=r"arg0\.0"):
        run(np.ones((2, 3), np.float32))


OPS = """import egshape
@egshape.custom_op("squeezed", operands=("x",))
class Squeezed:
    "x without its first axis where that is 1."
    def shape(x):
        return (x.dtype, x.dims[1:]) if x.dims[0] == 1 else x
    def reference(x):
        return x[0] if len(x) == 1 else x
"""


@pytest.mark.parametrize(("fact", "type"), [("arg0.0 == 1", "f32[3]"), ("arg0.0 >= 2", "f32[arg0.0, 3]")])
def test_assume_says_the_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str], fact: str, type: str) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    model, ops = tmp_path / "m.mlir", tmp_path / "ops.py"
    model.write_text(SQUEEZED.replace("tensor<3xf32>", "tensor<*xf32>"))
    ops.write_text(OPS)
    try:
        assert main(["shapes", str(model), "--ops", str(ops)]) == 2
        assert '--assume "arg0.0 == 1"' in capsys.readouterr().err
        out = tmp_path / "o.egs"
        assert main(["optimize", str(model), "--ops", str(ops), "--assume", fact, "-o", str(out)]) == 0
        graph = egshape.load(out)
        assert [str(value.type).replace("1, 3", "arg0.0, 3") for value in graph.outputs] == [type]
        with pytest.raises(EgshapeError, match=r"arg0\.0"):
            egshape.compile(graph, "interpret")(np.zeros((2 if "==" in fact else 1, 3), np.float32))
    finally:
        REGISTRY.drop("squeezed")


def said_in(text: str) -> str:
    """The squeezed program, whose rank is left open, with statements before the op."""
    return SQUEEZED.replace("tensor<3xf32>", "tensor<*xf32>").replace("  %0 =", text + "\n  %0 =", 1)


ASSERTED = """%c = stablehlo.constant dense<1> : tensor<i32>
  %s = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
  %p = stablehlo.compare EQ, %s, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%p) {error_message = "one row", has_side_effect = true} : (tensor<i1>) -> ()"""
HELD = """module attributes {egshape.facts = "{FACTS}"} {
PROGRAM
}"""
FACTS = '{"version": 1, "symbols": [], "relations": ["arg0.0 == 1"], "assumed": []}'


@pytest.mark.parametrize("way", ["check", "facts of the file", "assume", "assume, compiled"])
def test_what_is_known_when_a_program_is_read_says_the_rank(declared: None, tmp_path: Path, way: str) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    text = said_in(ASSERTED if way == "check" else "")
    if way == "facts of the file":
        text = HELD.replace("{FACTS}", FACTS.replace('"', r"\22")).replace("PROGRAM", text)
    file = tmp_path / "m.mlir"
    file.write_text(text)
    assume = ["arg0.0 == 1"] if "assume" in way else []
    if way == "assume, compiled":
        run = egshape.compile(file, "interpret", assume=assume)
    else:
        result = egshape.optimize(file, assume)
        assert [str(value.type) for value in result.graph.outputs] == ["f32[3]"]
        run = egshape.compile(result, "interpret")
    assert run(np.ones((1, 3), np.float32)).tolist() == [1, 1, 1]
    with pytest.raises(EgshapeError, match="one row" if way == "check" else "arg0.0 == 1"):
        run(np.ones((2, 3), np.float32))


@pytest.mark.parametrize(("said", "type"), [("f32[1, ?]", "f32[3]"), ("f32[2*m + 2, 3]", "f32[2*m + 2, 3]")])
def test_an_annotation_says_the_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str], said: str, type: str) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    model, ops = tmp_path / "m.mlir", tmp_path / "ops.py"
    model.write_text(said_in(""))
    ops.write_text(OPS)
    try:
        assert main(["shapes", str(model), "--ops", str(ops), "--annotate", f"arg0: {said}"]) == 0
        assert type in capsys.readouterr().out
        assert main(["shapes", str(model), "--ops", str(ops), "--annotate", "arg0: f32[-1, ?]"]) == 2
    finally:
        REGISTRY.drop("squeezed")


def test_checks_that_contradict_decide_nothing(declared: None) -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", (None, 3))
    for size in (1, 2):
        sides = (x.type.dims[0], const(size))
        builder.add("check", (), {"relation": "==", "sides": sides, "message": "no"})
    with pytest.raises(EgshapeError, match="gives f32"):
        builder.one("squeezed", (x,))


def test_the_report_says_what_became_of_each(declared: None) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    unused = "  %9 = stablehlo.custom_call @halved(%0) : (tensor<?x3xf32>) -> tensor<?x3xf32>\n  return"
    graph = egshape.load(HALVED.replace("  return", unused).encode(), format="mlir")
    used, gone = egshape.optimize(graph, ["arg0.0 == 8"]).report.shape_functions
    assert (used.op, used.gives, used.simplified, used.status) == (
        "halved",
        ("f32[arg0.0//2, 3]",),
        ("f32[4, 3]",),
        "kept",
    )
    assert (gone.simplified, gone.status) == (("f32[2, 3]",), "dropped")
    assert used.asserts and gone.asserts
