"""Which loops go over time steps with rows (examples of a batch) that never meet: LSTM, GRU, RNN and their like,
recognised by structure.

A loop counts a step from 0 to the number of steps; carries states, whose first axis is the batch, and stacks of rows,
of which each round writes the one of its time; and computes each row of the new states from the same row of the old
ones. Where the states of a row stay from some time on that the row's length says, and what is written there is a number
that stands there already, those steps of the row are left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from egshape.dims import Dim, const, symbol
from egshape.dims.core import is_nonnegative
from egshape.ir.graph import Op, Value
from egshape.plan.analysis.conditions import conditions
from egshape.plan.analysis.elements import ZERO, is_elementwise
from egshape.plan.cpu import contraction

STEP = symbol("$step")
"""The number of a round, where sizes are compared."""
ALWAYS, TIMED = -1, -2
"""What a value of the body hangs on where it is no row: nothing of a round, or its number. Values of rows are numbered
by the axis that the rows run along."""
_MOVED = frozenset(("constant", "dims", "iota", "get_dimension_size", "gather", "dynamic_slice", "concatenate", "pad"))
Find = Callable[[Value], Op | None]
"""The op that makes a value, where that is known."""


@dataclass(frozen=True, eq=False)
class Ends:
    """Where rows end: ``lengths``, an integer for each row, and the comparison of the body that tells it."""

    lengths: Value
    live: Value


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop over time steps. ``step``, states and stacks are places of what it carries; ``turned``: whether the first
    round writes the last row of a stack, and so on; ``feeds``: what rounds read of stacks from outside at their time,
    and the stack of each."""

    op: Op
    count: Dim
    batch: Dim
    step: int
    states: tuple[int, ...]
    stacks: tuple[int, ...]
    turned: bool
    ends: Ends | None
    feeds: Mapping[Value, Value]
    blank: frozenset[Value]
    """States that are 0 in the first round."""

    @property
    def args(self) -> tuple[Value, ...]:
        """What a round begins with."""
        return self.op.regions[1].args

    @property
    def body(self) -> tuple[Op, ...]:
        """What a round does."""
        return self.op.regions[1].ops

    @property
    def results(self) -> tuple[Value, ...]:
        """What a round ends with."""
        return self.op.regions[1].results

    def written(self, stack: int) -> Value:
        """What a round writes to a stack: a row of one place along the time."""
        return _made(self.op)[self.results[stack]].operands[1]


def _made(op: Op) -> dict[Value, Op]:
    return {value: each for each in op.regions[1].ops for value in each.results}


def number(value: Value, find: Find, step: Value) -> Dim | None:
    """An integer of no axes, or of one element, as a size; ``step`` is STEP."""
    if value is step:
        return STEP
    op = find(value)
    if op is None:
        return None
    if op.name == "constant":
        array = op.attrs["value"]
        return const(int(array.reshape(-1)[0])) if array.size == 1 and array.dtype.kind == "i" else None
    if op.name == "dims":
        return op.attrs["elements"][0] if len(op.attrs["elements"]) == 1 else None
    if op.name in ("reshape", "broadcast_in_dim") or (op.name == "convert" and value.type.dtype in ("i32", "i64")):
        return number(op.operands[0], find, step)
    if op.name in ("add", "subtract"):
        one, two = (number(each, find, step) for each in op.operands)
        if one is not None and two is not None:
            return one + two if op.name == "add" else one - two
    return None


