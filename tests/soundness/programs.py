"""Small programs that a careless optimizer gets wrong: facts, checks and control flow.

Each is built by a function that ``careless`` registers with inputs at which the program runs, and with inputs that
break what it implies, at which it must be rejected before and after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from egshape.dims import const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Value
from tests.fuzz.differential import argument, constant, data, graph_of, region

Array = np.ndarray
Arrays = tuple[Array, ...]
A, B, C, M, N = (symbol(name) for name in "abcmn")
DOT = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "dtype": "f32"}


@dataclass(frozen=True)
class Careless:
    """A program, inputs that it takes and inputs that it must not take; ``always`` if it is false at every size."""

    name: str
    build: Callable[[], Graph]
    valid: tuple[Arrays, ...]
    violating: tuple[Arrays, ...]
    message: str
    assume: tuple[str, ...]
    impossible: bool


PROGRAMS: list[Careless] = []


def careless(
    *,
    valid: Sequence[Arrays] = (),
    violating: Sequence[Arrays] = (),
    message: str = "",
    assume: Sequence[str] = (),
    impossible: bool = False,
) -> Callable[[Callable[[], Graph]], None]:
    """Register a program. ``message`` is in the error at violating inputs."""

    def register(build: Callable[[], Graph]) -> None:
        name = build.__name__.lstrip("_")
        PROGRAMS.append(Careless(name, build, tuple(valid), tuple(violating), message, tuple(assume), impossible))

    return register


def f(*shape: int) -> Array:
    """Floats, special ones included."""
    return data("f32", shape, 1)


def i(*numbers: int) -> Array:
    """An i32 vector."""
    return np.array(numbers, np.int32)


def scalar(number: object, dtype: type = np.int32) -> Array:
    """A scalar."""
    return np.array(number, dtype)


YES, NO = scalar(True, np.bool_), scalar(False, np.bool_)


def size(b: BlockBuilder, x: Value, dim: int = 0) -> Value:
    """The size of an axis as a value."""
    return b.one("get_dimension_size", (x,), {"dim": dim})


def compare(b: BlockBuilder, x: Value, y: Value, direction: str = "EQ") -> Value:
    """An i32 comparison."""
    return b.one("compare", (x, y), {"direction": direction, "kind": "SIGNED"})


def check(b: BlockBuilder, predicate: Value, message: str) -> None:
    """The model's own assertion."""
    b.add("check", (predicate,), {"message": message})


def window(b: BlockBuilder, x: Value, *ends: tuple[object, object]) -> Value:
    """A slice with unit strides."""
    from egshape.ops.base import as_dim

    starts, limits = ([as_dim(end[k]) for end in ends] for k in (0, 1))  # type: ignore[arg-type]
    return b.one("slice", (x,), {"starts": tuple(starts), "limits": tuple(limits), "strides": (const(1),) * len(ends)})


# -- assertions and implied facts ----------------------------------------------------------------------------------


@careless(
    valid=[(f(3), f(3)), (f(0), f(0)), (f(1), f(1))],
    violating=[(f(2), f(3)), (f(1), f(3)), (f(0), f(1))],
    message="sizes differ",
)
def assertion_that_would_prove_itself() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N]), argument(b, "y", "f32", [M])
    check(b, compare(b, size(b, x), size(b, y)), "sizes differ")
    return graph_of(b, b.one("add", (x, y)), size(b, y))


@careless(valid=[(f(3), f(3))], violating=[(f(2), f(3)), (f(3), f(1))], message="sizes differ")
def assertion_stated_twice() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N]), argument(b, "y", "f32", [M])
    for _ in range(2):
        check(b, compare(b, size(b, x), size(b, y)), "sizes differ")
    return graph_of(b, size(b, x))


@careless(valid=[(f(2), f(2), f(2))], violating=[(f(2), f(2), f(3)), (f(3), f(2), f(2)), (f(2), f(3), f(2))])
def assertions_that_would_prove_each_other() -> Graph:
    b = BlockBuilder()
    x, y, z = argument(b, "x", "f32", [A]), argument(b, "y", "f32", [B]), argument(b, "z", "f32", [C])
    check(b, compare(b, size(b, x), size(b, y)), "a and b")
    check(b, compare(b, size(b, y), size(b, z)), "b and c")
    check(b, compare(b, size(b, x), size(b, z)), "a and c")
    return graph_of(b, x, y, z)


