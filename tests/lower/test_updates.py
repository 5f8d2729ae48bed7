"""Updates in place, running folds: the work that is done, and the numbers."""

import numpy as np
import pytest

from egshape.dims import const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.plan.ir.loops import Loop
from egshape.plan.ir.program import Copy, Repeat, Run
from egshape.plan.ir.walk import statements
from egshape.plan.targets import plan
from tests.fuzz.differential import argument, constant, data, graph_of, region
from tests.lower.checking import call, check, compiled

N, M = symbol("n"), symbol("m")
ONE = const(1)


def loop(b, x, rounds, step):
    """A while loop over (i, x); ``step`` builds the next x."""
    start = constant(b, 0, "i32")
    test = b.child()
    i, _ = test.arg(None, "i32", []), test.arg(None, "f32", [N, 8])
    compared = test.one("compare", [i, constant(test, rounds, "i32")], {"direction": "LT", "kind": "SIGNED"})
    body = b.child()
    j, a = body.arg(None, "i32", []), body.arg(None, "f32", [N, 8])
    results = [body.one("add", [j, constant(body, 1, "i32")]), step(body, j, a)]
    return b.add("while", [start, x], {}, regions=(test.finish([compared]), body.finish(results)))[1]


def run_and_check(graph, *more):
    check(graph, *([data("f32", (n, 8), 1), *more] for n in (4, 7, 33)), tolerance=1e-4)


def steps_of_round(graph):
    (repeat,) = [step for step in plan(graph).steps if isinstance(step, Repeat)]
    return repeat.body


def test_a_loop_updates_its_carried_value_in_place():
    b = BlockBuilder()
    x, u = argument(b, "x", "f32", [N, 8]), argument(b, "u", "f32", [1, 8])

    def step(body, i, a):
        zero = constant(body, 0, "i32")
        row = body.one("dynamic_slice", [a, i, zero], {"sizes": (1, 8)})
        return body.one("dynamic_update_slice", [a, body.one("add", [row, u]), i, zero])

    graph = graph_of(b, loop(b, x, 3, step))
    assert not any(isinstance(s, Copy) and s.source.size.const is None for s in steps_of_round(graph))
    assert all(
        stmt.extent.const is not None
        for s in steps_of_round(graph)
        if isinstance(s, Run)
        for stmt in statements(s.kernel.body)
        if isinstance(stmt, Loop)
    ), "no loop over the whole"
    run_and_check(graph, data("f32", (1, 8), 2))


def test_an_update_whose_old_value_is_read_later_is_a_copy():
    b = BlockBuilder()
    x, u = argument(b, "x", "f32", [N, 8]), argument(b, "u", "f32", [1, 8])

    def step(body, i, a):
        new = body.one("dynamic_update_slice", [a, u, i, constant(body, 0, "i32")])
        return body.one("add", [body.one("reverse", [new], {"dims": (0,)}), a])

    run_and_check(graph_of(b, loop(b, x, 3, step)), data("f32", (1, 8), 2))


def test_an_update_that_reads_what_it_overwrites():
    """Rows 1.. take the rows before them: the update is read in full before anything is written."""
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N, 8])

    def step(body, i, a):
        zero = constant(body, 0, "i32")
        rows = body.one("dynamic_slice", [a, zero, zero], {"sizes": (3, 8)})
        return body.one("dynamic_update_slice", [a, rows, constant(body, 1, "i32"), zero])

    run_and_check(graph_of(b, loop(b, x, 2, step)))


def test_a_pending_reader_of_the_old_value():
    """What was read through before the update is computed from the old value."""
    b = BlockBuilder()
    x, u = argument(b, "x", "f32", [N, 8]), argument(b, "u", "f32", [1, 8])
    zero = constant(b, 0, "i32")
    t = b.one("tanh", [b.one("exponential", [b.one("abs", [x])])])
    both = b.one("add", [t, t])
    old = b.one("negate", [both])
    new = b.one("dynamic_update_slice", [both, u, zero, zero])
    graph = graph_of(b, b.one("multiply", [new, new]), old)
    run_and_check(graph, data("f32", (1, 8), 2))


def test_scatter_in_a_loop_is_in_place():
    b = BlockBuilder()
    x, u = argument(b, "x", "f32", [N, 8]), argument(b, "u", "f32", [8])
    attrs = {
        "update_window_dims": (0,),
        "inserted_window_dims": (0,),
        "operand_batch": (),
        "indices_batch": (),
        "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 0,
    }

    def step(body, i, a):
        where = body.one("reshape", [i], {"shape": (ONE,)})
        (out,) = body.add("scatter", [a, where, u], attrs, regions=(region(body, "add", "f32"),))
        return out

    graph = graph_of(b, loop(b, x, 3, step))
    assert not any(isinstance(s, Copy) and s.source.size.const is None for s in steps_of_round(graph))
    run_and_check(graph, data("f32", (8,), 2))


