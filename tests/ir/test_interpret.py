"""The interpreter: entry checks, symbols, regions, and every way to be told that a size is wrong."""

import numpy as np
import pytest

from egshape.dims import const, symbol
from egshape.errors import CheckFailed, EgshapeError
from egshape.facts import Facts, Relation
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Block, Graph, Location, Op, Value
from egshape.ir.interpret import interpret
from egshape.ir.types import TensorType

F32 = np.float32
DOT = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "dtype": "f32"}


def graph_of(builder, *results, facts=None):
    return Graph("g", builder.finish(results), tuple(f"out{i}" for i in range(len(results))), facts or Facts())


def ones(*shape):
    return np.ones(shape, F32)


@pytest.fixture
def add():
    b = BlockBuilder()
    x, y = b.arg("x", "f32", [None, 2], ["n", None]), b.arg("y", "f32", [None, 2], ["n", None])
    return graph_of(b, b.one("add", (x, y), location=Location("model.py", 12)))


@pytest.mark.parametrize("n", [0, 1, 3])
def test_runs_by_order_and_by_name(add, n):
    np.testing.assert_array_equal(interpret(add, [ones(n, 2), ones(n, 2)])[0], ones(n, 2) * 2)
    np.testing.assert_array_equal(interpret(add, {"y": ones(n, 2), "x": ones(n, 2)})[0], ones(n, 2) * 2)


@pytest.mark.parametrize(
    ("inputs", "names"),
    [
        ([ones(1, 2)], "2 inputs, got 1"),
        ({"x": ones(1, 2)}, "'y' is missing"),
        ({"x": ones(1, 2), "y": ones(1, 2), "z": 1}, "no input 'z'"),
        ([ones(1, 2), np.ones((1, 2))], "'y' .* float64"),
        ([ones(1, 2), ones(2)], "'y' .* rank 1"),
        ([ones(1, 3), ones(1, 2)], "axis 1 of input 'x' has size 3"),
        ([ones(1, 2), ones(5, 2)], "axis 0 of input 'y' has size 5.* n = 1"),
    ],
)
def test_wrong_inputs_are_named(add, inputs, names):
    with pytest.raises(EgshapeError, match=names) as caught:
        interpret(add, inputs)
    assert caught.value.code == "input" and caught.value.exit_code == 2


def test_results_are_fresh():
    b = BlockBuilder()
    x = b.arg("x", "f32", [None])
    array = ones(2)
    first, second = interpret(graph_of(b, x, x), [array])
    first[0] = 7
    assert array[0] == 1 and second[0] == 1


def test_input_sizes_may_be_expressions():
    b = BlockBuilder()
    x = b.arg("x", "f32", [symbol("n") * 2 + 1])
    y = b.arg("y", "f32", [symbol("n")])
    graph = graph_of(b, x, y)
    assert len(interpret(graph, [ones(5), ones(2)])) == 2
    for inputs in ([ones(4), ones(2)], [ones(5), ones(3)]):
        with pytest.raises(EgshapeError) as caught:
            interpret(graph, inputs)
        assert caught.value.code == "input"


def test_unequal_sizes_are_a_failed_check_with_the_place():
    b = BlockBuilder()
    x, y = b.arg("x", "f32", [None], ["n"]), b.arg("y", "f32", [None], ["m"])
    graph = graph_of(b, b.one("add", (x, y), location=Location("model.py", 12)))
    for sizes in ((2, 3), (1, 3), (3, 1)):
        with pytest.raises(CheckFailed, match=r"add %\d+ at model.py:12"):
            interpret(graph, [ones(sizes[0]), ones(sizes[1])])


def test_dynamic_sizes_bind_symbols():
    b = BlockBuilder()
    x, shape = b.arg("x", "f32", []), b.arg("shape", "i32", [2])
    out = b.one("broadcast_in_dim", (x, shape), {"dims": ()})
    total = b.one("reshape", (out,), {"shape": (out.type.dims[0] * out.type.dims[1],)})
    graph = graph_of(b, total)
    assert interpret(graph, [ones(), np.array([2, 3], np.int32)])[0].shape == (6,)
    with pytest.raises(EgshapeError) as caught:
        interpret(graph, [ones(), np.array([2, -3], np.int32)])
    assert caught.value.code == "invalid-size"


def wrong(types, attrs=None):
    """A graph with one op whose stated type is wrong."""
    x = Value("x", TensorType("f32", (symbol("n"),)))
    op = Op("negate", (x,), attrs or {}, (Value("y", types),), location=Location("m.py", 3))
    return Graph("g", Block((x,), (op,), op.results), ("out0",))


@pytest.mark.parametrize(
    "stated",
    [
        TensorType("f32", (symbol("n") + 1,)),
        TensorType("f32", (const(3),)),
        TensorType("f32", ()),
        TensorType("i32", (symbol("n"),)),
    ],
)
def test_a_wrong_inferred_type_is_found(stated):
    with pytest.raises(EgshapeError, match=r"%y is") as caught:
        interpret(wrong(stated), [ones(2)])
    assert caught.value.code == "inference" and "negate %y at m.py:3" in str(caught.value)


def test_required_relations_are_checked():
    b = BlockBuilder()
    x = b.arg("x", "f32", [None], ["n"])
    y = b.one("negate", (x,), requires=[Relation("<=", symbol("n"), const(3), "a test")])
    graph = graph_of(b, y)
    assert len(interpret(graph, [ones(3)])[0]) == 3
    with pytest.raises(CheckFailed, match=r"n <= 3 does not fit at n = 4.*a test"):
        interpret(graph, [ones(4)])
    assert len(interpret(graph, [ones(4)], check_requires=False)[0]) == 4