@careless(valid=[(f(2, 3), f(6)), (f(0, 3), f(0))], violating=[(f(2, 3), f(5)), (f(0, 3), f(1)), (f(1, 1), f(0))])
def inner_reshape_whose_check_would_vanish() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [A, B]), argument(b, "y", "f32", [C])
    inner = b.one("reshape", (x,), {"shape": (C,)})
    return graph_of(b, b.one("reshape", (inner,), {"shape": (A, B)}), y)


@careless(valid=[(f(2, 3), f(6)), (f(0, 2), f(0))], violating=[(f(2, 3), f(5)), (f(0, 2), f(1))])
def reshape_that_nobody_reads() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [A, B]), argument(b, "y", "f32", [C])
    b.one("reshape", (x,), {"shape": (C,)})
    return graph_of(b, y)


@careless(valid=[(f(2), f(2)), (f(0), f(0))], violating=[(f(2), f(3)), (f(1), f(2))])
def add_that_nobody_reads() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [A]), argument(b, "y", "f32", [B])
    b.one("add", (x, y))
    return graph_of(b, x)


@careless(valid=[(f(2), f(2))], violating=[(f(2), f(3)), (f(3), f(2)), (f(0), f(1))])
def operand_dropped_by_a_neutral_element() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [A]), argument(b, "y", "f32", [B])
    one = b.one("broadcast_in_dim", (constant(b, 1.0, "f32"),), {"dims": (), "shape": (B,)})
    return graph_of(b, b.one("multiply", (x, one)), y)


@careless(valid=[(f(2), f(2))], violating=[(f(2), f(3)), (f(3), f(2))])
def select_arm_that_is_never_taken_still_has_a_size() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [A]), argument(b, "y", "f32", [B])
    return graph_of(b, b.one("select", (constant(b, True, "i1"), x, y)))


@careless(
    valid=[(f(5), f(5), f(5))], violating=[(f(2), f(3), f(3)), (f(3), f(3), f(2)), (f(2), f(3), f(2))], message="first"
)
def first_violated_check_is_reported_first() -> Graph:
    b = BlockBuilder()
    x, y, z = argument(b, "x", "f32", [A]), argument(b, "y", "f32", [B]), argument(b, "z", "f32", [C])
    five = constant(b, 5, "i32")
    check(b, compare(b, size(b, x), five), "the first: {0}")
    b.one("add", (x, y))
    check(b, compare(b, size(b, z), five), "the second")
    return graph_of(b, b.one("add", (y, z)))


FALSE_AT_EVERY_SIZE = [(f(n),) for n in (0, 1, 5)]


@careless(violating=FALSE_AT_EVERY_SIZE, impossible=True)
def check_that_is_false_at_every_size() -> Graph:
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    b.add("check", (), {"relation": "==", "sides": (N, N + 1), "message": "never"})
    return graph_of(b, x)


@careless(violating=FALSE_AT_EVERY_SIZE, impossible=True, message="never")
def constant_false_assertion() -> Graph:
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    check(b, constant(b, False, "i1"), "never")
    return graph_of(b, x)


@careless(violating=[(f(3), f(3)), (f(3), f(4)), (f(0), f(1))], impossible=True)
def checks_that_contradict_each_other() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N]), argument(b, "y", "f32", [M])
    b.add("check", (), {"relation": "==", "sides": (N, M), "message": "equal"})
    b.add("check", (), {"relation": "==", "sides": (N, M + 1), "message": "one more"})
    return graph_of(b, x, y)


@careless(valid=[(f(n),) for n in (3, 4, 9)], violating=[(f(n),) for n in (0, 1, 2)])
def slice_whose_limit_may_be_negative() -> Graph:
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    window(b, x, (0, N - 3))
    return graph_of(b, x)


@careless(valid=[(f(n),) for n in (3, 4)], violating=[(f(n),) for n in (0, 2)])
def iota_of_a_negative_size_that_nobody_reads() -> Graph:
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    b.one("iota", (), {"dtype": "i32", "dim": 0, "shape": (N - 3,)})
    return graph_of(b, x)


