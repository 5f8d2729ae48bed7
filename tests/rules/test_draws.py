"""Programs drawn from a rule's own left side: which they are, and that they run."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from egshape.dims import const, symbol
from egshape.egraph.program import program
from egshape.errors import EgshapeError
from egshape.ir.types import DTYPES, TensorType, integer_range, is_integer, numpy_dtype
from egshape.ops import REGISTRY
from egshape.rulebook.trial.arrays import random_array, specials
from egshape.rulebook.trial.compute import Case, points, shown
from egshape.rulebook.trial.draw import Draws, patterns
from egshape.rulebook.trial.guards import Contradiction, Drawn, Guards, Values
from egshape.rulebook.trial.mutate import parts
from egshape.rulebook.trial.pull import PULLED
from egshape.rulebook.trial.run import try_rules
from egshape.rulelang.examples import Apply, Constant, Leaf, Line, Term, build_example, read_example, term_text
from egshape.rulelang.loader import Example, shipped_rulesets
from egshape.rulelang.rulefile import Rule
from egshape.rulelang.schema import has_constructor
from egshape.rulelang.sexpr import read

HEADER = """; ruleset: drawn
; about:   what a test asks for
; needs:   prelude.shape, prelude.tensor, tensor.types
; law:     none
; ends:    it is tried, not used