def recurrence(op: Op, outside: Find) -> Loop | None:
    """The loop that an op is; None if it is none of these."""
    if op.name != "while" or any(block.symbols for block in op.regions):
        return None
    body, made = op.regions[1], _made(op)

    def find(value: Value) -> Op | None:
        return made.get(value) or outside(value)

    counted = _counted(op, find)
    if counted is None or any(each.regions or each.requires or not each.results for each in body.ops):
        return None
    step, count = counted
    if not _fits(op, count):
        return None
    stacks = tuple(k for k in range(len(body.args)) if k != step and _is_stack(op, k, made))
    states = tuple(k for k in range(len(body.args)) if k not in (step, *stacks))
    times = {number(made[body.results[k]].operands[2], find, body.args[step]) for k in stacks}
    shapes = [body.args[k].type.dims for k in states]
    if not shapes or not all(shapes) or len({shape[0] for shape in shapes}) != 1:
        return None
    (time,) = times if len(times) == 1 else (STEP,)
    turned = time is not STEP
    if len(times) > 1 or time not in (STEP, count - 1 - STEP):
        return None
    batch = shapes[0][0]
    if any(body.args[k].type.dims[:2] != (count, batch) for k in stacks):
        return None
    kinds = _kinds(op, step, states, stacks, batch)
    if kinds is None or any(kinds.get(body.results[k], ALWAYS) not in (0, ALWAYS, TIMED) for k in states):
        return None
    if any(kinds.get(made[body.results[k]].operands[1], ALWAYS) == 0 for k in stacks):
        return None
    if not any(contraction.is_product(each) for each in body.ops):
        return None
    ends = _ends(op, states, stacks, find, number_at=time, step=body.args[step])
    feeds = _feeds(op, made, find, step, time)
    begun = {body.args[k]: _uniform(op.operands[k], find) for k in states}
    blank = frozenset(value for value, number in begun.items() if number is not None and not number.any())
    return Loop(op, count, batch, step, states, stacks, turned, ends, feeds, blank)


def _counted(op: Op, find: Find) -> tuple[int, Dim] | None:
    """The place of the step that a loop counts, and how far."""
    test, body = op.regions
    tests = {value: each for each in test.ops for value in each.results}
    last = tests.get(test.results[0])
    if last is None or last.name != "compare" or last.attrs["direction"] != "LT" or len(test.ops) > 4:
        return None
    first, limit = last.operands
    if first not in test.args or first.type.dims:
        return None
    step = test.args.index(first)
    count = number(limit, lambda value: tests.get(value) or find(value), body.args[step])
    begins = number(op.operands[step], find, body.args[step])
    after = number(body.results[step], find, body.args[step])
    if count is None or "$step" in count.symbols() or begins is not ZERO or after is not STEP + 1:
        return None
    return (step, count) if is_nonnegative(count) else None


def _fits(op: Op, count: Dim) -> bool:
    """Whether all sizes fit by their form wherever a round runs."""
    body = op.regions[1]
    for one, two, three in zip(op.operands, body.args, body.results, strict=True):
        if one.type.shape is None or one.type.shape != two.type.shape or two.type.shape != three.type.shape:
            return False
    for each in body.ops:
        if any(value.type.shape is None for value in (*each.operands, *each.results)):
            return False
        for condition in conditions(each):
            gap = condition.rhs - condition.lhs
            if condition.relation == "==":
                holds = gap is ZERO
            else:
                less = int(condition.relation != "<=")
                holds = any(is_nonnegative(gap - less - spare) for spare in (0, count - 1))
            if not holds:
                return False
    return True


def _is_stack(op: Op, place: int, made: Mapping[Value, Op]) -> bool:
    """Whether a round writes a row of what is carried at a place, and reads it nowhere."""
    body = op.regions[1]
    arg, result = body.args[place], body.results[place]
    last = made.get(result)
    if last is None or last.name != "dynamic_update_slice" or last.operands[0] is not arg or arg.type.rank < 2:
        return False
    x, update, first, *others = last.operands
    alone = sum(value is arg for each in body.ops for value in each.operands) == 1 and body.results.count(result) == 1
    whole = update.type.dims == (const(1), *x.type.dims[1:])
    return alone and whole and all(number(each, made.get, first) is ZERO for each in others)


# -- rows -------------------------------------------------------------------------------------------------------------


def _kinds(op: Op, step: int, states: Sequence[int], stacks: Sequence[int], batch: Dim) -> dict[Value, int] | None:
    """What each value of a body hangs on; None where rows would meet, or where something is not read so."""
    body = op.regions[1]
    kinds = {body.args[step]: TIMED, **{body.args[k]: 0 for k in states}}
    last = {body.results[k] for k in stacks}
    for each in body.ops:
        if each.results[0] in last:
            continue
        found = _kind(each, [kinds.get(value, ALWAYS) for value in each.operands], batch)
        if found is None:
            return None
        kinds.update(dict.fromkeys(each.results, found))
    return kinds