@careless(valid=[(f(n),) for n in (3, 4)], violating=[(f(n),) for n in (0, 2)])
def broadcast_to_a_negative_size_that_nobody_reads() -> Graph:
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    b.one("broadcast_in_dim", (constant(b, 0.0, "f32"),), {"dims": (), "shape": (N - 3,)})
    return graph_of(b, x)


@careless(valid=[(f(n),) for n in (3, 4)], violating=[(f(n),) for n in (0, 2)])
def pad_to_a_negative_size_that_nobody_reads() -> Graph:
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    zeros = (const(0),)
    b.one("pad", (x, constant(b, 0.0, "f32")), {"low": (const(-3),), "high": zeros, "interior": zeros})
    return graph_of(b, x)


@careless(valid=[(f(2, 3), f(2, 3), f(2, 3))], violating=[(f(2, 3), f(2, 3), f(3, 3)), (f(2, 3), f(1, 3), f(2, 3))])
def third_operand_of_a_concatenation() -> Graph:
    b = BlockBuilder()
    xs = [argument(b, name, "f32", [dim, 3]) for name, dim in (("x", A), ("y", B), ("z", C))]
    return graph_of(b, size(b, b.one("concatenate", xs, {"dim": 1}), 1))


@careless(
    valid=[(f(2, 3), f(3, 4)), (f(2, 0), f(0, 4)), (f(0, 3), f(3, 0))],
    violating=[(f(2, 3), f(2, 4)), (f(2, 1), f(3, 4)), (f(0, 3), f(2, 0))],
)
def dot_that_nobody_reads() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [M, A]), argument(b, "y", "f32", [B, N])
    b.one("dot_general", (x, y), DOT)
    return graph_of(b, size(b, x, 1), size(b, y, 0))


@careless(valid=[(f(3), scalar(-9)), (f(7), scalar(3)), (f(5), scalar(99))], violating=[(f(2), scalar(0))])
def dynamic_slice_clamps_but_must_fit() -> Graph:
    b = BlockBuilder()
    x, k = argument(b, "x", "f32", [N]), argument(b, "k", "i32", [])
    return graph_of(b, b.one("dynamic_slice", (x, k), {"sizes": (3,)}), size(b, x))


@careless(
    valid=[(f(3), f(2), scalar(7)), (f(3), f(3), scalar(-1)), (f(3), f(0), scalar(1))],
    violating=[(f(2), f(3), scalar(0))],
)
def dynamic_update_slice_clamps_but_must_fit() -> Graph:
    b = BlockBuilder()
    x, u, k = argument(b, "x", "f32", [N]), argument(b, "u", "f32", [M]), argument(b, "k", "i32", [])
    b.one("dynamic_update_slice", (x, u, k))
    return graph_of(b, b.one("dynamic_update_slice", (x, u, k)), x)


# -- arms and loops ------------------------------------------------------------------------------------------------


@careless(valid=[(YES, f(3)), (NO, f(4))], violating=[(YES, f(4)), (NO, f(3)), (YES, f(5)), (NO, f(0))])
def three_in_one_arm_and_four_in_the_other() -> Graph:
    b = BlockBuilder()
    p, x = argument(b, "p", "i1", []), argument(b, "x", "f32", [N])
    arms = []
    for number in (3, 4):
        arm = b.child()
        check(arm, compare(arm, size(arm, x), constant(arm, number, "i32")), f"not {number}")
        total = arm.one(
            "reduce",
            (window(arm, x, (0, number)), constant(arm, -0.0, "f32")),
            {"dims": (0,)},
            regions=(region(arm, "add", "f32"),),
        )
        arms.append(arm.finish([total, size(arm, x)]))
    total, number = b.add("if", (p,), regions=arms)
    return graph_of(b, total, number, x)


@careless(valid=[(YES, f(3)), (NO, f(5)), (NO, f(3))], violating=[(YES, f(5)), (NO, f(2)), (YES, f(0))])
def fact_of_one_arm_must_not_leak_out() -> Graph:
    b = BlockBuilder()
    p, x = argument(b, "p", "i1", []), argument(b, "x", "f32", [N])
    then, other = b.child(), b.child()
    check(then, compare(then, size(then, x), constant(then, 3, "i32")), "not 3")
    arms = (then.finish([constant(then, 1.0, "f32")]), other.finish([constant(other, 2.0, "f32")]))
    chosen = b.one("if", (p,), regions=arms)
    return graph_of(b, chosen, window(b, x, (0, 3)), size(b, x))