def test_checks_stop_with_their_message():
    b = BlockBuilder()
    b.arg("x", "f32", [None], ["n"])
    b.add(
        "check",
        (),
        {
            "relation": "==",
            "sides": (symbol("n") % 2, const(0)),
            "message": "{0} is odd",
            "args": (symbol("n"),),
        },
    )
    graph = graph_of(b)
    assert interpret(graph, [ones(4)]) == []
    with pytest.raises(CheckFailed, match="3 is odd"):
        interpret(graph, [ones(3)])


def test_assumed_facts_are_checked_at_entry():
    b = BlockBuilder()
    x = b.arg("x", "f32", [None], ["n"])
    graph = graph_of(b, x, facts=Facts.parse("n % 2 == 0", assumed=True))
    assert len(interpret(graph, [ones(2)])) == 1
    with pytest.raises(CheckFailed, match="n % 2 == 0"):
        interpret(graph, [ones(3)])


def counting(limit):
    """while i < n: x = x + x; i = i + 1, with n from the size of x if there is no limit."""
    b = BlockBuilder()
    x = b.arg("x", "f32", [None], ["n"])
    zero = b.one("constant", (), {"value": np.array(0, np.int32)})
    one = b.one("constant", (), {"value": np.array(1, np.int32)})
    end = (
        b.one("get_dimension_size", (x,), {"dim": 0})
        if limit is None
        else b.one("constant", (), {"value": np.array(limit, np.int32)})
    )
    cond = b.child()
    i, _ = cond.arg(None, "i32", []), cond.arg(None, "f32", x.type.dims)
    less = cond.one("compare", (i, end), {"direction": "LT", "kind": "SIGNED"})
    body = b.child()
    i, v = body.arg(None, "i32", []), body.arg(None, "f32", x.type.dims)
    step = body.finish([body.one("add", (i, one)), body.one("add", (v, v))])
    return graph_of(b, *b.add("while", (zero, x), regions=[cond.finish([less]), step]))


@pytest.mark.parametrize("n", [0, 1, 5])
def test_loops(n):
    rounds, values = interpret(counting(None), [ones(n)])
    assert rounds == n and (values == 2.0**n).all() and values.shape == (n,)


def test_a_loop_without_end_is_stopped():
    graph = counting(10)
    assert interpret(graph, [ones(1)], max_while=10)[0] == 10
    with pytest.raises(EgshapeError, match="9 rounds") as caught:
        interpret(graph, [ones(1)], max_while=9)
    assert caught.value.code == "loop-limit"


def test_symbols_of_a_region_are_read_anew_in_each_call():
    b = BlockBuilder()
    s = b.arg("s", "i32", [1])
    x = b.one("constant", (), {"value": np.array(1, F32)})
    twice = []
    for _ in range(2):
        inner = b.child()
        n = inner.arg(None, "i32", [1])
        grown = inner.one("broadcast_in_dim", (x, n), {"dims": ()})
        twice.append(b.one("composite", (s,), {"name": "c"}, regions=[inner.finish([grown])]))
    got = interpret(graph_of(b, *twice), [np.array([3], np.int32)])
    assert [array.shape for array in got] == [(3,), (3,)]


def region(builder, dtype, make):
    child = builder.child()
    args = [child.arg(None, dtype, []) for _ in range(2)]
    return child.finish([make(child, *args)])


def test_regions_of_scalars_run_on_arrays_and_by_element():
    b = BlockBuilder()
    x = b.arg("x", "f32", [None, None], ["n", "m"])
    half = b.one("constant", (), {"value": np.array(0.5, F32)})
    zero = b.one("constant", (), {"value": np.array(0, F32)})

    def plain(c, p, q):
        return c.one("multiply", (c.one("add", (p, q)), half))

    def roundabout(c, p, q):
        return c.one("reshape", (c.one("reshape", (plain(c, p, q),), {"shape": (const(1),)}),), {"shape": ()})

    outs = [
        b.one("reduce", (x, zero), {"dims": (1,)}, regions=[region(b, "f32", make)]) for make in (plain, roundabout)
    ]
    graph = graph_of(b, *outs)
    for shape in ((0, 2), (2, 0), (3, 4)):
        array = np.random.default_rng(0).normal(size=shape).astype(F32)
        want = np.zeros(shape[0], F32)
        for k in range(shape[1]):
            want = (want + array[:, k]) * F32(0.5)
        for got in interpret(graph, [array]):
            np.testing.assert_array_equal(got, want)


def test_if_and_captures():
    b = BlockBuilder()
    p, x = b.arg("p", "i1", []), b.arg("x", "f32", [None], ["n"])
    inner, other = b.child(), b.child()
    out = b.one("if", (p,), regions=[inner.finish([inner.one("negate", (x,))]), other.finish([x])])
    graph = graph_of(b, out)
    assert interpret(graph, [np.array(True), ones(2)])[0].tolist() == [-1, -1]
    assert interpret(graph, [np.array(False), ones(0)])[0].tolist() == []


def test_trace_sees_every_op(add):
    seen = []
    interpret(add, [ones(1, 2), ones(1, 2)], trace=lambda op, arrays: seen.append((op.name, arrays[0].shape)))
    assert seen == [("add", (1, 2))]


def test_dot_of_sizes_that_differ_fails():
    b = BlockBuilder()
    x, y = b.arg("x", "f32", [None, None]), b.arg("y", "f32", [None, None])
    graph = graph_of(b, b.one("dot_general", (x, y), DOT))
    assert interpret(graph, [ones(2, 3), ones(3, 1)])[0].tolist() == [[3], [3]]
    with pytest.raises(CheckFailed, match="dot_general"):
        interpret(graph, [ones(2, 3), ones(4, 1)])