def _kind(op: Op, given: Sequence[int], batch: Dim) -> int | None:
    rows = {kind for kind in given if kind >= 0}
    free = min(given, default=ALWAYS)
    if contraction.is_product(op):
        a = op.attrs
        plain = a["lhs_contract"] == (1,) and not a["lhs_batch"] and [x.type.rank for x in op.operands] == [2, 2]
        fits = plain and op.operands[0].type.dims[0] is batch and given[0] in (0, ALWAYS, TIMED)
        return 0 if fits and given[1] == ALWAYS else None
    if not rows:
        moved = op.name in _MOVED or op.name in ("broadcast_in_dim", "reshape", "slice", "transpose")
        return free if moved or is_elementwise(op) else None
    if len(rows) > 1:
        return None
    (axis,) = rows
    if is_elementwise(op):
        return axis
    shape, a = op.operands[0].type.dims, op.attrs
    if op.name == "broadcast_in_dim":
        target = a["dims"][axis]
        return int(target) if op.result.type.dims[target] is shape[axis] else None
    if op.name == "transpose":
        return list(a["permutation"]).index(axis)
    if op.name == "slice":
        whole = a["starts"][axis] is ZERO and a["limits"][axis] is shape[axis] and a["strides"][axis].const == 1
        return axis if whole else None
    if op.name == "reshape":
        ones = op.result.type.rank - len(shape)
        same = ones >= 0 and op.result.type.dims == (*(const(1),) * ones, *shape)
        return axis + ones if same else None
    return None


# -- lengths and inputs -----------------------------------------------------------------------------------------------


def _ends(op: Op, states: Sequence[int], stacks: Sequence[int], find: Find, number_at: Dim, step: Value) -> Ends | None:
    """Where rows end, if all states stay from there on, and stacks hold there what the loop began with."""
    body = op.regions[1]
    found: set[Value] = set()
    for k in states:
        last = find(body.results[k])
        if last is None or last.name != "select" or last.operands[2] is not body.args[k]:
            return None
        found.add(_told(last.operands[0], find))
    for k in stacks:
        row = find(made_by(body.results[k], find).operands[1])
        last = find(row.operands[0]) if row is not None and row.name == "reshape" else None
        if last is None or last.name != "select":
            return None
        found.add(_told(last.operands[0], find))
        rest, begun = _uniform(last.operands[2], find), _uniform(op.operands[k], find)
        if rest is None or begun is None or rest.tobytes() != begun.tobytes():
            return None
    if len(found) != 1:
        return None
    (live,) = found
    compared = find(live)
    if compared is None or compared.name != "compare" or compared.attrs["direction"] != "LT" or live.type.rank != 1:
        return None
    here, lengths = compared.operands
    inner = find(lengths)
    if inner is not None and inner.name == "convert" and inner.operands[0].type.dtype in ("i8", "i16", "i32", "i64"):
        lengths = inner.operands[0]
    outside = lengths in op.captures()
    return Ends(lengths, live) if outside and number(here, find, step) is number_at else None


def made_by(value: Value, find: Find) -> Op:
    """The op that makes a value of the body."""
    op = find(value)
    assert op is not None
    return op


def _told(condition: Value, find: Find) -> Value:
    """The condition of each row behind one that is the same along a row."""
    op = find(condition)
    along = op is not None and op.name == "broadcast_in_dim" and tuple(op.attrs["dims"]) == (0,)
    return op.operands[0] if op is not None and along else condition


def _uniform(value: Value, find: Find) -> np.ndarray | None:
    """The number that all elements of a value are."""
    op = find(value)
    if op is not None and op.name == "broadcast_in_dim":
        return _uniform(op.operands[0], find)
    array = op.attrs["value"] if op is not None and op.name == "constant" else np.zeros(0)
    return array.reshape(-1)[:1] if array.size == 1 else None


def _feeds(op: Op, made: Mapping[Value, Op], find: Find, step: int, time: Dim) -> dict[Value, Value]:
    """Rows of captured stacks that a round reads at its time."""
    found = {}
    for each in made.values():
        if each.name != "gather" or each.operands[0] in made or each.operands[0] in op.regions[1].args:
            continue
        a, (source, place) = each.attrs, each.operands[:2]
        plain = tuple(a["collapsed"]) == tuple(a["start_index_map"]) == (0,) and tuple(a["offset_dims"]) == (0, 1)
        whole = source.type.rank == 3 and each.result.type.dims == source.type.dims[1:]
        if plain and whole and number(place, find, op.regions[1].args[step]) is time:
            found[each.result] = source
    return found