@careless(
    valid=[(scalar(0), f(3), f(9)), (scalar(1), f(9), f(3)), (scalar(7), f(9), f(9)), (scalar(-1), f(2), f(2))],
    violating=[(scalar(0), f(9), f(9)), (scalar(1), f(9), f(9))],
)
def case_takes_its_last_arm_out_of_range() -> Graph:
    b = BlockBuilder()
    k, x, y = argument(b, "k", "i32", []), argument(b, "x", "f32", [N]), argument(b, "y", "f32", [M])
    arms = []
    for value in (x, y, None):
        arm = b.child()
        if value is not None:
            check(arm, compare(arm, size(arm, value), constant(arm, 3, "i32")), "not 3")
        arms.append(arm.finish([size(arm, x if value is None else value)]))
    return graph_of(b, b.one("case", (k,), regions=arms), x, y)


def counted(
    b: BlockBuilder, count: Value, carried: Sequence[Value], body: Callable[[BlockBuilder, list[Value]], list[Value]]
) -> tuple[Value, ...]:
    """A loop from 0 to count that carries values of unchanged shape; the counter is its first result."""
    inits = [constant(b, 0, "i32"), *carried]
    inside = b.child()
    args = [inside.arg(None, value.type.dtype, value.type.shape) for value in inits]
    results = [inside.one("add", (args[0], constant(inside, 1, "i32"))), *body(inside, args)]
    block = inside.finish(results)
    head = b.child()
    args = [head.arg(None, value.type.dtype, value.type.shape) for value in inits]
    condition = head.finish([compare(head, args[0], count, "LT")])
    return b.add("while", inits, regions=(condition, block))


@careless(valid=[(scalar(0), f(3)), (scalar(-4), f(0))], violating=[(scalar(1), f(3)), (scalar(2), f(0))])
def loop_without_rounds_around_an_impossible_check() -> Graph:
    b = BlockBuilder()
    count, x = argument(b, "count", "i32", []), argument(b, "x", "f32", [N])

    def body(inside: BlockBuilder, args: list[Value]) -> list[Value]:
        inside.add("check", (), {"relation": "==", "sides": (N, N + 1), "message": "never"})
        return [inside.one("negate", (args[1],))]

    return graph_of(b, counted(b, count, [x], body)[1])


@careless(
    valid=[(scalar(0), f(3), f(5)), (scalar(2), f(4), f(4)), (scalar(0), f(4), f(0))],
    violating=[(scalar(1), f(3), f(5)), (scalar(3), f(1), f(2))],
)
def loop_without_rounds_around_a_violated_check() -> Graph:
    b = BlockBuilder()
    count, x, y = argument(b, "count", "i32", []), argument(b, "x", "f32", [N]), argument(b, "y", "f32", [M])

    def body(inside: BlockBuilder, args: list[Value]) -> list[Value]:
        return [inside.one("add", (args[1], y))]

    out = counted(b, count, [x], body)[1]
    return graph_of(b, out, size(b, x), size(b, y))


@careless(valid=[(scalar(0), f(2)), (scalar(3), f(2)), (scalar(2), f(0))])
def loop_that_carries_a_growing_shape() -> Graph:
    b = BlockBuilder()
    count, x = argument(b, "count", "i32", []), argument(b, "x", "f32", [N])
    inits = [constant(b, 0, "i32"), x]
    inside, head = b.child(), b.child()
    k, grown = inside.arg(None, "i32", []), inside.arg("grown", "f32", [None])
    more = inside.one("concatenate", (grown, x), {"dim": 0})
    body = inside.finish([inside.one("add", (k, constant(inside, 1, "i32"))), more])
    k, grown = head.arg(None, "i32", []), head.arg("grown2", "f32", [None])
    condition = head.finish([compare(head, k, count, "LT")])
    out = b.add("while", inits, regions=(condition, body))[1]
    return graph_of(b, out, size(b, out), size(b, x))


