"""Threads: the same bits as with one, from several callers at once, and no time spent while idle."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from egshape.adapters.native import compile_function
from egshape.dims import symbol
from egshape.errors import EgshapeError
from egshape.ir.builder import BlockBuilder
from tests.fresh import fresh
from tests.fuzz.differential import argument, graph_of
from tests.plan.test_plan import DOT, softmax

B, S = symbol("b"), symbol("s")
SHAPES = ((0, 5), (1, 1), (1, 70000), (7, 33), (400, 257), (3, 40000), (70000, 1))


def rows():
    b = BlockBuilder()
    x = argument(b, "x", "f32", [B, S])
    return graph_of(b, softmax(b, x), b.one("tanh", [b.one("transpose", [x], {"permutation": (1, 0)})]))


def products():
    b = BlockBuilder()
    x, w = argument(b, "x", "f32", [B, S]), argument(b, "w", "f32", [S, 96])
    y = b.one("dot_general", [x, w], DOT)
    return graph_of(b, b.one("tanh", [y]))


def arrays(graph, shape):
    rng = np.random.default_rng(shape[0])
    found = [rng.normal(size=shape).astype(np.float32)]
    if len(graph.inputs) > 1:
        found.append(rng.normal(size=(shape[1], 96)).astype(np.float32))
    return found


@pytest.mark.parametrize("make", [rows, products])
def test_the_same_bits_as_with_one_thread(make):
    graph = make()
    one, *others = (compile_function(graph, threads) for threads in (1, 2, 3))
    for shape in SHAPES:
        inputs = arrays(graph, shape)
        wanted = one(*inputs)
        for function in others:
            for a, b in zip(
                wanted if isinstance(wanted, tuple) else (wanted,),
                function(*inputs) if isinstance(wanted, tuple) else (function(*inputs),),
                strict=True,
            ):
                np.testing.assert_array_equal(a, b)


def test_several_callers_at_once():
    graph = rows()
    one, two = compile_function(graph), compile_function(graph, 2)
    cases = [arrays(graph, shape) for shape in SHAPES[:5]] * 6
    wanted = [one(*case) for case in cases]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda case: tuple(each.copy() for each in two(*case)), cases))
    for ones, twos in zip(wanted, found, strict=True):
        for a, b in zip(ones, twos, strict=True):
            np.testing.assert_array_equal(a, b)


def test_an_idle_pool_takes_no_time():
    function = compile_function(rows(), 2)
    function(*arrays(rows(), (400, 257)))
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.15


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the system does not say who ran")
def test_workers_take_part():
    """The other thread of the pool runs on the processor while a long call does."""
    function = compile_function(rows(), 2)
    inputs = arrays(rows(), (4000, 1024))
    function(*inputs)

    def ticks():
        found = {}
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/schedstat") as file:
                found[task] = int(file.read().split()[0])
        return found

    before, mine = ticks(), str(threading.get_native_id())
    for _ in range(10):
        function(*inputs)
    after = ticks()
    assert any(after[task] - before.get(task, 0) > 1_000_000 for task in after if task != mine)


def test_after_a_fork_the_child_computes():
    script = """
import os, numpy as np
from tests.lower.test_pool import arrays, compile_function, rows
graph = rows()
function = compile_function(graph, 2)
inputs = arrays(graph, (400, 257))
wanted = function(*inputs)[0].copy()
child = os.fork()
same = all((function(*inputs)[0] == wanted).all() for _ in range(5))
if child:
    same = same and os.waitpid(child, 0)[1] == 0
    print(same)
else:
    os._exit(0 if same else 1)
"""
    assert fresh(script) == "True\n"


@pytest.mark.parametrize("threads", [0, -1, 5000])
def test_impossible_numbers_of_threads(threads):
    with pytest.raises(EgshapeError, match="threads"):
        compile_function(rows(), threads)
