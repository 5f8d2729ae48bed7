"""Ops that nobody reads and that are rejected at some sizes: dropping them must not drop the rejection."""

from __future__ import annotations

from egshape.dims import const
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph
from tests.fuzz.differential import argument, constant, data, graph_of, region
from tests.soundness.programs import NO, YES, A, B, C, M, N, careless, f, i, scalar

CONVOLUTION = {
    "numbers": (0, 2, (1,), 1, 2, (0,), 0, 2, (1,)),
    "strides": (1,),
    "padding": (const(0), const(0)),
    "lhs_dilation": (1,),
    "rhs_dilation": (1,),
    "reversal": (0,),
    "dtype": "f32",
}


@careless(valid=[(f(4), scalar(0)), (f(9), scalar(7))], violating=[(f(3), scalar(0)), (f(0), scalar(0))])
def unread_dynamic_slice() -> Graph:
    b = BlockBuilder()
    x, k = argument(b, "x", "f32", [N]), argument(b, "k", "i32", [])
    b.one("dynamic_slice", (x, k), {"sizes": (4,)})
    return graph_of(b, x)


@careless(valid=[(f(2, 5, 3), f(2, 3, 4)), (f(0, 5, 3), f(2, 3, 0))], violating=[(f(2, 5, 3), f(2, 2, 4))])
def unread_convolution() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N, 5, A]), argument(b, "y", "f32", [2, B, M])
    b.one("convolution", (x, y), CONVOLUTION)
    return graph_of(b, x, y)


@careless(valid=[(f(4), i(2, 1, 0)), (f(0), i())], violating=[(f(4), i(1, 2))])
def unread_scatter() -> Graph:
    b = BlockBuilder()
    x, k = argument(b, "x", "f32", [N]), argument(b, "k", "i32", [M])
    places = b.one("reshape", (k,), {"shape": (M, const(1))})
    updates = b.one("slice", (x,), {"starts": (const(0),), "limits": (N - (N + 3) // 4,), "strides": (const(1),)})
    attrs = {
        "update_window_dims": (),
        "inserted_window_dims": (0,),
        "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 1,
    }
    b.one("scatter", (x, places, updates), attrs, regions=(region(b, "add", "f32"),))
    return graph_of(b, x, k)


@careless(valid=[(f(4), data("i32", (4,)))], violating=[(f(4), i(1, 2)), (f(0), i(1))])
def unread_sort() -> Graph:
    b = BlockBuilder()
    x, k = argument(b, "x", "f32", [N]), argument(b, "k", "i32", [M])
    inner = b.child()
    args = [inner.arg(None, dtype, []) for dtype in ("f32", "f32", "i32", "i32")]
    order = inner.finish([inner.one("compare", args[:2], {"direction": "LT", "kind": "FLOAT"})])
    b.add("sort", (x, k), {"dim": 0, "stable": True}, regions=(order,))
    return graph_of(b, x, k)


@careless(valid=[(f(4), f(2)), (f(7), f(3))], violating=[(f(4), f(3)), (f(7), f(1))])
def unread_select_and_scatter() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N]), argument(b, "y", "f32", [M])
    inner = b.child()
    p, q = inner.arg(None, "f32", []), inner.arg(None, "f32", [])
    select = inner.finish([inner.one("compare", (p, q), {"direction": "GE", "kind": "FLOAT"})])
    b.one(
        "select_and_scatter",
        (x, y, constant(b, 0.0, "f32")),
        {"window": (2,), "strides": (2,), "padding": (0, 0)},
        regions=(select, region(b, "add", "f32")),
    )
    return graph_of(b, x, y)


@careless(valid=[(f(4), f(4))], violating=[(f(4), f(3)), (f(0), f(1))])
def unread_reduction_of_two() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N]), argument(b, "y", "f32", [M])
    zero = constant(b, 0.0, "f32")
    inner = b.child()
    args = [inner.arg(None, "f32", []) for _ in range(4)]
    body = inner.finish([inner.one("add", (args[0], args[2])), inner.one("maximum", (args[1], args[3]))])
    b.add("reduce", (x, y, zero, zero), {"dims": (0,)}, regions=(body,))
    return graph_of(b, x, y)


@careless(valid=[(f(3, 2), i(1), f(3)), (f(1, 2), i(), f(1))], violating=[(f(3, 2), i(1), f(2))])
def unread_gather_with_batching() -> Graph:
    b = BlockBuilder()
    x, _, y = argument(b, "x", "f32", [A, 2]), argument(b, "k", "i32", [C]), argument(b, "y", "f32", [B])
    places = b.one("broadcast_in_dim", (constant(b, 1, "i32"),), {"dims": (), "shape": (B, const(1))})
    b.one(
        "gather",
        (x, places),
        {
            "offset_dims": (),
            "collapsed": (1,),
            "operand_batch": (0,),
            "indices_batch": (0,),
            "start_index_map": (1,),
            "index_vector_dim": 1,
            "sizes": (const(1), const(1)),
        },
    )
    return graph_of(b, x, y)


@careless(valid=[(YES, f(3), f(3)), (NO, f(3), f(5))], violating=[(YES, f(3), f(5)), (YES, f(1), f(0))])
def unread_if_with_an_op_that_is_rejected() -> Graph:
    b = BlockBuilder()
    p, x, y = argument(b, "p", "i1", []), argument(b, "x", "f32", [N]), argument(b, "y", "f32", [M])
    then, other = b.child(), b.child()
    then.one("add", (x, y))
    b.one("if", (p,), regions=(then.finish([x]), other.finish([x])))
    return graph_of(b, y)


@careless(valid=[(f(4), f(1)), (f(1), f(1))], violating=[(f(0), f(1)), (f(4), f(0))])
def unread_slices_whose_size_is_never_negative_by_form() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N]), argument(b, "y", "f32", [M])
    for value, size in ((x, N), (y, M)):
        b.one("slice", (value,), {"starts": (const(0),), "limits": (size - 1,), "strides": (const(2),)})
    return graph_of(b, x, y)