@careless(valid=[(NO, f(3), f(9)), (YES, f(4), f(4))], violating=[(YES, f(3), f(9)), (YES, f(9), f(3))])
def op_that_must_not_move_out_of_its_arm() -> Graph:
    b = BlockBuilder()
    p, x, y = argument(b, "p", "i1", []), argument(b, "x", "f32", [N]), argument(b, "y", "f32", [M])
    then, other = b.child(), b.child()
    total = then.one(
        "reduce",
        (then.one("add", (x, y)), constant(then, 0.0, "f32")),
        {"dims": (0,)},
        regions=(region(then, "maximum", "f32"),),
    )
    arms = (then.finish([total]), other.finish([constant(other, 7.0, "f32")]))
    return graph_of(b, b.one("if", (p,), regions=arms), size(b, y))


# -- sizes ---------------------------------------------------------------------------------------------------------


@careless(
    valid=[(f(1), f(5)), (f(5), f(5)), (f(1), f(1)), (f(1), f(0)), (f(0), f(0))],
    violating=[(f(2), f(5)), (f(0), f(5)), (f(5), f(1)), (f(0), f(1))],
)
def broadcast_that_expands_at_size_one() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N]), argument(b, "y", "f32", [M])
    wide = b.one("broadcast_in_dim", (x,), {"dims": (0,), "shape": (M,)})
    return graph_of(b, b.one("add", (wide, y)), size(b, x))


@careless(valid=[(f(5), f(5)), (f(1), f(1)), (f(0), f(0))], violating=[(f(1), f(5)), (f(2), f(5)), (f(1), f(0))])
def broadcast_whose_sizes_merge_only_under_a_later_check() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N]), argument(b, "y", "f32", [M])
    wide = b.one("broadcast_in_dim", (x,), {"dims": (0,), "shape": (M,)})
    check(b, compare(b, size(b, x), size(b, y)), "sizes differ")
    return graph_of(b, wide, y)


@careless(valid=[(f(0, 2), f(3)), (f(0, 0), f(0)), (f(0, 5), f(0))])
def empty_reshape_says_nothing_about_the_other_axis() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [0, A]), argument(b, "y", "f32", [B])
    out = b.one("reshape", (x,), {"shape": (B, const(0))})
    return graph_of(b, out, size(b, x, 1), size(b, y), b.one("reshape", (out,), {"shape": (const(0), A)}))


@careless(valid=[(f(0, 2), f(3)), (f(2, 3), f(3)), (f(0, 3), f(3))], violating=[(f(1, 2), f(3)), (f(2, 3), f(4))])
def product_with_a_size_that_may_be_zero() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N, A]), argument(b, "y", "f32", [B])
    out = b.one("reshape", (x,), {"shape": (N, B)})
    return graph_of(b, out, size(b, x, 1), size(b, y))


@careless(
    valid=[(f(2, 3), f(1, 3)), (f(0, 0), f(4, 0)), (f(0, 3), f(0, 3))],
    violating=[(f(2, 3), f(1, 4)), (f(0, 2), f(0, 1))],
)
def concatenation_shares_its_other_axes() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [A, M]), argument(b, "y", "f32", [B, N])
    both = b.one("concatenate", (x, y), {"dim": 0})
    first, second = window(b, both, (0, A), (0, M)), window(b, both, (A, A + B), (0, N))
    return graph_of(b, first, second, size(b, both), size(b, y, 1))


@careless(valid=[(f(3, 3), f(2, 2, 2)), (f(0, 0), f(1, 1, 1)), (f(2, 2), f(3, 3, 3))])
def transposes_of_square_matrices() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N, N]), argument(b, "y", "f32", [M, M, M])

    def turned(value: Value, *axes: int) -> Value:
        return b.one("transpose", (value,), {"permutation": axes})

    once = turned(x, 1, 0)
    around = turned(turned(y, 1, 2, 0), 1, 2, 0)
    back = turned(turned(y, 1, 2, 0), 2, 0, 1)
    wide = b.one("broadcast_in_dim", (x,), {"dims": (1, 0), "shape": (N, N)})
    return graph_of(b, once, around, back, turned(once, 1, 0), wide, b.one("add", (x, once)))


@careless(valid=[(f(5), f(5)), (f(5), f(3)), (f(5), f(0)), (f(0), f(0))], violating=[(f(3), f(5)), (f(0), f(1))])
def slice_up_to_another_size() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N]), argument(b, "y", "f32", [M])
    return graph_of(b, window(b, x, (0, M)), window(b, x, (0, N)), y)