@pytest.mark.parametrize("backwards", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("name", "start"), [("add", 0), ("maximum", -np.inf), ("add", 1)])
def test_cumulative_windows(name, start, axis, backwards):
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N, M])
    window, padding, ones = [ONE, ONE], [const(0)] * 4, (ONE, ONE)
    window[axis], padding[2 * axis + backwards] = (N, M)[axis], (N, M)[axis] - 1
    attrs = {
        "window": tuple(window),
        "padding": tuple(padding),
        "strides": ones,
        "base_dilation": ones,
        "window_dilation": ones,
    }
    (out,) = b.add("reduce_window", [x, constant(b, start, "f32")], attrs, regions=(region(b, name, "f32"),))
    graph = graph_of(b, out)
    rng = np.random.default_rng(1)
    check(
        graph,
        *([rng.normal(size=shape).astype(np.float32)] for shape in ((1, 1), (2, 3), (7, 33), (5, 127))),
        tolerance=1e-3,
    )
    (kernel,) = [step.kernel for step in plan(graph).steps if isinstance(step, Run)]
    assert (kernel.label == "scan") == (start != 1), "1 is not neutral: what lies outside counts"


def test_a_loop_whose_carried_sizes_grow():
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N, 3]), argument(b, "y", "f32", [M])
    start = constant(b, 0, "i32")

    def arguments(block):
        return block.arg(None, "i32", []), block.arg(None, "f32", [None, 3]), block.arg(None, "f32", [None])

    test, body = b.child(), b.child()
    i, _, _ = arguments(test)
    compared = test.one("compare", [i, constant(test, 4, "i32")], {"direction": "LT", "kind": "SIGNED"})
    i, rows, flat = arguments(body)
    row = body.one(
        "broadcast_in_dim", [body.one("convert", [i], {"dtype": "f32"})], {"dims": (), "shape": (ONE, const(3))}
    )
    taller = body.one("concatenate", [rows, row, body.one("tanh", [rows])], {"dim": 0})
    longer = body.one(
        "concatenate", [flat, body.one("reshape", [rows], {"shape": (rows.type.dims[0] * 3,)})], {"dim": 0}
    )
    results = [body.one("add", [i, constant(body, 1, "i32")]), taller, longer]
    out = b.add("while", [start, x, y], {}, regions=(test.finish([compared]), body.finish(results)))
    check(
        graph_of(b, out[1], b.one("negate", [out[2]])),
        *([data("f32", (n, 3), 1), data("f32", (m,), 1)] for n, m in ((0, 0), (1, 0), (0, 3), (2, 7), (7, 33))),
        tolerance=1e-4,
    )


def windows():
    """Windows of three rows, each of all columns, added to x at one row each."""
    b, k = BlockBuilder(), symbol("k")
    x, where, u = (
        argument(b, "x", "f32", [N, M]),
        argument(b, "where", "i32", [k, 1]),
        argument(b, "u", "f32", [k, 3, M]),
    )
    attrs = {
        "update_window_dims": (1, 2),
        "inserted_window_dims": (),
        "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 1,
    }
    return graph_of(b, b.add("scatter", [x, where, u], attrs, regions=(region(b, "add", "f32"),))[0])


PLACES = [[0], [2], [-1], [3], [4], [5], [1, 1, 3], [2, -5, 2**31 - 1], [-(2**31)]]


@pytest.mark.parametrize("places", PLACES)
def test_a_window_that_is_partly_outside_changes_nothing(places):
    x, u = data("f32", (5, 4), 1), data("f32", (len(places), 3, 4), 2)
    where = np.array(places, np.int32)[:, None]
    wanted = x.copy()
    for row, window in zip(places, u, strict=True):
        if 0 <= row <= 2:
            with np.errstate(over="ignore", invalid="ignore"):
                wanted[row : row + 3] += window
    np.testing.assert_allclose(call(compiled(windows()), [x, where, u])[0], wanted, 1e-6)
    check(windows(), [x, where, u], [x[:, :1].copy(), where, u[:, :, :1].copy()])
    lax = pytest.importorskip("jax.lax", reason="XLA needs the extra jax")
    numbers = lax.ScatterDimensionNumbers((1, 2), (), (0,))
    np.testing.assert_allclose(lax.scatter_add(x, where, u, numbers, mode="drop"), wanted, 1e-6)
