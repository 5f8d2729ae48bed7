"""Where buffers lie: slots are shared where sizes are shown, or made, to suffice."""

from itertools import pairwise

import numpy as np
import pytest

from egshape.adapters.native import compile_function
from egshape.dims import const, maximum, symbol
from egshape.facts import parse_facts
from egshape.plan.loops import Buffer, Const, Kernel, Load, Loop, Store
from egshape.plan.memory import layout
from egshape.plan.program import Branch, CheckSizes, Port, Program, Repeat, Run

N, M = symbol("n"), symbol("m")


def temp(name, size):
    return Buffer(name, "f32", size, "temp")


def move(source, target, name="$i"):
    size = target.size
    value = Load("f32", source, symbol(name)) if source else Const("f32", 1.0)
    return Run(Kernel("move", (Loop(name, size, (Store(target, symbol(name), value),)),), (target,)))


def program(steps):
    port = Port("x", Buffer("x", "f32", N * M, "input"), (N, M))
    return Program("p", (port,), (), {"n": (0, 0, 1, 0), "m": (0, 1, 1, 0)}, tuple(steps), ())


def chain(*sizes, before=()):
    """Each buffer is read once, by the kernel that writes the next: every second one is free again."""
    made = [temp(f"t{k}", size) for k, size in enumerate(sizes)]
    return made, program([*before, move(None, made[0]), *(move(a, b) for a, b in pairwise(made))])


def test_a_smaller_buffer_takes_a_free_slot():
    made, whole = chain(2 * N + 2, M, 2 * N)
    found = layout(whole)
    assert found.slot[made[2]] == found.slot[made[0]] and found.peak is 8 * N + 8 + 4 * M


def test_a_larger_buffer_lets_a_slot_grow():
    made, whole = chain(2 * N, M, 2 * N + 2)
    found = layout(whole)
    assert found.slot[made[2]] == found.slot[made[0]] and found.slots[0] is 8 * N + 8


def test_sizes_that_nothing_compares_share_the_larger():
    made, whole = chain(N * 5, const(3), M * 7)
    found = layout(whole)
    assert found.slot[made[2]] == found.slot[made[0]] and found.slots[0] is maximum(20 * N, 28 * M)


def test_checked_relations_compare():
    (relation,) = parse_facts("m <= n")
    check = CheckSizes("<=", relation.lhs, relation.rhs, "m is more than n")
    made, whole = chain(N * 4, const(3), M * 4, before=[check])
    assert layout(whole).slots[0] is 16 * N
    made, whole = chain(N * 4, const(3), M * 4)
    late = Program(whole.name, whole.inputs, (), whole.symbols, (*whole.steps, check), ())
    assert layout(late).slots[0] is maximum(16 * N, 16 * M)


def test_what_lives_at_once_never_shares():
    a, b, c = temp("a", N), temp("b", N), temp("c", N)
    found = layout(program([move(None, a), move(None, b), move(a, c), move(b, c)]))
    assert len({found.slot[each] for each in (a, b, c)}) == 3


def test_a_loop_keeps_what_it_touches():
    flag, a, b, c = Buffer("flag", "i1", const(1), "temp"), temp("a", N), temp("b", N), temp("c", N)
    loop = Repeat((), flag, (move(None, a), move(None, b)))
    found = layout(program([loop, move(None, c)]))
    assert found.slot[a] != found.slot[b] and found.slot[c] in (found.slot[a], found.slot[b])


def test_branches_share():
    index, a, b = Buffer("i", "i32", const(1), "temp"), temp("a", N), temp("b", N)
    found = layout(program([Branch(index, ((move(None, a),), (move(None, b),)))]))
    assert found.slot[a] == found.slot[b]


def test_tests_may_want_a_slot_each():
    made, whole = chain(N, N, N, N)
    assert len(layout(whole, reuse=False).slots) == 4


@pytest.mark.parametrize("facts", [[], ["b <= 8"]])
def test_the_report_of_a_function(facts):
    import egshape
    from tests.lower.test_pool import products

    graph = egshape.optimize(products(), assume=facts).graph
    function = compile_function(graph)
    memory = function.memory
    assert str(memory).startswith("arena ") and "bytes" in str(memory)
    assert all(amount >= 0 for _, amount in memory.likely)
    function(np.ones((3, 5), np.float32), np.ones((5, 96), np.float32))