@careless(valid=[(f(5), f(5)), (f(5), f(3)), (f(9), f(0))], violating=[(f(3), f(4)), (f(0), f(1))])
def slice_of_a_slice_keeps_both_checks() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N]), argument(b, "y", "f32", [M])
    inner = window(b, x, (0, M))
    return graph_of(b, window(b, inner, (0, 0)), y)


@careless(valid=[(f(4, 2),), (f(1, 2),), (f(9, 2),)], violating=[(f(0, 2),)])
def gather_clamps_its_indices() -> Graph:
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N, 2])
    attrs = {
        "offset_dims": (1,),
        "collapsed": (0,),
        "start_index_map": (0,),
        "index_vector_dim": 1,
        "sizes": (const(1), const(2)),
    }
    places = constant(b, [[5], [-3], [0]], "i32")
    single = constant(b, [6], "i32")
    one = b.one("gather", (x, single), {**attrs, "offset_dims": (0,), "index_vector_dim": 0})
    last = b.one("dims", (), {"elements": (N + 2,), "shape": (1,), "dtype": "i32"})
    end = b.one("gather", (x, last), {**attrs, "offset_dims": (0,), "index_vector_dim": 0})
    return graph_of(b, b.one("gather", (x, places), attrs), one, end)


@careless(valid=[(f(5),), (f(2),)], violating=[(f(1),), (f(0),)])
def slice_of_a_pad_that_cuts() -> Graph:
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    zero = constant(b, 0.0, "f32")

    def padded(low: int, high: int) -> Value:
        return b.one("pad", (x, zero), {"low": (const(low),), "high": (const(high),), "interior": (const(0),)})

    cut = padded(-2, 3)
    return graph_of(
        b,
        window(b, cut, (0, N)),
        window(b, padded(2, -2), (2, N)),
        window(b, padded(2, 1), (2, N + 2)),
        window(b, padded(2, 1), (1, N + 1)),
    )


@careless(valid=[(f(6), f(2)), (f(7), f(3)), (f(0), f(2)), (f(5), f(0)), (f(0), f(0))])
def quotients_of_sizes_where_the_divisor_may_be_zero() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N]), argument(b, "y", "f32", [M])
    n, m = size(b, x), size(b, y)
    quotient, rest = b.one("divide", (n, m)), b.one("remainder", (n, m))
    back = b.one("divide", (b.one("multiply", (n, m)), m))
    again = b.one("add", (b.one("multiply", (quotient, m)), rest))
    return graph_of(b, quotient, rest, back, again, compare(b, b.one("multiply", (quotient, m)), n, "LE"))


@careless(valid=[(f(2), f(5))], violating=[(f(2), f(4)), (f(1), f(5)), (f(0), f(0))], assume=("n == 2", "m == 5"))
def assumed_facts_are_checked_at_entry() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N]), argument(b, "y", "f32", [M])
    return graph_of(b, window(b, y, (0, 5)), b.one("broadcast_in_dim", (size(b, x),), {"dims": (), "shape": (M,)}))


# -- data-dependent sizes ------------------------------------------------------------------------------------------


@careless(
    valid=[(f(3), scalar(3)), (f(3), scalar(1)), (f(3), scalar(0)), (f(0), scalar(0))],
    violating=[(f(3), scalar(4)), (f(3), scalar(-1)), (f(0), scalar(1))],
)
def size_that_is_data() -> Graph:
    b = BlockBuilder()
    x, k = argument(b, "x", "f32", [N]), argument(b, "k", "i32", [])
    limit = b.one("reshape", (k,), {"shape": (const(1),)})
    zero, one = constant(b, [0], "i32"), constant(b, [1], "i32")
    return graph_of(b, b.one("slice", (x, zero, limit, one)), x)


@careless(valid=[(f(3), i(3)), (f(0), i(0))], violating=[(f(3), i(4)), (f(3), i(2)), (f(3), i(-1)), (f(0), i(1))])
def fact_about_data_does_not_rewrite_what_ran_before() -> Graph:
    b = BlockBuilder()
    x, k = argument(b, "x", "f32", [N]), argument(b, "k", "i32", [1])
    zero, one = constant(b, [0], "i32"), constant(b, [1], "i32")
    part = b.one("slice", (x, zero, k, one))
    flat = b.one("reshape", (k,), {"shape": ()})
    check(b, compare(b, flat, size(b, x)), "k is not n")
    wide = b.one("broadcast_in_dim", (constant(b, 1.0, "f32"), k), {"dims": ()})
    return graph_of(b, part, b.one("add", (wide, x)), size(b, part))


