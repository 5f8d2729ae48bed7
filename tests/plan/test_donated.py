"""Inputs that are given back changed: found, planned in one buffer, and right whether a caller gives their memory or
not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from egshape.adapters.native import compile_function
from egshape.dims import const, symbol
from egshape.errors import EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Value
from egshape.ir.interpret import interpret
from egshape.plan.form.donated import updates_of, with_updates
from egshape.plan.ir.program import Copy, Run
from egshape.plan.targets import plan
from tests.fuzz.differential import argument, graph_of

N = symbol("n")
Make = Callable[[BlockBuilder, Value, Value, Value], tuple[Value, ...]]


def _graph(make: Make) -> Graph:
    """Of a table (n, 4), a row and a place; what ``make`` gives."""
    b = BlockBuilder()
    x, row, at = argument(b, "x", "f32", [N, const(4)]), argument(b, "row", "f32", [1, 4]), argument(b, "at", "i64", [])
    return graph_of(b, *make(b, x, row, at))


def _put(b: BlockBuilder, x: Value, row: Value, at: Value) -> Value:
    zero = b.one("constant", (), {"value": np.int64(0)})
    return b.one("dynamic_update_slice", (x, row, at, zero))


def _middle(b: BlockBuilder, x: Value, row: Value) -> Value:
    """The third row replaced, as a concatenation; there are five at least."""
    b.add("check", (), {"relation": "<=", "sides": (const(5), N), "message": "too short", "args": ()})
    attrs = {"strides": (const(1), const(1))}
    head = b.one("slice", (x,), {"starts": (const(0), const(0)), "limits": (const(2), const(4)), **attrs})
    tail = b.one("slice", (x,), {"starts": (const(3), const(0)), "limits": (N, const(4)), **attrs})
    return b.one("concatenate", (head, row, tail), {"dim": 0})


def _total(b: BlockBuilder, x: Value) -> Value:
    zero = b.one("constant", (), {"value": np.float32(0)})
    body = b.child()
    one, two = (body.arg(name, "f32", ()) for name in ("one", "two"))
    return b.add("reduce", (x, zero), {"dims": (0,)}, regions=(body.finish([body.one("add", (one, two))]),))[0]


def _first(b: BlockBuilder, x: Value) -> Value:
    sides = {"starts": (const(0), const(0)), "limits": (const(1), const(4)), "strides": (const(1), const(1))}
    return b.one("slice", (x,), sides)


IN_PLACE: dict[str, Make] = {
    "a row": lambda b, x, row, at: (_put(b, x, row, at),),
    "a row, and the sum of all": lambda b, x, row, at: (_total(b, y := _put(b, x, row, at)), y),
    "the sum before": lambda b, x, row, at: (_total(b, x), _put(b, x, row, at)),
    "two rows": lambda b, x, row, at: (_put(b, _put(b, x, row, at), b.one("negate", (row,)), at),),
    "a row of itself": lambda b, x, row, at: (_put(b, x, b.one("add", (_first(b, x), row)), at),),
    "the middle": lambda b, x, row, at: (_middle(b, x, row),),
}
COPIED: dict[str, Make] = {
    "the sum of the old ones later": lambda b, x, row, at: (y := _put(b, x, row, at), b.one("add", (x, y))),
    "the old ones too": lambda b, x, row, at: (_put(b, x, row, at), x),
    "twice": lambda b, x, row, at: (_put(b, x, row, at), _put(b, x, b.one("negate", (row,)), at)),
    "another value": lambda b, x, row, at: (_put(b, b.one("negate", (x,)), row, at),),
    "a doubled one read later": lambda b, x, row, at: (
        z := b.one("multiply", (x, x)),
        y := _put(b, x, row, at),
        b.one("add", (z, y)),
    ),
}


def _kernels(graph: Graph) -> list[str]:
    return [step.kernel.label for step in plan(graph).steps if isinstance(step, Run)]


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_changed_input_is_one_buffer(name: str) -> None:
    graph = _graph(IN_PLACE[name])
    steps = plan(graph).steps
    assert len(updates_of(with_updates(graph).body)) == 1
    copies = [step for step in steps if isinstance(step, Copy)]
    assert [(each.source.kind, each.target.kind) for each in copies] == [("input", "output")]


@pytest.mark.parametrize("name", [*IN_PLACE, *COPIED])
@pytest.mark.parametrize("given", [False, True])
def test_results_are_the_same_in_the_inputs_memory(name: str, given: bool) -> None:
    graph = _graph({**IN_PLACE, **COPIED}[name])
    function = compile_function(graph)
    over = function.manifest["over"]
    assert bool(over) or name in COPIED
    rng = np.random.default_rng(3)
    for rows in (5, 6, 9):
        x, row = (rng.integers(-9, 9, (count, 4)).astype(np.float32) for count in (rows, 1))
        for at in (0, 2, rows - 1, rows + 3, -7):
            arrays = [x.copy(), row, np.asarray(at, np.int64)]
            wanted = interpret(graph, arrays)
            out = [arrays[0] if given and each in over else None for each in graph.output_names]
            found = function(*arrays, out=out if given else None)
            found = found if isinstance(found, tuple) else (found,)
            for one, two, place in zip(found, wanted, out, strict=True):
                np.testing.assert_array_equal(one, two)
                assert place is None or one is place
            if not any(each is not None for each in out):
                np.testing.assert_array_equal(arrays[0], x)


def test_two_inputs_that_are_exchanged_are_not_their_own_updates() -> None:
    b = BlockBuilder()
    x, y = (argument(b, name, "f32", [N, const(4)]) for name in "xy")
    row, at = argument(b, "row", "f32", [1, 4]), argument(b, "at", "i64", [])
    graph = graph_of(b, _put(b, y, row, at), _put(b, x, row, at))
    function = compile_function(graph)
    one, two = np.ones((5, 4), np.float32), np.zeros((5, 4), np.float32)
    row_of, place = np.full((1, 4), 7, np.float32), np.asarray(2, np.int64)
    wanted = interpret(graph, [one, two, row_of, place])
    names = {value.name: array for value, array in zip(graph.inputs, (one, two, row_of, place), strict=True)}
    out = [names[function.manifest["over"][each]] for each in graph.output_names]
    found = function(one, two, row_of, place, out=out)
    assert found[0] is two and found[1] is one
    for each, exact in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(each, exact)


def test_other_memory_that_overlaps_is_refused() -> None:
    function = compile_function(_graph(IN_PLACE["a row"]))
    memory = np.zeros((9, 4), np.float32)
    row, at = np.ones((1, 4), np.float32), np.asarray(1, np.int64)
    for x, out, given in ((memory[:5], memory[1:6], row), (memory[:5], memory[:5], memory[2:3])):
        with pytest.raises(EgshapeError, match="overlaps"):
            function(x, given, at, out=[out])
    assert not memory.any()


def test_a_part_that_is_no_end_is_no_update() -> None:
    b = BlockBuilder()
    x, row = argument(b, "x", "f32", [const(6), const(4)]), argument(b, "row", "f32", [1, 4])
    sides = {"strides": (const(1), const(1)), "starts": (const(0), const(0)), "limits": (const(2), const(4))}
    head = b.one("slice", (x,), sides)
    tail = b.one("slice", (x,), {**sides, "starts": (const(2), const(0)), "limits": (const(5), const(4))})
    graph = graph_of(b, b.one("concatenate", (head, row, tail), {"dim": 0}))
    assert not updates_of(with_updates(graph).body) and "dynamic_update_slice" not in _kernels(graph)