; a rule
; sound: as the test says
; ends: it is tried, not used
"""


def rules_of(folder: Path, text: str, example: str) -> str:
    """A file with one rule."""
    path = folder / "drawn.egg"
    path.write_text(f'{HEADER}{text}\n  :ruleset drawn :name "drawn/rule")\n;; example   {example}\n')
    return str(path)


def lines(rule: Rule, count: int, seed: int = 0) -> list[Line]:
    """Programs drawn from a rule."""
    (pattern,) = patterns(rule)
    draws = Draws(pattern, random.Random(seed))
    return [line for line in (draws.line() for _ in range(count)) if line is not None]


def shipped(name: str) -> Rule:
    return next(rule for rule in program(()).rules.rules if rule.name == name)


def own(folder: Path, text: str, example: str) -> Rule:
    """The rule of a file that says what an op implies."""
    return program((rules_of(folder, text, example),)).rules.rule("drawn/rule")


def applied(term: Term) -> Apply:
    assert isinstance(term, Apply)
    return term


def leaves(line: Line) -> list[Leaf]:
    return [part for part in parts(line.left) if isinstance(part, Leaf)]


def order(axes: tuple[int, ...]) -> int:
    """How many times a permutation is applied until nothing is permuted."""
    power, count = axes, 1
    while power != tuple(range(len(axes))):
        power, count = tuple(axes[k] for k in power), count + 1
    return count


def test_transposes_have_every_rank_dtype_and_order() -> None:
    found = lines(shipped("tensor.transpose/transpose-transpose"), 300)
    axes = [applied(line.left).attrs["permutation"] for line in found]
    assert {len(each) for each in axes} == set(range(5))
    assert {order(each) for each in axes} == {1, 2, 3, 4}
    types = [leaf.type for line in found for leaf in leaves(line)]
    assert len({type.dtype for type in types}) > 15
    assert {0, 1, 2, 3, 5} <= {dim.const for type in types for dim in type.dims}
    assert any(dim.const is None for type in types for dim in type.dims)


def test_attributes_are_not_those_of_examples() -> None:
    pads = [applied(line.left).attrs for line in lines(shipped("tensor.slice/pad-splat"), 200)]
    for name, wanted in (("low", {-1, 0, 1, 2}), ("interior", {0, 1, 2})):
        assert wanted <= {dim.const for attrs in pads for dim in attrs[name]}
    dots = [applied(line.left).attrs for line in lines(shipped("tensor.transpose/into-dot-left"), 300)]
    assert {0, 1, 2} <= {len(attrs["lhs_contract"]) for attrs in dots}
    assert any(list(attrs["lhs_batch"]) != sorted(attrs["lhs_batch"]) for attrs in dots)


def test_constants_are_what_the_body_wants_of_them() -> None:
    for line in lines(shipped("tensor.neutral/right"), 100):
        splat = applied(applied(line.left).operands[1]).operands[0]
        assert isinstance(splat, Constant)
        x, y = (np.full(1, value, splat.array.dtype) for value in (3, splat.array))
        with np.errstate(all="ignore"):
            found = REGISTRY[applied(line.left).op].reference(x, y)
        assert found.tobytes() == x.tobytes(), term_text(line.left, REGISTRY)


def test_what_ops_imply_is_tried_at_unlike_sizes(tmp_path: Path) -> None:
    text = """(rule ((in_binary i f a b) (= (Sh u) (ShapeOf (Node a))) (= (Sh v) (ShapeOf (Node b))) (!= u v)
       (axis k) (< k (vec-length u)) (= p (vec-get u k)) (= q (vec-get v k)) (!= p q)) ((must_eq i "binary" p q))"""
    rule = own(tmp_path, text, "add(x: [a], y: [b])  =>  a == b\n;; counter   add(x: [a], y: [a])")
    pairs = [[leaf.type.dims for leaf in leaves(line)] for line in lines(rule, 60)]
    assert any(len(dims) == 2 and dims[0] != dims[1] for dims in pairs)


OF_ANY = {"tensor.broadcast/of-nothing", "tensor.count/gather-all-i32", "tensor.count/gather-all-i64"}
"""Rules of any value, whose left side is nothing to draw, or of a gather that is seldom drawn so: their examples are
tried."""


@pytest.mark.long_but("tensor.transpose")
@pytest.mark.parametrize("ruleset", [name for name in shipped_rulesets() if name.startswith("tensor.")])
def test_every_rule_over_tensors_can_be_drawn_and_runs(ruleset: str) -> None:
    for rule in program(()).rules.rules:
        if rule.ruleset == ruleset and rule.name not in OF_ANY:
            drawn = lines(rule, 30)
            assert len(drawn) > 4, rule.name
            assert sum(map(runs, drawn)) > 0.6 * len(drawn), rule.name


def runs(line: Line) -> bool:
    """Whether sizes are found at which the left side gives a result."""
    try:
        block, (value,) = build_example(line, REGISTRY, right=False)
    except EgshapeError:
        return False
    case = Case(block.args, block.ops, block.symbols, (), "")
    return bool(points(case, value, wanted=1).found)


@pytest.mark.parametrize("op", sorted(PULLED))
def test_each_op_gets_operands_and_attributes_that_fit(op: str, tmp_path: Path) -> None:
    decl = REGISTRY[op]
    names = [
        *("l" if name.startswith("*") else f"x{k}" for k, name in enumerate(decl.operands)),
        *(f"a{k}" for k in range(len(decl.attrs))),
    ]
    left = f"({op} {' '.join(names)})"
    path = rules_of(tmp_path, f"(rewrite {left} {left}", "negate(x: [a])  =>  x")
    rule = next(rule for rule in program((path,)).rules.rules if rule.name == "drawn/rule")
    drawn = lines(rule, 60)
    assert len({leaf.type.rank for line in drawn for leaf in leaves(line)} | {0}) > 2 or not decl.operands
    assert sum(map(runs, drawn)) > 20


def test_ops_with_rules_of_their_own_are_pulled() -> None:
    assert all(has_constructor(REGISTRY[name]) for name in PULLED)


def solved(text: str, **values: object) -> Values:
    return Guards(tuple(read(text))).solved(values)


def test_a_body_binds_what_it_determines() -> None:
    assert solved("(inverse p q)", p=(1, 2, 0))["q"] == (2, 0, 1)
    assert solved("(inverse p q)", q=(1, 2, 0))["p"] == (2, 0, 1)
    composed = solved('(= c (unstable-vec-map (unstable-fn "vec-get" p) q))', p=(1, 2, 0), q=(2, 0, 1))["c"]
    assert composed == (0, 1, 2)
    n, type = symbol("n"), TensorType("f16", (symbol("n"), const(2)))
    x = Drawn(Leaf("x", type), type)
    found = solved("(= (Sh u) (ShapeOf x)) (= t (dtype_of x)) (= (Count u) k) (= (vec-get u 0) m)", x=x)
    assert (found["u"], found["t"], found["k"], found["m"]) == ((n, const(2)), "f16", 2 * n, n)
    assert solved("(= s (Zeros r))", r=2)["s"] == (const(0), const(0))
    assert solved("(is_convert f d)", f="convert.i8")["d"] == "i8"


def test_what_has_no_meaning_here_is_left_open() -> None:
    values = {"u": (const(1),)}
    assert solved("(= n (fuel b)) (> n 0) (axis k) (= p (vec-get u k)) (at_most a b)", **values) == values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("(identity p)", {"p": (1, 0)}),
        ("(increasing p)", {"p": (1, 0)}),
        ("(inverse p q)", {"p": (1, 2, 0), "q": (1, 2, 0)}),
        ("(= (vec-length p) 2)", {"p": (0,)}),
        ("(> n 2)", {"n": 2}),
        ("(!= u v)", {"u": (const(1),), "v": (const(1),)}),
        ("(= (vec-get p 3) 0)", {"p": (0,)}),
        ("(= s (Ones r))", {"s": (const(2),), "r": 1}),
        ("(involution f)", {"f": "abs"}),
        ("(idempotent f d)", {"f": "sign", "d": "c64"}),
        ("(= (Num n) d) (> n 1)", {"d": const(1)}),
    ],
)
def test_a_body_that_does_not_hold_is_a_contradiction(text: str, values: dict[str, object]) -> None:
    with pytest.raises(Contradiction):
        solved(text, **values)


def test_special_values_reach_the_ends_of_each_dtype() -> None:
    for dtype in DTYPES:
        array = random_array(dtype, (3, 5), 7)
        assert (array.dtype, array.shape) == (numpy_dtype(dtype), (3, 5))
        assert random_array(dtype, (), 7).shape == ()
        if is_integer(dtype):
            assert set(integer_range(dtype)) <= set(map(int, specials(dtype)))
    assert {b"\x00\x00\x00\x80", b"\x00\x00\xc0\x7f"} <= {each.tobytes() for each in specials("f32")}
    assert np.isfinite(random_array("f32", (100,), 3, "tame")).all()


TWICE = "(rewrite (transpose (transpose x p) p) x"
TWICE_EXAMPLE = "transpose(transpose(x: [a, b], [1, 0]), [1, 0])  =>  x"


def test_a_rule_that_holds_for_involutions_only_is_found_out_alike_each_time(tmp_path: Path) -> None:
    path = rules_of(tmp_path, TWICE, TWICE_EXAMPLE)
    (one,), (two,) = try_rules([path]), try_rules([path])
    assert one == two
    assert one.outcome.status == "failed"
    assert set(one.fired.ranks) == set(range(5))


def test_a_rule_that_never_fires_is_said(tmp_path: Path) -> None:
    path = rules_of(
        tmp_path,
        "(rule ((= e (transpose x p)) (> (vec-length p) 9)) ((union e x))",
        "transpose(x: [a, b], [0, 1])  =>  x\n;; counter   transpose(x: [a, b], [1, 0])",
    )
    (verdict,) = try_rules([path], thorough=False)
    assert (verdict.outcome.status, verdict.fired.graphs, verdict.good) == ("unknown", 0, False)
    assert "no program was found on which the rule fires" in verdict.why


def test_gather_pairs_batch_axes(tmp_path: Path) -> None:
    text = """(rule ((in_gather i a b o c ob ib m iv z so) (= (Sh u) (ShapeOf (Node a))) (= (Sh v) (Shp z))
       (axis k) (< k (vec-length u)) (= p (vec-get v k)) (= q (vec-get u k)) (!= p q)) ((must_le i "sizes" p q))"""
    said = "x: [n], i: i32[k, 1], [1], [], start_index_map=[0], index_vector_dim=1"
    rule = own(tmp_path, text, f"gather({said}, sizes=[m])  =>  m <= n\n;; counter   gather({said}, sizes=[n])")
    found = [applied(line.left).attrs for line in lines(rule, 150)]
    assert any(attrs["operand_batch"] for attrs in found)
    assert {0, 1, 2} <= {len(attrs["start_index_map"]) for attrs in found}


def test_a_function_of_constants_that_it_does_not_take_is_a_difference(tmp_path: Path) -> None:
    path = rules_of(
        tmp_path,
        '(rewrite (Binary "maximum" x y) (Binary "or" x y)',
        "maximum(const(f32, 1.0), const(f32, 2.0))  =>  const(f32, 2.0)",
    )
    (verdict,) = try_rules([path], thorough=False)
    assert verdict.outcome.status == "failed"


def test_programs_are_read_back_as_they_are_printed() -> None:
    for rule in program(()).rules.rules[::3]:
        for line in (each for pattern in patterns(rule) for each in (Draws(pattern, random.Random(1)).line(),) if each):
            text = term_text(line.left, REGISTRY)
            assert term_text(read_example(Example(text, "", "", "here:1"), REGISTRY).left, REGISTRY) == text
    for text in ("const(c64, 1-0j)", "const(c128, nan+infj)", "const(f8E5M2, 1.25)", "const(i1, true)"):
        assert term_text(read_example(Example(text, "", "", "here:1"), REGISTRY).left, REGISTRY).count("const") == 1


def test_numbers_come_from_the_whole_width() -> None:
    for dtype in ("i8", "i32", "i64", "ui16"):
        found = random_array(dtype, (2000,), 1, "mixed").astype(object)
        low, high = integer_range(dtype)
        assert min(found) < low + (high - low) // 8
        assert max(found) > high - (high - low) // 8
        assert len(set(found)) > 100
    wide = random_array("f64", (2000,), 1, "mixed")
    sizes = np.log2(np.abs(wide[np.isfinite(wide) & (wide != 0)]))
    assert sizes.min() < -900
    assert sizes.max() > 900
    with np.errstate(over="ignore"):
        twice, once = wide.astype(np.float32).astype(np.float16), wide.astype(np.float16)
    assert (twice.view("u2") != once.view("u2")).any()


def test_convolutions_have_their_axes_in_any_order(tmp_path: Path) -> None:
    text = """(rewrite (convolution (Unary "negate" x) w n s p l r v f b c d)
  (Unary "negate" (convolution x w n s p l r v f b c d))"""
    example = "negate(negate(x: [a]))  =>  x"
    found = [applied(line.left).attrs for line in lines(own(tmp_path, text, example), 60)]
    assert len({attrs["numbers"] for attrs in found}) > 20
    assert {(), ("HIGHEST", "HIGHEST")} <= {attrs["precision"] for attrs in found}
    assert {1, 2} <= {attrs["feature_groups"] for attrs in found}


def test_counterexamples_show_the_digits_that_differ() -> None:
    assert shown(np.array([0.1, 0.1 + 2**-56])) == "[0.1, 0.10000000000000002]"
    assert shown(np.array(0.1, np.float32)) == "0.1"
    assert shown(np.array(-0.0, numpy_dtype("bf16"))) == "-0"