@careless(valid=[(np.array([0.0, 1.0, -0.0, np.nan], np.float32),), (f(0),), (np.zeros(3, np.float32),), (f(9),)])
def nonzero() -> Graph:
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    zeros = b.one("broadcast_in_dim", (constant(b, 0.0, "f32"),), {"dims": (), "shape": (N,)})
    found = b.one("compare", (x, zeros), {"direction": "NE", "kind": "FLOAT"})
    ones = b.one("convert", (found,), {"dtype": "i32"})
    start = constant(b, 0, "i32")
    count = b.one("reduce", (ones, start), {"dims": (0,)}, regions=(region(b, "add", "i32"),))
    places = b.one("iota", (), {"dtype": "i32", "dim": 0, "shape": (N,)})
    behind = b.one("subtract", (b.one("broadcast_in_dim", (size(b, x),), {"dims": (), "shape": (N,)}), places))
    keys = b.one("multiply", (ones, behind))
    comparator = b.child()
    p, q = comparator.arg(None, "i32", []), comparator.arg(None, "i32", [])
    v, w = comparator.arg(None, "i32", []), comparator.arg(None, "i32", [])
    del v, w
    order = comparator.finish([compare(comparator, p, q, "GT")])
    _, sorted_places = b.add("sort", (keys, places), {"dim": 0, "stable": True}, regions=(order,))
    limit = b.one("reshape", (count,), {"shape": (const(1),)})
    zero, one = constant(b, [0], "i32"), constant(b, [1], "i32")
    out = b.one("slice", (sorted_places, zero, limit, one))
    return graph_of(b, out, size(b, out), count)


@careless(
    valid=[(f(2, 3), i(3, 2)), (f(2, 3), i(6, 1)), (f(0, 3), i(0, 9)), (f(2, 3), i(2, 3))],
    violating=[(f(2, 3), i(3, 3)), (f(2, 3), i(-2, -3)), (f(2, 3), i(0, 0))],
)
def reshape_to_a_shape_that_is_data_and_back() -> Graph:
    b = BlockBuilder()
    x, s = argument(b, "x", "f32", [A, B]), argument(b, "s", "i32", [2])
    middle = b.one("reshape", (x, s))
    return graph_of(b, b.one("reshape", (middle,), {"shape": (A, B)}), size(b, middle, 1))


# -- the edges of a graph ------------------------------------------------------------------------------------------


@careless(valid=[()])
def empty_graph() -> Graph:
    return graph_of(BlockBuilder())


@careless(valid=[(f(2), f(3)), (f(0), f(0))])
def input_returned_and_input_unused() -> Graph:
    b = BlockBuilder()
    x, _ = argument(b, "x", "f32", [N]), argument(b, "y", "f32", [M])
    return graph_of(b, x, x)


@careless(valid=[(f(2),), (f(0),)])
def output_returned_twice() -> Graph:
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    y = b.one("negate", (x,))
    again = b.one("negate", (x,))
    return graph_of(b, y, again, b.one("negate", (y,)), y)


@careless(valid=[(f(3), f(3))], violating=[(f(3), f(4)), (f(1), f(3))])
def duplicated_ops_with_one_condition() -> Graph:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N]), argument(b, "y", "f32", [M])
    return graph_of(b, b.one("add", (x, y)), b.one("add", (x, y)), b.one("add", (y, x)))


@careless(valid=[(YES, f(0)), (NO, f(3)), (NO, f(0))], violating=[(YES, f(3)), (YES, f(1))])
def size_that_is_a_number_in_one_arm_only() -> Graph:
    b = BlockBuilder()
    p, x = argument(b, "p", "i1", []), argument(b, "x", "f32", [N])
    then = b.child()
    then.one("reshape", (x,), {"shape": (const(0),)})
    arms = (then.finish([then.one("negate", (x,))]), b.child().finish([x]))
    return graph_of(b, b.one("if", (p,), regions=arms), size(b, x))
