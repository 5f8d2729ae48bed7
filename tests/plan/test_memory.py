"""Where buffers lie: slots are shared where sizes are shown, or made, to suffice."""

from itertools import pairwise

import numpy as np
import pytest

from egshape.adapters.native import compile_function
from egshape.dims import const, maximum, symbol
from egshape.facts import parse_facts
from egshape.plan.analysis.inplace import in_place
from egshape.plan.analysis.memory import layout
from egshape.plan.ir.loops import Buffer, Call, Const, Kernel, Load, Loop, Store
from egshape.plan.ir.program import Branch, CheckSizes, Port, Program, Repeat, Run
from egshape.plan.ir.walk import statements
from egshape.runtime.core.profile import Memory

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
    _, whole = chain(N * 4, const(3), M * 4, before=[check])
    assert layout(whole).slots[0] is 16 * N
    _, whole = chain(N * 4, const(3), M * 4)
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
    _, whole = chain(N, N, N, N)
    assert len(layout(whole, reuse=False).slots) == 4


@pytest.mark.parametrize("facts", [[], ["b <= 8"]])
def test_the_report_of_a_function(facts):
    import egshape
    from tests.lower.test_pool import products

    graph = egshape.optimize(products(), assume=facts).graph
    function = compile_function(graph)
    memory = function.memory
    assert "bytes) for a call, " in str(memory) and str(memory).endswith(" of constants")
    assert "$" not in str(memory)
    assert len(str(Memory(" + ".join(f"{k}*b" for k in range(200)), 0))) < 200
    assert all(amount >= 0 for _, amount in memory.likely)
    function(np.ones((3, 5), np.float32), np.ones((5, 96), np.float32))


def step(source, target, index, value=None, extents=(("$i", N),)):
    """A kernel that stores a function of one element of ``source`` for each round."""
    body = (Store(target, index, value or Call("f32", "negate", (Load("f32", source, index),))),)
    for name, extent in reversed(extents):
        body = (Loop(name, extent, body),)
    return Run(Kernel("step", body, (target,)))


def kernels(found):
    return [each.kernel for each in found.steps]


AT = symbol("$i")


def test_an_elementwise_result_takes_its_operands_memory():
    a, b, c = temp("a", N), temp("b", N), temp("c", N)
    found = in_place(program([move(None, a), step(a, b, AT), step(b, c, AT)]))
    assert [kernel.body[0].body[0].buffer for kernel in kernels(found)] == [a, a, a]
    assert len(layout(found).slots) == 1


@pytest.mark.parametrize(
    "why",
    ["read later", "another size", "another index", "read elsewhere too", "stored twice", "read behind the store"],
)
def test_what_may_not_be_written_over(why):
    a, b, c = temp("a", N), temp("b", N), temp("c", N)
    one = Load("f32", a, AT)
    run = step(a, b, AT)
    more = []
    if why == "read later":
        more = [move(a, c)]
    elif why == "another size":
        run = step(a, temp("b", N + 1), AT)
    elif why == "another index":
        run = step(a, b, AT, Load("f32", a, N - 1 - AT))
    elif why == "read elsewhere too":
        run = step(a, b, AT, Call("f32", "add", (one, Load("f32", a, const(0)))))
    elif why == "stored twice":
        run = step(a, b, AT, extents=(("$i", N), ("$j", M)))
    else:
        body = (Store(b, AT, Call("f32", "negate", (one,))), Store(c, AT, Call("f32", "negate", (one,))))
        run = Run(Kernel("both", (Loop("$i", N, body),), (b, c)))
    before = program([move(None, a), run, *more])
    first, *_ = (stmt for stmt in statements(kernels(in_place(before))[1].body) if isinstance(stmt, Store))
    assert first.buffer is not a


def test_compiled_programs_in_place(monkeypatch):
    """A chain of products with additions of earlier results, against numpy, with red zones."""
    from egshape.ir.builder import BlockBuilder
    from tests.fuzz.differential import argument, graph_of
    from tests.plan.test_plan import DOT

    monkeypatch.setenv("EGSHAPE_REDZONES", "1")
    b = BlockBuilder()
    x, w = argument(b, "x", "f32", [N, 8]), argument(b, "w", "f32", [8, 8])
    value = x
    for _ in range(4):
        value = b.one("add", [b.one("dot_general", [value, w], DOT), value])
    function = compile_function(graph_of(b, b.one("tanh", [value])))
    rng = np.random.default_rng(0)
    for n in (0, 1, 7, 33, 200):
        x, w = rng.normal(size=(n, 8)).astype(np.float32), rng.normal(size=(8, 8)).astype(np.float32) / 4
        wanted = x.astype(np.float64)
        for _ in range(4):
            wanted = wanted @ w + wanted
        np.testing.assert_allclose(function(x, w), np.tanh(wanted), rtol=2e-5, atol=2e-5)
